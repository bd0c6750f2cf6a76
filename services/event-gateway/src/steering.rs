//! Commands of users: pause, resume, guide, stop, retry, edit a plan, set budgets.
//!
//! A command goes into the inbox of its run. Whichever driver has the run answers it, and the gateway waits for the
//! answer. With `validate_only` nothing is sent: the log is replayed to its head, and the engine says what the command
//! would do.

mod answer;
mod asked;
pub(crate) mod edits;
pub(crate) mod preview;

use std::slice;

use tonic::Status;
use tree_agent_contract::command::Action;
use tree_agent_contract::{Reply, RunId};
use tree_agent_proto::v1 as pb;
use tree_agent_store::Sent;

use crate::errors;
use crate::gateway::Gateway;
use crate::view::View;

pub(crate) use asked::Asked;

/// Carries out a command of the caller, or says what it would do.
pub(crate) async fn steer(
    gateway: &Gateway,
    view: &View,
    asked: Asked,
) -> Result<pb::CommandOutcome, Status> {
    let (run, command, validate_only) = asked.check(view.user().to_owned(), &gateway.maxima)?;
    let store = &*gateway.store;
    let summary = view.run(store, run).await?;
    if validate_only {
        gateway.require_models(slice::from_ref(&command.action)).await?;
        if summary.status.is_final() {
            return Err(ended(gateway, run).await);
        }
        let preview = preview::preview(gateway, run, summary.head_seq, command).await?;
        return Ok(pb::CommandOutcome { seq: 0, preview: Some(preview) });
    }
    // What was answered once keeps its answer, whatever has become of the model since.
    let known = store.reply(run, &command.request_id).await.map_err(errors::store)?;
    if known.is_none() {
        gateway.require_models(slice::from_ref(&command.action)).await?;
    }
    let sent = store.send_command(run, command.clone()).await.map_err(errors::conflict("request_id"))?;
    let reply = match sent {
        Sent::Ended => return Err(ended(gateway, run).await),
        Sent::Answered(reply) => reply,
        Sent::Pending(_) => {
            gateway.wake().await;
            answer::wait(gateway, run, &command.request_id).await?
        }
    };
    match reply {
        Reply::Applied { seq } => Ok(pb::CommandOutcome { seq, preview: None }),
        Reply::Refused(refusal) => match paused_already(gateway, view, run, &command.action).await? {
            Some(seq) => Ok(pb::CommandOutcome { seq, preview: None }),
            None => Err(edits::refused(&command.action, refusal)),
        },
    }
}

/// The head of the log if the node that was to be paused is so already: whoever asked has what they want.
async fn paused_already(
    gateway: &Gateway,
    view: &View,
    run: RunId,
    action: &Action,
) -> Result<Option<u64>, Status> {
    let Action::Pause { node_id, now: false } = action else { return Ok(None) };
    let (shown, _place) = gateway.graph_at(view, run, None).await?;
    let node = match node_id {
        Some(id) => shown.graph.node(*id),
        None => shown.graph.nodes().first(),
    };
    Ok(node.filter(|node| node.paused).map(|_| shown.graph.seq()))
}

/// Why a run that has ended takes no command.
async fn ended(gateway: &Gateway, run: RunId) -> Status {
    // Of an archived run this says so.
    match gateway.store.read(run, 0, 1).await {
        Ok(_) => errors::run_ended(run),
        Err(error) => errors::store(error),
    }
}

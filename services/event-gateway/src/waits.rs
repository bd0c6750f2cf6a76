//! `WaitRun`: the end of a run, or its need of a person, for clients that do not watch.

use futures::StreamExt;
use tokio::time::{Duration, Instant, timeout_at};
use tonic::Status;
use tree_agent_contract::status::RunStatus;
use tree_agent_contract::{RunId, RunSummary};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid_field;

use crate::auth::Caller;
use crate::fields::id;
use crate::gateway::Gateway;
use crate::view::View;
use crate::{errors, streams};

/// How long a call waits that does not say it.
const USUAL: Duration = Duration::from_secs(60);
/// The longest wait. Proxies close what is silent for longer.
const LONGEST: Duration = Duration::from_secs(600);

/// Waits for `request`.
pub(crate) async fn wait(
    gateway: &Gateway,
    caller: &Caller,
    request: pb::WaitRunRequest,
) -> Result<pb::WaitRunResponse, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let until = Instant::now() + patience(request.timeout)?;
    // It waits as a stream does, so it is counted among them.
    let _share = gateway.users.streams.take(&caller.user_id, 1).await?;
    let read = async || {
        let view = View::of(&*gateway.store, caller.clone()).await?;
        let run = view.run(&*gateway.store, run).await?;
        Ok::<_, Status>((view, run))
    };
    let (view, mut summary) = read().await?;
    if request.after_seq > summary.head_seq {
        return Err(errors::beyond_head("after_seq", request.after_seq, summary.head_seq));
    }
    let watch = pb::WatchRunRequest {
        run_id: request.run_id,
        after_seq: summary.head_seq,
        types: vec![STATUS.to_owned()],
        ..Default::default()
    };
    let mut messages = streams::run(gateway, watch, caller, &view).await?.messages;
    loop {
        if let Some(reason) = reason(gateway, &summary, request.after_seq).await? {
            return Ok(pb::WaitRunResponse { run: Some(summary.to_wire()), reason: reason.into() });
        }
        // A heartbeat, too: rights may be others by now.
        let is_over = match timeout_at(until, messages.next()).await {
            Ok(Some(message)) => message.map(|_| false)?,
            // The gateway drains, or the token has expired.
            Ok(None) | Err(_) => true,
        };
        summary = read().await?.1;
        if is_over && !summary.status.is_final() {
            let reason = pb::WaitReason::Timeout.into();
            return Ok(pb::WaitRunResponse { run: Some(summary.to_wire()), reason });
        }
    }
}

/// Events that can end a wait.
const STATUS: &str = "tree.run_status";

/// Why the wait for a run is over.
async fn reason(
    gateway: &Gateway,
    run: &RunSummary,
    after_seq: u64,
) -> Result<Option<pb::WaitReason>, Status> {
    if run.status.is_final() {
        return Ok(Some(pb::WaitReason::Ended));
    }
    if run.status != RunStatus::Paused || run.head_seq <= after_seq {
        return Ok(None);
    }
    // A run that waits for the quota of its provider goes on by itself.
    let (shown, _place) = gateway.graphs.shown(run.run_id, None, run.head_seq).await?;
    let needs_person = shown.graph.snapshot().goes_on_at.is_none();
    Ok(needs_person.then_some(pb::WaitReason::NeedsPerson))
}

fn patience(asked: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(asked) = asked else { return Ok(USUAL) };
    let patience = Duration::try_from(asked).ok().filter(|patience| *patience <= LONGEST);
    patience.ok_or_else(|| invalid_field("timeout", format!("must be 0 s to {} s", LONGEST.as_secs())))
}

//! What a command would do: the log, replayed to its head, and the engine's word.

use tonic::Status;
use tree_agent_contract::{Command, Preview, RunId};
use tree_agent_engine::{CallKind, ReplayError, Run};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::Store;

use super::edits;
use crate::errors;
use crate::fields::now;
use crate::gateway::Gateway;

/// Events read from the log at a time.
const PAGE: usize = 1_000;

/// What `command` would do to the run, whose head is `head` or later.
pub(super) async fn preview(
    gateway: &Gateway,
    run: RunId,
    head: u64,
    command: Command,
) -> Result<pb::CommandPreview, Status> {
    let place = gateway.replays.take().await;
    let run = replayed(&*gateway.store, run, head).await?;
    let judged = place.blocking(move || {
        let preview = run.preview(&command, now());
        preview.map_err(|refusal| edits::refused(&command.action, refusal))
    });
    judged.await?.map(preview_to_wire)
}

/// The run as it was after event `seq`, which its log has. Whoever asks holds one of [`Gateway::replays`].
pub(crate) async fn replayed(store: &dyn Store, id: RunId, seq: u64) -> Result<Run, Status> {
    let mut run: Option<Run> = None;
    loop {
        let head = run.as_ref().map_or(0, |run| run.graph().seq());
        let limit = PAGE.min((seq - head) as usize);
        let events = match limit {
            0 => Vec::new(),
            _ => store.read(id, head, limit).await.map_err(errors::store)?,
        };
        if events.is_empty() {
            return run.ok_or_else(|| errors::replay(ReplayError::Gap { run: id, head: 0, found: 0 }));
        }
        for event in &events {
            match &mut run {
                Some(run) => run.apply(event).map_err(errors::replay)?,
                None => run = Some(Run::begin(event).map_err(errors::replay)?),
            }
        }
    }
}

/// A preview as clients get it.
pub(crate) fn preview_to_wire(preview: Preview) -> pb::CommandPreview {
    let mut calls = pb::RoleCalls::default();
    for (kind, n) in preview.calls {
        *match kind {
            CallKind::Plan => &mut calls.plan,
            CallKind::Execute => &mut calls.execute,
            CallKind::Aggregate => &mut calls.aggregate,
            CallKind::Research => &mut calls.research,
            CallKind::Pick => &mut calls.pick,
            CallKind::Verify => &mut calls.verify,
        } += n;
    }
    pb::CommandPreview {
        seq: preview.seq,
        node_ids: preview.nodes.to_wire(),
        node_count: preview.node_count,
        stopped_calls: preview.stops,
        calls: Some(calls),
        reused_nodes: preview.reused,
        tokens: preview.tokens,
        cost_micros: preview.cost_micros,
        notes: preview.notes,
    }
}

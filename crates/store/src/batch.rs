//! What both adapters do before they write an append: they check it and merge what would be written twice.

use std::collections::HashMap;

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{Command, NodeId, Reply, RunId, RunSpec, Scope, Timestamp};

use crate::document_writes::check_links;
use crate::error::StoreError;
use crate::ports::{NewRun, PendingCommand, RunAppend, Sent};

/// Refuses an append that no writer may make. Then nothing of the whole call is written.
pub(crate) fn check(appends: &[RunAppend]) -> Result<(), StoreError> {
    let mut runs: Vec<RunId> = appends.iter().map(|a| a.run_id).collect();
    runs.sort_unstable();
    if let Some(pair) = runs.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(StoreError::Conflict(format!("run {} occurs twice in one append", pair[0])));
    }
    appends.iter().try_for_each(|a| {
        check_events(a.run_id, a.expected_head, &a.events)?;
        check_links(a.run_id, a.expected_head, a.events.len() as u64, &a.documents)
    })
}

fn check_events(run: RunId, head: u64, events: &[Event]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Err(StoreError::Conflict(format!("the append to run {run} holds no event")));
    }
    for (event, seq) in events.iter().zip(head + 1..) {
        if event.seq != seq || event.run_id != run {
            return Err(StoreError::Conflict(format!(
                "event {} of run {} was appended where event {seq} of run {run} belongs",
                event.seq, event.run_id
            )));
        }
    }
    Ok(())
}

/// The last of the events that records the outcome of a role call; 0 for none.
pub(crate) fn last_progress(events: &[Event]) -> u64 {
    use EventBody::{
        AnswerVerified, LeafPicked, NodeAggregated, NodeCompleted, NodeFailed, NodeResult, PlanCreated,
        ReplanRequested, RollupUpdated,
    };
    let progress = events.iter().rfind(|event| {
        matches!(
            event.body,
            AnswerVerified(_)
                | LeafPicked(_)
                | NodeAggregated(_)
                | NodeCompleted(_)
                | NodeFailed(_)
                | NodeResult(_)
                | PlanCreated(_)
                | ReplanRequested(_)
                | RollupUpdated(_)
        )
    });
    progress.map_or(0, |event| event.seq)
}

/// A run that is about to be created: the fields of its row that come from its events, and its first append.
pub(crate) struct FirstAppend {
    pub(crate) root: NodeId,
    pub(crate) created_at: Timestamp,
    pub(crate) append: RunAppend,
}

impl FirstAppend {
    pub(crate) fn of(run: NewRun) -> Result<(Self, RunSpec, String), StoreError> {
        check_events(run.run_id, 0, &run.events)?;
        check_links(run.run_id, 0, run.events.len() as u64, &run.documents)?;
        let root = run.events.iter().find_map(|event| match &event.body {
            EventBody::RunCreated(created) => Some(created.root_node_id),
            _ => None,
        });
        let first = Self {
            root: root.unwrap_or_else(|| NodeId::root(run.run_id)),
            created_at: run.events[0].timestamp,
            append: RunAppend {
                run_id: run.run_id,
                epoch: 0,
                expected_head: 0,
                events: run.events,
                projection: run.projection,
                documents: run.documents,
                sessions: run.sessions,
                answers: Vec::new(),
            },
        };
        Ok((first, run.spec, run.request_id))
    }
}

/// The `metrics` of a new run: its context in the form of the first table layout.
pub(crate) fn context_metrics(spec: &RunSpec, at: Timestamp) -> serde_json::Value {
    let project = match spec.context.scope {
        Scope::Project => spec.context.project_ids.first(),
        Scope::Global | Scope::MultiProject => None,
    };
    serde_json::json!({"context": {"type": spec.context.scope, "project_id": project, "set_at": at}})
}

/// The last row of each key in a list, in order of these last occurrences.
pub(crate) fn last_of_each<T, K: std::hash::Hash + Eq>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut last = HashMap::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        last.insert(key(row), i);
    }
    if last.len() == rows.len() {
        return rows.iter().collect();
    }
    rows.iter().enumerate().filter(|(i, row)| last[&key(row)] == *i).map(|(_, row)| row).collect()
}

/// What has become of a command that was sent before with its request id: what is stored of it, and what is sent now.
pub(crate) fn sent_before(
    run: RunId,
    request_id: &str,
    (id, stored, reply): (i64, &[u8], Option<&[u8]>),
    sent: &[u8],
) -> Result<Sent, StoreError> {
    let broken = |e| StoreError::broken(format!("request {request_id:?} of run {run} cannot be read"), e);
    let read = |text| serde_json::from_slice::<Command>(text);
    // Compared as it was stored, so that replaced characters do not make a repeat another command.
    if read(stored).map_err(broken)? != read(sent).map_err(broken)? {
        return Err(StoreError::Conflict(format!(
            "request_id {request_id:?} was used before for another command of run {run}; use a new request_id"
        )));
    }
    reply.map_or(Ok(Sent::Pending(id)), |reply| self::reply(run, request_id, reply).map(Sent::Answered))
}

/// A reply as it is stored.
pub(crate) fn reply(run: RunId, request_id: &str, text: &[u8]) -> Result<Reply, StoreError> {
    serde_json::from_slice(text).map_err(|e| {
        StoreError::broken(format!("the reply to request {request_id:?} of run {run} cannot be read"), e)
    })
}

/// A command as it is stored. One that this version does not know stays in the inbox for a newer version. It must not
/// block the others.
pub(crate) fn command(id: i64, run_id: RunId, text: &[u8]) -> Option<PendingCommand> {
    match serde_json::from_slice(text) {
        Ok(command) => Some(PendingCommand { id, run_id, command }),
        Err(error) => {
            tracing::warn!(id, %run_id, "a command cannot be read by this version: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_a_key_counts() {
        let rows = [(1, 'a'), (2, 'b'), (1, 'c')];
        assert_eq!(last_of_each(&rows, |r| r.0), [&(2, 'b'), &(1, 'c')]);
    }
}

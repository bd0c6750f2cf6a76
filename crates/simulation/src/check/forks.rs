//! A fork is its parent's log up to an event, and what it wrote itself. Its parent does not notice it.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::{EventBody, RunForked};
use tree_agent_contract::{Event, ForkOf, RunId};

use super::commands::{is_mark, request_id};
use crate::store::{Model, StoredRun};

/// Checks a fork when its world has ended.
pub(super) fn check_fork(
    model: &Model,
    id: RunId,
    run: &StoredRun,
    of: &ForkOf,
    note: &mut impl FnMut(String),
) {
    let shared = of.parent_seq as usize;
    let Some(parent) = model.runs.get(&of.parent_run_id).filter(|parent| parent.log.len() >= shared) else {
        return note(format!("shares {shared} events, which its parent does not have"));
    };
    let differs = parent.log[..shared].iter().zip(&run.log).find_map(|((_, theirs), (_, ours))| {
        let same = *ours == Event { run_id: id, ..theirs.clone() };
        (!same).then_some(ours.seq)
    });
    if let Some(seq) = differs {
        note(format!("event {seq} is another one in the run that it forks"));
    }
    let own = &run.log[shared.min(run.log.len())..];
    let forks = own.iter().filter(|(_, event)| matches!(event.body, EventBody::RunForked(_)));
    match own.first().map(|(_, event)| &event.body) {
        Some(EventBody::RunForked(e)) if forks.count() == 1 => {
            if (e.source_run_id, e.at_seq) != (of.parent_run_id, of.parent_seq) {
                note(format!("forks event {} of run {}, as its log says", e.at_seq, e.source_run_id));
            }
            check_edits(run, e, own, note);
        }
        _ => note(format!("event {} is not the only one that forks", shared + 1)),
    }
    let request = |other: &StoredRun| other.fork.is_some() && other.request_id == run.request_id;
    if model.runs.values().filter(|other| request(other)).count() > 1 {
        note(format!("is not the only fork of request {}", run.request_id));
    }
}

/// Each edit was carried out once, however many drivers vanished meanwhile. If nobody drove the fork, none was.
fn check_edits(run: &StoredRun, forked: &RunForked, own: &[(u64, Event)], note: &mut impl FnMut(String)) {
    let is_driven = own.len() > 1;
    for (i, edit) in forked.edits.iter().enumerate() {
        let name = format!("fork:{}:{i}", forked.at_seq + 1);
        let events = own.iter().map(|(_, event)| event);
        let done = events.filter(|event| request_id(event) == Some(&name) && is_mark(edit, event)).count();
        let is_due = !matches!(edit, Action::SetModel { .. });
        if done > usize::from(is_due) || done == 0 && is_due && is_driven {
            note(format!("{edit:?} was carried out {done} times; the run is {:?}", run.row));
        }
    }
}

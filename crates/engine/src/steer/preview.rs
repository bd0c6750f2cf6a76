//! What a command would do, told before it is given.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::text::count;
use tree_agent_contract::{NodeStatus, Preview, Strategy, limits};

use super::retry;
use crate::state::State;

/// The preview of a command whose `events` lead from the state `before` to the state `after`. `stops` calls would be
/// stopped.
pub(crate) fn preview(before: &State, after: &State, events: &[Event], stops: u32) -> Preview {
    Preview { stops, ..sum(before, after, events, false) }
}

/// The preview of a fork whose edits lead to `events`. With `is_live`, the run has not ended: it also makes the calls
/// that it needs now.
pub(crate) fn of_fork(before: &State, after: &State, events: &[Event], is_live: bool) -> Preview {
    sum(before, after, events, is_live)
}

fn sum(before: &State, after: &State, events: &[Event], is_live: bool) -> Preview {
    let mut concerned: BTreeSet<usize> = events.iter().filter_map(|e| after.position(e.node_id)).collect();
    let mut calls: BTreeMap<CallKind, u32> = BTreeMap::new();
    let mut notes = Vec::new();
    for event in events {
        let Some(at) = after.position(event.node_id) else { continue };
        let mut add = |kind: CallKind, n: u32| *calls.entry(kind).or_default() += n;
        match &event.body {
            EventBody::NodeReopened(e) if e.again => {
                for below in before.subtree(at) {
                    concerned.insert(below);
                    of_node(before, below, &mut add);
                }
                let readers = retry::readers(before, at);
                if !readers.is_empty() {
                    let titles: Vec<&str> =
                        readers.iter().map(|&at| before.node(at).title.as_str()).collect();
                    notes.push(format!(
                        "{} of later bands began with the old result and will not be repeated: {}",
                        count(readers.len(), "step"),
                        titles.join(", ")
                    ));
                }
            }
            EventBody::NodeReopened(_) => {
                if after.control(at).strategy == Strategy::Homework {
                    add(CallKind::Plan, 1);
                }
                // A search that ends with a synthesis has no plan.
                if after.node(at).plan.is_some() || after.always_owes(at) {
                    add(CallKind::Aggregate, 1);
                    add(CallKind::Verify, verified(after, at));
                }
            }
            EventBody::CallStopped(_) => after.control(at).needs.into_iter().for_each(|kind| add(kind, 1)),
            EventBody::NodeCreated(_) => of_node(after, at, &mut add),
            EventBody::NodeResumed(_) => {
                for below in after.subtree(at) {
                    after.control(below).needs.into_iter().for_each(|kind| add(kind, 1));
                }
            }
            EventBody::NodeStopped(e) if !e.discard => {
                let open = after.subtree(at).into_iter().filter(|&at| !after.node(at).status.is_final());
                let with_results = open.filter(|&at| after.has_completed_children(at)).count();
                add(CallKind::Aggregate, with_results as u32);
            }
            _ => {}
        }
    }
    let needing = (0..after.nodes().len()).filter(|at| is_live && !concerned.contains(at));
    let needing: Vec<_> = needing.filter_map(|at| Some((at, after.control(at).needs?))).collect();
    if is_live {
        notes.push("The run goes on from there. What its next calls lead to is not counted.".to_owned());
    }
    for (at, kind) in needing {
        concerned.insert(at);
        *calls.entry(kind).or_default() += 1;
    }
    let made: u64 = (0..before.nodes().len()).map(|at| u64::from(before.control(at).calls())).sum();
    let usage = before.graph().usage();
    let number: u64 = calls.values().map(|n| u64::from(*n)).sum();
    let share = |total: u64| (u128::from(total) * u128::from(number) / u128::from(made.max(1))) as u64;
    let reused = (0..after.nodes().len())
        .filter(|at| after.node(*at).status == NodeStatus::Completed && !concerned.contains(at));
    Preview {
        seq: before.graph().seq(),
        nodes: concerned.iter().take(limits::PREVIEW_NODES).map(|&at| after.node(at).id).collect(),
        node_count: concerned.len() as u32,
        stops: 0,
        calls: calls.into_iter().filter(|(_, n)| *n > 0).collect(),
        reused: reused.count() as u32,
        tokens: share(usage.tokens()),
        cost_micros: share(usage.cost_micros),
        notes,
    }
}

/// Verifications of an answer of the node at `at`.
fn verified(state: &State, at: usize) -> u32 {
    u32::from(at == 0 && state.spec().verify)
}

/// The calls that the node at `at` has needed, or will need if it has not begun.
fn of_node(state: &State, at: usize, add: &mut impl FnMut(CallKind, u32)) {
    let (node, control) = (state.node(at), state.control(at));
    match control.strategy {
        Strategy::Search => {
            add(CallKind::Research, 1);
            let aggregates = state.always_owes(at);
            add(CallKind::Aggregate, u32::from(aggregates));
            add(CallKind::Verify, if aggregates { verified(state, at) } else { 0 });
        }
        Strategy::Homework if control.parent.is_some() => add(CallKind::Execute, 1),
        // Its planner looks at each iteration that has ended.
        Strategy::Homework if node.plan.is_some() => {
            let iterations = node.plan.as_ref().and_then(|plan| plan.iteration).unwrap_or_default();
            let answers = 1 + control.bands().replans;
            add(CallKind::Plan, answers + iterations);
            add(CallKind::Aggregate, answers);
            add(CallKind::Verify, verified(state, at) * answers);
        }
        Strategy::Tree if node.plan.is_some() => {
            let plans = 1 + control.bands().replans;
            add(CallKind::Plan, plans);
            add(CallKind::Aggregate, plans);
            add(CallKind::Verify, verified(state, at) * plans);
        }
        Strategy::Tree | Strategy::Homework => {
            add(CallKind::Plan, u32::from(node.depth < state.budgets().max_depth));
            add(CallKind::Execute, 1);
            add(CallKind::Verify, verified(state, at));
        }
    }
}

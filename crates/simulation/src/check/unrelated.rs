//! What a command leaves alone. The run of a tree is driven once more without commands, by the answers that its log
//! holds: the events of nodes that no command concerned must be the same, seq and time aside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tree_agent_contract::event::{EventBody, NodeStatusChanged};
use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_contract::{Event, NodeId, NodeStatus, RunStatus, Strategy, Timestamp};
use tree_agent_engine::{CallOutput, Input, RoleCall, Run};

use super::commands::request_id;

/// Inputs after which a repetition counts as stuck.
const MOST: usize = 5_000;

/// How a call of a node ended, as its log tells it.
enum Outcome {
    Answer(Box<CallOutput>),
    Failure(RoleError),
}

/// How many nodes were compared, and what differs. `answers` are those of all roles, by their number.
pub(crate) fn check(log: &[(u64, Event)], answers: &BTreeMap<u64, CallOutput>) -> (u64, Vec<String>) {
    let events: Vec<&Event> = log.iter().map(|(_, event)| event).collect();
    let Some(concerned) = concerned(&events) else { return (0, Vec::new()) };
    let mut unsure = BTreeSet::new();
    let Some(repeated) = repeat(&events, answers, &mut unsure) else { return (0, Vec::new()) };
    // Its calls take other times.
    if repeated.iter().any(|event| matches!(event.body, EventBody::BudgetExhausted(_))) {
        return (0, Vec::new());
    }
    let nodes: BTreeSet<NodeId> = repeated.iter().map(|event| event.node_id).collect();
    let is_alone = |node: &&NodeId| !concerned.contains(node) && !unsure.contains(*node);
    let (mut compared, mut found) = (0, Vec::new());
    for node in nodes.iter().filter(is_alone) {
        let (with, without) = (told(events.iter().copied(), *node), told(repeated.iter(), *node));
        // A node above, which a command concerned, may not have created it.
        compared += u64::from(!with.is_empty());
        if with.is_empty() || with == without {
            continue;
        }
        let place = with.iter().zip(&without).take_while(|(a, b)| a == b).count();
        let nothing = "nothing".to_owned();
        let shown = |events: &[String]| events.get(place).unwrap_or(&nothing).clone();
        let (with, without) = (shown(&with), shown(&without));
        found.push(format!("a command has changed node {node}: {with}, and without it {without}"));
    }
    (compared, found)
}

/// The nodes that commands concern. What is stopped, repeated or planned anew concerns all that is above and below; a
/// pause and guidance concern their node, and those whose calls they stop. None if the run says nothing about others.
fn concerned(events: &[&Event]) -> Option<BTreeSet<NodeId>> {
    let (mut alone, mut own, mut parents) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for event in events {
        match &event.body {
            EventBody::RunCreated(e) if e.spec.strategy != Strategy::Tree => return None,
            EventBody::BudgetExhausted(_)
            | EventBody::BudgetSet(_)
            | EventBody::LeaseCovered(_)
            | EventBody::RunForked(_) => return None,
            EventBody::RunStatusChanged(e)
                if matches!(e.status, RunStatus::Cancelled | RunStatus::Failed) =>
            {
                return None;
            }
            EventBody::NodeStatusChanged(e) if e.message.as_deref().is_some_and(is_limited) => return None,
            EventBody::NodeCreated(e) => {
                parents.insert(event.node_id, e.parent_node_id);
                // Topics of a search are chosen one after the other, so that each depends on all others.
                if e.strategy == Some(Strategy::Search) {
                    own.insert(event.node_id);
                }
            }
            EventBody::NodePaused(_)
            | EventBody::NodeResumed(_)
            | EventBody::GuidanceAdded(_)
            | EventBody::CallStopped(_) => {
                alone.insert(event.node_id);
            }
            _ if request_id(event).is_some() => {
                own.insert(event.node_id);
            }
            _ => {}
        }
    }
    events.iter().find_map(|event| request_id(event))?;
    let line = |node: NodeId| std::iter::successors(Some(node), |node| parents.get(node).copied().flatten());
    let below = parents.keys().filter(|node| line(**node).any(|above| own.contains(&above))).copied();
    let above = own.iter().flat_map(|node| line(*node));
    Some(below.chain(above).chain(alone.iter().copied()).collect())
}

/// True if a limit of the run, or of what is above a node, has cut a plan.
fn is_limited(message: &str) -> bool {
    message == "guard:maxNodes" || message.starts_with("guard:lease")
}

/// The events of the run without commands.
fn repeat(
    events: &[&Event],
    answers: &BTreeMap<u64, CallOutput>,
    unsure: &mut BTreeSet<NodeId>,
) -> Option<Vec<Event>> {
    let waits = |event: &&&Event| !matches!(&event.body, EventBody::RunStatusChanged(e) if e.status == RunStatus::Running);
    let mut log: Vec<Event> = events.iter().take_while(waits).map(|event| (*event).clone()).collect();
    let mut now = events.get(log.len())?.timestamp;
    if let EventBody::RunCreated(created) = &mut log.first_mut()?.body {
        // Time does not matter.
        created.spec.budgets.max_wall_clock_ms = u64::MAX / 4_000_000;
    }
    let mut outcomes = outcomes(events, answers);
    let mut run = Run::replay(log[0].run_id, &log).ok()?;
    log.extend(run.handle(Input::Claimed, now).events);
    for _ in 0..MOST {
        if run.is_final() {
            return Some(log);
        }
        let due = run.take_due(now, usize::MAX);
        if due.is_empty() {
            now = run.next_wakeup()?.max(now);
            log.extend(run.handle(Input::Tick, now).events);
        }
        for call in due {
            let input = input(&call, &mut outcomes).unwrap_or_else(|| {
                // What is above depends on it.
                let graph = run.graph();
                let above = |id: &NodeId| graph.node(*id).and_then(|node| node.parent_id);
                unsure.extend(std::iter::successors(Some(call.key.node_id), above));
                let error = RoleError::new(RoleErrorKind::Rejected, "the log tells no answer");
                Input::Failed(call.key, error)
            });
            log.extend(run.handle(input, now).events);
            // No node writes more often than it may.
            now = Timestamp(now.micros() + 1_000_000);
        }
    }
    None
}

fn input(call: &RoleCall, outcomes: &mut BTreeMap<NodeId, VecDeque<Outcome>>) -> Option<Input> {
    let of_node = outcomes.get_mut(&call.key.node_id)?;
    while let Some(outcome) = of_node.pop_front() {
        match outcome {
            Outcome::Failure(error) => return Some(Input::Failed(call.key, error)),
            Outcome::Answer(output) if output.kind() == call.key.kind => {
                return Some(Input::Output(call.key, *output));
            }
            // It answered a call that only a command led to.
            Outcome::Answer(_) => {}
        }
    }
    None
}

/// How the calls of each node ended, in order.
fn outcomes(events: &[&Event], answers: &BTreeMap<u64, CallOutput>) -> BTreeMap<NodeId, VecDeque<Outcome>> {
    let mut outcomes: BTreeMap<NodeId, VecDeque<Outcome>> = BTreeMap::new();
    let failure = |text: &str| {
        let (kind, message) = text.split_once(": ")?;
        Some(Outcome::Failure(RoleError::new(kind.parse::<RoleErrorKind>().ok()?, message)))
    };
    for event in events {
        let outcome = match &event.body {
            EventBody::ScratchpadUpdated(e) => {
                let number = e.tail_preview.lines().next_back().and_then(|line| line.strip_prefix("answer "));
                let number = number.and_then(|number| number.trim().parse().ok());
                number
                    .and_then(|number: u64| answers.get(&number).cloned())
                    .map(|answer| Outcome::Answer(Box::new(answer)))
            }
            EventBody::NodeStatusChanged(e) => {
                let message = e.message.as_deref().unwrap_or_default();
                let retried = message.strip_prefix("retry:").and_then(|rest| rest.split_once(" after "));
                retried.filter(|_| e.status == NodeStatus::Waiting).and_then(|(_, error)| failure(error))
            }
            EventBody::NodeFailed(e) => failure(own_error(&e.error)),
            _ => None,
        };
        if let Some(outcome) = outcome {
            outcomes.entry(event.node_id).or_default().push_back(outcome);
        }
    }
    outcomes
}

/// An error without what blocked the node before. That is told only while no other node was blocked later.
fn own_error(error: &str) -> &str {
    error.split("; it was blocked by: ").next().unwrap_or_default()
}

/// The events of a node, without the first one of the run and those that roles send while they work.
fn told<'a>(events: impl Iterator<Item = &'a Event>, node: NodeId) -> Vec<String> {
    let of_node = events.filter(|event| event.node_id == node);
    let told = of_node.filter_map(|event| {
        let mut body = event.body.clone();
        match &mut body {
            EventBody::RunCreated(_)
            | EventBody::ScratchpadUpdated(_)
            | EventBody::ToolCallRequested(_)
            | EventBody::ToolCallResult(_)
            | EventBody::UsageRecorded(_) => return None,
            // When a node says that it is blocked depends on what others have said.
            EventBody::NodeStatusChanged(e) if e.status == NodeStatus::Blocked || is_at_work(e) => {
                return None;
            }
            EventBody::NodeFailed(e) => e.error = own_error(&e.error).to_owned(),
            EventBody::NodeCompleted(e) => e.metrics = None,
            EventBody::NodeResult(e) => e.result.scratchpad_tail = None,
            _ => {}
        }
        // The order in which children begin and end is a matter of time.
        Some((matches!(body, EventBody::StepStatusChanged(_)), format!("{body:?}")))
    });
    let (mut steps, others): (Vec<_>, Vec<_>) = told.partition(|(is_step, _)| *is_step);
    steps.sort();
    others.into_iter().chain(steps).map(|(_, text)| text).collect()
}

/// True if a node shows only that the call which it needs is being made.
fn is_at_work(e: &NodeStatusChanged) -> bool {
    let shows = matches!(e.status, NodeStatus::Planning | NodeStatus::Executing | NodeStatus::Aggregating);
    shows && e.call.is_none() && e.message.is_none()
}

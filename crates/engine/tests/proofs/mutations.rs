//! Logs of steered runs in which one event was dropped, repeated or moved: the audit says what is wrong.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::*;
use tree_agent_contract::*;
use tree_agent_engine::Audit;

use super::garden::{Garden, Shape};

/// What the audit says about a log, the first thing only.
fn first(log: &[Event]) -> String {
    let mut audit = Audit::new();
    log.iter().for_each(|event| audit.event(event));
    audit.finish().into_iter().next().map(|violation| violation.message).unwrap_or_default()
}

/// The log without the first event after `from` that fits.
fn without(log: &[Event], from: usize, fits: impl Fn(&Event) -> bool) -> Vec<Event> {
    let at = from + log[from..].iter().position(fits).expect("there is such an event");
    let mut log = log.to_vec();
    log.remove(at);
    log
}

/// The log with another event before the one at `at`.
fn with(log: &[Event], at: usize, node_id: NodeId, body: impl Into<EventBody>) -> Vec<Event> {
    let mut log = log.to_vec();
    let parent_node_id = log.iter().find(|event| event.node_id == node_id).and_then(|e| e.parent_node_id);
    log.insert(at, Event { node_id, parent_node_id, body: body.into(), ..log[at].clone() });
    log
}

/// A run of which a node below an ended node was done again, that node, and the place of its reopening.
fn retried() -> (Garden, NodeId, usize) {
    for seed in 0..200 {
        let parent = Garden::grown(&Shape::of(seed));
        let nodes = parent.run.graph().nodes();
        let Some(leaf) = nodes.iter().find(|node| node.depth == 2 && node.plan.is_none()) else { continue };
        let node_id = leaf.id;
        let retry = Action::Retry { node_id, guidance: String::new(), model: String::new(), budget: None };
        let mut fork = parent.fork(parent.log.len(), vec![retry]).expect("it has ended");
        fork.grow();
        fork.check();
        let again = |e: &Event| matches!(&e.body, EventBody::NodeReopened(e) if e.again);
        let at = fork.log.iter().position(again).expect("it was reopened");
        return (fork, node_id, at);
    }
    panic!("no garden has a leaf at depth 2");
}

#[test]
fn what_is_missing_or_repeated_in_a_later_generation_is_found() {
    let (garden, leaf, at) = retried();
    let log = &garden.log;
    let parent = log[at].parent_node_id.expect("a leaf has a parent");
    assert_eq!(first(log), "");
    let of = move |node: NodeId, kind: &'static str| {
        move |e: &Event| e.node_id == node && e.body.event_type() == kind
    };
    // Each promise holds for the second generation as for the first.
    let found = |log: &[Event]| first(log);
    assert!(
        found(&without(log, at, of(leaf, "tree.node_result")))
            .contains("completes a node that has no result")
    );
    assert!(
        found(&without(log, at, of(parent, "tree.node_result")))
            .contains("completes a node that has no result")
    );
    assert!(found(&without(log, at, of(leaf, "tree.parent_hint"))).contains("gave no hint"));
    assert!(found(&without(log, at, of(leaf, "tree.node_completed"))).contains("has not ended"));
    assert!(found(&without(log, at, of(leaf, "tree.node_reopened"))).contains("opens step"));
    let above = log.iter().position(|e| matches!(e.body, EventBody::NodeReopened(_))).expect("the root");
    assert!(found(&without(log, above, of(parent, "tree.node_reopened"))).contains("opens step"));
    let root = garden.run.graph().nodes()[0].id;
    assert!(found(&without(log, above, of(root, "tree.node_reopened"))).contains("whose parent has ended"));
    let again = |generation| NodeReopened {
        generation,
        author: String::new(),
        request_id: String::new(),
        again: true,
        model: None,
        budget: None,
    };
    assert!(found(&with(log, at + 1, leaf, again(2))).contains("begins a node again that has not ended"));
    assert!(found(&with(log, at, leaf, again(3))).contains("is generation 3 after generation 0"));
    let outcome = log.iter().rposition(|e| {
        e.node_id == parent && matches!(&e.body, EventBody::StepStatusChanged(s) if s.status.is_final())
    });
    let outcome = outcome.expect("the outcome of the step");
    let EventBody::StepStatusChanged(step) = log[outcome].body.clone() else { unreachable!() };
    assert!(found(&with(log, outcome, parent, step.clone())).contains("whose outcome"));
    let pending = StepStatusChanged { status: StepStatus::Pending, ..step };
    assert!(found(&with(log, outcome + 1, parent, pending)).contains("opens step"));
}

#[test]
fn what_begins_although_it_is_stopped_is_found() {
    let (garden, leaf, at) = retried();
    let log = &garden.log;
    let parent = log[at].parent_node_id.expect("a leaf has a parent");
    let stopped = || NodeStopped { author: String::new(), request_id: String::new(), discard: false };
    let begins = at
        + log[at..]
            .iter()
            .position(
                |e| matches!(&e.body, EventBody::StepStatusChanged(s) if s.status == StepStatus::Running),
            )
            .expect("the step begins again");
    let late = with(log, begins, parent, stopped());
    assert!(first(&late).contains("of a node that is stopped"), "{}", first(&late));
    let twice = with(&late, begins, parent, stopped());
    assert!(first(&twice).contains("repeats what the log has said already"));
    let child = NodeCreated { parent_node_id: Some(parent), depth: 2, ..NodeCreated::new("one more") };
    let mut created = with(&late, begins + 1, leaf, child);
    created[begins + 1].node_id = NodeId(uuid::Uuid::from_u128(99));
    assert!(first(&created).contains("creates a child of a node that is stopped"), "{}", first(&created));
    let paused = || NodePaused { author: String::new(), request_id: String::new(), in_flight: Vec::new() };
    let twice = with(&with(log, begins, leaf, paused()), begins, leaf, paused());
    assert!(first(&twice).contains("repeats what the log has said already"));
}

#[test]
fn a_stopped_call_that_leaves_a_tool_call_open_is_found() {
    let (garden, leaf, at) = retried();
    let log = &garden.log;
    let asked = ToolCallRequested {
        call_id: "t".into(),
        tool_name: "look".into(),
        args: None,
        purpose: None,
        phase: None,
        started_at: None,
        writes: false,
        cached: false,
    };
    let stop = |reason: &str| {
        let open = with(log, at + 2, leaf, asked.clone());
        first(&with(&open, at + 3, leaf, CallStopped { reason: reason.into() }))
    };
    assert!(stop("guidance").contains("leaves tool call t without a result"), "{}", stop("guidance"));
}

//! The tree and the lines of fixed graphs.

use tree_agent_contract::event::{
    Event, EventBody, NodeCompleted, NodeCreated, NodeFailed, NodeStatusChanged, PlanBandCreated,
    PlanCreated, RunStatusChanged, StepCreated, StepStatusChanged, ToolCallRequested,
};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::*;
use tree_agent_engine::Graph;

use super::formats::{dot, mermaid};
use super::paint::{Palette, width};
use super::tree::{Layout, tree};
use super::{lines, stopped};

const PLAIN: Palette = Palette { colour: false };

/// A log in the making: events every 500 ms.
struct Log {
    run: RunId,
    events: Vec<Event>,
}

impl Log {
    fn push(&mut self, node: NodeId, parent: Option<NodeId>, body: impl Into<EventBody>) {
        let seq = self.events.len() as u64 + 1;
        self.events.push(Event {
            run_id: self.run,
            seq,
            node_id: node,
            parent_node_id: parent,
            timestamp: Timestamp::from_millis(seq as i64 * 500),
            body: body.into(),
        });
    }

    fn node(&mut self, parent: Option<NodeId>, title: &str, depth: u32, place: Option<(u32, u32)>) -> NodeId {
        let id = match parent {
            None => NodeId::root(self.run),
            Some(parent) => NodeId::child(parent, 1, &StepId::new(title)),
        };
        self.push(
            id,
            parent,
            NodeCreated {
                parent_node_id: parent,
                depth,
                band_index: place.map(|p| p.0),
                step_index: place.map(|p| p.1),
                ..NodeCreated::new(title)
            },
        );
        id
    }

    fn status(&mut self, node: NodeId, status: NodeStatus, role: Role, message: Option<&str>) {
        let message = message.map(String::from);
        self.push(node, None, NodeStatusChanged { message, ..NodeStatusChanged::new(status, role) });
    }

    fn complete(&mut self, node: NodeId) {
        self.push(node, None, NodeCompleted { outcome: Outcome::Success, evidence: None, metrics: None });
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.run);
        self.events.iter().for_each(|e| graph.apply(e).unwrap());
        graph
    }
}

/// A root with a finished part, a failed leaf, leaves at work, and one that waits.
fn growing() -> Log {
    let run = RunId(uuid::Uuid::from_u128(7));
    let mut log = Log { run, events: Vec::new() };
    let root = log.node(None, "How do the services\x1b[2J share 木 work?", 0, None);
    log.push(
        root,
        None,
        RunStatusChanged { status: RunStatus::Running, reason: None, partial: false, goes_on_at: None },
    );
    log.status(root, NodeStatus::Planning, Role::Planner, None);
    let first = log.node(Some(root), "Read the architecture", 1, Some((0, 0)));
    log.status(first, NodeStatus::Planning, Role::Planner, None);
    for (i, title) in ["Overview", "Services"].into_iter().enumerate() {
        let leaf = log.node(Some(first), title, 2, Some((0, i as u32)));
        log.status(leaf, NodeStatus::Executing, Role::Executor, None);
        log.complete(leaf);
    }
    log.complete(first);
    let second = log.node(Some(root), "Read the changelog", 1, Some((0, 1)));
    log.status(second, NodeStatus::Executing, Role::Executor, None);
    log.push(second, None, NodeFailed { error: "no such document".into(), retryable: false });
    let third = log.node(Some(root), "Compare both and say what is missing", 1, Some((1, 0)));
    log.status(third, NodeStatus::Executing, Role::Executor, Some("guard:maxDepth"));
    let call = ToolCallRequested {
        call_id: "t1".into(),
        tool_name: "search_documents".into(),
        args: None,
        purpose: Some("find \"lease\"".into()),
        phase: None,
        started_at: None,
        writes: false,
        cached: false,
    };
    log.push(third, None, call);
    for (i, title) in ["Check the figures", "Check the names"].into_iter().enumerate() {
        let node = log.node(Some(root), title, 1, Some((1, i as u32 + 1)));
        log.status(node, NodeStatus::Waiting, Role::Executor, None);
    }
    log.status(root, NodeStatus::Waiting, Role::Planner, None);
    log
}

fn drawn(graph: &Graph, height: Option<usize>, fold: bool, columns: usize) -> String {
    let now = Timestamp::from_millis(30_000);
    let lines = tree(graph, &Layout { height, fold, now, delegating: &[] });
    lines.iter().map(|line| line.render(columns, PLAIN)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_whole_tree() {
    insta::assert_snapshot!(drawn(&growing().graph(), None, false, 200));
}

#[test]
fn a_node_that_waits_says_how_many_steps_have_ended_and_one_that_has_just_delegated_shows_it() {
    let mut log = growing();
    let root = NodeId::root(log.run);
    let plan_id = PlanId(uuid::Uuid::nil());
    log.push(
        root,
        None,
        PlanCreated { plan_id, version: 1, summary: None, mode_reason: None, iteration: None },
    );
    let step_ids: Vec<StepId> = ["s0", "s1", "s2"].map(StepId::new).into();
    let (goal, band_index, parallelizable) = (String::new(), 0, true);
    log.push(
        root,
        None,
        PlanBandCreated { plan_id, band_index, step_ids: step_ids.clone(), goal, parallelizable },
    );
    for (step_id, step_index) in step_ids.iter().cloned().zip(0..) {
        let step = StepCreated {
            step_id,
            band_index,
            step_index,
            title: "a step".into(),
            reason: String::new(),
            success_criteria: Vec::new(),
            strategy: None,
            search: None,
            branch_id: None,
            budget: None,
            deliverable: None,
            profile: None,
        };
        log.push(root, None, step);
    }
    let [step_id, ..] = &step_ids[..] else { unreachable!() };
    log.push(root, None, StepStatusChanged { step_id: step_id.clone(), status: StepStatus::Completed });
    let graph = log.graph();
    assert_eq!(graph.nodes()[0].progress, Some(1.0 / 3.0));
    assert!(
        drawn(&graph, None, false, 200).contains("waiting · 1 of 3"),
        "{}",
        drawn(&graph, None, false, 200)
    );
    let layout =
        Layout { height: None, fold: false, now: Timestamp::from_millis(30_000), delegating: &[root] };
    let line = tree(&graph, &layout)[1].render(200, PLAIN);
    assert!(line.starts_with('◆') && line.contains("delegating"), "{line}");
}

#[test]
fn a_step_that_is_a_search_says_so() {
    let mut log = growing();
    let root = NodeId::root(log.run);
    let created = NodeCreated {
        parent_node_id: Some(root),
        depth: 1,
        band_index: Some(0),
        strategy: Some(Strategy::Search),
        ..NodeCreated::new("Everything about tides")
    };
    log.push(NodeId::child(root, 1, &StepId::new("s")), Some(root), created);
    let text = drawn(&log.graph(), None, false, 200);
    assert!(text.contains("Everything about tides  search · waiting"), "{text}");
    let picture = dot(&log.graph().snapshot());
    assert!(picture.contains("P search waiting"), "{picture}");
}

#[test]
fn finished_parts_fold() {
    insta::assert_snapshot!(drawn(&growing().graph(), Some(24), true, 80));
}

#[test]
fn a_small_window_folds_more() {
    insta::assert_snapshot!(drawn(&growing().graph(), Some(5), true, 60));
}

#[test]
fn a_narrow_window_cuts_titles() {
    insta::assert_snapshot!(drawn(&growing().graph(), Some(24), true, 40));
}

#[test]
fn every_window_is_kept_to() {
    let log = growing();
    for seq in 0..=log.events.len() {
        let part = Log { run: log.run, events: log.events[..seq].to_vec() };
        let graph = part.graph();
        for height in 2..12 {
            for columns in [20, 33, 80] {
                let text = drawn(&graph, Some(height), true, columns);
                assert!(text.lines().count() <= height, "{height} lines:\n{text}");
                assert!(text.lines().all(|line| width(line) <= columns), "{columns} columns:\n{text}");
                assert!(!text.contains('\x1b'));
            }
        }
    }
}

#[test]
fn events_of_note_are_lines() {
    let log = growing();
    let mut graph = Graph::new(log.run);
    let mut text = String::new();
    for event in &log.events {
        graph.apply(event).unwrap();
        if let Some(line) = lines::line(event, &graph, PLAIN) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn other_tools_get_escaped_titles() {
    let run = RunId(uuid::Uuid::from_u128(7));
    let mut log = Log { run, events: Vec::new() };
    let root = log.node(None, "say \"<hi>\" & \\n", 0, None);
    log.node(Some(root), "child", 1, Some((0, 0)));
    let graph = log.graph().snapshot();
    insta::assert_snapshot!(format!("{}{}", dot(&graph), mermaid(&graph)));
}

#[test]
fn a_run_that_a_budget_stopped_says_how_many_of_its_parts_were_answered() {
    let mut graph = growing().graph().snapshot();
    graph.nodes[0].subtree_usage = Usage { cost_micros: 496_300, ..Usage::default() }.into();
    let words = |reason| stopped::words(&graph, reason);
    // Two leaves are done; one has failed, one is at work, and two wait.
    assert_eq!(
        words("budget maxCostMicros is used up").as_deref(),
        Some("stopped at $0.4963, 2 of 6 parts answered")
    );
    assert_eq!(words("budget maxNodes is used up"), None);
    assert_eq!(words("cut by maxDepth"), None);
}

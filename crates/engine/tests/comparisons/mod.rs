//! The comparison of runs: over random worlds, and case by case.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tree_agent_contract::diff::*;
use tree_agent_contract::event::Event;
use tree_agent_contract::graph::{GraphNode, GraphSnapshot};
use tree_agent_contract::{
    ArtifactId, NodeId, NodeStatus, ResultKind, RunId, RunSpec, StepId, Timestamp, TreeAgentResult, run,
};
use tree_agent_engine::{Compared, Graph, diff};

use crate::cases;
use crate::world::{self, World, WorldPlan};

fn graph(log: &[Event]) -> Graph {
    let mut graph = Graph::new(log[0].run_id);
    log.iter().for_each(|event| graph.apply(event).expect("the log applies"));
    graph
}

/// The same tree as that of another run: every id differs.
fn of_another_run(graph: &Graph) -> Graph {
    let other = |id: NodeId| NodeId(uuid::Uuid::from_u128(id.0.as_u128() ^ 1));
    let mut snapshot = graph.snapshot();
    snapshot.run_id = RunId(uuid::Uuid::from_u128(snapshot.run_id.0.as_u128() ^ 1));
    for node in &mut snapshot.nodes {
        node.id = other(node.id);
        node.parent_id = node.parent_id.map(other);
        for artifact in &mut node.artifacts {
            artifact.artifact_id = ArtifactId(uuid::Uuid::from_u128(artifact.artifact_id.0.as_u128() ^ 1));
        }
    }
    Graph::from_snapshot(snapshot)
}

fn compare(a: &Graph, b: &Graph) -> RunDiff {
    diff(Compared { graph: a, synthesis: "" }, Compared { graph: b, synthesis: "" })
}

/// Every node of both runs occurs once, below the one below which its parents occur, and the counts are right.
fn check(diff: &RunDiff, a: &Graph, b: &Graph) {
    let ids = |side: fn(&NodeDiff) -> Option<&NodeTotals>| {
        let mut ids: Vec<NodeId> = diff.nodes.iter().filter_map(side).map(|node| node.node_id).collect();
        ids.sort();
        ids
    };
    let all = |graph: &Graph| {
        let mut ids: Vec<NodeId> = graph.nodes().iter().map(|node| node.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(|node| node.a.as_ref()), all(a));
    assert_eq!(ids(|node| node.b.as_ref()), all(b));
    let mut above: Vec<&NodeDiff> = Vec::new();
    let mut counts = DiffCounts::default();
    for node in &diff.nodes {
        above.truncate(node.depth as usize);
        assert_eq!(above.len(), node.depth as usize, "a node comes below its parent");
        let parent = |graph: &Graph, side: &Option<NodeTotals>| {
            side.as_ref().map(|side| graph.node(side.node_id).expect("it exists").parent_id)
        };
        for (graph, own, of_parent) in [
            (a, &node.a, above.last().and_then(|parent| parent.a.as_ref())),
            (b, &node.b, above.last().and_then(|parent| parent.b.as_ref())),
        ] {
            if let Some(parent) = parent(graph, own) {
                assert_eq!(parent, of_parent.map(|parent| parent.node_id));
            }
        }
        counts.add(node.comparison);
        let both = node.a.is_some() && node.b.is_some();
        let expected = match node.comparison {
            NodeComparison::Same => both && node.changes.is_empty(),
            NodeComparison::Changed => both && !node.changes.is_empty(),
            NodeComparison::OnlyA => node.b.is_none(),
            NodeComparison::OnlyB => node.a.is_none(),
        };
        assert!(expected, "{node:?}");
        above.push(node);
    }
    assert_eq!(counts, diff.counts);
}

/// What is compared with what, and how, whatever the order.
fn facts(diff: &RunDiff, mirrored: bool) -> BTreeMap<[Option<NodeId>; 2], (NodeComparison, Vec<NodeAspect>)> {
    let id = |side: &Option<NodeTotals>| side.as_ref().map(|side| side.node_id);
    let fact = |node: &NodeDiff| match mirrored {
        false => ([id(&node.a), id(&node.b)], (node.comparison, node.changes.clone())),
        true => ([id(&node.b), id(&node.a)], (node.comparison.mirrored(), node.changes.clone())),
    };
    diff.nodes.iter().map(fact).collect()
}

fn any_world() -> impl proptest::strategy::Strategy<Value = WorldPlan> {
    prop_oneof![world::plans(), world::searches(), world::homework_worlds(), world::trees_with_searches()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(4), ..ProptestConfig::default() })]

    #[test]
    fn a_run_is_the_same_as_itself_and_as_its_twin(plan in any_world()) {
        let own = graph(&World::run(&plan).log);
        let diff = compare(&own, &own);
        check(&diff, &own, &own);
        prop_assert_eq!(diff.matching, NodeMatching::Ids);
        prop_assert_eq!(diff.counts, DiffCounts { same: own.nodes().len() as u64, ..DiffCounts::default() });

        let twin = of_another_run(&own);
        let diff = compare(&own, &twin);
        check(&diff, &own, &twin);
        prop_assert_eq!(diff.matching, NodeMatching::Steps);
        prop_assert_eq!(diff.counts, DiffCounts { same: own.nodes().len() as u64, ..DiffCounts::default() });
    }

    #[test]
    fn independent_runs_compare_both_ways(one in any_world(), other in any_world()) {
        let (a, b) = (graph(&World::run(&one).log), of_another_run(&graph(&World::run(&other).log)));
        let (there, back) = (compare(&a, &b), compare(&b, &a));
        check(&there, &a, &b);
        check(&back, &b, &a);
        prop_assert_eq!(there.matching, NodeMatching::Steps);
        prop_assert_eq!(facts(&there, false), facts(&back, true));
        let root = there.nodes[0].clone();
        prop_assert!(root.a.is_some() && root.b.is_some(), "roots are compared");
        prop_assert_eq!(compare(&a, &b), there);
    }

    #[test]
    fn a_run_and_its_past_share_their_nodes(plan in any_world(), cut in any::<prop::sample::Index>()) {
        let log = World::run(&plan).log;
        let (past, now) = (graph(&log[..cut.index(log.len()) + 1]), graph(&log));
        let (there, back) = (compare(&past, &now), compare(&now, &past));
        check(&there, &past, &now);
        check(&back, &now, &past);
        prop_assert_eq!(there.counts.only_a, 0);
        prop_assert_eq!(there.counts.only_b, (now.nodes().len() - past.nodes().len()) as u64);
        prop_assert_eq!(facts(&there, false), facts(&back, true));
        // What has ended in the past has not changed since.
        for node in there.nodes.iter().filter(|node| node.comparison == NodeComparison::Changed) {
            prop_assert!(!node.a.as_ref().is_some_and(|a| a.status.is_final()), "{node:?}");
        }
    }
}

/// A tree that is made by hand: a root, and children of it with a step and a title.
fn tree(run: u128, children: &[(&str, &str)]) -> GraphSnapshot {
    let run_id = RunId(uuid::Uuid::from_u128(run));
    let log = tree_agent_engine::start(run_id, RunSpec::new("find out"), Timestamp(1)).events;
    let mut snapshot = graph(&log).snapshot();
    let root = snapshot.nodes[0].clone();
    snapshot.nodes.extend(children.iter().enumerate().map(|(i, (step, title))| GraphNode {
        id: NodeId::child(root.id, 1, &StepId::new(i.to_string())),
        parent_id: Some(root.id),
        step_id: (!step.is_empty()).then(|| StepId::new(*step)),
        title: (*title).to_owned(),
        depth: 1,
        ..root.clone()
    }));
    snapshot
}

/// What is compared: `=`, `~` with the changes, `-` and `+`, with the titles.
fn shown(a: GraphSnapshot, b: GraphSnapshot) -> Vec<String> {
    let diff = compare(&Graph::from_snapshot(a), &Graph::from_snapshot(b));
    let title = |side: &Option<NodeTotals>| side.as_ref().map_or(String::new(), |side| side.title.clone());
    let line = |node: &NodeDiff| match node.comparison {
        NodeComparison::Same => format!("= {}", title(&node.a)),
        NodeComparison::Changed => {
            let changes: Vec<&str> = node.changes.iter().map(|change| change.as_str()).collect();
            format!("~ {} / {}: {}", title(&node.a), title(&node.b), changes.join(" "))
        }
        NodeComparison::OnlyA => format!("- {}", title(&node.a)),
        NodeComparison::OnlyB => format!("+ {}", title(&node.b)),
    };
    diff.nodes.iter().skip(1).map(line).collect()
}

#[test]
fn a_child_is_found_by_step_and_title_then_by_step_then_by_title() {
    let a = tree(1, &[("s1", "Costs"), ("s2", "Risks"), ("s3", "Dates"), ("s4", "Law"), ("", "Odds")]);
    let b = tree(2, &[("s0", "Law"), ("s1", "Prices"), ("s2", "Risks"), ("s9", "Odds"), ("s8", "People")]);
    assert_eq!(shown(a, b), ["~ Costs / Prices: title", "= Risks", "- Dates", "= Law", "= Odds", "+ People"]);
}

#[test]
fn children_with_the_same_name_are_compared_in_their_order() {
    let a = tree(1, &[("s1", "Again"), ("s1", "Again"), ("s1", "Again")]);
    let b = tree(2, &[("s1", "Again"), ("s1", "Again")]);
    assert_eq!(shown(a, b), ["= Again", "= Again", "- Again"]);
}

#[test]
fn what_only_one_run_has_stands_where_it_has_it() {
    let a = tree(1, &[("a", "A"), ("b", "B"), ("d", "D")]);
    let b = tree(2, &[("0", "Zero"), ("a", "A"), ("c", "C"), ("d", "D"), ("e", "E")]);
    assert_eq!(shown(a, b), ["+ Zero", "= A", "- B", "+ C", "= D", "+ E"]);
}

#[test]
fn everything_that_a_node_differs_in_is_named() {
    let a = tree(1, &[("s1", "Costs")]);
    let mut b = tree(2, &[("s1", "Costs")]);
    let node = &mut b.nodes[1];
    node.status = NodeStatus::Completed;
    node.ended_at = Some(Timestamp(2));
    node.title = "Prices".into();
    node.strategy = Some(run::Strategy::Search);
    let mut usage = node.usage.get();
    (usage.cost_micros, usage.tool_calls) = (7, 1);
    node.usage.set(usage);
    node.result = Some(Box::new(TreeAgentResult {
        kind: ResultKind::Json,
        summary: "7".into(),
        success_assessment: None,
        primary_artifact_id: None,
        artifact_ids: Vec::new(),
        document_ids: Vec::new(),
        json_payload: None,
        scratchpad_doc_id: None,
        scratchpad_tail: None,
        key_findings: Vec::new(),
        gaps: Vec::new(),
    }));
    assert_eq!(shown(a, b), ["~ Costs / Prices: plan result cost time tools status title"]);
}

#[test]
fn runs_that_share_a_node_are_compared_by_ids_alone() {
    let a = tree(1, &[("s1", "Costs"), ("s2", "Risks")]);
    let mut b = a.clone();
    b.nodes[2].id = NodeId(uuid::Uuid::from_u128(9));
    assert_eq!(shown(a, b), ["= Costs", "- Risks", "+ Risks"], "the second Risks was done anew");
}

#[test]
fn a_run_that_has_not_begun_can_be_compared() {
    let none = Graph::new(RunId(uuid::Uuid::from_u128(3)));
    let some = Graph::from_snapshot(tree(1, &[("s1", "Costs")]));
    let diff = compare(&none, &some);
    check(&diff, &none, &some);
    assert_eq!(diff.counts.only_b, 2);
    assert_eq!((diff.a.nodes, diff.a.duration_ms, diff.a.seq), (0, None, 0));
    assert!(compare(&none, &none).nodes.is_empty());
}

#[test]
fn ten_thousand_nodes_may_stand_beside_or_below_each_other() {
    const NODES: usize = 10_000;
    let wide = |run| tree(run, &[("s", "The same name"); NODES]);
    let deep = |run| {
        let mut deep = wide(run);
        for i in 1..deep.nodes.len() {
            deep.nodes[i].parent_id = Some(deep.nodes[i - 1].id);
        }
        deep
    };
    for (a, b) in [(wide(1), wide(2)), (deep(1), deep(2)), (wide(1), deep(2))] {
        let (a, b) = (Graph::from_snapshot(a), Graph::from_snapshot(b));
        check(&compare(&a, &b), &a, &b);
    }
}

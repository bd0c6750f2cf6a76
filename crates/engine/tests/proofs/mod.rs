//! What steering promises about a `tree` whose roles neither fail nor replan. Each answer depends on its node alone, so
//! two runs of the same garden differ only by what people do.

mod garden;
mod mutations;

use std::collections::BTreeSet;

use garden::Garden;
use proptest::prelude::*;
use tree_agent_contract::command::Action;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::*;
use tree_agent_engine::CallKind;

/// An hour, which is longer than the wall clock of a garden.
const LONG: u64 = 3_600_000;

/// A graph, time and order aside.
fn timeless(garden: &Garden) -> Vec<String> {
    let mut nodes: Vec<GraphNode> = garden.run.graph().nodes().to_vec();
    nodes.sort_by_key(|node| node.id);
    let shown = nodes.into_iter().map(|node| {
        let node =
            GraphNode { created_at: Timestamp(0), started_at: None, ended_at: None, stopped: false, ..node };
        format!("{node:?}")
    });
    shown.collect()
}

/// The events of a node, seq and time aside.
fn events_of(garden: &Garden, node: NodeId) -> Vec<String> {
    let of_node = garden.log.iter().filter(|event| event.node_id == node);
    let shown = of_node.map(|event| {
        let mut body = event.body.clone();
        match &mut body {
            EventBody::NodeCompleted(e) => e.metrics = None,
            EventBody::ScratchpadUpdated(e) => e.updated_at = Timestamp(0),
            _ => {}
        }
        format!("{body:?}")
    });
    shown.collect()
}

/// A command about `node`, or none if the node cannot be changed in this way.
fn command(garden: &Garden, node: &GraphNode, kind: u8) -> Option<Action> {
    let node_id = node.id;
    let is_open = !node.status.is_final();
    Some(match kind {
        0 if is_open => Action::Stop { node_id, discard: false },
        1 if is_open => Action::Stop { node_id, discard: true },
        2 if is_open => Action::Guide { node_id, text: "look closer".into(), subtree: true, restart: true },
        3 if is_open => Action::Pause { node_id: Some(node_id), now: true },
        4 if is_open => Action::EditPlan { node_id, plan: garden.with_another_step(node)? },
        5 if !is_open => {
            Action::Retry { node_id, guidance: "again".into(), model: String::new(), budget: None }
        }
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_paused_and_resumed_run_gives_the_same_graph(
        shape in garden::shapes(),
        at in any::<prop::sample::Index>(),
        node in any::<prop::sample::Index>(),
        now in any::<bool>(),
        crashes in any::<bool>(),
    ) {
        let undisturbed = Garden::grown(&shape);
        let mut garden = Garden::new(&shape);
        garden.grow_until(at.index(undisturbed.log.len()));
        let open: Vec<NodeId> =
            garden.run.graph().nodes().iter().filter(|n| !n.status.is_final()).map(|n| n.id).collect();
        if !open.is_empty() {
            let node_id = Some(open[node.index(open.len())]);
            garden.give(Action::Pause { node_id, now }).expect("an open node can be paused");
            garden.grow();
            let node = node_id.and_then(|id| garden.run.graph().node(id)).expect("it exists").clone();
            // The call that was in flight may have ended the node, and its pause with it.
            prop_assert!(node.paused || !now && node.status.is_final());
            if node.paused {
                garden.now = garden.now.plus_millis(LONG);
                if crashes {
                    garden.crash();
                }
                garden.give(Action::Resume { node_id }).expect("it is paused");
            }
        }
        garden.grow();
        prop_assert_eq!(garden.run.graph().status(), RunStatus::Completed);
        prop_assert!(!garden.run.graph().partial());
        prop_assert_eq!(timeless(&garden), timeless(&undisturbed));
        garden.check();
    }

    #[test]
    fn events_of_unrelated_nodes_do_not_depend_on_a_command(
        shape in garden::shapes(),
        at in any::<prop::sample::Index>(),
        node in any::<prop::sample::Index>(),
        kind in 0u8..6,
    ) {
        let undisturbed = Garden::grown(&shape);
        let mut garden = Garden::new(&shape);
        garden.grow_until(at.index(undisturbed.log.len()));
        let fits = |n: &GraphNode| Some((n.id, command(&garden, n, kind)?));
        let fitting: Vec<_> = garden.run.graph().nodes().iter().filter_map(fits).collect();
        prop_assume!(!fitting.is_empty());
        let (node_id, action) = fitting[node.index(fitting.len())].clone();
        let is_pause = matches!(action, Action::Pause { .. });
        // Some nodes cannot be changed at the moment. Then nothing is to be shown.
        prop_assume!(garden.give(action).is_ok());
        garden.grow();
        if is_pause {
            garden.give(Action::Resume { node_id: Some(node_id) }).expect("it is paused");
            garden.grow();
        }
        prop_assert!(garden.run.is_final(), "every run that is not paused ends");
        garden.check();
        let related: BTreeSet<NodeId> = garden.related(node_id).chain(undisturbed.related(node_id)).collect();
        for node in undisturbed.run.graph().nodes().iter().filter(|n| !related.contains(&n.id)) {
            // A parent that was stopped has not begun everything.
            if garden.run.graph().node(node.id).is_some() {
                prop_assert_eq!(events_of(&garden, node.id), events_of(&undisturbed, node.id), "{}", node.title);
            }
        }
    }

    #[test]
    fn a_retry_costs_its_subtree_and_one_aggregation_per_ended_ancestor(
        shape in garden::shapes(),
        node in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
    ) {
        let undisturbed = Garden::grown(&shape);
        let mut garden = Garden::new(&shape);
        garden.grow_until(at.index(undisturbed.log.len()));
        let nodes = garden.run.graph().nodes();
        let ended: Vec<NodeId> = nodes.iter().filter(|n| n.status.is_final()).map(|n| n.id).collect();
        prop_assume!(!ended.is_empty() && !garden.run.is_final());
        let node_id = ended[node.index(ended.len())];
        let (old, again) = (garden.ids(), BTreeSet::from([node_id]));
        let aggregated = garden.made_of_ancestors(node_id);
        let retry = Action::Retry { node_id, guidance: String::new(), model: String::new(), budget: None };
        garden.give(retry).expect("an ended node of a live run");
        let old = old.union(&undisturbed.ids()).copied().collect();
        garden.grow();
        garden.check();
        prop_assert_eq!(garden.run.graph().status(), RunStatus::Completed);
        // The calls that the run makes without the retry, and those that the retry costs.
        let mut expected = garden.expected(&again, &old);
        expected.extend(aggregated.into_iter().map(|above| (above, CallKind::Aggregate)));
        // What the node had below it before is not finished a second time.
        expected.extend(undisturbed.calls());
        expected.sort();
        prop_assert_eq!(garden.calls(), expected);
    }

    #[test]
    fn a_fork_costs_what_is_edited_and_one_aggregation_per_ancestor(
        shape in garden::shapes(),
        nodes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..4),
    ) {
        let parent = Garden::grown(&shape);
        let (mut edits, mut again, mut above) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (index, retries) in nodes {
            let node = &parent.run.graph().nodes()[index.index(parent.run.graph().nodes().len())];
            let node_id = node.id;
            let edit = match parent.with_another_step(node).filter(|_| !retries) {
                Some(plan) => Action::EditPlan { node_id, plan },
                None => Action::Retry { node_id, guidance: String::new(), model: String::new(), budget: None },
            };
            edits.push(edit);
            // What lies within an edited subtree cannot be edited again.
            if parent.fork(parent.log.len(), edits.clone()).is_err() {
                edits.pop();
                continue;
            }
            match edits.last() {
                Some(Action::Retry { .. }) => drop(again.insert(node_id)),
                _ => drop(above.insert(node_id)),
            }
            above.extend(parent.ancestors(node_id));
        }
        let mut fork = parent.fork(parent.log.len(), edits).expect("these edits fit");
        fork.grow();
        fork.check();
        prop_assert_eq!(fork.run.graph().status(), RunStatus::Completed);
        let mut expected = fork.expected(&again, &parent.ids());
        expected.extend(above.into_iter().map(|node| (node, CallKind::Aggregate)));
        expected.sort();
        prop_assert_eq!(fork.calls(), expected);
        // What nobody has touched is what it was, with the events of its parent.
        let touched: BTreeSet<NodeId> = fork.calls().into_iter().map(|(node, _)| node).collect();
        for node in parent.run.graph().nodes().iter().filter(|node| !touched.contains(&node.id)) {
            prop_assert_eq!(fork.run.graph().node(node.id), Some(node));
        }
    }

    #[test]
    fn a_fork_without_edits_comes_to_the_graph_of_its_parent(
        shape in garden::shapes(),
        at in any::<prop::sample::Index>(),
    ) {
        let parent = Garden::grown(&shape);
        let at = parent.moment(at.index(parent.log.len()));
        let mut fork = parent.fork(at, Vec::new()).expect("nothing is edited");
        fork.grow();
        fork.check();
        prop_assert_eq!(fork.run.graph().status(), RunStatus::Completed);
        prop_assert_eq!(timeless(&fork), timeless(&parent));
        let fresh = fork.ids().len() - parent.log[..at].iter().filter(|e| matches!(e.body, EventBody::NodeCreated(_))).count();
        prop_assert!(fork.made.len() <= parent.made.len() && (fresh == 0 || !fork.made.is_empty()));
    }
}

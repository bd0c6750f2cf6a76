//! Random worlds: proptest draws plans, outcomes, failures, delays and driver crashes, and the tests check the
//! invariants on the resulting log. `PROPTEST_CASES` is the number of worlds of each test (400 by default).

mod comparisons;
mod examples;
mod histories;
mod proofs;
mod world;

use proptest::prelude::*;
use tree_agent_contract::NodeId;
use tree_agent_contract::command::Action;
use tree_agent_engine::{CallKind, Run};
use world::{World, WorldPlan};

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(400, |cases| cases.parse().expect("PROPTEST_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_and_keeps_the_invariants(plan in world::plans()) {
        let world = World::run(&plan);
        world.check();
    }

    #[test]
    fn every_search_ends_and_keeps_the_invariants(plan in world::searches()) {
        let world = World::run(&plan);
        world.check();
        let replayed = Run::replay(world.run_id, &world.log).expect("a log that was written replays");
        prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
        prop_assert_eq!(World::run(&plan).log, world.log);
    }

    #[test]
    fn every_homework_ends_and_keeps_the_invariants(plan in world::homework_worlds()) {
        let world = World::run(&plan);
        world.check();
        let stored: Vec<_> = world.log.iter().map(|e| {
            serde_json::from_str(&serde_json::to_string(e).expect("json")).expect("reads back")
        }).collect();
        let replayed = Run::replay(world.run_id, &stored).expect("a stored log replays");
        prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
        prop_assert_eq!(World::run(&plan).log, world.log);
    }

    #[test]
    fn every_tree_with_searches_ends_and_keeps_the_invariants(plan in world::trees_with_searches()) {
        let world = World::run(&plan);
        world.check();
        let stored: Vec<_> = world.log.iter().map(|e| {
            serde_json::from_str(&serde_json::to_string(e).expect("json")).expect("reads back")
        }).collect();
        let replayed = Run::replay(world.run_id, &stored).expect("a stored log replays");
        prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
        prop_assert_eq!(World::run(&plan).log, world.log);
    }

    #[test]
    fn every_steered_run_ends_and_keeps_the_invariants(
        plan in world::steering::steered(),
        cut in any::<prop::sample::Index>(),
    ) {
        let world = World::run(&plan);
        world.check_steered();
        prop_assert!(World::run(&plan).log == world.log);
        let at = cut.index(world.log.len()) + 1;
        let mut onwards = Run::replay(world.run_id, &world.log[..at]).expect("a prefix replays");
        for event in &world.log[at..] {
            let stored = serde_json::from_str(&serde_json::to_string(event).expect("json")).expect("reads back");
            onwards.apply(&stored).expect("the rest applies");
        }
        prop_assert!(onwards.to_bytes() == world.live_bytes());
    }

    #[test]
    fn every_fork_goes_on_from_its_moment(
        plan in world::steering::steered(),
        cut in any::<prop::sample::Index>(),
        at_the_end in any::<bool>(),
    ) {
        let mut world = World::run(&plan);
        let any = cut.index(world.log.len()) + 1;
        let at = if at_the_end { world.log.len() } else { world.moment(any) };
        let edits = world.edits_at(at);
        let has_edits = !edits.is_empty();
        let fork = world.fork(at, edits);
        fork.check_forked(at);
        if at_the_end && !has_edits {
            prop_assert_eq!(fork.log.len(), at + 1);
        }
        // A fork of the fork does what the fork has not done yet.
        let again = fork.fork(at + 1, Vec::new());
        again.check_forked(at);
    }

    #[test]
    fn a_fork_that_repeats_a_node_repeats_its_subtree_and_one_aggregation_for_each_node_above(
        depth in 1u32..4,
        fanout in 1u8..4,
        node in any::<prop::sample::Index>(),
        crash_every in 0u8..6,
    ) {
        let mut plan = WorldPlan::quiet(depth, fanout);
        let world = World::run(&plan);
        plan.crash_every = crash_every;
        let nodes: Vec<_> = world.at(world.log.len()).graph().nodes().to_vec();
        let node = &nodes[node.index(nodes.len())];
        let retry = Action::Retry { node_id: node.id, guidance: "again".into(), model: String::new(), budget: None };
        let (preview, goes_on) = world.at(world.log.len()).fork(std::slice::from_ref(&retry), world.log.last().unwrap().timestamp).unwrap();
        prop_assert!(goes_on);
        let fork = world.fork(world.log.len(), vec![retry]);
        fork.check_forked(world.log.len());
        let line = |from: NodeId| std::iter::successors(Some(from), |id| nodes.iter().find(|n| n.id == *id)?.parent_id);
        let calls = fork.calls_of();
        let above: Vec<NodeId> = line(node.id).skip(1).collect();
        for id in &above {
            prop_assert_eq!(calls.get(id).map(Vec::as_slice), Some(&[CallKind::Aggregate][..]));
        }
        let first = world.calls_of();
        let below: usize = nodes.iter().filter(|n| line(n.id).any(|id| id == node.id)).map(|n| first[&n.id].len()).sum();
        let made: usize = calls.values().map(Vec::len).sum();
        prop_assert_eq!(made, below + above.len());
        prop_assert_eq!(preview.calls.iter().map(|(_, n)| *n as usize).sum::<usize>(), made);
        let reused = nodes.len() - above.len() - nodes.iter().filter(|n| line(n.id).any(|id| id == node.id)).count();
        prop_assert_eq!(preview.reused as usize, reused);
    }

    #[test]
    fn every_run_with_leases_ends_and_nothing_goes_beyond_one(plan in world::leases::leased()) {
        let world = World::run(&plan);
        world.check_steered();
        world.check_leases();
        prop_assert!(World::run(&plan).log == world.log);
    }

    #[test]
    fn every_steered_run_with_leases_ends_and_nothing_goes_beyond_one(
        plan in world::leases::steered_leases(),
        cut in any::<prop::sample::Index>(),
    ) {
        let world = World::run(&plan);
        world.check_steered();
        world.check_leases();
        let at = cut.index(world.log.len()) + 1;
        let mut onwards = Run::replay(world.run_id, &world.log[..at]).expect("a prefix replays");
        for event in &world.log[at..] {
            let stored = serde_json::from_str(&serde_json::to_string(event).expect("json")).expect("reads back");
            onwards.apply(&stored).expect("the rest applies");
        }
        prop_assert!(onwards.to_bytes() == world.live_bytes());
    }

    #[test]
    fn every_fork_of_a_run_with_leases_ends_and_keeps_their_limits(
        plan in world::leases::steered_leases(),
        cut in any::<prop::sample::Index>(),
        at_the_end in any::<bool>(),
    ) {
        let mut world = World::run(&plan);
        let any = cut.index(world.log.len()) + 1;
        let at = if at_the_end { world.log.len() } else { world.moment(any) };
        let edits = world.edits_at(at);
        let fork = world.fork(at, edits);
        fork.check_forked(at);
        fork.check_leases();
        let again = fork.fork(at + 1, Vec::new());
        again.check_forked(at);
        again.check_leases();
    }

    #[test]
    fn a_log_replays_to_the_same_bytes(plan in world::plans()) {
        let world = World::run(&plan);
        let replayed = Run::replay(world.run_id, &world.log).expect("a log that was written replays");
        prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
        // Also through its stored form: what the payload column holds loses nothing.
        let stored: Vec<_> = world.log.iter().map(|e| {
            serde_json::from_str(&serde_json::to_string(e).expect("json")).expect("reads back")
        }).collect();
        let replayed = Run::replay(world.run_id, &stored).expect("a stored log replays");
        prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
    }

    #[test]
    fn every_prefix_replays_to_what_the_driver_had(plan in world::plans(), cut in any::<prop::sample::Index>()) {
        let world = World::run(&plan);
        let at = cut.index(world.log.len()) + 1;
        let once = Run::replay(world.run_id, &world.log[..at]).expect("a prefix replays");
        let mut onwards = once.clone();
        for event in &world.log[at..] {
            onwards.apply(event).expect("the rest applies");
        }
        prop_assert_eq!(onwards.to_bytes(), world.live_bytes());
    }

    #[test]
    fn the_same_world_twice_gives_the_same_log(plan in world::plans()) {
        prop_assert_eq!(World::run(&plan).log, World::run(&plan).log);
    }
}

#[test]
fn a_quiet_world_succeeds_whole() {
    let world = World::run(&WorldPlan::quiet(3, 2));
    world.check();
    assert_eq!(world.status().as_str(), "completed");
    assert!(!world.partial());
    // Root, 2 children, 4 grandchildren, 8 leaves at depth 3.
    assert_eq!(world.nodes(), 15);
}

#[test]
fn worlds_with_leases_show_what_leases_can_do() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..120u8 {
        let mut plan = WorldPlan::quiet(2, 3);
        plan.dice = (0..97u8).map(|n| n.wrapping_mul(seed.wrapping_mul(7) | 1).wrapping_add(seed)).collect();
        plan.budgets.max_tokens = Some(60_000);
        (plan.failures, plan.leases, plan.obedient) = (20, 150, seed % 2 == 0);
        let world = World::run(&plan);
        world.check_leases();
        seen.extend(world.log.iter().filter_map(world::leases::effect));
    }
    let all = ["a lease is covered from above", "a lease is cut", "a lease is granted", "a lease is used up"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

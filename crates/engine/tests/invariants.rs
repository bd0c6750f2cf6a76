//! Random worlds: proptest draws plans, outcomes, failures, delays and driver crashes, and the tests check the
//! invariants on the resulting log. `PROPTEST_CASES` is the number of worlds of each test (400 by default).

mod examples;
mod histories;
mod world;

use proptest::prelude::*;
use tree_agent_engine::Run;
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

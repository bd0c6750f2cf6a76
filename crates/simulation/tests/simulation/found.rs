//! Seeds that once broke a promise, and what was wrong.

use tree_agent_simulation::{replay_command, simulate_alone};

fn holds(seed: u64) {
    let violations = simulate_alone(seed).violations;
    assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), replay_command(seed));
}

/// A driver whose clock was ahead logged a retry; its successor's clock was behind, and the retry waited for minutes.
#[test]
fn a_retry_does_not_wait_for_a_clock_to_catch_up() {
    [351, 376].into_iter().for_each(holds);
}

/// Each read that could not reach the store doubled the run's backoff, even after the store was back.
#[test]
fn a_run_does_not_rest_because_the_store_was_away() {
    [121, 204].into_iter().for_each(holds);
}

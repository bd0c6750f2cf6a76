//! What a run waits for, and for how long.

use super::*;

const REFUSED: &str = "openai at http://127.0.0.1:1/v1/ cannot be reached: connection refused";

fn provider_gone() -> RoleError {
    RoleError::new(RoleErrorKind::ProviderUnreachable, REFUSED)
}

fn role_gone() -> RoleError {
    RoleError::new(RoleErrorKind::Unreachable, "the planner restarts")
}

/// Fails whatever is due with `error` until the run has ended or `ms` are over.
fn fail_for(hand: &mut Hand, error: &RoleError, ms: u64) {
    let end = hand.now.plus_millis(ms);
    while !hand.run.is_final() && hand.now < end {
        for call in hand.due() {
            hand.feed(Input::Failed(call.key, error.clone()));
        }
        if let Some(next) = hand.run.next_wakeup() {
            hand.now = next.min(end);
            hand.feed(Input::Tick);
        }
    }
}

fn minutes(n: u64) -> u64 {
    n * 60_000
}

fn blocked(hand: &Hand) -> Vec<&str> {
    hand.messages().into_iter().filter(|m| m.starts_with("blocked:")).collect()
}

#[test]
fn a_provider_that_has_never_answered_ends_the_run_within_about_a_minute() {
    let mut hand = Hand::new(Budgets::default());
    let begun = hand.now;
    fail_for(&mut hand, &provider_gone(), minutes(60));
    assert_eq!(hand.ending().status, RunStatus::Failed);
    let took = hand.now.millis_since(begun);
    assert!((45_000..=65_000).contains(&took), "{took} ms");
    let reason = hand.ending().reason.clone().expect("a reason");
    assert!(reason.contains("no language model has answered") && reason.contains(REFUSED), "{reason}");
    assert!(!reason.contains("maxWallClockMs"), "{reason}");
    assert_eq!(blocked(&hand), [format!("blocked:provider:{REFUSED}")], "said once");
}

#[test]
fn nodes_that_wait_beside_each_other_say_so_once_each() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    hand.uses(&plan, 10);
    hand.plans(&plan, 3, true);
    fail_for(&mut hand, &provider_gone(), minutes(5));
    assert_eq!(blocked(&hand).len(), 3, "{:?}", blocked(&hand));
}

#[test]
fn another_driver_decides_the_same_from_the_log() {
    let mut hand = Hand::new(Budgets::default());
    fail_for(&mut hand, &provider_gone(), 30_000);
    assert!(!hand.run.is_final());
    // Taken over: what is not in the log is gone.
    hand.run = Run::replay(hand.run.graph().run_id(), &hand.log).expect("its log replays");
    let taken_over = hand.now;
    fail_for(&mut hand, &provider_gone(), minutes(60));
    assert_eq!(hand.ending().status, RunStatus::Failed);
    assert!(hand.now.millis_since(taken_over) <= 30_000, "the time before the takeover counts");
    let replayed = Run::replay(hand.run.graph().run_id(), &hand.log).expect("its log replays");
    assert_eq!(replayed.to_bytes(), hand.run.to_bytes());
}

#[test]
fn a_provider_that_has_answered_is_waited_for() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    hand.uses(&plan, 10);
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    fail_for(&mut hand, &provider_gone(), minutes(10));
    assert!(!hand.run.is_final(), "it may come back");
    hand.later(5_000);
    let execute = hand.only();
    hand.executes(&execute);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, false));
}

#[test]
fn a_role_service_is_waited_for_and_the_time_without_it_does_not_count_against_the_provider() {
    let mut hand = Hand::new(Budgets::default());
    fail_for(&mut hand, &role_gone(), minutes(5));
    assert!(!hand.run.is_final(), "a rolling restart ends no run");
    // The provider gets its own time.
    fail_for(&mut hand, &provider_gone(), 40_000);
    assert!(!hand.run.is_final());
    let expected = ["blocked:the planner restarts".to_owned(), format!("blocked:provider:{REFUSED}")];
    assert_eq!(blocked(&hand), expected, "a cause of another kind is said");
    fail_for(&mut hand, &provider_gone(), 25_000);
    assert_eq!(hand.ending().status, RunStatus::Failed);
}

#[test]
fn a_final_error_names_what_the_run_waited_for() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 100_000, ..Budgets::default() });
    fail_for(&mut hand, &role_gone(), minutes(10));
    assert_eq!(hand.ending().status, RunStatus::Failed);
    let reason = hand.ending().reason.clone().expect("a reason");
    assert!(
        reason.contains("maxWallClockMs") && reason.contains("blocked by: the planner restarts"),
        "{reason}"
    );

    // What has been answered since is no cause any more.
    let mut hand = Hand::new(Budgets::default());
    fail_for(&mut hand, &role_gone(), 10_000);
    hand.later(5_000);
    let plan = hand.only();
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    let execute = hand.only();
    hand.feed(Input::Failed(execute.key, RoleError::new(RoleErrorKind::Rejected, "no such model")));
    let reason = hand.ending().reason.clone().expect("a reason");
    assert_eq!(reason, "rejected: no such model");
}

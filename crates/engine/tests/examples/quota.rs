//! A run whose provider has said when its quota ends waits for it, and its clock stands still.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallKind, Input, Run};

use super::{Hand, flat};

const MINUTES: u64 = 60_000;

fn limited(ms: u64) -> RoleError {
    RoleError {
        reason: Some("rate limit".into()),
        retry_after_ms: Some(ms),
        ..RoleError::new(RoleErrorKind::Overloaded, "too many requests")
    }
}

/// A plan of two steps, both of which are called.
fn two() -> (Hand, Vec<tree_agent_engine::RoleCall>) {
    let mut hand = Hand::new(flat());
    let plan = hand.only();
    hand.uses(&plan, 100);
    hand.plans(&plan, 2, true);
    let due = hand.due();
    assert_eq!(due.len(), 2);
    (hand, due)
}

fn sound(hand: &Hand) {
    let mut audit = Audit::default();
    hand.log.iter().for_each(|event| audit.event(event));
    let found = audit.finish();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn other_branches_go_on_and_then_the_run_is_parked_until_the_quota_ends() {
    let (mut hand, due) = two();
    hand.feed(Input::Failed(due[0].key, limited(10 * MINUTES)));
    let until = hand.now.plus_millis(10 * MINUTES);
    assert_eq!(hand.run.graph().status(), RunStatus::Running, "the other step is at work");
    let told = hand.messages().last().copied().unwrap_or_default().to_owned();
    assert!(told.starts_with(&format!("blocked:provider:waits for the quota until {until}")), "{told}");
    hand.later(MINUTES);
    hand.executes(&due[1]);
    let parked = hand.ending().clone();
    assert_eq!(
        (parked.status, parked.reason.as_deref(), parked.goes_on_at),
        (RunStatus::Paused, Some("quota"), Some(until))
    );
    assert!(hand.run.rests() && hand.due().is_empty());
    assert_eq!(hand.run.rests_for_ms(hand.now), Some(9 * MINUTES));
    assert_eq!(hand.run.next_wakeup(), Some(until));
    hand.later(8 * MINUTES);
    assert!(hand.due().is_empty(), "not yet");
    hand.later(MINUTES);
    assert_eq!(hand.run.graph().status(), RunStatus::Running);
    let again = hand.only();
    assert_eq!((again.key.kind, again.key.attempt), (CallKind::Execute, 1), "it counts as no attempt");
    // Nine of these minutes the clock stood still.
    let left = again.input.context().time_left_ms.expect("a limit");
    assert_eq!(Budgets::default().max_wall_clock_ms - left, MINUTES);
    hand.executes(&again);
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert_eq!(hand.ending().status, RunStatus::Completed);
    assert_eq!(hand.run.graph().usage().tokens(), 100, "nothing was paid twice");
    sound(&hand);
}

#[test]
fn the_timer_outlives_its_driver() {
    let (mut hand, due) = two();
    due.iter().for_each(|call| hand.feed(Input::Failed(call.key, limited(10 * MINUTES))));
    assert_eq!(hand.ending().reason.as_deref(), Some("quota"));
    hand.run = Run::replay(hand.run.graph().run_id(), &hand.log).expect("it replays");
    hand.feed(Input::Claimed);
    assert!(hand.run.rests() && hand.due().is_empty());
    assert_eq!(hand.run.rests_for_ms(hand.now), Some(10 * MINUTES));
    hand.later(10 * MINUTES);
    assert_eq!(hand.due().len(), 2);
    sound(&hand);
}

#[test]
fn a_person_lets_it_go_on_earlier_or_cancels_it() {
    let command =
        |action: Action| Command { request_id: "r".into(), author: "ann".into(), expected_seq: None, action };
    let parked = || {
        let (mut hand, due) = two();
        due.iter().for_each(|call| hand.feed(Input::Failed(call.key, limited(10 * MINUTES))));
        assert_eq!(hand.run.graph().status(), RunStatus::Paused);
        hand
    };
    let mut hand = parked();
    let decision = hand.run.command(&command(Action::Resume { node_id: None }), hand.now).unwrap();
    hand.log.extend(decision.events);
    let due = hand.due();
    assert_eq!(due.len(), 2, "at once");
    due.iter().for_each(|call| hand.feed(Input::Failed(call.key, limited(9 * MINUTES))));
    assert_eq!(hand.run.rests_for_ms(hand.now), Some(9 * MINUTES), "it waits again");
    sound(&hand);

    // Whoever pauses it does not want it to go on by itself.
    let mut hand = parked();
    for _ in 0..2 {
        let pause = command(Action::Pause { node_id: None, now: false });
        hand.log.extend(hand.run.command(&pause, hand.now).unwrap().events);
    }
    assert_eq!(hand.ending().reason.as_deref(), Some("paused by ann"));
    hand.later(60 * MINUTES);
    assert_eq!(hand.run.graph().status(), RunStatus::Paused);
    assert!(hand.run.next_wakeup().is_none() && hand.due().is_empty());
    let resume = command(Action::Resume { node_id: None });
    let resume = Command { request_id: "s".into(), ..resume };
    hand.log.extend(hand.run.command(&resume, hand.now).unwrap().events);
    assert_eq!(hand.due().len(), 2);
    sound(&hand);

    let mut hand = parked();
    let cancel = Action::Cancel { reason: "enough".into() };
    let decision = hand.run.command(&command(cancel), hand.now).unwrap();
    hand.log.extend(decision.events);
    assert_eq!(hand.run.graph().status(), RunStatus::Cancelled);
    assert!(hand.run.next_wakeup().is_none());
    sound(&hand);
}

#[test]
fn what_ends_soon_or_in_a_year_is_no_quota_to_wait_for() {
    for ms in [0, 1_000, 365 * 24 * 60 * MINUTES, u64::MAX] {
        let (mut hand, due) = two();
        hand.feed(Input::Failed(due[0].key, limited(ms)));
        hand.executes(&due[1]);
        assert_eq!(hand.run.graph().status(), RunStatus::Running, "{ms}");
        let parked =
            |event: &Event| matches!(&event.body, EventBody::RunStatusChanged(e) if e.goes_on_at.is_some());
        assert!(!hand.log.iter().any(parked));
    }
}

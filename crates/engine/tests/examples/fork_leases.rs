//! Budgets of subtrees in forks: they keep their limits, and what is used counts from the fork on.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallKind, RoleCall};

use super::forks::{retry, taken_up, violations};
use super::leases::{more, tokens};
use super::{Hand, context, flat};

impl Hand {
    /// A lease of 4,000 tokens that is used up: one of the two steps below it is done, the other one was cancelled.
    fn used_up() -> (Self, RoleCall) {
        let (mut hand, sibling) = Self::split();
        let below = hand.only();
        hand.uses(&below, 2_500);
        hand.executes(&below);
        assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxTokens"));
        assert_eq!(hand.named("step 1.0 below").status, NodeStatus::Cancelled);
        (hand, sibling)
    }

    /// As [`used_up`](Self::used_up), to the end of the run.
    fn used_up_and_ended() -> Self {
        let (mut hand, sibling) = Self::used_up();
        hand.answers_plan(&sibling, PlannerMode::Execute, None);
        hand.finishes();
        assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
        hand
    }

    /// Every call that is due or becomes due has an answer.
    fn finishes(&mut self) {
        loop {
            let due = self.due();
            if due.is_empty() {
                return;
            }
            for call in due {
                match call.key.kind {
                    CallKind::Plan => self.answers_plan(&call, PlannerMode::Execute, None),
                    CallKind::Execute => self.executes(&call),
                    _ => self.aggregates(&call),
                }
            }
        }
    }

    fn cancelled(&self) -> Vec<&str> {
        let nodes = self.run.graph().nodes().iter().filter(|node| node.status == NodeStatus::Cancelled);
        nodes.map(|node| node.title.as_str()).collect()
    }
}

fn set(hand: &Hand, title: &str, change: BudgetChange) -> Action {
    Action::SetBudget { node_id: Some(hand.named(title).id), change }
}

#[test]
fn a_lease_keeps_its_limit_in_a_fork_and_counts_anew() {
    let (hand, _) = Hand::split();
    let mut fork = taken_up(&hand, hand.log.len(), Vec::new());
    let lease = fork.lease("step 0.0");
    assert_eq!((lease.limits, lease.before.tokens), (tokens(4_000), 1_000));
    let due = fork.due();
    let below = fork.call_of(&due, "step 0.0 below").clone();
    // In the run before, this would have been too much.
    fork.uses(&below, 3_200);
    assert_eq!(fork.lease("step 0.0").exhausted, None);
    fork.executes(&below);
    let next = fork.only();
    assert_eq!((fork.named("step 1.0 below").id, next.key.kind), (next.key.node_id, CallKind::Execute));
    assert_eq!(context(&next).allowance.tokens, Some(4_000 - 3_200 - 500));
    fork.uses(&next, 300);
    fork.executes(&next);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_used_up_lease_is_clear_in_a_fork_and_what_it_cancelled_stays_so() {
    let (hand, _) = Hand::used_up();
    let mut fork = taken_up(&hand, hand.log.len(), Vec::new());
    let lease = fork.lease("step 0.0");
    assert_eq!((lease.exhausted.as_deref(), lease.before.tokens), (None, 3_500));
    assert_eq!(fork.cancelled(), ["step 1.0 below"]);
    let due = fork.due();
    let aggregate = fork.call_of(&due, "step 0.0").clone();
    assert_eq!((aggregate.key.kind, context(&aggregate).finish.clone()), (CallKind::Aggregate, None));
    fork.aggregates(&aggregate);
    let sibling = fork.call_of(&due, "step 0.1").clone();
    fork.answers_plan(&sibling, PlannerMode::Execute, None);
    fork.finishes();
    assert_eq!((fork.ending().status, fork.ending().partial), (RunStatus::Completed, true));
    assert_eq!(fork.cancelled(), ["step 1.0 below"]);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_fork_that_raises_a_used_up_lease_does_what_it_cancelled() {
    let hand = Hand::used_up_and_ended();
    let raise = set(&hand, "step 0.0", more(6_000));
    let mut fork = taken_up(&hand, hand.log.len(), vec![raise]);
    let lease = fork.lease("step 0.0");
    assert_eq!((lease.limits, lease.exhausted.as_deref()), (tokens(6_000), None));
    assert_eq!(lease.before.tokens, 3_500, "what the run before used does not count");
    let call = fork.only();
    assert_eq!((call.key.node_id, call.key.kind), (fork.named("step 1.0 below").id, CallKind::Execute));
    // The aggregators of the run before needed nothing, so nothing is kept for them.
    assert_eq!(context(&call).allowance.tokens, Some(6_000));
    fork.executes(&call);
    fork.finishes();
    assert_eq!((fork.ending().status, fork.ending().partial), (RunStatus::Completed, false));
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_fork_cannot_raise_a_used_up_lease_for_steps_of_a_plan_that_is_gone() {
    let (mut hand, sibling) = Hand::used_up();
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    // The second time the node does its task itself, and uses up its lease again.
    hand.tell(retry(hand.named("step 0.0").id)).expect("the run goes on");
    let plan = hand.only();
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    let execute = hand.only();
    let limit = hand.lease("step 0.0").limits.max_tokens.expect("it keeps its budget");
    hand.uses(&execute, limit);
    hand.executes(&execute);
    hand.answers_plan(&sibling, PlannerMode::Execute, None);
    hand.finishes();
    assert_eq!(hand.cancelled(), ["step 1.0 below"]);
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxTokens"));
    let raise = set(&hand, "step 0.0", more(6_000));
    let refusal = hand.run.fork(&[raise], hand.now).expect_err("nothing would go on");
    assert_eq!(refusal.kind, RefusalKind::Precondition);
}

#[test]
fn a_fork_that_retries_what_a_lease_cancelled_has_the_whole_lease_again() {
    let hand = Hand::used_up_and_ended();
    let cancelled = hand.named("step 1.0 below").id;
    let mut fork = taken_up(&hand, hand.log.len(), vec![retry(cancelled)]);
    let lease = fork.lease("step 0.0");
    assert_eq!((lease.limits, lease.before.tokens), (tokens(4_000), 3_500));
    let call = fork.only();
    assert_eq!((call.key.node_id, context(&call).allowance.tokens), (cancelled, Some(4_000)));
    fork.executes(&call);
    fork.finishes();
    assert_eq!((fork.ending().status, fork.ending().partial), (RunStatus::Completed, false));
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_fork_that_repeats_something_else_leaves_what_a_lease_cancelled() {
    let hand = Hand::used_up_and_ended();
    let raise = Action::SetBudget { node_id: None, change: more(20_000) };
    let edits = vec![retry(hand.named("step 0.1").id), raise];
    let mut fork = taken_up(&hand, hand.log.len(), edits);
    fork.finishes();
    assert_eq!((fork.ending().status, fork.ending().partial), (RunStatus::Completed, true));
    assert_eq!(fork.cancelled(), ["step 1.0 below"]);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn the_time_of_a_lease_begins_with_the_fork() {
    let budget = SubtreeBudget { max_wall_clock_ms: Some(2_000), ..SubtreeBudget::default() };
    let mut hand = Hand::planned(flat(), &[&[Some(budget), None]]);
    let _in_flight = hand.due();
    hand.later(1_500);
    let mut fork = taken_up(&hand, hand.log.len(), Vec::new());
    let begun = fork.log[hand.log.len()].timestamp;
    assert_eq!(fork.lease("step 0.0").deadline, Some(begun.plus_millis(2_000)));
    let _in_flight = fork.due();
    fork.later(1_999);
    assert_eq!(fork.lease("step 0.0").exhausted, None);
    fork.later(1);
    assert_eq!(fork.lease("step 0.0").exhausted.as_deref(), Some("maxWallClockMs"));
}

#[test]
fn a_lease_that_was_used_up_in_the_run_before_can_be_used_up_again() {
    let (hand, _) = Hand::used_up();
    let mut fork = taken_up(&hand, hand.log.len(), Vec::new());
    let due = fork.due();
    let aggregate = fork.call_of(&due, "step 0.0").clone();
    fork.uses(&aggregate, 4_000);
    let own = fork.log[hand.log.len()..].iter();
    let used_up = own.filter(|e| matches!(e.body, EventBody::BudgetExhausted(_)));
    assert_eq!(used_up.map(|e| e.node_id).collect::<Vec<_>>(), [fork.named("step 0.0").id]);
    let more_room = set(&fork, "step 0.1", more(100));
    fork.tell(more_room).expect("the rest of the run goes on");
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

//! Budgets of subtrees, step by step.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::*;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallKind, RoleCall, Run};

use super::{Hand, context, flat};

pub(super) fn tokens(max: u64) -> SubtreeBudget {
    SubtreeBudget { max_tokens: Some(max), ..SubtreeBudget::default() }
}

/// A plan with one band for each list of budgets.
fn plan(bands: &[&[Option<SubtreeBudget>]]) -> PlanDraft {
    let band = |(index, budgets): (usize, &&[Option<SubtreeBudget>])| {
        let steps = budgets.iter().enumerate().map(|(s, budget)| StepDraft {
            reason: "needed".into(),
            step_index: s as u32,
            budget: *budget,
            ..StepDraft::new(StepId::new(format!("b{index}s{s}")), format!("step {index}.{s}"))
        });
        BandDraft { index: index as u32, goal: "g".into(), parallelizable: true, steps: steps.collect() }
    };
    PlanDraft { summary: "a plan".into(), bands: bands.iter().enumerate().map(band).collect() }
}

fn ten_thousand(max_depth: u32) -> Budgets {
    Budgets { max_depth, max_tokens: Some(10_000), ..Budgets::default() }
}

impl Hand {
    /// The root has planned this, and its steps are due.
    pub(super) fn planned(budgets: Budgets, bands: &[&[Option<SubtreeBudget>]]) -> Self {
        let mut hand = Self::new(budgets);
        let call = hand.only();
        hand.answers_plan(&call, PlannerMode::Plan, Some(plan(bands)));
        hand
    }

    pub(super) fn tell(&mut self, action: Action) -> Result<(), Refusal> {
        let decision = self.run.command(&Command::new(action), self.now)?;
        self.log.extend(decision.events);
        Ok(())
    }

    pub(super) fn named(&self, title: &str) -> &GraphNode {
        let mut nodes = self.run.graph().nodes().iter();
        nodes.find(|node| node.title == title).unwrap_or_else(|| panic!("no node {title:?}"))
    }

    pub(super) fn lease(&self, title: &str) -> &graph::Lease {
        self.named(title).lease.as_deref().unwrap_or_else(|| panic!("{title:?} has no lease"))
    }

    fn sets(&mut self, title: &str, change: BudgetChange) -> Result<(), Refusal> {
        let node_id = Some(self.named(title).id);
        self.tell(Action::SetBudget { node_id, change })
    }

    /// The call that is due for a node.
    pub(super) fn call_of<'a>(&self, due: &'a [RoleCall], title: &str) -> &'a RoleCall {
        let id = self.named(title).id;
        due.iter().find(|call| call.key.node_id == id).unwrap_or_else(|| panic!("no call for {title:?}"))
    }

    /// The step 0.0 has a lease of 4,000 tokens and plans two steps of its own; 0.1 has none.
    pub(super) fn split() -> (Self, RoleCall) {
        let mut hand = Self::planned(
            Budgets { max_parallel_steps: 2, ..ten_thousand(2) },
            &[&[Some(tokens(4_000)), None]],
        );
        let due = hand.due();
        let (first, sibling) =
            (hand.call_of(&due, "step 0.0").clone(), hand.call_of(&due, "step 0.1").clone());
        hand.uses(&first, 1_000);
        let mut own = plan(&[&[None], &[None]]);
        own.bands.iter_mut().flat_map(|b| &mut b.steps).for_each(|step| step.title.push_str(" below"));
        hand.answers_plan(&first, PlannerMode::Plan, Some(own));
        (hand, sibling)
    }
}

pub(super) fn more(max_tokens: u64) -> BudgetChange {
    BudgetChange { max_tokens: Some(max_tokens), ..BudgetChange::default() }
}

#[test]
fn a_step_has_its_lease_and_the_others_share_the_rest() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[Some(tokens(4_000)), None]]);
    assert_eq!(hand.lease("step 0.0").limits, tokens(4_000));
    assert_eq!(hand.named("step 0.1").lease, None);
    let due = hand.due();
    assert_eq!(context(hand.call_of(&due, "step 0.0")).allowance.tokens, Some(4_000));
    // 10,000 without the lease and without an eighth for the aggregator.
    assert_eq!(context(hand.call_of(&due, "step 0.1")).allowance.tokens, Some(4_750));
    assert!(!hand.messages().contains(&"guard:lease"), "nothing was cut");
}

#[test]
fn what_a_lease_leaves_is_free_again() {
    let mut hand =
        Hand::planned(Budgets { max_parallel_steps: 1, ..ten_thousand(1) }, &[&[Some(tokens(4_000)), None]]);
    let first = hand.only();
    hand.uses(&first, 500);
    hand.executes(&first);
    assert_eq!(context(&hand.only()).allowance.tokens, Some(10_000 - 500 - 1_250));
}

#[test]
fn leases_beyond_what_is_free_are_cut_and_that_is_said() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[Some(tokens(6_000)), Some(tokens(6_000))]]);
    assert_eq!(hand.lease("step 0.1").limits, tokens(2_750));
    assert!(hand.messages().contains(&"guard:lease"));
    let due = hand.due();
    due.iter().for_each(|call| hand.executes(call));
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, false));
}

#[test]
fn a_used_up_lease_ends_its_subtree_and_nothing_else() {
    let (mut hand, sibling) = Hand::split();
    let below = hand.only();
    // An eighth of the lease is kept for its own aggregator.
    assert_eq!(context(&below).allowance.tokens, Some(4_000 - 1_000 - 500));
    hand.uses(&below, 2_500);
    hand.executes(&below);
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxTokens"));
    assert_eq!(hand.run.exhausted_budget(), None);
    assert!(hand.run.is_in_flight(&sibling.key), "the sibling goes on");
    let aggregate = hand.only();
    assert_eq!((aggregate.key.kind, context(&aggregate).allowance.tokens), (CallKind::Aggregate, Some(500)));
    hand.uses(&aggregate, 500);
    hand.aggregates(&aggregate);
    let node = hand.named("step 0.0");
    assert_eq!((node.status, node.outcome), (NodeStatus::Completed, Some(Outcome::Partial)));
    hand.answers_plan(&sibling, PlannerMode::Execute, None);
    let execute = hand.only();
    hand.executes(&execute);
    let all = hand.only();
    hand.aggregates(&all);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    assert_eq!(hand.run.graph().usage().tokens(), 4_000);
}

#[test]
fn use_beyond_a_lease_is_covered_from_above() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[Some(tokens(4_000)), None]]);
    let due = hand.due();
    let first = hand.call_of(&due, "step 0.0").clone();
    hand.uses(&first, 5_000);
    let covered = hand.log.iter().find_map(|e| match &e.body {
        EventBody::LeaseCovered(covered) => Some((e.node_id, covered.clone())),
        _ => None,
    });
    let root = hand.run.graph().nodes()[0].id;
    let expected = LeaseCovered { budget: "maxTokens".into(), amount: 1_000, by_node_id: root };
    assert_eq!(covered, Some((hand.named("step 0.0").id, expected)));
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxTokens"));
    hand.executes(&first);
    assert_eq!(hand.named("step 0.0").status, NodeStatus::Completed);
    assert_eq!(hand.run.exhausted_budget(), None);
}

#[test]
fn calls_that_keep_to_their_allowance_stay_within_a_lease_that_promised_the_same() {
    let budgets = Budgets { max_depth: 3, ..Budgets::default() };
    let mut hand = Hand::planned(budgets, &[&[Some(tokens(8_000))]]);
    let first = hand.only();
    hand.answers_plan(&first, PlannerMode::Plan, Some(plan(&[&[None, None]])));
    let due = hand.due();
    let told = context(&due[1]).allowance.tokens.unwrap();
    // No planner has used anything so far, so its sibling seems to need nothing.
    hand.answers_plan(&due[0], PlannerMode::Plan, Some(plan(&[&[Some(tokens(6_000))]])));
    assert!(told + 6_000 > 8_000 && !hand.messages().contains(&"guard:lease"));
    hand.uses(&due[1], told);
    let below = context(&hand.only()).allowance.tokens.unwrap();
    assert!(told + below <= 8_000, "{told} and {below}");
    assert!(!hand.log.iter().any(|e| matches!(e.body, EventBody::LeaseCovered(_))));
}

#[test]
fn the_time_of_a_lease_ends_its_calls() {
    let budget = SubtreeBudget { max_wall_clock_ms: Some(2_000), ..SubtreeBudget::default() };
    let mut hand = Hand::planned(flat(), &[&[Some(budget), None]]);
    let due = hand.due();
    let (first, second) = (hand.call_of(&due, "step 0.0").clone(), hand.call_of(&due, "step 0.1").clone());
    assert_eq!(hand.lease("step 0.0").deadline, Some(hand.now.plus_millis(2_000)));
    assert_eq!(hand.run.next_wakeup(), Some(hand.now.plus_millis(2_000)));
    hand.later(2_000);
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxWallClockMs"));
    assert!(!hand.run.is_in_flight(&first.key) && hand.run.is_in_flight(&second.key));
    assert_eq!(hand.named("step 0.0").status, NodeStatus::Cancelled);
    hand.executes(&second);
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert!(hand.ending().partial);
}

#[test]
fn a_pause_moves_the_deadline_of_a_lease() {
    let budget = SubtreeBudget { max_wall_clock_ms: Some(2_000), ..SubtreeBudget::default() };
    let mut hand = Hand::planned(flat(), &[&[Some(budget)]]);
    let begun = hand.now;
    hand.tell(Action::Pause { node_id: None, now: true }).unwrap();
    hand.now = hand.now.plus_millis(60_000);
    hand.tell(Action::Resume { node_id: None }).unwrap();
    assert_eq!(hand.run.next_wakeup(), Some(begun.plus_millis(62_000)));
    hand.later(1_999);
    assert_eq!(hand.lease("step 0.0").exhausted, None);
    hand.later(1);
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxWallClockMs"));
}

#[test]
fn raising_a_used_up_lease_reopens_what_it_cancelled() {
    let (mut hand, _) = Hand::split();
    let below = hand.only();
    hand.uses(&below, 2_500);
    hand.executes(&below);
    let aggregate = hand.only();
    hand.sets("step 0.0", more(6_000)).unwrap();
    assert_eq!(
        (hand.lease("step 0.0").limits, hand.lease("step 0.0").exhausted.clone()),
        (tokens(6_000), None)
    );
    assert!(!hand.run.is_in_flight(&aggregate.key), "it would miss what goes on");
    let due = hand.due();
    assert_eq!(hand.call_of(&due, "step 1.0 below").key.kind, CallKind::Execute);
    let replayed = Run::replay(hand.run.graph().run_id(), &hand.log).expect("replays");
    assert_eq!(replayed.to_bytes(), hand.run.to_bytes());
}

#[test]
fn a_limit_below_what_is_used_trips_at_once() {
    let (mut hand, sibling) = Hand::split();
    let below = hand.only();
    hand.sets("step 0.0", more(900)).unwrap();
    assert_eq!(hand.lease("step 0.0").exhausted.as_deref(), Some("maxTokens"));
    assert!(hand.run.is_in_flight(&below.key) && hand.run.is_in_flight(&sibling.key));
    hand.executes(&below);
    // Nothing is left for an aggregator.
    let node = hand.named("step 0.0");
    assert_eq!((node.status, node.outcome), (NodeStatus::Completed, Some(Outcome::Partial)));
}

#[test]
fn a_person_gives_a_subtree_no_more_than_is_free() {
    let (mut hand, _) = Hand::split();
    let free = 10_000 - 1_000 - 1_250;
    hand.sets("step 0.1", more(1)).unwrap_or_else(|e| panic!("{e}"));
    hand.sets("step 0.0", more(1_000_000)).unwrap();
    let granted = hand.lease("step 0.0").limits.max_tokens.unwrap();
    assert!(granted >= 4_000 && granted <= 1_000 + free, "{granted}");
    assert!(hand.named("step 0.0").decisions.iter().any(|why| why.starts_with("guard:lease")));
    let set = hand.log.iter().rev().find_map(|e| match &e.body {
        EventBody::BudgetSet(set) => Some(set.clone()),
        _ => None,
    });
    assert!(set.is_some_and(|set| set.clamped && set.change == more(granted)));
}

#[test]
fn a_node_is_done_again_with_a_budget() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[None, None]]);
    let due = hand.due();
    let first = hand.call_of(&due, "step 0.0").clone();
    hand.uses(&first, 700);
    hand.executes(&first);
    let node_id = hand.named("step 0.0").id;
    let retry = |budget| Action::Retry { node_id, guidance: String::new(), model: String::new(), budget };
    hand.tell(retry(Some(tokens(500)))).unwrap();
    assert_eq!(hand.lease("step 0.0").before.tokens, 700, "what it used before does not count");
    let again = hand.only();
    assert_eq!(context(&again).allowance.tokens, Some(500));
    hand.executes(&again);
    hand.tell(retry(None)).unwrap();
    assert_eq!(hand.lease("step 0.0").limits, tokens(500), "it keeps its budget");
}

#[test]
fn what_is_promised_to_later_steps_is_not_used_before() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[None], &[Some(tokens(8_000))]]);
    let first = hand.only();
    assert_eq!(context(&first).allowance.tokens, Some(10_000 - 8_000 - 1_250));
    hand.uses(&first, 750);
    hand.executes(&first);
    assert_eq!(context(&hand.only()).allowance.tokens, Some(8_000));
}

#[test]
fn a_step_for_which_nothing_is_left_ends_and_the_promised_ones_go_on() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[None], &[Some(tokens(9_000))]]);
    let first = hand.named("step 0.0");
    assert_eq!((first.status, first.message.as_deref()), (NodeStatus::Cancelled, Some("budget:maxTokens")));
    assert_eq!(hand.run.exhausted_budget(), None);
    let second = hand.only();
    assert_eq!(context(&second).allowance.tokens, Some(8_750));
    hand.executes(&second);
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
}

#[test]
fn an_edited_plan_may_not_promise_more_than_is_free() {
    let mut hand = Hand::planned(ten_thousand(1), &[&[None], &[None]]);
    let node_id = hand.run.graph().nodes()[0].id;
    let edit = |budget| Action::EditPlan { node_id, plan: plan(&[&[None], &[budget]]) };
    let refusal = hand.tell(edit(Some(tokens(9_000)))).unwrap_err();
    assert_eq!((refusal.kind, refusal.field.as_str()), (RefusalKind::Limit, "plan.bands[1].steps[0].budget"));
    hand.tell(edit(Some(tokens(5_000)))).unwrap();
    let step = &hand.run.graph().nodes()[0].plan.as_ref().unwrap().bands[1].steps[0];
    assert_eq!(step.budget, Some(tokens(5_000)));
}

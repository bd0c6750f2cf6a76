//! A person looks at the plan before it is carried out, step by step.

use tree_agent_contract::command::Action;
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallInput, CallKind, CallOutput, Input, RoleCall, Run};

use super::search::Hand;
use super::{flat, homework};
use crate::world::{executor_output, notes};

const START: Action = Action::Resume { node_id: None };

fn reviewed(strategy: Strategy, goes_on_after_ms: Option<u64>) -> RunSpec {
    let per_call = Some(RoleCosts::FREE);
    let review = Some(ReviewRule { goes_on_after_ms, per_call });
    RunSpec { strategy, review, budgets: flat(), ..RunSpec::new("find out") }
}

fn plan(mode: PlannerMode) -> PlannerOutput {
    let step =
        |n: u32| StepDraft { step_index: n, ..StepDraft::new(StepId::new(format!("s{n}")), format!("{n}")) };
    let steps = vec![step(0), step(1)];
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps };
    let bands = vec![band];
    PlannerOutput {
        premises: Some(Premises { assumptions: vec!["only Europe".into()], left_out: vec!["prices".into()] }),
        homework: None,
        mode,
        mode_reason: "wide".into(),
        leaf_decision: None,
        plan: (mode == PlannerMode::Plan).then(|| PlanDraft { summary: "a plan".into(), bands }),
        scratchpad: notes(),
    }
}

/// A run whose plan waits for a person.
fn waits(mode: PlannerMode, goes_on_after_ms: Option<u64>) -> Hand {
    let mut hand = Hand::of(reviewed(Strategy::Tree, goes_on_after_ms));
    let call = hand.only();
    assert!(matches!(&call.input, CallInput::Plan(input) if input.review), "it says what the plan rests on");
    hand.feed(Input::Output(call.key, CallOutput::Plan(plan(mode))));
    hand
}

fn review(hand: &Hand) -> Option<&Review> {
    hand.run.graph().nodes()[0].review.as_deref()
}

fn is_about_to_execute(calls: &[RoleCall], n: usize) -> bool {
    calls.len() == n && calls.iter().all(|call| call.key.kind == CallKind::Execute)
}

#[test]
fn a_plan_waits_for_a_person_and_its_clock_stands_still() {
    let mut hand = waits(PlannerMode::Plan, None);
    assert!(hand.due().is_empty() && hand.run.rests() && hand.run.next_wakeup().is_none());
    assert_eq!(hand.run.graph().status(), RunStatus::Paused);
    let shown = review(&hand).expect("there is something to look at");
    assert_eq!(
        (&shown.premises.assumptions[0][..], &shown.premises.left_out[0][..]),
        ("only Europe", "prices")
    );
    let estimate = &shown.estimate;
    assert_eq!((estimate.tokens, estimate.cost_micros), (Some(0), Some(0)), "what a call costs is known");
    let last: Vec<&str> = hand.log[hand.log.len() - 2..].iter().map(|e| e.body.event_type()).collect();
    assert_eq!(last, ["tree.review_requested", "tree.run_status"], "the plan comes before");
    // Far more than the run may take.
    hand.now = hand.now.plus_millis(24 * 3_600_000);
    let root = hand.run.graph().nodes()[0].id;
    let text = "Do not assume: only Europe".to_owned();
    hand.gives(Action::Guide { node_id: root, text, subtree: true, restart: false });
    hand.gives(START);
    assert_eq!(review(&hand), None);
    let calls = hand.due();
    assert!(is_about_to_execute(&calls, 2));
    assert!(calls.iter().all(|call| call.input.context().guidance[0].text.contains("only Europe")));
    assert_eq!(hand.run.exhausted_budget(), None);
}

#[test]
fn the_steps_of_a_plan_that_waits_can_all_be_replaced() {
    let mut hand = waits(PlannerMode::Plan, None);
    let node_id = hand.run.graph().nodes()[0].id;
    let mut better = plan(PlannerMode::Plan).plan.expect("a plan");
    for step in &mut better.bands[0].steps {
        (step.id, step.title) =
            (StepId::new(format!("b{}", step.step_index)), format!("better {}", step.title));
    }
    hand.gives(Action::EditPlan { node_id, plan: better });
    hand.gives(START);
    assert_eq!(Hand::titles(&hand.due()), ["better 0", "better 1"]);
}

#[test]
fn a_review_that_nobody_answers_ends_at_its_time_also_after_a_takeover() {
    let mut hand = waits(PlannerMode::Plan, Some(60_000));
    let at = review(&hand).and_then(|review| review.goes_on_at).expect("it has a time");
    assert_eq!((hand.run.rests_for_ms(hand.now), hand.run.next_wakeup()), (Some(60_000), Some(at)));
    assert!(hand.run.rests());
    hand.run = Run::replay(hand.run.graph().run_id(), &hand.log).expect("its log replays");
    hand.feed(Input::Claimed);
    assert!(hand.due().is_empty() && review(&hand).is_some());
    hand.now = at;
    hand.feed(Input::Tick);
    assert!(is_about_to_execute(&hand.due(), 2) && review(&hand).is_none());
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let mut hand = waits(PlannerMode::Plan, Some(60_000));
    hand.gives(Action::Cancel { reason: "too dear".into() });
    assert_eq!((hand.run.graph().status(), review(&hand)), (RunStatus::Cancelled, None));
    assert!(hand.run.next_wakeup().is_none() && hand.due().is_empty());
}

#[test]
fn a_root_whose_review_was_cancelled_is_not_resumed_when_it_is_done_again() {
    let mut hand = waits(PlannerMode::Plan, Some(60_000));
    let node_id = hand.run.graph().nodes()[0].id;
    hand.gives(Action::Cancel { reason: "too dear".into() });
    assert!(hand.run.is_final() && hand.run.next_wakeup().is_none());
    let (guidance, model, budget) = (String::new(), String::new(), None);
    let forked = RunForked {
        source_run_id: hand.run.graph().run_id(),
        at_seq: hand.run.graph().seq(),
        origin_run_id: None,
        author: String::new(),
        by_administrator: false,
        request_id: String::new(),
        display_name: String::new(),
        labels: Default::default(),
        edits: vec![Action::Retry { node_id, guidance, model, budget }],
        goes_on: true,
    };
    let (last, now) = (hand.log.last().expect("a log").clone(), hand.now.plus_millis(3_600_000));
    let event = Event { seq: last.seq + 1, timestamp: now, body: forked.into(), ..last };
    hand.run.apply(&event).expect("a run can be forked at its end");
    hand.log.push(event);
    hand.now = now;
    hand.feed(Input::Claimed);
    assert_eq!(hand.only().key.kind, CallKind::Plan);
    let resumed = hand.log.iter().filter(|event| matches!(event.body, EventBody::NodeResumed(_)));
    assert_eq!(resumed.count(), 0);
    let mut audit = Audit::new();
    hand.log.iter().for_each(|event| audit.event(event));
    assert_eq!(audit.finish(), []);
}

#[test]
fn a_root_that_does_its_task_itself_is_reviewed_before_it_does() {
    let mut hand = waits(PlannerMode::Execute, None);
    assert!(hand.due().is_empty() && review(&hand).is_some());
    hand.gives(START);
    assert!(is_about_to_execute(&hand.due(), 1));
    // Nobody plans where the tree may have no level.
    let budgets = Budgets { max_depth: 0, ..flat() };
    let mut hand = Hand::of(RunSpec { budgets, ..reviewed(Strategy::Tree, None) });
    assert!(hand.due().is_empty() && review(&hand).is_some());
    hand.gives(START);
    assert!(is_about_to_execute(&hand.due(), 1));
}

#[test]
fn a_person_is_asked_once() {
    let mut hand = waits(PlannerMode::Plan, None);
    hand.gives(START);
    for call in hand.due() {
        hand.feed(Input::Output(call.key, CallOutput::Execute(executor_output("x"))));
    }
    let call = hand.only();
    let mut output = crate::world::aggregator_output("all");
    output.next = AggregatorNext { should_replan: true, replan_reason: Some("more is needed".into()) };
    hand.feed(Input::Output(call.key, CallOutput::Aggregate(output)));
    let call = hand.only();
    assert!(matches!(&call.input, CallInput::Plan(input) if !input.review));
    let mut again = plan(PlannerMode::Plan);
    again.plan.as_mut().expect("a plan").bands[0].steps.truncate(1);
    again.plan.as_mut().expect("a plan").bands[0].steps[0].id = StepId::new("s9".to_owned());
    hand.feed(Input::Output(call.key, CallOutput::Plan(again)));
    assert!(is_about_to_execute(&hand.due(), 1));
}

#[test]
fn a_search_is_reviewed_once_its_first_topics_are_known() {
    let mut hand = Hand::of(reviewed(Strategy::Search, None));
    let root = hand.only();
    hand.finds(&root, &["Ebb", "Flood"]);
    assert!(hand.due().is_empty() && review(&hand).is_some());
    assert_eq!(hand.run.graph().nodes().len(), 3, "its topics can be looked at");
    hand.gives(START);
    assert_eq!(Hand::titles(&hand.due()), ["Ebb", "Flood"]);
}

#[test]
fn homework_is_reviewed_before_its_first_tasks() {
    let mut hand = Hand::of(reviewed(Strategy::Homework, None));
    let call = hand.only();
    let tasks = vec![StepDraft {
        branch_id: Some("b".into()),
        ..StepDraft::new(StepId::new("t".to_owned()), "look")
    }];
    let output = homework::planned(PlannerMode::Plan, tasks, Some(homework::draft("")));
    hand.feed(Input::Output(call.key, output));
    assert!(hand.due().is_empty() && review(&hand).is_some());
    hand.gives(START);
    assert_eq!(Hand::titles(&hand.due()), ["look"]);
}

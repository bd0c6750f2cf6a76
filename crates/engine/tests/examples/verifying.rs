//! The verification of the answer, step by step.

use tree_agent_contract::event::*;
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallKind, CallOutput, Input, RoleCall};

use super::search::Hand;
use super::{homework, used};
use crate::world::{aggregator_output, executor_output, notes};

fn begun(verify: bool, budgets: Budgets) -> Hand {
    Hand::of(RunSpec { verify, budgets, ..RunSpec::new("find out") })
}

fn plan_of(n: usize) -> PlannerOutput {
    let steps = vec![StepDraft::new(StepId::new(format!("p{n}")), format!("step of plan {n}"))];
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps };
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Plan,
        mode_reason: "wide".into(),
        leaf_decision: None,
        plan: Some(PlanDraft { summary: format!("plan {n}"), bands: vec![band] }),
        scratchpad: notes(),
    }
}

fn verdict(replan: Option<&str>) -> VerifierOutput {
    VerifierOutput {
        verification: Verification {
            summary: "read".into(),
            criteria: vec![CriterionCheck {
                criterion: "c".into(),
                met: replan.is_none(),
                note: String::new(),
            }],
            doubts: Vec::new(),
            not_checked: None,
        },
        next: AggregatorNext { should_replan: replan.is_some(), replan_reason: replan.map(str::to_owned) },
        scratchpad: ScratchpadDraft::of("verified\n".to_owned()),
    }
}

impl Hand {
    /// Answers calls until one of `kind` is due; none if the run ends before.
    fn until(&mut self, kind: CallKind) -> Option<RoleCall> {
        for plans in 1..20 {
            let call = self.due().into_iter().next()?;
            if call.key.kind == kind {
                return Some(call);
            }
            let output = match &call.input {
                CallInput::Plan(input) if input.call.depth > 0 => {
                    CallOutput::Plan(PlannerOutput { mode: PlannerMode::Execute, plan: None, ..plan_of(0) })
                }
                CallInput::Plan(_) => CallOutput::Plan(plan_of(plans)),
                CallInput::Execute(_) => CallOutput::Execute(executor_output("step")),
                CallInput::Aggregate(_) => CallOutput::Aggregate(aggregator_output("all")),
                other => panic!("nobody answers {other:?}"),
            };
            self.feed(Input::Output(call.key, output));
        }
        panic!("no end");
    }

    fn ends(&self) -> (RunStatus, Option<Outcome>) {
        (self.run.graph().status(), self.run.graph().nodes()[0].outcome)
    }

    fn types(&self, wanted: &str) -> usize {
        self.log.iter().filter(|event| event.body.event_type() == wanted).count()
    }
}

#[test]
fn nothing_is_verified_unless_it_is_wanted() {
    let mut hand = begun(false, Budgets::default());
    assert!(hand.until(CallKind::Verify).is_none());
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
}

#[test]
fn the_verifier_sees_the_answer_and_the_root_completes_after_it() {
    let mut hand = begun(true, Budgets::default());
    let call = hand.until(CallKind::Verify).expect("a verification");
    let CallInput::Verify(input) = &call.input else { panic!("{call:?}") };
    assert!(input.may_replan && input.answer.result.is_some());
    assert_eq!(input.answer.artifacts.len(), 1);
    assert_eq!(hand.run.graph().status(), RunStatus::Running);
    hand.feed(Input::Output(call.key, CallOutput::Verify(verdict(None))));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    let root = &hand.run.graph().nodes()[0];
    assert_eq!(root.verification.as_deref(), Some(&verdict(None).verification));
    assert_eq!((hand.types("tree.answer_verified"), hand.types("tree.node_result")), (1, 2));
}

#[test]
fn a_verifier_asks_for_another_plan_as_often_as_the_budget_of_replans_allows() {
    let mut hand = begun(true, Budgets { max_replans_per_node: 1, ..Budgets::default() });
    let first = hand.until(CallKind::Verify).expect("a verification");
    hand.feed(Input::Output(first.key, CallOutput::Verify(verdict(Some("too little")))));
    let plan = hand.until(CallKind::Plan).expect("another plan");
    let CallInput::Plan(input) = &plan.input else { panic!("{plan:?}") };
    assert_eq!(input.replan_reason, "too little");
    hand.feed(Input::Output(plan.key, CallOutput::Plan(plan_of(9))));
    let second = hand.until(CallKind::Verify).expect("the new answer is verified, too");
    let CallInput::Verify(input) = &second.input else { panic!("{second:?}") };
    assert!(!input.may_replan);
    hand.feed(Input::Output(second.key, CallOutput::Verify(verdict(Some("still too little")))));
    // The doubt is in the log. The answer has lost nothing by it.
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    assert_eq!((hand.types("tree.answer_verified"), hand.types("tree.replan_requested")), (2, 1));
}

/// The root decides to do the task itself, and does it.
fn done_by_itself(hand: &mut Hand) {
    let mut execute = hand.due().remove(0);
    if execute.key.kind == CallKind::Plan {
        let direct = PlannerOutput { mode: PlannerMode::Execute, plan: None, ..plan_of(0) };
        hand.feed(Input::Output(execute.key, CallOutput::Plan(direct)));
        execute = hand.due().remove(0);
    }
    assert_eq!(execute.key.kind, CallKind::Execute);
    hand.feed(Input::Output(execute.key, CallOutput::Execute(executor_output("all"))));
}

#[test]
fn a_root_that_did_the_task_itself_is_verified_and_may_plan_after_that() {
    let mut hand = begun(true, Budgets { max_replans_per_node: 1, ..Budgets::default() });
    done_by_itself(&mut hand);
    let verify = hand.until(CallKind::Verify).expect("a verification");
    let CallInput::Verify(input) = &verify.input else { panic!("{verify:?}") };
    assert!(input.may_replan && input.answer.result.is_some());
    hand.feed(Input::Output(verify.key, CallOutput::Verify(verdict(Some("too little")))));
    let plan = hand.until(CallKind::Plan).expect("a plan");
    let CallInput::Plan(input) = &plan.input else { panic!("{plan:?}") };
    assert!(input.replan_reason == "too little" && input.earlier_result.is_some());
    hand.feed(Input::Output(plan.key, CallOutput::Plan(plan_of(9))));
    let verify = hand.until(CallKind::Verify).expect("the new answer is verified, too");
    hand.feed(Input::Output(verify.key, CallOutput::Verify(verdict(None))));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));

    // Nothing may be planned at the greatest depth, and what a failed plan leaves is the answer.
    let mut hand = begun(true, Budgets { max_depth: 0, ..Budgets::default() });
    done_by_itself(&mut hand);
    let verify = hand.until(CallKind::Verify).expect("a verification");
    let CallInput::Verify(input) = &verify.input else { panic!("{verify:?}") };
    assert!(!input.may_replan);
    hand.feed(Input::Output(verify.key, CallOutput::Verify(verdict(Some("too little")))));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));

    let mut hand = begun(true, Budgets { max_attempts: 1, ..Budgets::default() });
    done_by_itself(&mut hand);
    let verify = hand.until(CallKind::Verify).expect("a verification");
    hand.feed(Input::Output(verify.key, CallOutput::Verify(verdict(Some("too little")))));
    let plan = hand.until(CallKind::Plan).expect("a plan");
    hand.feed(Input::Failed(plan.key, RoleError::new(RoleErrorKind::Rejected, "no")));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Partial)));
    assert!(hand.run.graph().nodes()[0].result.is_some());
}

#[test]
fn an_answer_that_cannot_be_verified_is_returned_and_says_why() {
    let mut hand = begun(true, Budgets { max_attempts: 1, ..Budgets::default() });
    let call = hand.until(CallKind::Verify).expect("a verification");
    let reason = Some("rate limit".to_owned());
    let error = RoleError { reason, ..RoleError::new(RoleErrorKind::Rejected, "it is tired") };
    hand.feed(Input::Failed(call.key, error));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    let said = hand.log.iter().any(|event| {
        matches!(&event.body, EventBody::NodeStatusChanged(e)
            if e.why.as_deref() == Some("not verified: rate limit"))
    });
    assert!(said, "{:?}", hand.log);
    let found = hand.run.graph().nodes()[0].verification.clone().expect("what was found");
    assert_eq!((found.not_checked.as_deref(), &*found.doubts), (Some("rate limit"), &[][..]));
}

#[test]
fn out_of_budget_a_doubt_leads_to_no_other_plan() {
    let mut hand = begun(true, Budgets { max_tokens: Some(1_000_000), ..Budgets::default() });
    let call = hand.until(CallKind::Verify).expect("a verification");
    hand.feed(Input::Update(call.key, RoleUpdate::Usage { usage: used(2_000_000), prompt: None }));
    hand.feed(Input::Output(call.key, CallOutput::Verify(verdict(Some("too little")))));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    assert_eq!((hand.types("tree.answer_verified"), hand.types("tree.replan_requested")), (1, 0));
}

#[test]
fn out_of_time_the_answer_is_returned_as_it_is() {
    let mut hand = begun(true, Budgets { max_wall_clock_ms: 30_000, ..Budgets::default() });
    hand.until(CallKind::Verify).expect("a verification");
    for _ in 0..20 {
        hand.feed(Input::Tick);
    }
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    let root = &hand.run.graph().nodes()[0];
    let found = root.verification.as_deref().and_then(|found| found.not_checked.as_deref());
    assert_eq!((root.result.is_some(), found), (true, Some("budget maxWallClockMs")));
}

#[test]
fn the_run_and_its_nodes_say_which_model_answered_and_the_writer_of_the_answer_is_last() {
    let mut hand = begun(true, Budgets::default());
    let by = |purpose: &str, model: &str| {
        let usage = UsageRecorded { purpose: purpose.into(), model: model.into(), ..used(1) };
        RoleUpdate::Usage { usage, prompt: None }
    };
    for (kind, purpose, model) in [
        (CallKind::Plan, "plan (repair 1)", "planner"),
        (CallKind::Aggregate, "aggregate, tokens estimated", "writer"),
        (CallKind::Verify, "verify", "reader"),
    ] {
        let call = hand.until(kind).expect("a call");
        hand.feed(Input::Update(call.key, by(purpose, model)));
        let output = match kind {
            CallKind::Plan => CallOutput::Plan(plan_of(1)),
            CallKind::Aggregate => CallOutput::Aggregate(aggregator_output("all")),
            _ => CallOutput::Verify(verdict(None)),
        };
        hand.feed(Input::Output(call.key, output));
    }
    assert_eq!(hand.ends().0, RunStatus::Completed);
    assert_eq!(hand.run.graph().models(), ["reader", "planner", "writer"]);
    let written = &hand.run.graph().nodes()[0].written_by;
    let written: Vec<_> = written.iter().map(|w| (w.purpose.as_str(), w.model.as_str())).collect();
    assert_eq!(written, [("plan", "planner"), ("aggregate", "writer"), ("verify", "reader")]);
}

#[test]
fn a_verification_never_makes_a_run_with_an_answer_run_out_of_a_budget() {
    let mut hand = begun(true, Budgets { max_tokens: Some(100_000), ..Budgets::default() });
    let call = hand.until(CallKind::Aggregate).expect("a synthesis");
    hand.feed(Input::Update(call.key, RoleUpdate::Usage { usage: used(85_000), prompt: None }));
    hand.feed(Input::Output(call.key, CallOutput::Aggregate(aggregator_output("all"))));
    // It may use what is left.
    let call = hand.until(CallKind::Verify).expect("a verification");
    assert_eq!(call.input.context().allowance.tokens, Some(15_000));
    hand.feed(Input::Output(call.key, CallOutput::Verify(verdict(None))));
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    assert_eq!((hand.types("tree.budget_exhausted"), hand.types("tree.answer_verified")), (0, 1));
}

#[test]
fn a_verifier_that_cannot_be_reached_holds_the_answer_up_for_a_while_only() {
    let mut hand = begun(true, Budgets::default());
    let mut call = hand.until(CallKind::Verify).expect("a verification");
    for _ in 0..200 {
        hand.feed(Input::Failed(call.key, RoleError::new(RoleErrorKind::Unreachable, "nobody is there")));
        if hand.run.graph().status().is_final() {
            break;
        }
        call = loop {
            hand.feed(Input::Tick);
            if let Some(call) = hand.due().pop() {
                break call;
            }
        };
    }
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    let elapsed = hand.run.graph().nodes()[0].ended_at.unwrap().millis_since(Timestamp::from_millis(1_000));
    assert!(elapsed < 300_000, "{elapsed} ms");
}

#[test]
fn homework_that_has_nothing_to_add_to_a_doubted_answer_returns_it() {
    let spec = RunSpec {
        verify: true,
        strategy: Strategy::Homework,
        budgets: Budgets { max_iterations: 3, ..Budgets::default() },
        ..RunSpec::new("find out")
    };
    let mut hand = Hand::of(spec);
    let done = || homework::planned(PlannerMode::Done, Vec::new(), Some(homework::draft("all is found")));
    let task = || {
        let tasks = vec![homework::task("tides", "Look at the tides")];
        homework::planned(PlannerMode::Plan, tasks, Some(homework::draft("")))
    };
    let (mut plans, mut verified) = (0, 0);
    for _ in 0..20 {
        let Some(call) = hand.due().pop() else { break };
        let output = match call.key.kind {
            CallKind::Plan => {
                plans += 1;
                if plans == 1 { task() } else { done() }
            }
            CallKind::Execute => CallOutput::Execute(executor_output("task")),
            CallKind::Aggregate => CallOutput::Aggregate(aggregator_output("all")),
            CallKind::Verify => {
                verified += 1;
                CallOutput::Verify(verdict(Some("too little")))
            }
            other => panic!("{other:?}"),
        };
        hand.feed(Input::Output(call.key, output));
    }
    assert_eq!(hand.ends(), (RunStatus::Completed, Some(Outcome::Success)));
    // The planner is asked once more, and the answer is neither written nor read again.
    assert_eq!((plans, verified, hand.types("tree.node_aggregated")), (3, 1, 1));
}

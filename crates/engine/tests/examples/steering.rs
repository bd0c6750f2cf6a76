//! Commands of people, step by step: the clock of a pause, and what is due after it.

use tree_agent_contract::command::Action;

use super::*;

impl Hand {
    fn gives(&mut self, action: Action) {
        let command = Command { request_id: format!("r{}", self.log.len()), ..Command::new(action) };
        let decision = self.run.command(&command, self.now).expect("it makes sense");
        self.log.extend(decision.events);
    }

    /// The driver has died, and its successor takes over after this time.
    fn taken_over_after(&mut self, ms: u64) {
        self.now = self.now.plus_millis(ms);
        self.run = Run::replay(self.log[0].run_id, &self.log).expect("the log replays");
        self.feed(Input::Claimed);
    }
}

fn pause(now: bool) -> Action {
    Action::Pause { node_id: None, now }
}

const RESUME: Action = Action::Resume { node_id: None };

#[test]
fn a_call_that_was_lost_while_its_run_is_paused_does_not_let_the_clock_run() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 30_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let calls = hand.due();
    hand.gives(pause(false));
    // Both calls go on. One ends, and the driver of the other one dies.
    hand.later(1_000);
    hand.executes(&calls[0]);
    hand.taken_over_after(3_600_000);
    let stopped =
        hand.log.iter().filter(|e| matches!(&e.body, EventBody::CallStopped(e) if e.reason == "lost"));
    assert_eq!(stopped.count(), 1);
    assert!(hand.run.rests() && hand.due().is_empty());
    hand.gives(RESUME);
    hand.later(1);
    assert_eq!(hand.run.exhausted_budget(), None);
    let again = hand.only();
    assert_eq!((again.key.node_id, again.key.attempt), (calls[1].key.node_id, 1), "it costs no attempt");
    assert_ne!(again.key, calls[1].key, "an answer to the lost call is not taken for this one");
}

#[test]
fn a_budget_below_what_is_used_trips_at_once_although_the_run_is_paused() {
    let mut hand = Hand::new(Budgets { max_tokens: Some(1_000), max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let call = hand.only();
    hand.uses(&call, 200);
    hand.executes(&call);
    hand.gives(pause(true));
    let change = BudgetChange { max_tokens: Some(100), ..BudgetChange::default() };
    hand.gives(Action::SetBudget { node_id: None, change });
    assert_eq!(hand.run.exhausted_budget(), Some("maxTokens"));
    assert_eq!(hand.run.graph().status(), RunStatus::Paused);
    assert!(hand.due().is_empty());
    // What was finished is put together once somebody resumes the run. Nothing is left for a call.
    hand.gives(RESUME);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
}

#[test]
fn a_provider_is_waited_for_as_long_with_a_pause_as_without() {
    let mut hand = Hand::new(flat());
    let unreachable = || RoleError::new(RoleErrorKind::ProviderUnreachable, "no answer");
    let call = hand.only();
    hand.feed(Input::Failed(call.key, unreachable()));
    hand.gives(pause(true));
    hand.now = hand.now.plus_millis(3_600_000);
    hand.gives(RESUME);
    let call = hand.only();
    hand.feed(Input::Failed(call.key, unreachable()));
    assert!(!hand.run.is_final(), "it was waited for a moment only");
    hand.later(60_000);
    let call = hand.only();
    hand.feed(Input::Failed(call.key, unreachable()));
    assert_eq!(hand.ending().status, RunStatus::Failed);
}

#[test]
fn a_step_that_was_added_to_an_open_band_is_cancelled_with_its_run() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 30_000, max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, false);
    let call = hand.only();
    let root = hand.run.graph().nodes()[0].clone();
    let steps = (0..3).map(|n| StepDraft {
        step_index: n,
        reason: "needed".into(),
        ..StepDraft::new(StepId::new(format!("s{n}")), format!("step {n}"))
    });
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: false, steps: steps.collect() };
    let plan = PlanDraft { summary: "one more".into(), bands: vec![band] };
    hand.gives(Action::EditPlan { node_id: root.id, plan });
    hand.executes(&call);
    hand.later(31_000);
    assert_eq!(hand.run.exhausted_budget(), Some("maxWallClockMs"));
    let aggregate = hand.only();
    assert_eq!(aggregate.key.kind, CallKind::Aggregate);
    hand.aggregates(&aggregate);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
}

/// What a plan says of the work and the model of a step is told to its calls, and an edit that keeps a step keeps it.
#[test]
fn a_step_tells_its_worker_what_to_return_and_which_model_it_needs() {
    let mut hand = Hand::new(Budgets { max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    assert_eq!((context(&plan).deliverable, context(&plan).profile), (None, None));
    assert_eq!(context(&plan).started_at, Some(hand.now));
    let step = |n: u32, profile| StepDraft {
        step_index: n,
        deliverable: Some(ResultKind::Json),
        profile,
        ..StepDraft::new(StepId::new(format!("s{n}")), format!("step {n}"))
    };
    let draft = |second| PlanDraft {
        summary: "data".into(),
        bands: vec![BandDraft {
            index: 0,
            goal: "all".into(),
            parallelizable: true,
            steps: vec![step(0, None), step(1, second)],
        }],
    };
    hand.answers_plan(&plan, PlannerMode::Plan, Some(draft(Some(Profile::Fast))));
    let first = hand.only();
    assert_eq!((context(&first).deliverable, context(&first).profile), (Some(ResultKind::Json), None));
    let nodes = hand.run.graph().nodes().len();
    let root = hand.run.graph().nodes()[0].id;
    hand.gives(Action::EditPlan { node_id: root, plan: draft(Some(Profile::Fast)) });
    assert_eq!(hand.run.graph().nodes().len(), nodes, "nothing has changed, so the step keeps its node");
    hand.gives(Action::EditPlan { node_id: root, plan: draft(Some(Profile::Powerful)) });
    let now = hand.now;
    hand.later(1_000);
    hand.executes(&first);
    let second = hand.only();
    assert_eq!(context(&second).profile, Some(Profile::Powerful));
    let left = |call: &RoleCall| context(call).time_left_ms.unwrap();
    assert_eq!((left(&first) - left(&second), now.plus_millis(1_000)), (1_000, hand.now));
}

#[test]
fn a_request_id_in_the_log_stands_for_its_command_and_for_no_other() {
    let mut hand = Hand::new(flat());
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let _in_flight = hand.due();
    let step = hand.run.graph().nodes()[1].id;
    let named = |action| Command { request_id: "p".into(), ..Command::new(action) };
    let decision = hand.run.command(&named(pause(false)), hand.now).expect("it makes sense");
    hand.log.extend(decision.events);
    hand.taken_over_after(1_000);
    assert!(hand.run.command(&named(pause(false)), hand.now).expect("it was applied").is_empty());
    let others =
        [RESUME, Action::Pause { node_id: Some(step), now: false }, Action::Cancel { reason: String::new() }];
    for other in others {
        let refusal = hand.run.command(&named(other), hand.now).expect_err("it is another command");
        assert_eq!((refusal.kind, &*refusal.field), (RefusalKind::Reused, "request_id"));
    }
    assert!(hand.run.rests() && !hand.run.is_final());
}

/// A plan with these bands of steps, called `s` and their number. Steps of a band whose reason is `again` are changed.
fn bands(bands: &[&[u32]], reason: &str) -> PlanDraft {
    let step = |(place, n): (usize, &u32)| StepDraft {
        step_index: place as u32,
        reason: reason.into(),
        ..StepDraft::new(StepId::new(format!("s{n}")), format!("step {n}"))
    };
    let band = |(index, steps): (usize, &&[u32])| BandDraft {
        index: index as u32,
        goal: "all".into(),
        parallelizable: true,
        steps: steps.iter().enumerate().map(step).collect(),
    };
    PlanDraft { summary: "a plan".into(), bands: bands.iter().enumerate().map(band).collect() }
}

#[test]
fn edits_count_each_node_once_whatever_earlier_plans_did() {
    let mut hand = Hand::new(Budgets { max_nodes: 6, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let calls = hand.due();
    hand.feed(Input::Failed(calls[0].key, RoleError::new(RoleErrorKind::Rejected, "no")));
    hand.executes(&calls[1]);
    let aggregate = hand.only();
    hand.replans(&aggregate);
    let plan = hand.only();
    // The first step failed and gets another node. The second one is done and needs none.
    hand.answers_plan(&plan, PlannerMode::Plan, Some(bands(&[&[2], &[0, 1]], "needed")));
    let running = hand.only();
    let node_id = hand.run.graph().nodes()[0].id;
    let edit = |plan| Command::new(Action::EditPlan { node_id, plan });
    for n in 0..8 {
        let mut changed = bands(&[&[2], &[0, 1]], "needed");
        changed.bands[1].steps.iter_mut().for_each(|step| step.reason = format!("changed {n}"));
        let decision = hand.run.command(&edit(changed), hand.now).expect("it has as many nodes as before");
        hand.log.extend(decision.events);
    }
    let refusal = hand.run.command(&edit(bands(&[&[2], &[0, 1, 3, 4]], "needed")), hand.now).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Limit);
    assert!(refusal.message.contains("has 7 nodes"), "{refusal}");
    hand.gives(Action::EditPlan { node_id, plan: bands(&[&[2], &[0, 1, 3]], "needed") });
    hand.executes(&running);
    let due = hand.due();
    assert_eq!(due.len(), 2);
    due.iter().for_each(|call| hand.executes(call));
    assert_eq!(hand.run.graph().nodes().len(), 6);
}

fn set(change: BudgetChange) -> Action {
    Action::SetBudget { node_id: None, change }
}

#[test]
fn more_places_are_taken_at_once() {
    let mut hand = Hand::new(Budgets { max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let first = hand.only();
    hand.gives(set(BudgetChange { max_parallel_steps: Some(3), ..BudgetChange::default() }));
    assert_eq!(hand.due().len(), 2);
    assert!(hand.run.is_in_flight(&first.key));
}

/// The answer to a command whose author has seen everything up to the event `seen`.
fn seen(hand: &Hand, seen: usize, action: Action) -> Result<(), RefusalKind> {
    let command = Command { expected_seq: Some(seen as u64), ..Command::new(action) };
    hand.run.preview(&command, hand.now).map(drop).map_err(|refusal| refusal.kind)
}

#[test]
fn what_siblings_do_does_not_refuse_a_retry() {
    let mut hand = Hand::new(flat());
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let calls = hand.due();
    hand.executes(&calls[0]);
    let looked = hand.log.len();
    hand.executes(&calls[1]);
    let retry = Action::Retry {
        node_id: calls[0].key.node_id,
        guidance: String::new(),
        model: String::new(),
        budget: None,
    };
    assert_eq!(seen(&hand, looked, retry.clone()), Ok(()));
    assert_eq!(seen(&hand, looked - 2, retry.clone()), Err(RefusalKind::Changed), "it had not ended then");
    // The root would put the results together and not wait any more, so the retry stops that.
    hand.executes(&calls[2]);
    assert_eq!(seen(&hand, looked, retry), Err(RefusalKind::Changed));
}

#[test]
fn calls_that_nobody_has_seen_are_not_stopped() {
    let mut hand = Hand::new(Budgets { max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let looked = hand.log.len();
    let first = hand.only();
    let root = hand.run.graph().nodes()[0].id;
    let guide = |restart| Action::Guide { node_id: root, text: "look".into(), subtree: true, restart };
    for (now, restart) in [(true, guide(true)), (false, guide(false))] {
        assert_eq!(seen(&hand, looked, restart), Ok(()));
        assert_eq!(seen(&hand, looked, pause(now)), Ok(()));
    }
    hand.executes(&first);
    let second = hand.only();
    // The step that was at work has ended, and the next one has begun. The root itself shows that.
    assert_ne!(first.key, second.key);
    let latest = hand.log.len();
    hand.feed(Input::Failed(second.key, RoleError::new(RoleErrorKind::Internal, "a hiccup")));
    hand.now = hand.run.next_wakeup().expect("it is tried again");
    let _again = hand.only();
    assert_eq!(seen(&hand, latest, guide(true)), Err(RefusalKind::Changed));
    assert_eq!(seen(&hand, latest, pause(true)), Err(RefusalKind::Changed));
    assert_eq!((seen(&hand, latest, guide(false)), seen(&hand, latest, pause(false))), (Ok(()), Ok(())));
}

#[test]
fn a_plan_of_which_nothing_was_kept_can_be_edited_again_while_its_node_is_paused() {
    let mut hand = Hand::new(Budgets { max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.gives(pause(false));
    hand.plans(&plan, 2, true);
    let node_id = hand.run.graph().nodes()[0].id;
    for steps in [[5, 6], [7, 8]] {
        hand.gives(Action::EditPlan { node_id, plan: bands(&[&steps], "better") });
    }
    hand.gives(RESUME);
    let call = hand.only();
    assert_eq!(hand.run.graph().node(call.key.node_id).unwrap().title, "step 7");
}

#[test]
fn a_run_that_has_had_all_its_commands_can_still_be_resumed() {
    let mut hand = Hand::new(flat());
    let _plan = hand.only();
    let node_id = hand.run.graph().nodes()[0].id;
    let guide = || Action::Guide { node_id, text: "look".into(), subtree: false, restart: false };
    for _ in 0..limits::COMMANDS - 1 {
        hand.run.command(&Command::new(guide()), hand.now).expect("one of many");
    }
    hand.run.command(&Command::new(pause(true)), hand.now).expect("the last one");
    let refused = hand.run.command(&Command::new(guide()), hand.now).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Limit);
    hand.run.command(&Command::new(RESUME), hand.now).expect("what is paused can go on");
    assert_eq!(hand.due().len(), 1);
}

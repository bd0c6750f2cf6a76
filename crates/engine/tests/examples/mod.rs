//! Single cases, step by step: how budgets and obstacles appear in a log.

pub(crate) mod adopting;
mod blocked;
mod fork_leases;
mod forks;
mod homework;
mod kept;
mod leases;
mod quota;
mod reviewing;
mod said;
mod search;
mod search_steering;
mod search_steps;
mod steering;
mod verifying;

use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallKind, CallOutput, Input, RoleCall, Run, start};

use crate::world::{aggregator_output, executor_output, notes};

/// A run that is driven by hand.
struct Hand {
    run: Run,
    log: Vec<Event>,
    now: Timestamp,
    /// The documents that were created.
    texts: Vec<String>,
}

/// What a model call has used.
fn used(tokens: u64) -> UsageRecorded {
    UsageRecorded {
        model: "m".into(),
        input_tokens: tokens,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 0,
        duration_ms: 1,
        purpose: "test".into(),
        documents: Vec::new(),
        prompt: None,
    }
}

impl Hand {
    fn new(budgets: Budgets) -> Self {
        Self::of(RunSpec { budgets, ..RunSpec::new("find out") })
    }

    fn of(spec: RunSpec) -> Self {
        let id = RunId(uuid::Uuid::from_u128(7));
        let now = Timestamp::from_millis(1_000);
        let log = start(id, spec, now).events;
        let run = Run::replay(id, &log).expect("a fresh log replays");
        let mut hand = Self { run, log, now, texts: Vec::new() };
        hand.feed(Input::Claimed);
        hand
    }

    fn feed(&mut self, input: Input) {
        let decision = self.run.handle(input, self.now);
        self.texts.extend(decision.documents.into_iter().filter_map(|op| match op {
            DocumentOp::Create(document) => Some(document.body),
            _ => None,
        }));
        self.log.extend(decision.events);
    }

    fn due(&mut self) -> Vec<RoleCall> {
        self.run.take_due(self.now, usize::MAX)
    }

    /// The one call that is due.
    fn only(&mut self) -> RoleCall {
        let due = self.due();
        let [call] = &due[..] else { panic!("{} calls are due", due.len()) };
        call.clone()
    }

    fn later(&mut self, ms: u64) {
        self.now = self.now.plus_millis(ms);
        self.feed(Input::Tick);
    }

    fn uses(&mut self, call: &RoleCall, tokens: u64) {
        self.feed(Input::Update(call.key, RoleUpdate::Usage { usage: used(tokens), prompt: None }));
    }

    /// Four pieces of text at once, of which the last has to wait.
    fn floods(&mut self, call: &RoleCall) {
        for n in 0..4 {
            let delta = ScratchpadDelta { append_markdown: format!("piece {n}\n") };
            self.feed(Input::Update(call.key, RoleUpdate::Scratchpad(delta)));
        }
    }

    fn plans(&mut self, call: &RoleCall, steps: u32, parallelizable: bool) {
        let steps = (0..steps).map(|step_index| StepDraft {
            reason: "needed".into(),
            step_index,
            ..StepDraft::new(StepId::new(format!("s{step_index}")), format!("step {step_index}"))
        });
        let band = BandDraft { index: 0, goal: "all".into(), parallelizable, steps: steps.collect() };
        let plan = PlanDraft { summary: "a plan".into(), bands: vec![band] };
        self.answers_plan(call, PlannerMode::Plan, Some(plan));
    }

    fn answers_plan(&mut self, call: &RoleCall, mode: PlannerMode, plan: Option<PlanDraft>) {
        let output = PlannerOutput {
            premises: None,
            homework: None,
            mode,
            mode_reason: "because".into(),
            leaf_decision: None,
            plan,
            scratchpad: notes(),
        };
        self.feed(Input::Output(call.key, CallOutput::Plan(output)));
    }

    fn executes(&mut self, call: &RoleCall) {
        self.feed(Input::Output(call.key, CallOutput::Execute(executor_output("x"))));
    }

    fn aggregates(&mut self, call: &RoleCall) {
        self.feed(Input::Output(call.key, CallOutput::Aggregate(aggregator_output("all"))));
    }

    /// The aggregator asks for another plan.
    fn replans(&mut self, call: &RoleCall) {
        let mut output = aggregator_output("all");
        output.result.summary = "the paid synthesis".into();
        output.next = AggregatorNext { should_replan: true, replan_reason: Some("more is needed".into()) };
        self.feed(Input::Output(call.key, CallOutput::Aggregate(output)));
    }

    fn exhausted(&self) -> Vec<&BudgetExhausted> {
        let budgets = self.log.iter().filter_map(|e| match &e.body {
            EventBody::BudgetExhausted(budget) => Some(budget),
            _ => None,
        });
        budgets.collect()
    }

    fn messages(&self) -> Vec<&str> {
        let messages = self.log.iter().filter_map(|e| match &e.body {
            EventBody::NodeStatusChanged(status) => status.message.as_deref(),
            _ => None,
        });
        messages.collect()
    }

    fn ending(&self) -> &RunStatusChanged {
        match &self.log.last().expect("a log").body {
            EventBody::RunStatusChanged(ending) => ending,
            other => panic!("the run goes on: {}", other.event_type()),
        }
    }
}

fn context(call: &RoleCall) -> &CallContext {
    call.input.context()
}

/// One level below the root, so that steps are executed without a planner.
fn flat() -> Budgets {
    Budgets { max_depth: 1, ..Budgets::default() }
}

#[test]
fn a_trivial_objective_ends_as_one_executed_node() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    let execute = hand.only();
    hand.executes(&execute);
    assert_eq!(hand.run.graph().nodes().len(), 1);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, false));
}

#[test]
fn a_spent_budget_leaves_enough_to_aggregate_what_exists() {
    let mut hand = Hand::new(Budgets { max_tokens: Some(10_000), max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    assert_eq!(context(&plan).allowance, Allowance { tokens: Some(10_000), ..Allowance::default() });
    assert_eq!(context(&plan).finish, None);
    hand.uses(&plan, 1_000);
    hand.plans(&plan, 4, false);
    for (used_before, told) in [(1_000, None), (4_700, None), (8_400, Some(1_600))] {
        let execute = hand.only();
        assert_eq!(hand.run.graph().usage().tokens(), used_before);
        let finish = context(&execute).finish.clone();
        let expected = told.map(|left| BudgetLeft { budget: "maxTokens".into(), limit: 10_000, left });
        assert_eq!(finish, expected, "from 80 % on roles are told to finish");
        // An aggregator has not been seen: an eighth of the limit is kept for it.
        assert_eq!(context(&execute).allowance.tokens, Some(10_000 - used_before - 1_250));
        if used_before == 8_400 {
            hand.uses(&execute, 350);
            hand.executes(&execute);
            break;
        }
        hand.uses(&execute, 3_700);
        hand.executes(&execute);
    }
    // 8,750 are used and 1,250 kept: the fourth step does not start, and the aggregator gets what was kept.
    let [budget] = hand.exhausted()[..] else { panic!("said once") };
    let expected =
        BudgetExhausted { budget: "maxTokens".into(), limit: 10_000, used: 8_750, reserved: 1_250 };
    assert_eq!(budget, &expected);
    let aggregate = hand.only();
    assert_eq!(aggregate.key.kind, CallKind::Aggregate);
    assert_eq!(context(&aggregate).allowance.tokens, Some(1_250));
    let CallInput::Aggregate(input) = &aggregate.input else { unreachable!() };
    assert_eq!(input.exhausted_budget.as_deref(), Some("maxTokens"));
    assert_eq!(input.children.iter().filter(|c| c.status == NodeStatus::Completed).count(), 3);
    hand.uses(&aggregate, 1_250);
    hand.aggregates(&aggregate);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    assert!(hand.ending().reason.as_deref().unwrap_or_default().contains("maxTokens"), "{:?}", hand.ending());
    assert_eq!(hand.run.graph().usage().tokens(), 10_000);
}

#[test]
fn without_anything_left_results_are_returned_as_they_are() {
    let mut hand = Hand::new(Budgets { max_tokens: Some(10_000), ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let due = hand.due();
    assert_eq!(due.len(), 2);
    hand.uses(&due[0], 100);
    hand.executes(&due[0]);
    // Far more than it may: that is what one call in flight can do.
    hand.uses(&due[1], 20_000);
    hand.executes(&due[1]);
    assert_eq!(hand.due(), [], "no role is called any more");
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    let root = &hand.run.graph().nodes()[0];
    let result = root.result.as_ref().expect("a result");
    assert!(
        result.summary.contains("maxTokens is used up") && result.summary.contains("step 1"),
        "{result:?}"
    );
    let list = hand.texts.last().expect("a document");
    for child in &hand.run.graph().nodes()[1..] {
        let finished = child.result.as_ref().expect("it is finished");
        assert!(list.contains(&child.title) && list.contains(&finished.summary), "{list}");
        assert!(list.contains(&finished.document_ids[0].to_string()), "{list}");
    }
    assert_eq!(result.document_ids.len(), 1, "the list");
    assert!(hand.log.iter().any(|e| matches!(e.body, EventBody::NodeAggregated(_))));
}

#[test]
fn calls_side_by_side_share_what_is_left_and_the_rest_waits() {
    let mut hand = Hand::new(Budgets { max_tool_calls: Some(20), ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 4, true);
    let due = hand.due();
    let allowed: u64 = due.iter().map(|c| context(c).allowance.tool_calls.unwrap()).sum();
    assert!(due.len() == 4 && allowed <= 20, "{} calls may make {allowed} tool calls", due.len());
    let tool = |i: u64| ToolCallRequested {
        writes: false,
        call_id: format!("t{i}"),
        tool_name: "look".into(),
        args: None,
        purpose: None,
        phase: None,
        started_at: None,
        cached: false,
    };
    let most = context(&due[0]).allowance.tool_calls.unwrap();
    for i in 0..most {
        hand.feed(Input::Update(due[0].key, RoleUpdate::ToolCallRequested(tool(i))));
        assert!(hand.run.is_in_flight(&due[0].key));
    }
    // One more breaks the contract: the call fails, and the tool call is not in the log.
    hand.feed(Input::Update(due[0].key, RoleUpdate::ToolCallRequested(tool(most))));
    assert!(!hand.run.is_in_flight(&due[0].key));
    assert_eq!(hand.run.graph().usage().tool_calls, most);
    assert!(hand.messages().iter().any(|m| m.contains("keep to its allowance")), "{:?}", hand.messages());
}

#[test]
fn tool_calls_of_a_lost_driver_are_closed_before_the_next_attempt() {
    let mut hand = Hand::new(Budgets::default());
    let tool = |id: &str| ToolCallRequested {
        call_id: id.into(),
        tool_name: "look".into(),
        args: None,
        purpose: None,
        phase: Some("plan".into()),
        started_at: None,
        writes: false,
        cached: false,
    };
    let plan = hand.only();
    hand.feed(Input::Update(plan.key, RoleUpdate::ToolCallRequested(tool("t0"))));
    // The driver dies. Its successor replays the log and makes the same call again.
    hand.run = Run::replay(hand.run.graph().run_id(), &hand.log).expect("its log replays");
    hand.feed(Input::Claimed);
    let last = |hand: &Hand| match &hand.log.last().expect("a log").body {
        EventBody::ToolCallResult(result) => (result.call_id.clone(), result.ok, result.error.clone()),
        other => panic!("{} stands where a result belongs", other.event_type()),
    };
    assert_eq!(last(&hand), ("plan.0.1.t0".into(), false, Some("abandoned".into())));
    let shown = hand.run.graph().nodes()[0].last_tool.as_ref().expect("a tool call");
    assert_eq!(shown.ok, Some(false), "it is not shown as running");
    let events = hand.log.len();
    hand.feed(Input::Claimed);
    assert_eq!(hand.log.len(), events, "closed once");
    // The same id of the role is another one in the log. An attempt that fails closes what it left open, too.
    let again = hand.only();
    assert_eq!(again.key, plan.key);
    hand.feed(Input::Update(again.key, RoleUpdate::ToolCallRequested(tool("t0"))));
    hand.feed(Input::Failed(again.key, RoleError::new(RoleErrorKind::Internal, "broke off")));
    let retry = hand.log.pop().expect("a log");
    assert!(matches!(&retry.body, EventBody::NodeStatusChanged(s) if s.attempt == Some(2)));
    assert_eq!(last(&hand), ("plan.0.1+1.t0".into(), false, Some("abandoned".into())));
}

#[test]
fn an_open_circuit_is_said_and_the_run_goes_on_when_it_closes() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    let why = "the circuit of provider openai is open after 5 failures; next try in 10 s";
    hand.feed(Input::Failed(plan.key, RoleError::new(RoleErrorKind::Unreachable, why)));
    let root = &hand.run.graph().nodes()[0];
    assert_eq!(
        (root.status, root.message.as_deref()),
        (NodeStatus::Blocked, Some(&*format!("blocked:{why}")))
    );
    // It is retried for as long as the run lasts, without counting as an attempt and without further events.
    let events = hand.log.len();
    for _ in 0..20 {
        hand.now = hand.run.next_wakeup().expect("a time to try again");
        hand.feed(Input::Tick);
        let again = hand.only();
        assert_eq!((again.key.attempt, again.key.kind), (1, CallKind::Plan));
        hand.feed(Input::Failed(again.key, RoleError::new(RoleErrorKind::Unreachable, why)));
    }
    assert_eq!(hand.log.len(), events, "said once");
    hand.later(10_000);
    let plan = hand.only();
    hand.feed(Input::Update(
        plan.key,
        RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: "x".into() }),
    ));
    assert_eq!(hand.run.graph().nodes()[0].status, NodeStatus::Planning, "it is at work again");
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    let execute = hand.only();
    hand.executes(&execute);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, false));
}

#[test]
fn after_the_wall_clock_aggregators_get_a_bounded_time() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 100_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let due = hand.due();
    hand.executes(&due[0]);
    hand.later(100_000);
    let [budget] = hand.exhausted()[..] else { panic!("said once") };
    assert_eq!((budget.budget.as_str(), budget.used), ("maxWallClockMs", 100_000));
    assert!(!hand.run.is_in_flight(&due[1].key), "leaf work is stopped");
    let aggregate = hand.only();
    assert_eq!(aggregate.timeout_ms, 20_000, "a fifth of the limit");
    hand.later(20_000);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    assert!(hand.run.graph().nodes()[0].result.is_some(), "what was finished is returned");
}

#[test]
fn what_has_finished_before_the_wall_clock_trips_is_used() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 100_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 1, true);
    let execute = hand.only();
    hand.later(99_500);
    hand.floods(&execute);
    hand.executes(&execute);
    assert!(hand.run.is_in_flight(&execute.key), "its end waits behind its text");
    hand.later(500);
    assert_eq!(hand.exhausted().len(), 1);
    hand.later(500);
    let aggregate = hand.only();
    let CallInput::Aggregate(input) = &aggregate.input else { panic!("{:?}", aggregate.key) };
    assert_eq!(input.children[0].status, NodeStatus::Completed, "the paid answer is used");
    hand.aggregates(&aggregate);
    assert_eq!(hand.ending().status, RunStatus::Completed);
}

#[test]
fn usage_that_waits_behind_text_is_counted_when_its_call_is_settled() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 100_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 1, true);
    let execute = hand.only();
    hand.executes(&execute);
    let aggregate = hand.only();
    hand.later(119_500);
    hand.floods(&aggregate);
    hand.uses(&aggregate, 1_000);
    assert_eq!(hand.run.graph().usage().tokens(), 0, "it waits");
    hand.later(500);
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    assert_eq!(hand.run.graph().usage().tokens(), 1_000, "what was paid is in the log");
}

#[test]
fn an_aggregator_that_has_finished_is_not_settled_without_its_answer() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 100_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 1, true);
    let execute = hand.only();
    hand.executes(&execute);
    let aggregate = hand.only();
    hand.later(119_500);
    hand.floods(&aggregate);
    hand.aggregates(&aggregate);
    hand.later(500);
    let result = hand.run.graph().nodes()[0].result.as_ref().expect("a result");
    assert_eq!(result.summary, "found it", "the paid answer, not the results as they are");
}

#[test]
fn winding_down_many_pending_steps_on_many_levels_takes_little_stack() {
    let work = || {
        let mut hand = Hand::new(Budgets {
            max_depth: 24,
            max_steps_per_band: 256,
            max_children_per_node: 16_384,
            max_nodes: 100_000,
            max_wall_clock_ms: 100_000,
            ..Budgets::default()
        });
        for _ in 0..24 {
            let plan = hand.only();
            hand.plans(&plan, 256, false);
        }
        hand.later(100_000);
        assert_eq!(hand.ending().status, RunStatus::Failed, "nothing was finished");
        let nodes = hand.run.graph().nodes();
        assert_eq!(nodes.len(), 1 + 24 * 256);
        assert!(nodes.iter().all(|n| n.status == NodeStatus::Cancelled));
    };
    // A quarter of what a thread has by default.
    let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(work);
    thread.expect("a thread").join().expect("it does not overflow its stack");
}

/// A run whose root has a synthesis and plans again.
fn planning_again() -> (Hand, RoleCall) {
    let mut hand = Hand::new(Budgets { max_attempts: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    for execute in hand.due() {
        hand.executes(&execute);
    }
    let aggregate = hand.only();
    hand.replans(&aggregate);
    let again = hand.only();
    assert_eq!((again.key.kind, again.key.round), (CallKind::Plan, 2));
    (hand, again)
}

fn returns_the_synthesis(hand: &mut Hand) {
    assert_eq!(hand.due(), [], "nothing is paid for again");
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, true));
    let result = hand.run.graph().nodes()[0].result.as_ref().expect("a result");
    assert_eq!((result.summary.as_str(), result.document_ids.len()), ("the paid synthesis", 1));
}

#[test]
fn a_synthesis_is_in_the_log_before_another_plan_and_its_planner_sees_it() {
    let (hand, again) = planning_again();
    let CallInput::Plan(input) = &again.input else { panic!("{:?}", again.key) };
    let shown = input.earlier_result.as_ref().expect("the planner sees it");
    assert_eq!(shown.summary, "the paid synthesis");
    let types: Vec<_> = hand.log.iter().map(|e| e.body.event_type()).collect();
    let place = |name| types.iter().rposition(|t| *t == name);
    assert!(place("tree.node_result") < place("tree.replan_requested"), "{types:?}");
}

#[test]
fn a_synthesis_is_returned_if_another_plan_leads_nowhere() {
    // The planner fails for good.
    let (mut hand, again) = planning_again();
    hand.feed(Input::Failed(again.key, RoleError::new(RoleErrorKind::Rejected, "no")));
    returns_the_synthesis(&mut hand);
    // No step of the new plan completes.
    let (mut hand, again) = planning_again();
    let step = StepDraft { reason: "needed".into(), ..StepDraft::new(StepId::new("new"), "a new step") };
    let band = BandDraft { index: 0, goal: "more".into(), parallelizable: true, steps: vec![step] };
    let plan = PlanDraft { summary: "another".into(), bands: vec![band] };
    hand.answers_plan(&again, PlannerMode::Plan, Some(plan));
    let execute = hand.only();
    hand.feed(Input::Failed(execute.key, RoleError::new(RoleErrorKind::Rejected, "no")));
    returns_the_synthesis(&mut hand);
    // The time is up.
    let (mut hand, _) = planning_again();
    hand.later(1_800_000);
    returns_the_synthesis(&mut hand);
}

#[test]
fn a_full_plan_can_be_replanned_with_default_budgets() {
    let mut hand = Hand::new(Budgets { max_depth: 1, ..Budgets::default() });
    for round in 0..2 {
        let plan = hand.only();
        let step = |band: u32, step_index: u32| StepDraft {
            reason: "needed".into(),
            step_index,
            ..StepDraft::new(
                StepId::new(format!("r{round}b{band}s{step_index}")),
                format!("step {band}.{step_index} of {round}"),
            )
        };
        let band = |index: u32| BandDraft {
            index,
            goal: "all".into(),
            parallelizable: true,
            steps: (0..4).map(|s| step(index, s)).collect(),
        };
        let plan_draft = PlanDraft { summary: "full".into(), bands: (0..3).map(band).collect() };
        hand.answers_plan(&plan, PlannerMode::Plan, Some(plan_draft));
        for _ in 0..12 {
            let execute = hand.run.take_due(hand.now, 1).remove(0);
            hand.executes(&execute);
        }
        let aggregate = hand.only();
        match round {
            0 => hand.replans(&aggregate),
            _ => hand.aggregates(&aggregate),
        }
    }
    assert_eq!((hand.ending().status, hand.ending().partial), (RunStatus::Completed, false));
    assert_eq!(hand.run.graph().nodes().len(), 25);
}

#[test]
fn reasons_stay_on_a_node_after_it_has_moved_on() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    hand.feed(Input::Failed(plan.key, RoleError::new(RoleErrorKind::Internal, "a hiccup")));
    hand.later(1_000);
    let plan = hand.only();
    let output = PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: "one short look".into(),
        leaf_decision: Some(LeafDecision {
            can_execute_directly: true,
            complexity: Complexity::Low,
            blockers: vec!["no map".into()],
        }),
        plan: None,
        scratchpad: notes(),
    };
    hand.feed(Input::Output(plan.key, CallOutput::Plan(output)));
    let execute = hand.only();
    hand.executes(&execute);
    let root = &hand.run.graph().nodes()[0];
    assert_eq!((root.status, root.message.as_deref()), (NodeStatus::Completed, None));
    assert_eq!(
        root.decisions,
        ["retry:2/3 after internal: a hiccup", "execute: one short look; complexity: low; blockers: no map"]
    );
}

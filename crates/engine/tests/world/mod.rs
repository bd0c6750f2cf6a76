//! A simulated world around one run: roles that answer late, wrongly or not at all, and drivers that crash.

mod check;
mod documents;
pub(crate) mod forking;
mod homework;
pub(crate) mod leases;
mod meters;
mod searching;
pub(crate) mod steering;
mod tools;
mod verifying;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use documents::Documents;
use meters::Meters;
use proptest::prelude::{Just, any, prop, prop_oneof};
use proptest::strategy::Strategy as Generator;

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallKey, CallKind, CallOutput, Decision, Input, RoleCall, Run, start};

/// Everything that is random about a world.
#[derive(Clone, Debug)]
pub(crate) struct WorldPlan {
    pub(crate) budgets: Budgets,
    /// Consumed one by one, cyclically, for every choice.
    pub(crate) dice: Vec<u8>,
    /// Roughly how many of 256 calls fail.
    pub(crate) failures: u8,
    /// The driver crashes each time that it has handled this many inputs; 0 for never.
    pub(crate) crash_every: u8,
    /// The user cancels after this many inputs; 0 for never.
    pub(crate) cancel_after: u16,
    pub(crate) fanout: u8,
    /// No instance of this role can ever be reached.
    pub(crate) gone: Option<CallKind>,
    /// Roles keep to their allowance. Otherwise they use any amount.
    pub(crate) obedient: bool,
    pub(crate) strategy: Strategy,
    /// The answer is verified.
    pub(crate) verify: bool,
    pub(crate) review: Option<ReviewRule>,
    /// Prompts are kept.
    pub(crate) keep_prompts: bool,
    /// For the strategy `search`, and for steps that are searches.
    pub(crate) search: SearchConfig,
    /// Some steps of plans are searches.
    pub(crate) search_steps: bool,
    /// Roughly after how many of 256 inputs a person gives a command.
    pub(crate) commands: u8,
    /// Roughly how many of 256 steps have a budget of their own.
    pub(crate) leases: u8,
}

impl WorldPlan {
    /// No failures, full fan-out down to `depth`.
    pub(crate) fn quiet(depth: u32, fanout: u8) -> Self {
        Self {
            budgets: Budgets { max_depth: depth, ..Budgets::default() },
            dice: vec![255],
            failures: 0,
            crash_every: 0,
            cancel_after: 0,
            fanout,
            gone: None,
            obedient: true,
            strategy: Strategy::Tree,
            verify: false,
            review: None,
            keep_prompts: false,
            search: SearchConfig { synthesis: false, ..SearchConfig::default() },
            search_steps: false,
            commands: 0,
            leases: 0,
        }
    }
}

pub(crate) fn plans() -> impl Generator<Value = WorldPlan> {
    let budgets = (
        0u32..4,
        1u32..4,
        1u32..5,
        1u32..9,
        0u32..3,
        1u32..4,
        1u32..40,
        1u32..4,
        (prop::option::of(1u64..40), prop::option::of(1u64..60_000), prop::option::of(1u64..3_000)),
        any::<bool>(),
    )
        .prop_map(
            |(depth, bands, steps, children, replans, parallel, nodes, attempts, metered, hurried)| Budgets {
                max_depth: depth,
                max_bands_per_plan: bands,
                max_steps_per_band: steps,
                max_children_per_node: children,
                max_replans_per_node: replans,
                max_parallel_steps: parallel,
                max_nodes: nodes,
                max_attempts: attempts,
                max_tool_calls: metered.0,
                max_tokens: metered.1,
                max_cost_micros: metered.2,
                max_wall_clock_ms: if hurried { 3_000 } else { 1_800_000 },
                ..Budgets::default()
            },
        );
    (
        budgets,
        prop::collection::vec(any::<u8>(), 1..200),
        0u8..120,
        0u8..20,
        prop_oneof![3 => Just(0u16), 1 => 1u16..120],
        1u8..6,
        prop_oneof![
            9 => Just(None),
            1 => prop::sample::select(CallKind::ALL).prop_map(Some)
        ],
        any::<bool>(),
        any::<bool>(),
        prop_oneof![3 => Just(None), 1 => prop::option::of(1_000u64..20_000).prop_map(|goes_on_after_ms| {
            Some(ReviewRule { goes_on_after_ms, per_call: None })
        })],
    )
        .prop_map(
            |(budgets, dice, failures, crash_every, cancel_after, fanout, gone, obedient, verify, review)| {
                WorldPlan {
                    budgets,
                    dice,
                    failures,
                    crash_every,
                    cancel_after,
                    fanout,
                    gone,
                    obedient,
                    strategy: Strategy::Tree,
                    verify,
                    review,
                    keep_prompts: fanout % 2 == 0,
                    search: SearchConfig { synthesis: false, ..SearchConfig::default() },
                    search_steps: false,
                    commands: 0,
                    leases: 0,
                }
            },
        )
}

/// Worlds of guided searches.
pub(crate) fn searches() -> impl Generator<Value = WorldPlan> {
    (plans(), configs()).prop_map(|(plan, search)| WorldPlan { strategy: Strategy::Search, search, ..plan })
}

/// Worlds of homework.
pub(crate) fn homework_worlds() -> impl Generator<Value = WorldPlan> {
    (plans(), 1u32..6).prop_map(|(mut plan, iterations)| {
        plan.budgets.max_iterations = iterations;
        plan.budgets.max_depth = plan.budgets.max_depth.max(1);
        WorldPlan { strategy: Strategy::Homework, ..plan }
    })
}

/// Worlds of trees in which some steps are searches.
pub(crate) fn trees_with_searches() -> impl Generator<Value = WorldPlan> {
    (plans(), configs()).prop_map(|(plan, search)| WorldPlan { search_steps: true, search, ..plan })
}

fn configs() -> impl Generator<Value = SearchConfig> {
    (1u32..6, 1u32..5, prop::sample::select(PickerPolicy::ALL), any::<bool>()).prop_map(
        |(concurrency, max_depth, picker, synthesis)| SearchConfig {
            concurrency,
            max_depth,
            picker,
            synthesis,
            ..SearchConfig::default()
        },
    )
}

pub(crate) struct World {
    pub(crate) run_id: RunId,
    pub(crate) log: Vec<Event>,
    plan: WorldPlan,
    run: Run,
    now: Timestamp,
    dice_at: usize,
    /// Calls in flight, by key, with the time at which they answer.
    calls: BTreeMap<CallKey, (Timestamp, RoleCall)>,
    /// Calls whose output was accepted. None of them may ever be made again.
    accepted: BTreeSet<(NodeId, CallKind, u32)>,
    /// Calls that were made, by key.
    made: BTreeSet<(NodeId, CallKind, u32)>,
    replans_asked: BTreeMap<NodeId, u32>,
    /// Calls that have answered or failed but are still in flight, because their end waits in the engine.
    ending: BTreeMap<CallKey, Ending>,
    /// What ended calls wrote, by node.
    said: Vec<(NodeId, String)>,
    documents: Documents,
    /// What was written, with the length of the log after it.
    written: Vec<(usize, Vec<DocumentOp>)>,
    cancelled: bool,
    /// Commands that were given.
    commands: u32,
    /// A command has stopped or repeated something.
    steered: bool,
    meters: Meters,
}

/// A call that its role has ended.
struct Ending {
    /// It had an output.
    accepted: bool,
    /// What it wrote before.
    wrote: String,
}

impl World {
    pub(crate) fn run(plan: &WorldPlan) -> Self {
        let run_id = RunId(uuid::Uuid::from_u128(42));
        let mut spec = RunSpec::new("find out");
        spec.budgets = plan.budgets.clone();
        spec.strategy = plan.strategy;
        spec.verify = plan.verify;
        spec.review = plan.review;
        spec.keep_prompts = plan.keep_prompts;
        spec.search = Some(Box::new(plan.search.clone()));
        let now = Timestamp::from_millis(1_000_000);
        let start = start(run_id, spec, now);
        let log = start.events;
        let run = Run::replay(run_id, &log).expect("a fresh log replays");
        let mut world = Self {
            run_id,
            log,
            plan: plan.clone(),
            run,
            now,
            dice_at: 0,
            calls: BTreeMap::new(),
            accepted: BTreeSet::new(),
            made: BTreeSet::new(),
            replans_asked: BTreeMap::new(),
            ending: BTreeMap::new(),
            said: Vec::new(),
            documents: Documents::default(),
            written: vec![(0, start.documents.clone())],
            cancelled: false,
            commands: 0,
            steered: false,
            meters: Meters::new(plan),
        };
        world.documents.write(start.documents);
        world.feed(Input::Claimed);
        world.drive_to_its_end();
        world
    }

    fn drive_to_its_end(&mut self) {
        let mut inputs = 0u32;
        while !self.run.is_final() {
            inputs += 1;
            assert!(inputs < 20_000, "the run does not end: {:?}", self.run.graph().snapshot());
            self.step(inputs);
        }
    }

    fn step(&mut self, inputs: u32) {
        if self.plan.cancel_after != 0 && inputs == u32::from(self.plan.cancel_after) {
            self.cancelled = true;
            return self.feed(Input::Cancel { reason: "enough".into() });
        }
        if self.plan.crash_every != 0 && inputs.is_multiple_of(u32::from(self.plan.crash_every) + 1) {
            self.crash();
            if self.run.is_final() {
                return;
            }
        }
        self.steer();
        if self.run.is_final() {
            return;
        }
        self.meters.retain(&self.run);
        for call in self.run.take_due(self.now, usize::MAX) {
            let name = (call.key.node_id, call.key.kind, call.key.round);
            self.assert_may_begin(&call.key);
            let is_new = !self.accepted.contains(&name);
            assert!(is_new, "finished work is done again: {:?}\n{}", call.key, self.story());
            self.made.insert(name);
            self.meters.begin(&self.run, &call, self.now);
            let delay = u64::from(self.roll()) * 4;
            assert!(
                self.calls.insert(call.key, (self.now.plus_millis(delay), call)).is_none(),
                "a call is made twice"
            );
        }
        self.calls.retain(|key, _| self.run.is_in_flight(key));
        let next = self.calls.iter().map(|(key, (at, _))| (*at, *key)).min();
        match (next, self.run.next_wakeup()) {
            (Some((at, key)), wakeup) if wakeup.is_none_or(|w| at <= w) => {
                self.now = self.now.max(at);
                let (_, call) = self.calls.remove(&key).expect("it was just there");
                self.answer(call);
            }
            (_, Some(wakeup)) => {
                self.assert_goes_on();
                self.now = self.now.max(wakeup);
                self.feed(Input::Tick);
            }
            (_, None) if self.resume() => {}
            (_, None) => panic!("a live run waits for nothing: {:?}", self.run.graph().snapshot()),
        }
    }

    /// A run in which nothing is paused has something in flight, or a call that is due now or later. Otherwise it
    /// would only wait for the end of its time.
    fn assert_goes_on(&self) {
        let is_idle = self.calls.is_empty() && self.ending.is_empty();
        let is_paused = self.run.graph().nodes().iter().any(|node| node.paused);
        let has_calls = self.run.due(Timestamp(i64::MAX)) > 0;
        assert!(!is_idle || is_paused || has_calls, "a live run waits for nothing:\n{}", self.story());
    }

    /// The driver dies: its calls are lost, and a successor replays the log.
    fn crash(&mut self) {
        self.calls.clear();
        // Waiting updates are lost with their call.
        self.ending.clear();
        self.meters.crash();
        // A successor takes over when the lease has expired.
        self.now = self.now.plus_millis(5_000);
        self.run = Run::replay(self.run_id, &self.log).expect("the log replays after a crash");
        self.feed(Input::Claimed);
    }

    fn feed(&mut self, input: Input) {
        let decision = self.run.handle(input, self.now);
        self.write_down(decision);
    }

    fn write_down(&mut self, decision: Decision) {
        forking::note(&mut self.written, self.log.len() + decision.events.len(), &decision);
        let plans =
            |event: &Event| matches!(event.body, EventBody::PlanCreated(_) | EventBody::NodeCreated(_));
        let has_planned = decision.events.iter().any(plans);
        decision.events.iter().for_each(|event| self.meters.follow(event));
        self.log.extend(decision.events);
        self.documents.write(decision.documents);
        if has_planned {
            self.check_nodes();
        }
        let run = &self.run;
        for (key, ended) in self.ending.extract_if(.., |key, _| !run.is_in_flight(key)) {
            if ended.accepted {
                self.accepted.insert((key.node_id, key.kind, key.round));
            }
            self.said.push((key.node_id, ended.wrote));
        }
    }

    /// The role writes, sometimes far too often.
    fn write(&mut self, key: CallKey) -> String {
        let mut wrote = String::new();
        for n in 0..self.roll() % 9 {
            // Delimited on both sides, so that no piece is the end of another one.
            let piece = format!("[{}:{n}] ", self.log.len());
            wrote.push_str(&piece);
            self.feed(Input::Update(key, RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: piece })));
            self.now = self.now.plus_millis(u64::from(self.roll()));
        }
        wrote
    }

    /// The role uses something before it answers or fails.
    fn use_up(&mut self, call: &RoleCall) {
        let allowance = self.meters.allowance(&call.key);
        for round in 0..self.roll() % 3 {
            let tokens = 1 + u64::from(self.roll()) * 40;
            let cost = u64::from(self.roll()) * 2;
            let left = |limit: Option<u64>, used: u64| limit.map_or(u64::MAX, |l| l.saturating_sub(used));
            let spent = self.meters.spent(&call.key);
            let (most, dear) = (left(allowance.tokens, spent[0]), left(allowance.cost_micros, spent[1]));
            let (tokens, cost) = match self.plan.obedient {
                true => (tokens.min(most), cost.min(dear)),
                false => (tokens, cost),
            };
            self.meters.used(&self.run, &call.key, [tokens, cost, 0]);
            self.feed(Input::Update(call.key, tools::used(tokens, cost, round)));
            let has_left = left(allowance.tool_calls, self.meters.spent(&call.key)[2]) > 0;
            let roll = if self.run.is_in_flight(&call.key) { self.roll() } else { u8::MAX };
            // Some answers are known, which costs nothing.
            let cached = roll.is_multiple_of(8);
            let may = has_left || cached;
            if roll < 64 && (may || !self.plan.obedient) {
                let tool = event::ToolCallRequested {
                    writes: false,
                    call_id: format!("t{round}"),
                    tool_name: "list_documents".into(),
                    args: None,
                    purpose: None,
                    phase: None,
                    started_at: None,
                    cached,
                };
                self.meters.used(&self.run, &call.key, [0, 0, u64::from(may && !cached)]);
                self.feed(Input::Update(call.key, RoleUpdate::ToolCallRequested(tool)));
                assert!(
                    may || !self.run.is_in_flight(&call.key),
                    "a role that takes more tools than it may failed"
                );
                self.keep(&call.key, round);
            }
            if !self.run.is_in_flight(&call.key) {
                return;
            }
        }
    }

    fn roll(&mut self) -> u8 {
        self.dice_at += 1;
        self.plan.dice[self.dice_at % self.plan.dice.len()]
            .wrapping_add((self.dice_at / self.plan.dice.len()) as u8)
    }

    fn answer(&mut self, call: RoleCall) {
        let key = call.key;
        if self.plan.gone == Some(key.kind) {
            return self
                .feed(Input::Failed(key, RoleError::new(RoleErrorKind::Unreachable, "nobody is there")));
        }
        self.use_up(&call);
        if !self.run.is_in_flight(&key) {
            return;
        }
        let wrote = self.write(key);
        if !self.run.is_in_flight(&key) {
            return;
        }
        self.ending.insert(key, Ending { accepted: false, wrote });
        if self.plan.failures > 0 && self.roll() < self.plan.failures {
            let roll = self.roll();
            let kind = RoleErrorKind::ALL[usize::from(roll) % RoleErrorKind::ALL.len()];
            // The provider of some says when its quota ends.
            let retry_after_ms = roll.is_multiple_of(5).then(|| u64::from(roll) * 2_000);
            let error = RoleError { retry_after_ms, ..RoleError::new(kind, "bad luck") };
            return self.feed(Input::Failed(key, error));
        }
        if self.plan.failures > 0 && self.roll() < self.plan.failures / 4 {
            // Breaks the contract: an empty scratchpad.
            let garbage = PlannerOutput {
                premises: None,
                homework: None,
                mode: PlannerMode::Plan,
                mode_reason: String::new(),
                leaf_decision: None,
                plan: None,
                scratchpad: ScratchpadDraft::default(),
            };
            return self.feed(Input::Output(key, CallOutput::Plan(garbage)));
        }
        let output = match call.input {
            CallInput::Plan(input) => CallOutput::Plan(match &input.homework {
                Some(brief) => self.homework_output(brief),
                None => self.plan_output(&input),
            }),
            CallInput::Execute(input) => CallOutput::Execute(executor_output(&input.call.title)),
            CallInput::Aggregate(input) => CallOutput::Aggregate(self.aggregator_output(&input)),
            CallInput::Research(input) => CallOutput::Research(self.research_output(&input)),
            CallInput::Pick(input) => CallOutput::Pick(self.pick_output(&input)),
            CallInput::Verify(_) => CallOutput::Verify(self.verifier_output()),
        };
        self.ending.get_mut(&key).expect("it was just put there").accepted = true;
        self.feed(Input::Output(key, output.clone()));
        // Duplicated and late answers change nothing.
        let before = self.log.len();
        self.feed(Input::Output(key, output));
        assert_eq!(self.log.len(), before, "a doubled answer was used");
    }

    fn plan_output(&mut self, input: &PlanInput) -> PlannerOutput {
        let leaf = self.plan.failures > 0 && self.roll() < 60;
        let bands = if self.plan.failures == 0 { 1 } else { 1 + usize::from(self.roll()) % 4 };
        let fanout = usize::from(self.plan.fanout);
        let round = if self.roll() < 128 { 0 } else { input.prior_steps.len() };
        let searches: Vec<Option<StepSearch>> = (0..bands * fanout).map(|n| self.step_search(n)).collect();
        let budgets: Vec<Option<SubtreeBudget>> = (0..bands * fanout).map(|_| self.step_budget()).collect();
        PlannerOutput {
            premises: input.review.then(steering::premises),
            homework: None,
            mode: if leaf { PlannerMode::Execute } else { PlannerMode::Plan },
            mode_reason: "because".into(),
            leaf_decision: None,
            plan: (!leaf).then(|| PlanDraft {
                summary: "a plan".into(),
                bands: (0..bands)
                    .map(|b| BandDraft {
                        index: b as u32,
                        goal: format!("band {b}"),
                        parallelizable: b % 2 == 0,
                        steps: (0..fanout)
                            .map(|s| StepDraft {
                                reason: "needed".into(),
                                success_criteria: vec!["done".into()],
                                step_index: s as u32,
                                strategy: searches[b * fanout + s].map(|_| Strategy::Search),
                                search: searches[b * fanout + s],
                                budget: budgets[b * fanout + s],
                                ..StepDraft::new(
                                    StepId::new(format!("r{round}b{b}s{s}")),
                                    format!("step {b}.{s} of round {round}"),
                                )
                            })
                            .collect(),
                    })
                    .collect(),
            }),
            scratchpad: notes(),
        }
    }

    fn aggregator_output(&mut self, input: &AggregateInput) -> AggregatorOutput {
        let asked = self.replans_asked.entry(input.call.node_id).or_default();
        *asked += 1;
        let asked = *asked;
        let should_replan = self.plan.failures > 0 && asked < 5 && self.roll() < 80;
        let next =
            AggregatorNext { should_replan, replan_reason: should_replan.then(|| "more is needed".into()) };
        let mut output = AggregatorOutput { next, ..aggregator_output(&input.call.title) };
        if self.plan.verify {
            let source = DocumentId::workspace(self.run_id);
            let citation = Citation::unchecked("found".into(), "it is there".into(), source);
            output.artifacts[0].citations.push(citation);
        }
        output
    }

    pub(crate) fn live_bytes(&self) -> Vec<u8> {
        self.run.to_bytes()
    }

    pub(crate) fn status(&self) -> RunStatus {
        self.run.graph().status()
    }

    pub(crate) fn partial(&self) -> bool {
        self.run.graph().partial()
    }

    pub(crate) fn nodes(&self) -> usize {
        self.run.graph().nodes().len()
    }
}

pub(crate) fn notes() -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: "- noted".into(), tail_preview: "noted".into() }
}

pub(crate) fn aggregator_output(title: &str) -> AggregatorOutput {
    let ExecutorOutput { artifacts, result, scratchpad, .. } = executor_output(title);
    AggregatorOutput {
        synthesis: Synthesis { summary: "together".into(), key_findings: vec![], gaps: vec![] },
        artifacts,
        result,
        next: AggregatorNext::default(),
        scratchpad,
    }
}

pub(crate) fn executor_output(title: &str) -> ExecutorOutput {
    ExecutorOutput {
        actions: vec![],
        artifacts: vec![ArtifactDraft::document("findings", format!("Findings: {title}"), "found")],
        result: ResultDraft::new(ResultKind::Document, "found it", "findings"),
        scratchpad: notes(),
    }
}

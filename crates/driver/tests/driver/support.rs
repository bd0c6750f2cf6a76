//! Roles that answer at once, count their calls, and can be held up; a store that can lose replies.

mod unreliable;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::session::{SessionFork, SessionMessage, Speaker};
use tree_agent_contract::*;
use tree_agent_driver::{Driver, DriverConfig, DriverHealth, DriverStats, Roles, Updates};
use tree_agent_engine::{CallInput, CallKey, CallKind, CallOutput, Decision, Graph, RoleCall, Run, start};
use tree_agent_fanout::{Fanout, InProcessFanout, Topic};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::*;

pub(crate) use unreliable::Unreliable;

/// A store and a fan-out in memory.
pub(crate) async fn world() -> (Arc<dyn Store>, Arc<dyn Fanout>) {
    let store = EmbeddedStore::open_in_memory().await.expect("a store in memory");
    (Arc::new(store), Arc::new(InProcessFanout::new()))
}

/// A tree of `fanout` to the power of `depth`; every call is counted, and waits while `hold` matches it.
pub(crate) struct TreeRoles {
    pub(crate) fanout: u32,
    pub(crate) calls: Mutex<BTreeMap<(NodeId, CallKind, u32), u32>>,
    /// Calls of this kind wait for the gate to open.
    pub(crate) held: Option<CallKind>,
    pub(crate) gate: watch::Sender<bool>,
    pub(crate) waiting: watch::Sender<u32>,
    /// The conversations that calls were given.
    pub(crate) forks: Mutex<Vec<SessionFork>>,
}

impl TreeRoles {
    pub(crate) fn new(fanout: u32, held: Option<CallKind>) -> Arc<Self> {
        Arc::new(Self {
            fanout,
            calls: Mutex::default(),
            held,
            gate: watch::Sender::new(held.is_none()),
            waiting: watch::Sender::new(0),
            forks: Mutex::default(),
        })
    }

    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Returns once `n` calls have reached the gate.
    pub(crate) async fn wait_for_held(&self, n: u32) {
        self.waiting.subscribe().wait_for(|waiting| *waiting >= n).await.expect("the sender lives");
    }

    pub(crate) fn made(&self) -> BTreeMap<(NodeId, CallKind, u32), u32> {
        self.calls.lock().expect("no panic while locked").clone()
    }
}

#[async_trait]
impl Roles for TreeRoles {
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        let CallKey { node_id, kind, round, .. } = call.key;
        *self.calls.lock().expect("no panic while locked").entry((node_id, kind, round)).or_default() += 1;
        let delta = ScratchpadDelta { append_markdown: format!("{kind:?} begins") };
        let _ = updates.send(RoleUpdate::Scratchpad(delta)).await;
        if self.held == Some(kind) {
            self.waiting.send_modify(|n| *n += 1);
            let _ = self.gate.subscribe().wait_for(|open| *open).await;
        }
        Ok(match call.input {
            CallInput::Plan(input) => CallOutput::Plan(plan(&input.call, self.fanout)),
            CallInput::Execute(input) => CallOutput::Execute(executed(&input.call)),
            CallInput::Aggregate(input) => {
                let ExecutorOutput { artifacts, result, scratchpad, .. } = executed(&input.call);
                let synthesis = Synthesis { summary: "all".into(), key_findings: vec![], gaps: vec![] };
                let next = AggregatorNext::default();
                CallOutput::Aggregate(AggregatorOutput { synthesis, artifacts, result, next, scratchpad })
            }
            CallInput::Research(input) => {
                self.forks.lock().expect("no panic while locked").extend(input.session.clone());
                CallOutput::Research(researched(&input, self.fanout))
            }
            CallInput::Verify(_) => CallOutput::Verify(VerifierOutput {
                verification: Verification { summary: "it holds".into(), ..Verification::default() },
                next: AggregatorNext::default(),
                scratchpad: ScratchpadDraft::of("verified\n".to_owned()),
            }),
            CallInput::Pick(input) => {
                let path = input.leaves.last().map(|leaf| leaf.path.clone()).unwrap_or_default();
                CallOutput::Pick(PickOutput { path, reason: "the last one".into() })
            }
        })
    }
}

fn notes(text: &str) -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: text.into(), tail_preview: text.into() }
}

fn researched(input: &ResearchInput, fanout: u32) -> ResearchOutput {
    let is_root = input.form == ResearchForm::Root;
    // One word each, so that no topic is like another.
    let title = |n| ChildDraft { title: format!("{}{n}", input.call.title), ..ChildDraft::default() };
    let said = |speaker, text: String| SessionMessage { speaker, text };
    ResearchOutput {
        document_markdown: (!is_root).then(|| format!("# {}", input.call.title)),
        summary: "found it".into(),
        children: tidy((0..fanout).map(title)).children,
        dropped: 0,
        messages: match is_root {
            true => vec![],
            false => vec![
                said(Speaker::User, format!("write about {}", input.call.title)),
                said(Speaker::Assistant, format!("# {}", input.call.title)),
            ],
        },
        scratchpad: notes("- researched"),
    }
}

fn plan(call: &CallContext, fanout: u32) -> PlannerOutput {
    let steps = (0..fanout).map(|s| StepDraft {
        reason: "part of it".into(),
        success_criteria: vec!["done".into()],
        step_index: s,
        ..StepDraft::new(StepId::new(format!("s{s}")), format!("{} / {s}", call.title))
    });
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps: steps.collect() };
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Plan,
        mode_reason: "large".into(),
        leaf_decision: None,
        plan: Some(PlanDraft { summary: "split".into(), bands: vec![band] }),
        scratchpad: notes("- planned"),
    }
}

fn executed(call: &CallContext) -> ExecutorOutput {
    ExecutorOutput {
        actions: vec![],
        artifacts: vec![ArtifactDraft::document(
            "findings",
            call.title.clone(),
            format!("Findings of {}", call.title),
        )],
        result: ResultDraft::new(ResultKind::Document, format!("did {}", call.title), "findings"),
        scratchpad: notes("- done"),
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as i64)
}

/// Writes a run as the gateway does.
pub(crate) async fn create_run(store: &dyn Store, depth: u32) -> RunId {
    create_run_of_version(store, depth, None).await
}

/// As [`create_run`], begun with a behaviour version of its own.
pub(crate) async fn create_run_of_version(store: &dyn Store, depth: u32, version: Option<u32>) -> RunId {
    let mut spec = RunSpec::new("find out");
    spec.budgets.max_depth = depth;
    create_run_of(store, spec, version).await
}

/// As [`create_run`], for another specification.
pub(crate) async fn create_run_of(store: &dyn Store, spec: RunSpec, version: Option<u32>) -> RunId {
    let run_id = RunId(uuid::Uuid::now_v7());
    let mut decision = start(run_id, spec.clone(), now());
    if let (EventBody::RunCreated(created), Some(version)) = (&mut decision.events[0].body, version) {
        created.behaviour_version = version;
    }
    let mut graph = Graph::new(run_id);
    decision.events.iter().for_each(|e| graph.apply(e).expect("a fresh log applies"));
    let projection = Projection::of(&decision.events, &graph);
    let Decision { events, documents, sessions } = decision;
    let run = NewRun { run_id, spec, request_id: String::new(), events, projection, documents, sessions };
    assert_eq!(store.create_run(run).await.expect("created"), Created::New(run_id));
    run_id
}

/// Cancels a run as the gateway does.
pub(crate) async fn cancel(store: &dyn Store, fanout: &dyn Fanout, run: RunId) {
    let sent = store
        .send_command(run, Command::new(command::Action::Cancel { reason: "enough".into() }))
        .await
        .expect("accepted");
    assert!(matches!(sent, Sent::Pending(_)), "the run has not ended");
    fanout.publish(vec![(Topic::Wake, Default::default())]).await.expect("in process");
}

/// Sends a command as the gateway does.
pub(crate) async fn send(store: &dyn Store, fanout: &dyn Fanout, run: RunId, command: &Command) -> Sent {
    let sent = store.send_command(run, command.clone()).await.expect("accepted");
    fanout.publish(vec![(Topic::Wake, Default::default())]).await.expect("in process");
    sent
}

/// The reply to a request, once it has one.
pub(crate) async fn replied(store: &dyn Store, run: RunId, request_id: &str) -> Reply {
    let wait = async {
        loop {
            if let Some(reply) = store.reply(run, request_id).await.expect("readable") {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("a reply")
}

/// The whole log, checked: contiguous, and it replays.
pub(crate) async fn log(store: &dyn Store, run: RunId) -> Vec<Event> {
    let log = store.read(run, 0, 100_000).await.expect("readable");
    Run::replay(run, &log).expect("the log replays");
    log
}

/// Polls the store until the run has ended.
pub(crate) async fn ended(store: &dyn Store, run: RunId) -> RunSummary {
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let summary = store.run(run).await.expect("the run exists");
        if summary.status.is_final() {
            return summary;
        }
        assert!(tokio::time::Instant::now() < patience, "the run does not end: {summary:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A driver in its own task.
pub(crate) struct Running {
    stop: CancellationToken,
    pub(crate) health: Arc<DriverHealth>,
    pub(crate) stats: Arc<DriverStats>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(
        name: &str,
        store: &Arc<dyn Store>,
        fanout: &Arc<dyn Fanout>,
        roles: &Arc<TreeRoles>,
    ) -> Self {
        Self::start_with_lease(name, store, fanout, roles, Duration::from_millis(600))
    }

    pub(crate) fn start_with_lease(
        name: &str,
        store: &Arc<dyn Store>,
        fanout: &Arc<dyn Fanout>,
        roles: &Arc<TreeRoles>,
        lease: Duration,
    ) -> Self {
        let mut config = DriverConfig::new(name);
        config.lease = lease;
        config.poll = Duration::from_millis(50);
        let driver = Driver::new(store.clone(), fanout.clone(), roles.clone(), config);
        let stop = CancellationToken::new();
        let (health, stats) = (driver.health(), driver.stats());
        Self { stop: stop.clone(), health, stats, task: tokio::spawn(driver.run(stop)) }
    }

    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("a driver ends cleanly");
    }

    /// Ends it as SIGKILL does: nothing is released.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Outcomes of steps in a log: how often each node completed.
pub(crate) fn completions(log: &[Event]) -> BTreeMap<NodeId, u32> {
    let mut counts = BTreeMap::new();
    for event in log {
        if matches!(event.body, EventBody::NodeCompleted(_)) {
            *counts.entry(event.node_id).or_default() += 1;
        }
    }
    counts
}

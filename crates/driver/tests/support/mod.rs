//! Roles that answer at once, count their calls, and can be held up; a store that can lose replies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_store::*;

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
        artifacts: vec![ArtifactDraft {
            r#type: DraftType::Document,
            label: "findings".into(),
            title: Some(call.title.clone()),
            document_markdown: Some(format!("Findings of {}", call.title)),
            json_payload: None,
            is_primary: true,
        }],
        result: ResultDraft {
            kind: ResultKind::Document,
            summary: format!("did {}", call.title),
            success_assessment: None,
            primary_artifact_label: None,
            parent_hint: ParentHintDraft {
                hint_type: HintType::ReadDocuments,
                artifact_labels: vec!["findings".into()],
            },
        },
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
    let sent = store.send_command(run, Command::Cancel { reason: "enough".into() }).await.expect("accepted");
    assert!(sent.is_some(), "the run has not ended");
    fanout.publish(vec![(Topic::Wake, Default::default())]).await.expect("in process");
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

/// A store whose appends can lose their reply, or be refused for one run.
pub(crate) struct Unreliable {
    pub(crate) inner: Arc<dyn Store>,
    /// This many of the next appends are written, but their reply is lost.
    pub(crate) lose_replies: AtomicU32,
    /// Nothing can be reached.
    pub(crate) down: AtomicBool,
    /// Appends that hold this run are refused as a whole, as by a constraint.
    pub(crate) poison: Mutex<Option<RunId>>,
    /// The most events of one run in an append that ends nodes.
    pub(crate) largest_end: AtomicU32,
    /// Nothing can be reached once a part of the end of a run is written.
    pub(crate) down_after_part: AtomicBool,
    /// The log of this run has lost all but its first event.
    pub(crate) truncated: Mutex<Option<RunId>>,
    /// The poisoned run may be ended.
    pub(crate) heals_for_endings: AtomicBool,
}

impl Unreliable {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            lose_replies: AtomicU32::new(0),
            down: AtomicBool::new(false),
            poison: Mutex::new(None),
            largest_end: AtomicU32::new(0),
            down_after_part: AtomicBool::new(false),
            truncated: Mutex::new(None),
            heals_for_endings: AtomicBool::new(false),
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.down.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable { message: "cut".into(), source: None }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl EventLog for Unreliable {
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        self.check()?;
        let poison = *self.poison.lock().expect("no panic while locked");
        let ends = |a: &RunAppend| {
            let ending = |e: &Event| matches!(&e.body, EventBody::RunStatusChanged(s) if s.status.is_final());
            self.heals_for_endings.load(Ordering::SeqCst) && a.events.iter().any(ending)
        };
        if appends.iter().any(|a| Some(a.run_id) == poison && !ends(a)) {
            return Err(StoreError::Broken { message: "a row cannot be written".into(), source: None });
        }
        let cancels = |e: &Event| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Cancelled);
        let ended = |e: &Event| matches!(&e.body, EventBody::RunStatusChanged(s) if s.status.is_final());
        let ending: Vec<_> = appends.iter().filter(|a| a.events.iter().any(cancels)).collect();
        let largest = ending.iter().map(|a| a.events.len()).max().unwrap_or_default();
        self.largest_end.fetch_max(largest as u32, Ordering::SeqCst);
        let part = ending.iter().any(|a| !a.events.iter().any(ended));
        let outcome = self.inner.append(appends).await?;
        if part && self.down_after_part.load(Ordering::SeqCst) {
            self.down.store(true, Ordering::SeqCst);
        }
        let lost =
            self.lose_replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if lost {
            Err(StoreError::Unavailable { message: "reply lost".into(), source: None })
        } else {
            Ok(outcome)
        }
    }
    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.check()?;
        let truncated = *self.truncated.lock().expect("no panic while locked") == Some(run);
        if truncated && after_seq > 0 {
            return Ok(Vec::new());
        }
        self.inner.read(run, after_seq, if truncated { 1 } else { limit }).await
    }
    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
        self.check()?;
        self.inner.heads(runs).await
    }
}

#[async_trait]
impl Leases for Unreliable {
    async fn begin_term(&self, driver: &str, ttl: Duration) -> Result<Term, StoreError> {
        self.check()?;
        self.inner.begin_term(driver, ttl).await
    }
    async fn claim(
        &self,
        driver: &str,
        term: u64,
        limit: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        self.check()?;
        self.inner.claim(driver, term, limit, called).await
    }
    async fn renew(&self, driver: &str, term: u64, ttl: Duration) -> Result<bool, StoreError> {
        self.check()?;
        self.inner.renew(driver, term, ttl).await
    }
    async fn release(&self, held: &[(RunId, u64)]) -> Result<Vec<RunId>, StoreError> {
        self.check()?;
        self.inner.release(held).await
    }
    async fn fail(
        &self,
        run: RunId,
        epoch: u64,
        reason: &str,
        lease: Duration,
    ) -> Result<Option<Failed>, StoreError> {
        self.check()?;
        self.inner.fail(run, epoch, reason, lease).await
    }
    async fn last_failure(&self, run: RunId) -> Result<String, StoreError> {
        self.check()?;
        self.inner.last_failure(run).await
    }
    async fn quarantine(&self, run: RunId, epoch: u64, wait: Duration) -> Result<(), StoreError> {
        self.check()?;
        self.inner.quarantine(run, epoch, wait).await
    }
}

#[async_trait]
impl Runs for Unreliable {
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError> {
        self.inner.create_run(run).await
    }
    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError> {
        self.inner.run_of_request(user_id, request_id).await
    }
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.inner.run(run).await
    }
    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        self.inner.node_parents(run).await
    }
    async fn send_command(&self, run: RunId, command: Command) -> Result<Option<i64>, StoreError> {
        self.inner.send_command(run, command).await
    }
    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        self.check()?;
        self.inner.commands(driver).await
    }
}

#[async_trait]
impl RunLists for Unreliable {
    async fn list_runs(&self, query: RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.inner.list_runs(query).await
    }
    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError> {
        self.inner.delete_run(run).await
    }
    async fn last_list_change(&self) -> Result<Timestamp, StoreError> {
        self.inner.last_list_change().await
    }
    async fn list_changes(
        &self,
        after: (Timestamp, RunId),
        limit: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        self.inner.list_changes(after, limit).await
    }
    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError> {
        self.inner.live_heads().await
    }
    async fn listed_runs(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        self.inner.listed_runs(runs).await
    }
}

#[async_trait]
impl Sessions for Unreliable {
    async fn session_chain(
        &self,
        run: RunId,
        id: &SessionId,
    ) -> Result<Vec<tree_agent_contract::session::Session>, StoreError> {
        self.inner.session_chain(run, id).await
    }
    async fn run_sessions(
        &self,
        run: RunId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<tree_agent_contract::session::Session>, StoreError> {
        self.inner.run_sessions(run, after, limit).await
    }
}

#[async_trait]
impl Documents for Unreliable {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        self.inner.document(id).await
    }
    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        self.inner.document_at(id, at_seq).await
    }
    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.inner.document_versions(id, after, limit).await
    }
    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError> {
        self.inner.document_tail(id, from, max).await
    }
    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        self.inner.list_documents(query).await
    }
    async fn search_documents(&self, query: SearchQuery) -> Result<SearchResults, StoreError> {
        self.inner.search_documents(query).await
    }
    async fn put_document(&self, document: Document) -> Result<(), StoreError> {
        self.inner.put_document(document).await
    }
    async fn put_tool_document(&self, document: Document) -> Result<bool, StoreError> {
        self.inner.put_tool_document(document).await
    }
    async fn delete_source(&self, id: DocumentId, import: Option<&str>) -> Result<bool, StoreError> {
        self.inner.delete_source(id, import).await
    }
}

#[async_trait]
impl Projects for Unreliable {
    async fn create_project(&self, project: NewProject) -> Result<Project, StoreError> {
        self.inner.create_project(project).await
    }
    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.inner.project(id).await
    }
    async fn list_projects(&self, query: ProjectQuery) -> Result<Page<Project>, StoreError> {
        self.inner.list_projects(query).await
    }
    async fn update_project(&self, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError> {
        self.inner.update_project(id, change).await
    }
    async fn delete_project(&self, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError> {
        self.inner.delete_project(id, force).await
    }
}

#[async_trait]
impl Operations for Unreliable {
    async fn ping(&self) -> Result<(), StoreError> {
        self.check()?;
        self.inner.ping().await
    }
    async fn run_ids(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.inner.run_ids(after, limit).await
    }
    async fn stored(&self, run: RunId) -> Result<Stored, StoreError> {
        self.inner.stored(run).await
    }
    async fn stored_events(
        &self,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner.stored_events(run, after, limit).await
    }
    async fn document_chunks(
        &self,
        run: RunId,
        after: Option<(DocumentId, u64)>,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        self.inner.document_chunks(run, after, limit).await
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head: u64,
        whole: WholeProjection,
    ) -> Result<bool, StoreError> {
        self.inner.replace_projection(run, head, whole).await
    }
}

//! The content of the simulated store and the effect of each call: plain data and plain functions. It shares no code
//! with the real adapters. It passes their contract suite (`tests/simulation`), so what holds here holds there.

use std::collections::BTreeMap;

use tree_agent_contract::document::Document;
use tree_agent_contract::graph::Usage;
use tree_agent_contract::session::Session;
use tree_agent_contract::{
    ArtifactId, Command, DocumentId, Event, EventBody, ForkOf, NodeId, PlanId, RunId, RunSpec, RunStatus,
    RunSummary, SessionId, Timestamp,
};
use tree_agent_store::{
    AppendOutcome, ArtifactRow, Created, NewRun, NodeRow, PlanRow, Projection, RunAppend, RunRow, StoreError,
};

use super::commands::StoredReply;
use super::documents::{History, Place};
use super::forks::ForkDocuments;
use crate::flaw::Flaw;

/// Everything that is stored.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The runs.
    pub runs: BTreeMap<RunId, StoredRun>,
    /// The documents of forks.
    pub(crate) fork_documents: BTreeMap<RunId, ForkDocuments>,
    /// The documents of runs.
    pub documents: BTreeMap<DocumentId, Document>,
    /// Conversations of runs.
    pub sessions: BTreeMap<(RunId, SessionId), Session>,
    /// Bytes that documents have lost at their beginning.
    pub lost: BTreeMap<DocumentId, u64>,
    /// Where the texts of documents begin that were replaced.
    pub starts: BTreeMap<DocumentId, u64>,
    /// What was written of each document.
    pub(crate) histories: BTreeMap<DocumentId, History>,
    /// The places of documents.
    pub(crate) places: BTreeMap<DocumentId, Place>,
    /// Unanswered commands by run, in order.
    pub commands: BTreeMap<(RunId, i64), Command>,
    /// Commands that were sent with a request id, and their replies.
    pub replies: BTreeMap<(RunId, String), StoredReply>,
    /// The drivers.
    pub drivers: BTreeMap<String, StoredDriver>,
    flaw: Option<Flaw>,
    appends: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// The specification of the run.
    pub spec: RunSpec,
    /// The id of the request that created it.
    pub request_id: String,
    /// The root of its tree.
    pub root: NodeId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last event was written.
    pub updated_at: Timestamp,
    /// The epoch of the last claim.
    pub epoch: u64,
    /// The driver that claimed it last; none after it was released.
    pub owner: Option<String>,
    /// Nobody claims it before this moment.
    pub not_before: Timestamp,
    /// The last event that records the outcome of a call.
    pub progress: u64,
    /// `progress` at the last failure or expiry.
    pub failed_at: u64,
    /// How often it could not be driven since its last progress, and why.
    pub failures: (u32, String),
    /// How often the lease of its driver ended since its last progress.
    pub expiries: u32,
    /// The last command that was sent to it.
    pub last_command: i64,
    /// `last_command` at the last claim.
    pub claimed_command: i64,
    /// True when its user deleted it.
    pub deleted: bool,
    /// What it forks.
    pub fork: Option<ForkOf>,
    /// The log: each event with the epoch that it was written in.
    pub log: Vec<(u64, Event)>,
    /// Its row.
    pub row: RunRow,
    /// Its nodes.
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// Its plans.
    pub plans: BTreeMap<PlanId, PlanRow>,
    /// Its artifacts.
    pub artifacts: BTreeMap<ArtifactId, ArtifactRow>,
}

/// The lease of one driver.
#[derive(Clone, Debug)]
pub struct StoredDriver {
    /// Its current term.
    pub term: u64,
    /// Since when the lease has been held without a break.
    pub held_since: Timestamp,
    /// When it was last renewed.
    pub renewed_at: Timestamp,
    /// When it ends.
    pub lease_until: Timestamp,
    /// Permits that its runs do not want.
    pub spare: usize,
}

impl StoredRun {
    /// Its review ends by itself, or its driver has put it aside until its time comes.
    pub(crate) fn is_timed(&self) -> bool {
        self.not_before > Timestamp::default()
            || self.spec.review.is_some_and(|review| review.goes_on_after_ms.is_some())
    }

    /// A run with this root of which nothing else is known.
    pub(crate) fn new(root: NodeId) -> Self {
        Self {
            spec: RunSpec::new(""),
            request_id: String::new(),
            root,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            epoch: 0,
            owner: None,
            not_before: Timestamp::default(),
            progress: 0,
            failed_at: 0,
            failures: (0, String::new()),
            expiries: 0,
            last_command: 0,
            claimed_command: 0,
            deleted: false,
            fork: None,
            log: Vec::new(),
            row: RunRow {
                status: RunStatus::Queued,
                partial: false,
                error: None,
                node_count: 0,
                ended_nodes: 0,
                usage: Usage::default(),
                models: Vec::new(),
                started_at: None,
                ended_at: None,
            },
            nodes: BTreeMap::new(),
            plans: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        }
    }

    /// The seq of the last event.
    pub fn head(&self) -> u64 {
        self.log.len() as u64
    }

    fn project(&mut self, rows: Projection) {
        if let Some(row) = rows.run {
            (self.row, self.not_before) = (row, Timestamp::default());
        }
        for mut node in rows.nodes {
            // The fields that a node was created with stay.
            if let Some(old) = self.nodes.get(&node.id) {
                node = NodeRow {
                    status: node.status,
                    role_state: node.role_state,
                    scratchpad_doc_id: node.scratchpad_doc_id,
                    started_at: node.started_at,
                    ended_at: node.ended_at,
                    updated_at: node.updated_at,
                    ..old.clone()
                };
            }
            self.nodes.insert(node.id, node);
        }
        for mut plan in rows.plans {
            if let Some(old) = self.plans.get(&plan.id) {
                plan.created_at = old.created_at;
            }
            self.plans.insert(plan.id, plan);
        }
        for mut artifact in rows.artifacts {
            if let Some(old) = self.artifacts.get(&artifact.id) {
                artifact.created_at = old.created_at;
            }
            self.artifacts.insert(artifact.id, artifact);
        }
    }
}

impl Model {
    /// An empty store, optionally with a flaw.
    pub fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(crate) fn stored(&self, run: RunId) -> Result<&StoredRun, StoreError> {
        self.runs.get(&run).ok_or_else(|| StoreError::not_found("run", run))
    }

    /// [`EventLog::append`](tree_agent_store::EventLog::append).
    pub fn append(&mut self, appends: Vec<RunAppend>) -> Result<Vec<AppendOutcome>, StoreError> {
        for (i, append) in appends.iter().enumerate() {
            let twice = appends[..i].iter().any(|other| other.run_id == append.run_id);
            let contiguous = append
                .events
                .iter()
                .zip(append.expected_head + 1..)
                .all(|(event, seq)| (event.run_id, event.seq) == (append.run_id, seq));
            if twice || !contiguous || append.events.is_empty() {
                return Err(StoreError::Conflict(format!(
                    "the append to run {} is malformed",
                    append.run_id
                )));
            }
        }
        for append in appends.iter().filter(|append| self.fits(append)) {
            self.check_places(append)?;
        }
        Ok(appends.into_iter().map(|append| self.append_one(append)).collect())
    }

    /// True if the fence lets the append through.
    fn fits(&self, append: &RunAppend) -> bool {
        let run = self.runs.get(&append.run_id);
        run.is_some_and(|run| run.epoch == append.epoch && run.head() == append.expected_head)
    }

    fn append_one(&mut self, append: RunAppend) -> AppendOutcome {
        self.appends += 1;
        let (no_fence, by_epoch) = (self.has(Flaw::NoFence), self.has(Flaw::NoHeadInFence));
        let Some(run) = self.runs.get(&append.run_id) else { return AppendOutcome::Fenced };
        if !(self.fits(&append) || no_fence || by_epoch && run.epoch == append.epoch) {
            if !self.was_written(run, &append) {
                return AppendOutcome::Fenced;
            }
            if self.has(Flaw::DocumentsTwice) {
                let (first, head) = (append.expected_head + 1, run.head());
                self.write_documents(append.documents, first, head);
            }
            return AppendOutcome::Appended;
        }
        if self.has(Flaw::LostWrite) && self.appends.is_multiple_of(7) {
            return AppendOutcome::Appended;
        }
        let lost_rows = self.has(Flaw::LostRows) && self.appends.is_multiple_of(5);
        let Some(run) = self.runs.get_mut(&append.run_id) else { return AppendOutcome::Fenced };
        run.progress = append.events.iter().rfind(|event| outcome(event)).map_or(run.progress, |e| e.seq);
        run.updated_at = append.events.last().map_or(run.updated_at, |event| event.timestamp);
        run.log.extend(append.events.into_iter().map(|event| (append.epoch, event)));
        if !lost_rows {
            run.project(append.projection);
        }
        let (id, ended, head) = (append.run_id, run.row.status.is_final(), run.head());
        self.write_answers(id, append.answers);
        if ended {
            self.end_inbox(id);
        }
        self.write_sessions(id, append.sessions);
        match self.fork_documents.contains_key(&id) {
            true => self.write_fork_documents(id, append.documents, append.expected_head + 1, head),
            false => self.write_documents(append.documents, append.expected_head + 1, head),
        }
        AppendOutcome::Appended
    }

    fn write_sessions(&mut self, run: RunId, sessions: Vec<Session>) {
        self.sessions.extend(sessions.into_iter().map(|session| ((run, session.id.clone()), session)));
    }

    /// The conversation and those that it continues, the oldest first.
    pub fn session_chain(&self, run: RunId, id: &SessionId) -> Vec<Session> {
        let find = |id: &SessionId| self.sessions.get(&(run, id.clone()));
        let up = std::iter::successors(find(id), |session| session.parent_id.as_ref().and_then(find));
        let mut chain: Vec<Session> = up.cloned().collect();
        chain.reverse();
        chain
    }

    /// True if an earlier attempt of this same append was written and no other driver has written since.
    fn was_written(&self, run: &StoredRun, append: &RunAppend) -> bool {
        if self.has(Flaw::DedupeBySeq) {
            return run.head() >= append.expected_head + append.events.len() as u64;
        }
        let stored = run.log.iter().skip(append.expected_head as usize).take(append.events.len());
        let ours = append.events.iter().map(|event| (append.epoch, event));
        run.epoch == append.epoch && stored.map(|(epoch, event)| (*epoch, event)).eq(ours)
    }

    /// [`EventLog::read`](tree_agent_store::EventLog::read).
    pub fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Vec<Event> {
        let Some(run) = self.runs.get(&run) else { return Vec::new() };
        let after = usize::try_from(after_seq).unwrap_or(usize::MAX);
        run.log.iter().skip(after).take(limit).map(|(_, event)| event.clone()).collect()
    }

    /// [`Runs::create_run`](tree_agent_store::Runs::create_run).
    pub fn create_run(&mut self, new: NewRun) -> Result<Created, StoreError> {
        let same_request = |run: &StoredRun| {
            !new.request_id.is_empty()
                && (&run.request_id, &run.spec.user_id) == (&new.request_id, &new.spec.user_id)
        };
        let existing = self
            .runs
            .get_key_value(&new.run_id)
            .or_else(|| self.runs.iter().find(|(_, run)| same_request(run)));
        if let Some((id, run)) = existing {
            return match run.fork.is_none() && run.spec == new.spec {
                true => Ok(Created::Existing(*id)),
                false => Err(StoreError::Conflict(format!(
                    "run {id} of request {:?} has another spec",
                    new.request_id
                ))),
            };
        }
        let Some(first) = new.events.first() else {
            return Err(StoreError::Conflict(format!("run {} has no first event", new.run_id)));
        };
        let root = new.events.iter().find_map(|event| match &event.body {
            EventBody::RunCreated(created) => Some(created.root_node_id),
            _ => None,
        });
        let mut run = StoredRun {
            spec: new.spec,
            request_id: new.request_id,
            created_at: first.timestamp,
            updated_at: first.timestamp,
            ..StoredRun::new(root.unwrap_or_else(|| NodeId::root(new.run_id)))
        };
        run.updated_at = new.events.last().map_or(run.created_at, |event| event.timestamp);
        run.log = new.events.into_iter().map(|event| (0, event)).collect();
        run.project(new.projection);
        let head = run.head();
        self.places_of(new.run_id, 0, head, &new.documents)?;
        self.runs.insert(new.run_id, run);
        self.write_documents(new.documents, 1, head);
        self.write_sessions(new.run_id, new.sessions);
        Ok(Created::New(new.run_id))
    }

    /// [`Runs::run`](tree_agent_store::Runs::run).
    pub fn summary(&self, id: RunId) -> Result<RunSummary, StoreError> {
        let run = self.stored(id)?;
        if run.deleted {
            return Err(StoreError::not_found("run", id));
        }
        Ok(RunSummary {
            run_id: id,
            spec: run.spec.clone(),
            status: run.row.status,
            partial: run.row.partial,
            root_node_id: run.root,
            head_seq: run.head(),
            node_count: run.row.node_count,
            ended_nodes: run.row.ended_nodes,
            usage: run.row.usage,
            models: run.row.models.clone(),
            error: run.row.error.clone(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            started_at: run.row.started_at,
            ended_at: run.row.ended_at,
            fork: run.fork.clone().map(Box::new),
        })
    }

    /// [`RunLists::delete_run`](tree_agent_store::RunLists::delete_run).
    pub fn delete_run(&mut self, id: RunId) -> Result<bool, StoreError> {
        let run = self.runs.get_mut(&id).ok_or_else(|| StoreError::not_found("run", id))?;
        run.deleted |= run.row.status.is_final();
        Ok(run.deleted)
    }
}

/// True if the event records the outcome of a role call.
fn outcome(event: &Event) -> bool {
    use EventBody::{
        AnswerVerified, NodeAggregated, NodeCompleted, NodeFailed, NodeResult, PlanCreated, ReplanRequested,
    };
    let tree = matches!(event.body, PlanCreated(_) | NodeResult(_) | NodeCompleted(_) | NodeFailed(_));
    tree || matches!(event.body, AnswerVerified(_) | NodeAggregated(_) | ReplanRequested(_))
}

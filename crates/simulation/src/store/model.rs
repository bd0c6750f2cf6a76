//! The content of the simulated store and the effect of each call: plain data and plain functions. It shares no code
//! with the real adapters. It passes their contract suite (`tests/simulation`), so what holds here holds there.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{
    ArtifactId, DocumentId, Event, EventBody, NodeId, PlanId, RunId, RunSpec, RunStatus, RunSummary,
    Timestamp,
};
use tree_agent_store::{
    AppendOutcome, ArtifactRow, Claim, Command, Created, Failed, NewRun, NodeRow, PendingCommand, PlanRow,
    Projection, QUARANTINE_MAX, RunAppend, RunRow, StoreError, Term,
};

use crate::flaw::Flaw;

/// Everything that is stored.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The runs.
    pub runs: BTreeMap<RunId, StoredRun>,
    /// The documents of runs.
    pub documents: BTreeMap<DocumentId, Document>,
    /// Bytes that documents have lost at their beginning.
    pub lost: BTreeMap<DocumentId, u64>,
    /// Unanswered commands in order, with their run.
    pub commands: BTreeMap<i64, (RunId, Command)>,
    /// The drivers.
    pub drivers: BTreeMap<String, StoredDriver>,
    last_command: i64,
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
    /// True when its user deleted it.
    pub deleted: bool,
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
}

impl StoredRun {
    /// The seq of the last event.
    pub fn head(&self) -> u64 {
        self.log.len() as u64
    }

    fn project(&mut self, rows: Projection) {
        if let Some(row) = rows.run {
            self.row = row;
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

    fn has(&self, flaw: Flaw) -> bool {
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
        Ok(appends.into_iter().map(|append| self.append_one(append)).collect())
    }

    fn append_one(&mut self, append: RunAppend) -> AppendOutcome {
        self.appends += 1;
        let (no_fence, by_epoch) = (self.has(Flaw::NoFence), self.has(Flaw::NoHeadInFence));
        let Some(run) = self.runs.get(&append.run_id) else { return AppendOutcome::Fenced };
        let fits = run.epoch == append.epoch && run.head() == append.expected_head;
        if !(fits || no_fence || by_epoch && run.epoch == append.epoch) {
            if !self.was_written(run, &append) {
                return AppendOutcome::Fenced;
            }
            if self.has(Flaw::DocumentsTwice) {
                self.write_documents(append.documents);
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
        for id in append.handled_commands {
            if self.commands.get(&id).is_some_and(|(run, _)| *run == append.run_id) {
                self.commands.remove(&id);
            }
        }
        self.write_documents(append.documents);
        AppendOutcome::Appended
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

    fn write_documents(&mut self, ops: Vec<DocumentOp>) {
        for op in ops {
            match op {
                DocumentOp::Create(document) => {
                    self.lost.remove(&document.id);
                    self.documents.insert(document.id, document);
                }
                DocumentOp::Append { id, text, at, .. } => {
                    if let Some(document) = self.documents.get_mut(&id) {
                        // A text that is too long for a document loses its beginning.
                        document.body.push_str(&text[excess(&text)..]);
                        document.updated_at = at;
                        let from = excess(&document.body);
                        document.body.drain(..from);
                        *self.lost.entry(id).or_default() += from as u64;
                    }
                }
            }
        }
    }

    /// [`EventLog::read`](tree_agent_store::EventLog::read).
    pub fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Vec<Event> {
        let Some(run) = self.runs.get(&run) else { return Vec::new() };
        let after = usize::try_from(after_seq).unwrap_or(usize::MAX);
        run.log.iter().skip(after).take(limit).map(|(_, event)| event.clone()).collect()
    }

    /// [`Leases::begin_term`](tree_agent_store::Leases::begin_term) at `now`.
    pub fn begin_term(&mut self, driver: &str, now: Timestamp, ttl: Duration) -> Term {
        let row = self.drivers.entry(driver.to_owned()).or_insert(StoredDriver {
            term: 0,
            held_since: now,
            renewed_at: now,
            lease_until: now,
        });
        row.term += 1;
        row.renew(now, ttl);
        let owned = self
            .runs
            .iter()
            .filter(|(_, run)| !run.row.status.is_final() && run.owner.as_deref() == Some(driver));
        let claim = |(run_id, run): (&RunId, &StoredRun)| Claim {
            run_id: *run_id,
            epoch: run.epoch,
            head_seq: run.head(),
            failures: run.failures.0,
        };
        Term { number: row.term, owned: owned.map(claim).collect() }
    }

    /// [`Leases::claim`](tree_agent_store::Leases::claim) at `now`.
    pub fn claim(&mut self, driver: &str, term: u64, now: Timestamp, limit: usize) -> Vec<Claim> {
        let (same_epoch, eternal) = (self.has(Flaw::SameEpoch), self.has(Flaw::EternalLease));
        let Some(me) = self.drivers.get(driver).filter(|me| me.term == term && me.lease_until >= now) else {
            return Vec::new();
        };
        let since = me.held_since;
        let is_gone = |owner: &str| {
            owner != driver
                && !eternal
                && self.drivers.get(owner).is_none_or(|other| other.is_gone(now, since))
        };
        let mut free: Vec<(bool, Timestamp, RunId)> = self
            .runs
            .iter()
            .filter(|(_, run)| !run.row.status.is_final())
            .filter(|(_, run)| match &run.owner {
                Some(owner) => is_gone(owner),
                None => run.not_before <= now,
            })
            .map(|(id, run)| (run.owner.is_none(), run.created_at, *id))
            .collect();
        free.sort_unstable();
        free.truncate(limit);
        let mut claims: Vec<_> = free
            .into_iter()
            .filter_map(|(_, created_at, run_id)| {
                let run = self.runs.get_mut(&run_id)?;
                if run.progress > run.failed_at {
                    (run.failures.0, run.expiries) = (0, 0);
                }
                if let Some(owner) = &run.owner {
                    (run.expiries, run.failed_at) = (run.expiries + 1, run.progress);
                    let lease = self.drivers.get(owner).map_or(0, |d| d.lease_until.0 - d.renewed_at.0);
                    if let Some(times) = run.expiries.checked_sub(2) {
                        let wait = Duration::from_micros(lease.unsigned_abs()) * (1 << times.min(16));
                        (run.owner, run.not_before) = (None, end(now, wait.min(QUARANTINE_MAX)));
                        return None;
                    }
                }
                run.epoch += u64::from(!same_epoch || run.epoch == 0);
                (run.owner, run.not_before) = (Some(driver.to_owned()), Timestamp::default());
                let (epoch, head_seq, failures) = (run.epoch, run.head(), run.failures.0);
                Some((created_at, Claim { run_id, epoch, head_seq, failures }))
            })
            .collect();
        claims.sort_unstable_by_key(|(created_at, claim)| (*created_at, claim.run_id));
        claims.into_iter().map(|(_, claim)| claim).collect()
    }

    /// [`Leases::renew`](tree_agent_store::Leases::renew) at `now`.
    pub fn renew(&mut self, driver: &str, term: u64, now: Timestamp, ttl: Duration) -> bool {
        let Some(row) = self.drivers.get_mut(driver).filter(|row| row.term == term) else { return false };
        let held = row.lease_until >= now;
        row.renew(now, ttl);
        held
    }

    /// [`Leases::release`](tree_agent_store::Leases::release).
    pub fn release(&mut self, held: &[(RunId, u64)]) {
        for (id, epoch) in held {
            self.disown(*id, *epoch, None);
        }
    }

    /// [`Leases::fail`](tree_agent_store::Leases::fail) at `now`.
    pub fn fail(
        &mut self,
        id: RunId,
        epoch: u64,
        reason: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Option<Failed> {
        let run = self.runs.get_mut(&id).filter(|run| run.epoch == epoch && run.owner.is_some())?;
        if run.progress > run.failed_at {
            (run.failures.0, run.expiries) = (0, 0);
        }
        run.failed_at = run.progress;
        run.failures = (run.failures.0 + 1, reason.to_owned());
        let times = run.failures.0;
        let wait = lease.saturating_mul(1 << times.min(16)).min(QUARANTINE_MAX);
        self.disown(id, epoch, Some(end(now, wait)));
        Some(Failed { times, wait })
    }

    /// [`Leases::quarantine`](tree_agent_store::Leases::quarantine) at `now`.
    pub fn quarantine(&mut self, run: RunId, epoch: u64, now: Timestamp, wait: Duration) {
        self.disown(run, epoch, Some(end(now, wait)));
    }

    fn disown(&mut self, run: RunId, epoch: u64, not_before: Option<Timestamp>) {
        if let Some(run) = self.runs.get_mut(&run)
            && run.epoch == epoch
            && run.owner.is_some()
        {
            run.owner = None;
            run.not_before = not_before.unwrap_or(run.not_before);
        }
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
            return match run.spec == new.spec {
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
            root: root.unwrap_or_else(|| NodeId::root(new.run_id)),
            created_at: first.timestamp,
            updated_at: first.timestamp,
            epoch: 0,
            owner: None,
            not_before: Timestamp::default(),
            progress: 0,
            failed_at: 0,
            failures: (0, String::new()),
            expiries: 0,
            deleted: false,
            log: Vec::new(),
            row: RunRow {
                status: RunStatus::Queued,
                partial: false,
                error: None,
                node_count: 0,
                usage: Usage::default(),
                started_at: None,
                ended_at: None,
            },
            nodes: BTreeMap::new(),
            plans: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        };
        run.updated_at = new.events.last().map_or(run.created_at, |event| event.timestamp);
        run.log = new.events.into_iter().map(|event| (0, event)).collect();
        run.project(new.projection);
        self.runs.insert(new.run_id, run);
        self.write_documents(new.documents);
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
            usage: run.row.usage,
            error: run.row.error.clone(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            started_at: run.row.started_at,
            ended_at: run.row.ended_at,
        })
    }

    /// [`RunLists::delete_run`](tree_agent_store::RunLists::delete_run).
    pub fn delete_run(&mut self, id: RunId) -> Result<bool, StoreError> {
        let run = self.runs.get_mut(&id).ok_or_else(|| StoreError::not_found("run", id))?;
        run.deleted |= run.row.status.is_final();
        Ok(run.deleted)
    }

    /// A document, unless its run was deleted.
    pub(crate) fn document(&self, id: DocumentId) -> Result<&Document, StoreError> {
        let shown = |document: &&Document| {
            !document.run_id.and_then(|run| self.runs.get(&run)).is_some_and(|run| run.deleted)
        };
        self.documents.get(&id).filter(shown).ok_or_else(|| StoreError::not_found("document", id))
    }

    /// [`Runs::send_command`](tree_agent_store::Runs::send_command).
    pub fn send_command(&mut self, run: RunId, command: Command) -> Result<i64, StoreError> {
        self.stored(run)?;
        self.last_command += 1;
        self.commands.insert(self.last_command, (run, command));
        Ok(self.last_command)
    }

    /// [`Runs::commands`](tree_agent_store::Runs::commands).
    pub fn pending(&self, runs: &[RunId]) -> Vec<PendingCommand> {
        let wanted = self.commands.iter().filter(|(_, (run, _))| runs.contains(run));
        wanted
            .map(|(id, (run_id, command))| PendingCommand {
                id: *id,
                run_id: *run_id,
                command: command.clone(),
            })
            .collect()
    }
}

impl StoredDriver {
    fn renew(&mut self, now: Timestamp, ttl: Duration) {
        if self.lease_until < now {
            self.held_since = now;
        }
        (self.renewed_at, self.lease_until) = (now, end(now, ttl));
    }

    /// True if one who has held a lease since `since` may take its runs.
    fn is_gone(&self, now: Timestamp, since: Timestamp) -> bool {
        let third = (self.lease_until.micros() - self.renewed_at.micros()) / 3;
        self.lease_until < now && since < self.lease_until.max(Timestamp(now.micros() - third))
    }
}

/// True if the event records the outcome of a role call.
fn outcome(event: &Event) -> bool {
    use EventBody::{NodeAggregated, NodeCompleted, NodeFailed, NodeResult, PlanCreated, ReplanRequested};
    let tree = matches!(event.body, PlanCreated(_) | NodeResult(_) | NodeCompleted(_) | NodeFailed(_));
    tree || matches!(event.body, NodeAggregated(_) | ReplanRequested(_))
}

fn end(now: Timestamp, ttl: Duration) -> Timestamp {
    Timestamp(now.micros().saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)))
}

/// Bytes to remove from the beginning of `text` so that it fits into a document.
fn excess(text: &str) -> usize {
    text.len() - suffix(text, DOCUMENT_BYTES).len()
}

//! A store that fails on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::*;
use tree_agent_store::*;
use uuid::Uuid;

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
        unowned: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        self.check()?;
        self.inner.claim(driver, term, limit, unowned, called).await
    }
    async fn renew(
        &self,
        driver: &str,
        term: u64,
        ttl: Duration,
        spare: usize,
    ) -> Result<Renewed, StoreError> {
        self.check()?;
        self.inner.renew(driver, term, ttl, spare).await
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
    async fn used_by(&self, user_id: &str, now: Timestamp) -> Result<UsedBy, StoreError> {
        self.inner.used_by(user_id, now).await
    }
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.inner.run(run).await
    }
    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        self.inner.node_parents(run).await
    }
    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError> {
        self.inner.send_command(run, command).await
    }
    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError> {
        self.inner.reply(run, request_id).await
    }
    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError> {
        self.inner.answer(run, epoch, answers).await
    }
    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        self.check()?;
        self.inner.commands(driver).await
    }
}

#[async_trait]
impl Forks for Unreliable {
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError> {
        self.inner.fork_run(fork).await
    }
    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError> {
        self.inner.segments(run).await
    }
    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        self.inner.document_of(run, id, at_seq).await
    }
    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.inner.document_versions_of(run, id, after, limit).await
    }
    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        self.inner.document_tail_of(run, id, from, max).await
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
    async fn documents_changed(
        &self,
        context: &RunContext,
        since: Timestamp,
        limit: usize,
    ) -> Result<ChangedDocuments, StoreError> {
        self.inner.documents_changed(context, since, limit).await
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
impl Passages for Unreliable {
    async fn find_passages(&self, query: PassageQuery) -> Result<FoundPassages, StoreError> {
        self.inner.find_passages(query).await
    }
    async fn passages(&self, ids: &[PassageId]) -> Result<Vec<StoredPassage>, StoreError> {
        self.inner.passages(ids).await
    }
    async fn check_passages(
        &self,
        after: Option<DocumentId>,
        limit: usize,
        mended: bool,
    ) -> Result<CheckedPassages, StoreError> {
        self.inner.check_passages(after, limit, mended).await
    }
}

#[async_trait]
impl Vectors for Unreliable {
    async fn find_unembedded(&self, model: &str) -> Result<(), StoreError> {
        self.inner.find_unembedded(model).await
    }
    async fn take_unembedded(
        &self,
        model: &str,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<Unembedded>, StoreError> {
        self.inner.take_unembedded(model, limit, hold).await
    }
    async fn count_unembedded(&self) -> Result<u64, StoreError> {
        self.inner.count_unembedded().await
    }
    async fn put_vectors(&self, model: &str, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreError> {
        self.inner.put_vectors(model, vectors).await
    }
    async fn vector_marks(&self, model: &str, context: &RunContext) -> Result<VectorMarks, StoreError> {
        self.inner.vector_marks(model, context).await
    }
    async fn vectors(
        &self,
        model: &str,
        project: ProjectId,
        after: Option<PassageId>,
        limit: usize,
    ) -> Result<Vec<(PassageId, Option<Vec<i8>>)>, StoreError> {
        self.inner.vectors(model, project, after, limit).await
    }
    async fn embedded(
        &self,
        model: &str,
        context: &RunContext,
        path_prefix: &str,
    ) -> Result<u64, StoreError> {
        self.inner.embedded(model, context, path_prefix).await
    }
    async fn documents_below(
        &self,
        context: &RunContext,
        path_prefix: &str,
    ) -> Result<Vec<DocumentId>, StoreError> {
        self.inner.documents_below(context, path_prefix).await
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
impl Members for Unreliable {
    async fn memberships(&self, user_id: &str) -> Result<BTreeMap<ProjectId, MemberRole>, StoreError> {
        self.inner.memberships(user_id).await
    }
    async fn members(&self, id: ProjectId, after: &str, limit: usize) -> Result<Page<Member>, StoreError> {
        self.inner.members(id, after, limit).await
    }
    async fn set_member(
        &self,
        id: ProjectId,
        member: Member,
        keep: bool,
    ) -> Result<MemberChange, StoreError> {
        self.inner.set_member(id, member, keep).await
    }
    async fn remove_member(&self, id: ProjectId, user: &str, keep: bool) -> Result<MemberChange, StoreError> {
        self.inner.remove_member(id, user, keep).await
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

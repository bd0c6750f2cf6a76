//! What every handler shares.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Extensions;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tree_agent_contract::error::Checks;
use tree_agent_contract::{DocumentId, DocumentKind, FieldError, NodeId, ProjectId, RunId, Timestamp};
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::Metrics;
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{Project, Store, StoreError};

use crate::documents::{placed_summary, summary_to_wire};
use crate::errors;
use crate::graphs::{Graphs, Shown, Snapshot};
use crate::places::{Place, Places};
use crate::runs::check_types;
use crate::steering::PREVIEWS;
use crate::view::View;
use crate::watch::service::{Messages, Watched};
use crate::watch::{
    Board, DocumentStart, DocumentWatcher, EventFilter, Feed, ListFrom, ListStart, ListWatcher, Stalls,
    Start, Until, WatchConfig, Watcher, Watches, since,
};
use crate::{pages, run_lists};

/// The state behind all three services: what [`serve`](crate::serve) puts on the wire. Callers in the same process
/// watch runs through it without a socket.
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fanout: Arc<dyn Fanout>,
    watches: Arc<Watches>,
    graphs: Graphs,
    board: Arc<Board>,
    /// Streams on the wire whose clients may take nothing any more.
    pub(crate) stalls: Arc<Stalls>,
    config: WatchConfig,
    /// How many more runs may be replayed at the same time.
    pub(crate) replays: Places,
    /// Cancelled when the gateway begins to drain: streams end with a resume hint.
    drain: CancellationToken,
}

impl Gateway {
    /// `drain` ends streams, `done` everything that runs in the background. Must be called within a tokio runtime.
    pub fn new(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        config: WatchConfig,
        drain: CancellationToken,
        done: CancellationToken,
    ) -> Arc<Self> {
        let board = Board::new(store.clone(), fanout.clone(), config.clone(), done.clone());
        let watches = Watches::new(store.clone(), fanout.clone(), config.clone(), done);
        let stalls = Arc::new(Stalls::new(config.stall));
        let graphs = Graphs::new(store.clone());
        let replays = Places::new(PREVIEWS);
        Arc::new(Self { store, fanout, watches, graphs, board, stalls, config, replays, drain })
    }

    /// Adds what it counts.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        self.watches.measure(metrics);
        self.stalls.measure(metrics);
        let store = self.store.clone();
        metrics.levels("tree_agent_store_connections", "Connections to the store", "state", move || {
            store.connections()
        });
    }

    /// `WatchRun`, as framed bytes: each message is a `WatchRunResponse` behind gRPC's prefix of five bytes.
    pub async fn watch(&self, request: pb::WatchRunRequest) -> Result<Messages, Status> {
        Ok(self.watch_run(request, None).await?.messages)
    }

    /// `WatchRun`, until the token expires with which it was asked for.
    pub(crate) async fn watch_run(
        &self,
        request: pb::WatchRunRequest,
        expires_at: Option<Instant>,
    ) -> Result<Watched, Status> {
        let run = id(RunId::parse_field("run_id", &request.run_id))?;
        let summary = self.store.run(run).await.map_err(|e| errors::store(&e))?;
        let (head, is_final) = (summary.head_seq, summary.status.is_final());
        check_types(&request.types)?;
        let (after_seq, ended, snapshot) = if request.snapshot {
            let snapshot = self.graphs.at(run, None, head).await?;
            // It may hold more than the run had when its row was read, its end included.
            let ended = is_final || snapshot.graph.status().is_final();
            (snapshot.graph.seq(), ended, Some(snapshot))
        } else {
            if request.after_seq > head {
                return Err(errors::beyond_head("after_seq", request.after_seq, head));
            }
            (request.after_seq, is_final && request.after_seq == head, None)
        };
        let feed = self.watches.follow(run);
        let filter = self.event_filter(run, &request, &feed, head.max(after_seq)).await?;
        let start = Start { run, after_seq, head, is_final, ended, snapshot, filter };
        let until = Until { drain: self.drain.clone(), expires_at };
        Ok(Watcher::new(start, feed, self.store.clone(), &self.config, until).watched())
    }

    /// Which events pass, of a run whose log was looked at up to `head`.
    async fn event_filter(
        &self,
        run: RunId,
        request: &pb::WatchRunRequest,
        feed: &Feed,
        head: u64,
    ) -> Result<EventFilter, Status> {
        let filter = EventFilter::of_types(&request.types);
        if request.node_id.is_empty() {
            return Ok(filter);
        }
        let node = id(NodeId::parse_field("node_id", &request.node_id))?;
        let tree = feed.tree(&*self.store, head).await.map_err(|e| errors::store(&e))?;
        filter.below(node, tree).ok_or_else(|| errors::no_node(run, node))
    }

    /// `WatchRuns`, until the token expires with which it was asked for.
    pub(crate) async fn watch_runs(
        &self,
        request: pb::WatchRunsRequest,
        expires_at: Option<Instant>,
    ) -> Result<Watched, Status> {
        let (request, resume_token) = run_lists::of_watch(request);
        let tokens = Arc::new(run_lists::pages_of("changes of runs", &request));
        let newest = ListFrom::Newest(pages::size(request.page_size));
        let from = since(&tokens, &resume_token)?.map_or(newest, ListFrom::Since);
        let filter = run_lists::filter(request)?;
        let (reader, place) = self.board.join().await.map_err(|e| errors::store(&e))?;
        let start = ListStart { filter, tokens, reader, place, from };
        let until = Until { drain: self.drain.clone(), expires_at };
        let (board, store, stats) = (self.board.clone(), self.store.clone(), &self.watches.stats);
        Ok(ListWatcher::new(start, board, store, &self.config, until, stats).watched())
    }

    /// What the caller of a request may see.
    pub(crate) async fn view(&self, extensions: &Extensions) -> Result<View, Status> {
        View::of(&*self.store, extensions).await
    }

    /// Something has changed in the list of runs that this gateway knows of.
    pub(crate) fn list_changed(&self) {
        self.board.nudge();
    }

    /// `WatchDocument`, until the token expires with which it was asked for.
    pub(crate) async fn watch_document(
        &self,
        request: pb::WatchDocumentRequest,
        expires_at: Option<Instant>,
    ) -> Result<Watched, Status> {
        let document_id = id(DocumentId::parse_field("document_id", &request.document_id))?;
        let of = match request.run_id.as_str() {
            "" => None,
            text => Some(id(RunId::parse_field("run_id", text))?),
        };
        let placed = match of {
            Some(run) => self.store.document_of(run, document_id, None).await,
            None => self.store.document_at(document_id, None).await,
        };
        let placed = placed.map_err(|e| errors::store(&e))?;
        let summary = summary_to_wire(&placed_summary(&placed));
        let document = placed.document;
        let after_bytes = request.after_bytes;
        let follow = document.run_id.filter(|_| document.kind.grows());
        let unnamed = document.kind != DocumentKind::Scratchpad;
        // The text is read when the client takes it. Many calls at once must not hold all of theirs until then.
        drop(document);
        let followed = match follow {
            None => None,
            Some(run) => {
                // Before the text is read: what is appended after that is heard.
                let feed = self.watches.follow(run);
                let run = self.store.run(run).await.map_err(|e| errors::store(&e))?;
                (!run.status.is_final()).then_some((feed, run.run_id, run.head_seq))
            }
        };
        // Only to see whether it can be watched from there.
        let tail = match of {
            Some(run) => self.store.document_tail_of(run, document_id, after_bytes, 4).await,
            None => self.store.document_tail(document_id, after_bytes, 4).await,
        };
        let tail = tail.map_err(|e| errors::store(&e))?;
        if after_bytes > tail.end {
            return Err(errors::beyond_end("after_bytes", after_bytes, tail.end));
        }
        if tail.bytes.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            return Err(invalid_field("after_bytes", format!("is {after_bytes}, within a character")));
        }
        // At the beginning of a text that took the place of another, the client may not know it yet.
        let replaced = tail.text_start > 0 && after_bytes <= tail.text_start;
        let start = DocumentStart { document_id, of, summary, tail, replaced, unnamed, followed };
        let until = Until { drain: self.drain.clone(), expires_at };
        let (store, stats) = (self.store.clone(), &self.watches.stats);
        Ok(DocumentWatcher::new(start, store, &self.config, until, stats).watched())
    }

    /// A place for graphs that nobody else may be asking for.
    pub(crate) async fn place(&self) -> Result<Place, Status> {
        self.graphs.place().await
    }

    /// The tree after event `at_seq`, or at the head. `OUT_OF_RANGE` beyond it.
    pub(crate) async fn graph_at(&self, run: RunId, at_seq: Option<u64>) -> Result<Shown, Status> {
        let head = self.store.run(run).await.map_err(|e| errors::store(&e))?.head_seq;
        match at_seq {
            Some(at_seq) if at_seq > head => Err(errors::beyond_head("at_seq", at_seq, head)),
            at_seq => self.graphs.shown(run, at_seq, head).await,
        }
    }

    /// The tree after event `at_seq`, which the log has, or at the head, which is `head` or later. Whoever asks for
    /// several holds one [`place`](Self::place) for all of them.
    pub(crate) async fn graph_of(
        &self,
        run: RunId,
        at_seq: Option<u64>,
        head: u64,
    ) -> Result<Arc<Snapshot>, Status> {
        self.graphs.at(run, at_seq, head).await
    }

    /// Returns when the gateway begins to drain.
    pub(crate) async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Tells others that there is something new. A hint: when it fails, they find out by themselves a little later.
    pub(crate) async fn hint(&self, messages: Vec<(Topic, Bytes)>) {
        if let Err(error) = self.fanout.publish(messages).await {
            tracing::debug!("a hint was not published: {error}");
        }
    }

    /// The projects. `NOT_FOUND` with the field unless every one exists.
    pub(crate) async fn require_projects(
        &self,
        view: &View,
        field: &str,
        ids: &[ProjectId],
    ) -> Result<Vec<Project>, Status> {
        let mut projects = Vec::with_capacity(ids.len());
        for (i, project) in ids.iter().enumerate() {
            let found = view.project(&*self.store, *project).await.map_err(|error| match error {
                StoreError::NotFound { .. } => errors::not_found(&format!("{field}[{i}]"), error.to_string()),
                other => errors::store(&other),
            })?;
            projects.push(found);
        }
        Ok(projects)
    }
}

/// A parsed id, or `INVALID_ARGUMENT`.
pub(crate) fn id<T>(parsed: Result<T, FieldError>) -> Result<T, Status> {
    parsed.map_err(|error| invalid(&error.into()))
}

/// A value from the wire; an error gets `field` before its path.
pub(crate) fn from_wire<T: Wire>(field: &str, pb: T::Pb) -> Result<T, FieldError> {
    T::from_wire(pb).map_err(|mut error| {
        error.field = match error.field.as_str() {
            "" => field.to_owned(),
            inner if inner.starts_with('[') => format!("{field}{inner}"),
            inner => format!("{field}.{inner}"),
        };
        error
    })
}

/// A parsed value; an error goes to the others.
pub(crate) fn taken<T>(checks: &mut Checks, parsed: Result<T, FieldError>) -> Option<T> {
    parsed.map_err(|error| checks.push(error)).ok()
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

//! What every handler shares.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tree_agent_contract::{DocumentId, DocumentKind, FieldError, ProjectId, RunId, Timestamp};
use tree_agent_engine::Graph;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::Metrics;
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{Store, StoreError};

use crate::documents::{summary, summary_to_wire};
use crate::errors;
use crate::watch::service::{Messages, Watched};
use crate::watch::{DocumentStart, DocumentWatcher, Stalls, Start, Until, WatchConfig, Watcher, Watches};

/// Events read from the log at a time when it is replayed.
const PAGE: usize = 1_000;

/// The state behind all three services: what [`serve`](crate::serve) puts on the wire. Callers in the same process watch runs
/// through it without a socket.
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fanout: Arc<dyn Fanout>,
    watches: Arc<Watches>,
    /// Streams on the wire whose clients may take nothing any more.
    pub(crate) stalls: Arc<Stalls>,
    config: WatchConfig,
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
        let watches = Watches::new(store.clone(), fanout.clone(), config.clone(), done);
        let stalls = Arc::new(Stalls::new(config.stall));
        Arc::new(Self { store, fanout, watches, stalls, config, drain })
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
        let head = summary.head_seq;
        let start = if request.snapshot {
            let graph = self.graph(run, head).await?;
            let (after_seq, ended) = (graph.seq, summary.status.is_final());
            Start { run, after_seq, head, ended, snapshot: Some(graph) }
        } else {
            if request.after_seq > head {
                return Err(errors::beyond_head("after_seq", request.after_seq, head));
            }
            let ended = summary.status.is_final() && request.after_seq == head;
            Start { run, after_seq: request.after_seq, head, ended, snapshot: None }
        };
        let feed = self.watches.follow(run);
        let until = Until { drain: self.drain.clone(), expires_at };
        Ok(Watcher::new(start, feed, self.store.clone(), &self.config, until).watched())
    }

    /// `WatchDocument`, until the token expires with which it was asked for.
    pub(crate) async fn watch_document(
        &self,
        request: pb::WatchDocumentRequest,
        expires_at: Option<Instant>,
    ) -> Result<Watched, Status> {
        let document_id = id(DocumentId::parse_field("document_id", &request.document_id))?;
        let document = self.store.document(document_id).await.map_err(|e| errors::store(&e))?;
        let summary = summary_to_wire(&summary(&document));
        let after_bytes = request.after_bytes;
        let follow = document.run_id.filter(|_| document.kind == DocumentKind::Scratchpad);
        let followed = match follow {
            None => None,
            Some(run) => {
                // Before the text is read: what is appended after that is heard.
                let feed = self.watches.follow(run);
                let run = self.store.run(run).await.map_err(|e| errors::store(&e))?;
                (!run.status.is_final()).then_some((feed, run.run_id, run.head_seq))
            }
        };
        let tail = self.store.document_tail(document_id, after_bytes).await.map_err(|e| errors::store(&e))?;
        if after_bytes > tail.end {
            return Err(errors::beyond_end("after_bytes", after_bytes, tail.end));
        }
        if tail.bytes.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
            return Err(invalid_field("after_bytes", format!("is {after_bytes}, within a character")));
        }
        let start = DocumentStart { document_id, summary, tail, followed };
        let until = Until { drain: self.drain.clone(), expires_at };
        let (store, stats) = (self.store.clone(), &self.watches.stats);
        Ok(DocumentWatcher::new(start, store, &self.config, until, stats).watched())
    }

    /// The tree after event `at_seq`, replayed from the log.
    pub(crate) async fn graph(&self, run: RunId, at_seq: u64) -> Result<pb::Graph, Status> {
        let mut graph = Graph::new(run);
        let mut seq = 0;
        while seq < at_seq {
            let limit = PAGE.min((at_seq - seq) as usize);
            let events = self.store.read(run, seq, limit).await.map_err(|e| errors::store(&e))?;
            let Some(last) = events.last() else { break };
            seq = last.seq;
            for event in &events {
                graph.apply(event).map_err(|error| errors::replay(&error))?;
            }
        }
        Ok(graph.snapshot().to_wire())
    }

    /// Tells others that there is something new. A hint: when it fails, they find out by themselves a little later.
    pub(crate) async fn hint(&self, messages: Vec<(Topic, Bytes)>) {
        if let Err(error) = self.fanout.publish(messages).await {
            tracing::debug!("a hint was not published: {error}");
        }
    }

    /// `NOT_FOUND` with the field unless every project exists.
    pub(crate) async fn require_projects(&self, field: &str, ids: &[ProjectId]) -> Result<(), Status> {
        for (i, project) in ids.iter().enumerate() {
            self.store.project(*project).await.map_err(|error| match error {
                StoreError::NotFound { .. } => errors::not_found(&format!("{field}[{i}]"), error.to_string()),
                other => errors::store(&other),
            })?;
        }
        Ok(())
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

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A failed precondition of the protocol itself: a strategy that this version has not.
pub(crate) fn unimplemented_field(field: &str, message: String) -> Status {
    tree_agent_runtime::errors::field(Code::Unimplemented, "UNIMPLEMENTED", &FieldError::new(field, message))
}

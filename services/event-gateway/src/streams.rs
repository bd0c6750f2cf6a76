//! `WatchRun`, `WatchRuns` and `WatchDocument`: where each stream begins, and the handlers that put them on the wire.

use std::sync::Arc;

use axum::extract::State;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tree_agent_contract::{DocumentId, DocumentKind, NodeId, RunId};
use tree_agent_proto::rights::Access;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid_field;

use crate::auth::Caller;
use crate::fields::{check_types, id, optional};
use crate::gateway::Gateway;
use crate::shares::Shares;
use crate::standing::Standing;
use crate::summaries::placed_summary;
use crate::view::View;
use crate::watch::frame::Messages;
use crate::watch::service::{Watched, respond};
use crate::watch::{
    DocumentStart, DocumentWatcher, EventFilter, Feed, Followed, ListFrom, ListStart, ListWatcher, Start,
    Watcher, Watching, feed, since,
};
use crate::{errors, pages, run_lists};

/// The paths that are intercepted.
pub(crate) const WATCH_RUN: &str = "/treeagent.v1.RunService/WatchRun";
pub(crate) const WATCH_RUNS: &str = "/treeagent.v1.RunService/WatchRuns";
pub(crate) const WATCH_DOCUMENT: &str = "/treeagent.v1.DocumentService/WatchDocument";

/// True for the path of a call whose answer is a stream that says itself when it is given up.
pub(crate) fn is_watch(path: &str) -> bool {
    [WATCH_RUN, WATCH_RUNS, WATCH_DOCUMENT].contains(&path)
}

/// What bounds the streams of a gateway.
fn of(gateway: &Gateway) -> (&Shares, &Arc<Standing>) {
    (&gateway.users.streams, &gateway.standing)
}

/// Handles one call of `WatchRun`.
pub(crate) async fn watch_run(
    State(gateway): State<Arc<Gateway>>,
    request: Request<axum::body::Body>,
) -> Response<Body> {
    respond(&gateway.stalls, of(&gateway), request, async |request, caller, view| {
        run(&gateway, request, caller, view).await
    })
    .await
}

/// Handles one call of `WatchRuns`.
pub(crate) async fn watch_runs(
    State(gateway): State<Arc<Gateway>>,
    request: Request<axum::body::Body>,
) -> Response<Body> {
    respond(&gateway.stalls, of(&gateway), request, async |request, caller, view| {
        runs(&gateway, request, caller, view).await
    })
    .await
}

/// Handles one call of `WatchDocument`.
pub(crate) async fn watch_document(
    State(gateway): State<Arc<Gateway>>,
    request: Request<axum::body::Body>,
) -> Response<Body> {
    respond(&gateway.stalls, of(&gateway), request, async |request, caller, view| {
        document(&gateway, request, caller, view).await
    })
    .await
}

/// `WatchRun` for a caller in the same process, as framed bytes: each message is a `WatchRunResponse` behind gRPC's
/// prefix of five bytes.
///
/// # Errors
/// As the call.
pub async fn messages_of_run(gateway: &Gateway, request: pb::WatchRunRequest) -> Result<Messages, Status> {
    let caller = Caller { access: Access::Read, ..Caller::anybody() };
    let view = View::of(&*gateway.store, caller.clone()).await?;
    Ok(run(gateway, request, &caller, &view).await?.messages)
}

/// `WatchRun`, until the token expires with which the caller asked for it.
pub(crate) async fn run(
    gateway: &Gateway,
    request: pb::WatchRunRequest,
    caller: &Caller,
    view: &View,
) -> Result<Watched, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let summary = view.run(&*gateway.store, run).await?;
    let (head, is_final) = (summary.head_seq, summary.status.is_final());
    check_types(&request.types)?;
    let (after_seq, ended, snapshot) = if request.snapshot {
        let snapshot = gateway.graphs.at(run, None, head).await?;
        // It may hold more than the run had when its row was read, its end included.
        let ended = is_final || snapshot.graph.status().is_final();
        (snapshot.graph.seq(), ended, Some(snapshot.frame()))
    } else {
        if request.after_seq > head {
            return Err(errors::beyond_head("after_seq", request.after_seq, head));
        }
        (request.after_seq, is_final && request.after_seq == head, None)
    };
    let feed = feed(&gateway.watches, run);
    let filter = event_filter(gateway, run, &request, &feed, head.max(after_seq)).await?;
    let start = Start { run, after_seq, head, is_final, ended, snapshot, filter };
    let until = gateway.until(caller);
    Ok(Watcher::new(start, feed, gateway.store.clone(), &gateway.watching, until).watched())
}

/// Which events pass, of a run whose log was looked at up to `head`.
async fn event_filter(
    gateway: &Gateway,
    run: RunId,
    request: &pb::WatchRunRequest,
    feed: &Feed,
    head: u64,
) -> Result<EventFilter, Status> {
    let filter = EventFilter::of_types(request.types.clone());
    let Some(node) = optional("node_id", &request.node_id, NodeId::parse_field)? else { return Ok(filter) };
    let tree = feed.tree(&*gateway.store, head).await.map_err(errors::store)?;
    filter.below(node, tree).ok_or_else(|| errors::no_node(run, node))
}

/// `WatchRuns`, until the token expires with which the caller asked for it.
pub(crate) async fn runs(
    gateway: &Gateway,
    request: pb::WatchRunsRequest,
    caller: &Caller,
    view: &View,
) -> Result<Watched, Status> {
    let (mut request, resume_token) = run_lists::of_watch(request);
    gateway.by_name(view, "project_id", &mut request.project_id).await?;
    let tokens = Arc::new(run_lists::pages_of("changes of runs", &request));
    let newest = ListFrom::Newest(pages::size(request.page_size));
    let from = since(&tokens, &resume_token)?.map_or(newest, ListFrom::Since);
    let filter = run_lists::filter(view, request)?;
    let (reader, place) = gateway.board.join().await.map_err(errors::store)?;
    let start = ListStart { filter, tokens, reader, place, from };
    let (board, store) = (gateway.board.clone(), gateway.store.clone());
    let (until, stats) = (gateway.until(caller), &gateway.watches.stats);
    Ok(ListWatcher::new(start, board, store, &gateway.watching, until, stats).watched())
}

/// `WatchDocument`, until the token expires with which the caller asked for it.
pub(crate) async fn document(
    gateway: &Gateway,
    request: pb::WatchDocumentRequest,
    caller: &Caller,
    view: &View,
) -> Result<Watched, Status> {
    let store = &gateway.store;
    let document_id = id(DocumentId::parse_field("document_id", &request.document_id))?;
    let of = optional("run_id", &request.run_id, RunId::parse_field)?;
    let placed = view.placed_document(&**store, of, document_id, None).await?;
    let summary = placed_summary(&placed).to_wire();
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
            let feed = feed(&gateway.watches, run);
            let run = store.run(run).await.map_err(errors::store)?;
            let (run, seq, is_live) = (run.run_id, run.head_seq, !run.status.is_final());
            is_live.then_some(Followed { feed, run, seq, ended: false })
        }
    };
    // Only to see whether it can be watched from there.
    let tail = match of {
        Some(run) => store.document_tail_of(run, document_id, after_bytes, 4).await,
        None => store.document_tail(document_id, after_bytes, 4).await,
    };
    let tail = tail.map_err(errors::store)?;
    if after_bytes > tail.end {
        return Err(errors::beyond_end("after_bytes", after_bytes, tail.end));
    }
    if tail.bytes.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
        return Err(invalid_field("after_bytes", format!("is {after_bytes}, within a character")));
    }
    // At the beginning of a text that took the place of another, the client may not know it yet.
    let replaced = tail.text_start > 0 && after_bytes <= tail.text_start;
    let start = DocumentStart {
        document_id,
        of,
        summary: Some(summary),
        end: tail.start,
        written_at: tail.written_at,
        text_start: tail.text_start,
        replaced,
        grown: tail.start < tail.end,
        unnamed,
        followed,
    };
    let (until, stats) = (gateway.until(caller), &gateway.watches.stats);
    Ok(DocumentWatcher::new(start, store.clone(), &gateway.watching, until, stats).watched())
}

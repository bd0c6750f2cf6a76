//! What rows of either database say.

use tree_agent_contract::document::{Document, DocumentKind, DocumentSummary};
use tree_agent_contract::ids::EventId;
use tree_agent_contract::session::Session;
use tree_agent_contract::{
    DocumentId, Event, EventBody, ForkOf, NodeId, ProjectId, RunId, RunStatus, RunSummary, SessionId,
};
use uuid::Uuid;

use super::sql::Record;
use crate::error::StoreError;
use crate::ports::{
    Page, PlacedDocument, Project, StoredChunk, StoredDocument, StoredEdge, StoredEvent, UsageColumn,
};
use crate::types::Json;

/// Makes an error of something that cannot be read.
fn unreadable<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: String,
) -> impl FnOnce(E) -> StoreError {
    move |error| StoreError::broken(format!("{what} cannot be read"), error)
}

/// A page of what was read with one row more than `limit`.
pub(crate) fn page<T>(mut items: Vec<T>, limit: usize) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    Page { items, more }
}

/// The number as a limit of rows.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The ids in the first column.
pub(crate) fn run_ids(rows: &[impl Record]) -> Result<Vec<RunId>, StoreError> {
    rows.iter().map(|row| row.get(0).map(RunId)).collect()
}

/// A run and its head.
pub(crate) fn head(row: &impl Record) -> Result<(RunId, u64), StoreError> {
    Ok((RunId(row.get(0)?), row.number(1)?))
}

/// A node and its parent.
pub(crate) fn node(row: &impl Record) -> Result<(NodeId, Option<NodeId>), StoreError> {
    Ok((NodeId(row.get(0)?), row.get::<Option<Uuid>>(1)?.map(NodeId)))
}

/// The columns of a [summary](super::runs::summary).
pub(crate) fn run_summary(row: &impl Record) -> Result<RunSummary, StoreError> {
    let run_id = RunId(row.get(0)?);
    let fork = match row.get::<Option<Uuid>>(13)? {
        Some(parent) => Some(Box::new(ForkOf {
            parent_run_id: RunId(parent),
            parent_seq: row.number(14)?,
            edits: row.json(15, || format!("the edits of run {run_id}"))?,
        })),
        None => None,
    };
    let UsageColumn { usage, models, ended_nodes } = row.json(10, || format!("the usage of run {run_id}"))?;
    Ok(RunSummary {
        run_id,
        spec: row.json(1, || format!("the spec of run {run_id}"))?,
        status: run_status(run_id, &row.get::<String>(2)?)?,
        partial: row.get(3)?,
        root_node_id: NodeId(row.get(4)?),
        head_seq: row.number(5)?,
        node_count: row.number(6)?,
        error: row.get(7)?,
        created_at: row.time(8)?,
        updated_at: row.time(9)?,
        started_at: row.time_opt(11)?,
        ended_at: row.time_opt(12)?,
        usage,
        models,
        ended_nodes,
        fork,
    })
}

/// A status as it is stored.
pub(crate) fn run_status(run: RunId, text: &str) -> Result<RunStatus, StoreError> {
    text.parse::<RunStatus>().map_err(unreadable(format!("the status of run {run}")))
}

/// The columns `seq, id, node_id, parent_node_id, created_at, event_type, payload`.
pub(crate) fn stored_event(row: &impl Record) -> Result<StoredEvent, StoreError> {
    let seq = row.number(0)?;
    Ok(StoredEvent {
        seq,
        id: EventId(row.get(1)?),
        node_id: NodeId(row.get(2)?),
        parent_node_id: row.get::<Option<Uuid>>(3)?.map(NodeId),
        timestamp: row.time(4)?,
        event_type: row.get(5)?,
        payload: String::from_utf8(row.get::<Json>(6)?.0.into())
            .map_err(unreadable(format!("event {seq}")))?,
    })
}

/// An event as it is stored, read as one of `run`.
pub(crate) fn event(run: RunId, stored: StoredEvent) -> Result<Event, StoreError> {
    let StoredEvent { seq, node_id, parent_node_id, timestamp, event_type, payload, .. } = stored;
    let body = EventBody::from_json(&event_type, payload.as_bytes())
        .map_err(unreadable(format!("event {seq} of run {run}")))?;
    Ok(Event { run_id: run, seq, node_id, parent_node_id, timestamp, body })
}

/// The columns of a [summary](document_summary) of `onto_documents d`.
pub(crate) const SUMMARY: &str =
    "d.id, d.type_key, d.project_id, d.run_id, d.path, d.title, d.bytes, d.props, d.updated_at, d.parent_id";

/// The columns of [`SUMMARY`].
pub(crate) fn document_summary(row: &impl Record) -> Result<DocumentSummary, StoreError> {
    let id = DocumentId(row.get(0)?);
    Ok(DocumentSummary {
        id,
        kind: document_kind(id, &row.get::<String>(1)?)?,
        project_id: row.get::<Option<Uuid>>(2)?.map(ProjectId),
        run_id: row.get::<Option<Uuid>>(3)?.map(RunId),
        path: row.get(4)?,
        title: row.get(5)?,
        bytes: row.number(6)?,
        props: row.json(7, || format!("document {id}"))?,
        updated_at: row.time(8)?,
        parent_id: row.get::<Option<Uuid>>(9)?.map(DocumentId),
    })
}

fn document_kind(id: DocumentId, text: &str) -> Result<DocumentKind, StoreError> {
    text.parse::<DocumentKind>().map_err(unreadable(format!("document {id}")))
}

/// The columns of a summary, then the text and the time of its creation.
pub(crate) fn placed_document(row: &impl Record) -> Result<PlacedDocument, StoreError> {
    let head = document_summary(row)?;
    Ok(PlacedDocument {
        document: Document {
            id: head.id,
            kind: head.kind,
            project_id: head.project_id,
            run_id: head.run_id,
            path: head.path,
            title: head.title,
            body: row.get(10)?,
            props: head.props,
            created_at: row.time(11)?,
            updated_at: head.updated_at,
        },
        parent_id: head.parent_id,
    })
}

/// The columns `id, type_key, run_id, path, title, body, props, created_at, updated_at, dropped_bytes, base_seq,
/// created_seq, parent_id, linked_seq, linked_at`.
pub(crate) fn stored_document(row: &impl Record) -> Result<StoredDocument, StoreError> {
    let id = DocumentId(row.get(0)?);
    let document = Document {
        id,
        kind: document_kind(id, &row.get::<String>(1)?)?,
        project_id: None,
        run_id: Some(RunId(row.get(2)?)),
        path: row.get(3)?,
        title: row.get(4)?,
        body: row.get(5)?,
        props: row.json(6, || format!("document {id}"))?,
        created_at: row.time(7)?,
        updated_at: row.time(8)?,
    };
    Ok(StoredDocument {
        document,
        dropped_bytes: row.number(9)?,
        base_seq: row.number(10)?,
        created_seq: row.number(11)?,
        edge: edge(row, 12)?,
    })
}

/// The place of a document, from the column `first` on.
pub(crate) fn edge(row: &impl Record, first: usize) -> Result<Option<StoredEdge>, StoreError> {
    let Some(parent) = row.get::<Option<Uuid>>(first)? else { return Ok(None) };
    let seq = row.get::<Option<i64>>(first + 1)?.unwrap_or_default() as u64;
    let at = row.time_opt(first + 2)?.unwrap_or_default();
    Ok(Some(StoredEdge { parent_id: DocumentId(parent), seq, at }))
}

/// The columns `document_id, seq, start_byte, body, created_at, replaces`.
pub(crate) fn chunk(row: &impl Record) -> Result<StoredChunk, StoreError> {
    Ok(StoredChunk {
        document_id: DocumentId(row.get(0)?),
        seq: row.number(1)?,
        start_byte: row.number(2)?,
        body: row.get(3)?,
        created_at: row.time(4)?,
        replaces: row.get(5)?,
    })
}

/// The columns `id, node_id, parent_session_id, messages, created_at`.
pub(crate) fn session(row: &impl Record) -> Result<Session, StoreError> {
    let id: String = row.get(0)?;
    Ok(Session {
        node_id: NodeId(row.get(1)?),
        parent_id: row.get::<Option<String>>(2)?.map(SessionId::new),
        messages: row.json(3, || format!("conversation {id}"))?,
        created_at: row.time(4)?,
        id: SessionId::new(id),
    })
}

/// The columns of a project.
pub(crate) fn project(row: &impl Record) -> Result<Project, StoreError> {
    let id = ProjectId(row.get(0)?);
    Ok(Project {
        id,
        name: row.get(1)?,
        description: row.get(2)?,
        created_at: row.time(3)?,
        document_count: row.number(4)?,
        status: row.get::<String>(5)?.parse().map_err(unreadable(format!("the status of project {id}")))?,
        tools: row.json(6, || format!("the rules of project {id}"))?,
        updated_at: row.time(7)?,
        revision: row.number(8)?,
    })
}

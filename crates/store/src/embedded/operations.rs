//! Operations for operators, in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, NodeId, RunId, SessionId, Timestamp};
use uuid::Uuid;

use super::append::{ReadPage, execute};
use super::connection::map_error;
use super::{EmbeddedStore, forks, projection as rows};
use crate::batch::context_metrics;
use crate::cells::{Kind, Row, TABLES, Table};
use crate::error::StoreError;
use crate::ports::{
    DocumentRecord, Operations, Stored, StoredChunk, StoredEdge, StoredEvent, WholeProjection,
};
use crate::schema::Dialect;
use crate::text::{clean, fold, json_text};

#[async_trait]
impl Operations for EmbeddedStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.query(|db| db.query_row("SELECT 1", [], |_| Ok(())).map_err(map_error)).await
    }

    fn schema_version(&self) -> u32 {
        // A store is opened only with the version that this program needs.
        Dialect::Embedded.version().unsigned_abs()
    }

    async fn run_ids(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let sql = "SELECT id FROM tree_agent_runs WHERE ?1 IS NULL OR id > ?1 ORDER BY id LIMIT ?2";
            let mut statement = db.prepare_cached(sql).map_err(map_error)?;
            let ids =
                statement.query_map(params![after.map(|run| run.0), limit], |row| Ok(RunId(row.get(0)?)));
            ids.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn stored(&self, run: RunId) -> Result<Stored, StoreError> {
        self.query(move |db| {
            // One read transaction sees a single moment. There is nothing to commit.
            let snapshot = db.unchecked_transaction().map_err(map_error)?;
            stored(&snapshot, run)
        })
        .await
    }

    async fn stored_events(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let mut statement = db
                .prepare_cached(
                    "SELECT seq, id, node_id, parent_node_id, created_at, event_type, payload \
                     FROM tree_agent_events WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
                )
                .map_err(map_error)?;
            let events =
                statement.query_map(params![run.0, after, limit], stored_event).map_err(map_error)?;
            let mut page = ReadPage::default();
            let fits = |event: &rusqlite::Result<StoredEvent>| {
                event.as_ref().map_or(true, |event| page.takes(event.payload.len()))
            };
            let events: Vec<_> = events.take_while(fits).collect::<Result<_, _>>().map_err(map_error)?;
            if events.first().is_none_or(|first| first.seq as i64 != after + 1)
                && let Some(events) = forks::read(db, run, after, limit)?
            {
                return Ok(events);
            }
            Ok(events)
        })
        .await
    }

    async fn document_chunks(
        &self,
        run: RunId,
        after: Option<(DocumentId, u64)>,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        let (document, seq) = after.map_or((Uuid::nil(), -1), |(id, seq)| (id.0, seq as i64));
        self.query(move |db| {
            if let Some(chunks) = forks::chunks(db, run, (DocumentId(document), seq), limit)? {
                return Ok(chunks);
            }
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let sql = "SELECT document_id, seq, start_byte, body, created_at, replaces FROM tree_agent_document_chunks \
                       WHERE run_id = ?1 AND (document_id, seq) > (?2, ?3) ORDER BY document_id, seq LIMIT ?4";
            let mut statement = db.prepare_cached(sql).map_err(map_error)?;
            let chunks = statement.query_map(params![run.0, document, seq, limit], chunk);
            chunks.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        whole: WholeProjection,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let head = tx
                .query_row("SELECT head_seq FROM tree_agent_runs WHERE id = ?1", [run.0], |row| {
                    row.get::<_, i64>(0)
                })
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::not_found("run", run))?;
            if head as u64 != head_seq {
                return Ok(false);
            }
            for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts"] {
                execute(tx, &format!("DELETE FROM {table} WHERE run_id = ?1"), &[&run.0])?;
            }
            replace_origin(tx, run, &whole)?;
            rows::write(tx, run, &whole.rows)?;
            Ok(true)
        })
        .await
    }
}

/// The place of a document, from the column `first` on.
pub(super) fn edge(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Option<StoredEdge>> {
    let Some(parent) = row.get::<_, Option<Uuid>>(first)? else { return Ok(None) };
    let seq = row.get::<_, Option<i64>>(first + 1)?.unwrap_or_default() as u64;
    let at = Timestamp(row.get::<_, Option<i64>>(first + 2)?.unwrap_or_default());
    Ok(Some(StoredEdge { parent_id: DocumentId(parent), seq, at }))
}

/// A chunk of a document.
pub(super) fn chunk(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredChunk> {
    Ok(StoredChunk {
        document_id: DocumentId(row.get(0)?),
        seq: row.get::<_, i64>(1)? as u64,
        start_byte: row.get::<_, i64>(2)? as u64,
        body: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        replaces: row.get(5)?,
    })
}

pub(super) fn stored_event(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        seq: row.get::<_, i64>(0)? as u64,
        id: EventId(row.get(1)?),
        node_id: NodeId(row.get(2)?),
        parent_node_id: row.get::<_, Option<Uuid>>(3)?.map(NodeId),
        timestamp: Timestamp(row.get(4)?),
        event_type: row.get(5)?,
        payload: row.get(6)?,
    })
}

fn stored(db: &Connection, run: RunId) -> Result<Stored, StoreError> {
    let head = db
        .query_row(
            "SELECT head_seq, epoch, archived_at IS NOT NULL FROM tree_agent_runs WHERE id = ?1",
            [run.0],
            |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get(2)?)),
        )
        .optional()
        .map_err(map_error)?;
    let (head_seq, epoch, archived) = head.ok_or_else(|| StoreError::not_found("run", run))?;
    let parts = forks::segments(db, run)?;
    let shared = parts.last().map_or(0, |part| part.until);
    let (events, last_seq) = db
        .query_row(
            "SELECT count(*), COALESCE(max(seq), 0) FROM tree_agent_events WHERE run_id = ?1 AND seq > ?2",
            params![run.0, shared as i64],
            |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)),
        )
        .map_err(map_error)?;
    let mut rows = Vec::new();
    for table in TABLES {
        let mut statement = db.prepare_cached(&select(table)).map_err(map_error)?;
        let found = statement.query_map([run.0], |row| cells(table, row)).map_err(map_error)?;
        for row in found {
            rows.push(row.map_err(map_error)?);
        }
    }
    if !parts.is_empty() {
        // Of what it shares, only the numbers of events are counted here. They are read one by one.
        let documents = forks::documents(db, run, None, false)?.into_values().map(|d| d.record()).collect();
        let line = forks::line(db, run)?.unwrap_or_default();
        let sessions =
            super::sessions::sessions_of(db, &line, "", i64::MAX)?.into_iter().map(|s| s.id).collect();
        let (events, last_seq) = (events + shared, last_seq.max(shared));
        return Ok(Stored { archived, head_seq, epoch, events, last_seq, rows, documents, sessions });
    }
    let sql = "SELECT id, type_key, base_seq, created_seq, parent_id, linked_seq, linked_at \
               FROM tree_agent_documents WHERE run_id = ?1 ORDER BY id";
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let documents = statement.query_map([run.0], |row| {
        Ok(DocumentRecord {
            id: DocumentId(row.get(0)?),
            type_key: row.get(1)?,
            base_seq: row.get::<_, i64>(2)? as u64,
            created_seq: row.get::<_, i64>(3)? as u64,
            edge: edge(row, 4)?,
        })
    });
    let documents = documents.and_then(Iterator::collect).map_err(map_error)?;
    let mut statement = db
        .prepare_cached("SELECT id FROM tree_agent_sessions WHERE run_id = ?1 ORDER BY id")
        .map_err(map_error)?;
    let sessions = statement.query_map([run.0], |row| row.get(0).map(|id: String| SessionId::new(id)));
    let sessions = sessions.and_then(Iterator::collect).map_err(map_error)?;
    Ok(Stored { archived, head_seq, epoch, events, last_seq, rows, documents, sessions })
}

/// The rows of a run, every column as text.
fn select(table: &Table) -> String {
    let columns = table.columns.iter().map(|(name, kind)| match kind {
        Kind::Uuid => format!("CASE WHEN {name} IS NULL THEN NULL ELSE lower(hex({name})) END"),
        _ => format!("CAST({name} AS TEXT)"),
    });
    let columns: Vec<_> = columns.collect();
    format!("SELECT id, {} FROM {} WHERE {} = ?1 ORDER BY id", columns.join(", "), table.name, table.run)
}

fn cells(table: &Table, row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let cells: Vec<_> = (0..table.columns.len()).map(|i| row.get(i + 1)).collect::<Result<_, _>>()?;
    Ok(table.row(row.get(0)?, cells))
}

/// The columns of the run's row that come from its first and its last event.
pub(super) fn replace_origin(
    tx: &Transaction<'_>,
    run: RunId,
    whole: &WholeProjection,
) -> Result<(), StoreError> {
    let spec = &whole.spec;
    execute(
        tx,
        "UPDATE tree_agent_runs SET user_id = ?2, objective = ?3, objective_folded = ?4, spec = ?5, strategy = ?6, \
         scope = ?7, project_ids = ?8, metrics = ?9, root_node_id = ?10, created_at = ?11, updated_at = ?12, \
         labels = ?13 WHERE id = ?1",
        params![
            run.0,
            clean(&spec.user_id),
            clean(&spec.objective),
            fold(&spec.objective),
            json_text(spec)?,
            spec.strategy.as_str(),
            spec.context.scope.as_str(),
            json_text(&spec.context.project_ids)?,
            json_text(&context_metrics(spec, whole.created_at))?,
            whole.root_node_id.0,
            whole.created_at.micros(),
            whole.updated_at.micros(),
            json_text(&spec.labels)?,
        ],
    )
    .map(drop)
}

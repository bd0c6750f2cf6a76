//! Operations for operators, on Postgres.

use std::sync::OnceLock;

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row as PostgresRow;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, NodeId, RunId, SessionId, Timestamp};
use uuid::Uuid;

use super::PostgresStore;
use super::append::page_sql;
use super::columns::{Columns, json};
use super::connection::Connection;
use super::forks::{self, LINE};
use super::types::{Json, Time};
use crate::batch::context_metrics;
use crate::cells::{Kind, Row, TABLES, Table};
use crate::error::StoreError;
use crate::ports::{
    DocumentRecord, Operations, Stored, StoredChunk, StoredEdge, StoredEvent, WholeProjection,
};
use crate::schema::Dialect;
use crate::text::clean;

#[async_trait]
impl Operations for PostgresStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.connection().await?.query("SELECT 1", &[]).await.map(drop)
    }

    fn connections(&self) -> Vec<(&'static str, usize)> {
        self.connections.levels()
    }

    fn schema_version(&self) -> u32 {
        // A store is opened only with the version that this program needs.
        Dialect::Postgres.version().unsigned_abs()
    }

    async fn run_ids(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        let mut connection = self.connection().await?;
        let after = after.map(|run| run.0);
        let rows = connection
            .query(
                "SELECT id FROM tree_agent_runs WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2",
                &[&after, &i64::try_from(limit).unwrap_or(i64::MAX)],
            )
            .await?;
        Ok(rows.iter().map(|row| RunId(row.get(0))).collect())
    }

    async fn stored(&self, run: RunId) -> Result<Stored, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin_snapshot().await?;
        let stored = stored(&mut connection, run).await;
        connection.end(stored).await
    }

    async fn stored_events(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut connection = self.connection().await?;
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let rows = connection
            .query(
                page_sql("seq, id, node_id, parent_node_id, created_at, event_type, payload", &READ),
                &[&run.0, &after, &i64::try_from(limit).unwrap_or(i64::MAX)],
            )
            .await?;
        if rows.first().is_none_or(|first| first.get::<_, i64>(0) != after.saturating_add(1))
            && let Some(events) =
                forks::read(&mut connection, run, after, i64::try_from(limit).unwrap_or(i64::MAX)).await?
        {
            return Ok(events);
        }
        rows.iter().map(|row| stored_event(run, row)).collect()
    }

    async fn document_chunks(
        &self,
        run: RunId,
        after: Option<(DocumentId, u64)>,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        let (document, seq) = after.map_or((Uuid::nil(), -1), |(id, seq)| (id.0, seq as i64));
        let mut connection = self.connection().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        if let Some(chunks) = forks::chunks(&mut connection, run, (DocumentId(document), seq), limit).await? {
            return Ok(chunks);
        }
        let rows = connection
            .query(
                "SELECT document_id, seq, start_byte, body, created_at, replaces FROM tree_agent_document_chunks \
                 WHERE run_id = $1 AND (document_id, seq) > ($2, $3) ORDER BY document_id, seq LIMIT $4",
                &[&run.0, &document, &seq, &limit],
            )
            .await?;
        Ok(rows.iter().map(chunk).collect())
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        whole: WholeProjection,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        let replaced = replace(&mut connection, run, head_seq, &whole).await;
        connection.end(replaced).await
    }
}

static READ: OnceLock<String> = OnceLock::new();

/// The place of a document, from the column `first` on.
pub(super) fn edge(row: &PostgresRow, first: usize) -> Option<StoredEdge> {
    row.get::<_, Option<Uuid>>(first).map(|parent| StoredEdge {
        parent_id: DocumentId(parent),
        seq: row.get::<_, Option<i64>>(first + 1).unwrap_or_default() as u64,
        at: row.get::<_, Option<Time>>(first + 2).map_or_else(Timestamp::default, |at| at.0),
    })
}

/// A chunk of a document.
pub(super) fn chunk(row: &PostgresRow) -> StoredChunk {
    StoredChunk {
        document_id: DocumentId(row.get(0)),
        seq: row.get::<_, i64>(1) as u64,
        start_byte: row.get::<_, i64>(2) as u64,
        body: row.get(3),
        created_at: row.get::<_, Time>(4).0,
        replaces: row.get(5),
    }
}

pub(super) fn stored_event(run: RunId, row: &PostgresRow) -> Result<StoredEvent, StoreError> {
    let seq = row.get::<_, i64>(0) as u64;
    let payload: Json = row.get(6);
    Ok(StoredEvent {
        seq,
        id: EventId(row.get(1)),
        node_id: NodeId(row.get(2)),
        parent_node_id: row.get::<_, Option<Uuid>>(3).map(NodeId),
        timestamp: row.get::<_, Time>(4).0,
        event_type: row.get(5),
        payload: String::from_utf8(payload.0.into())
            .map_err(|e| StoreError::broken(format!("event {seq} of run {run} cannot be read"), e))?,
    })
}

async fn stored(connection: &mut Connection, run: RunId) -> Result<Stored, StoreError> {
    let head = connection
        .query_opt(
            "SELECT r.head_seq, r.epoch, e.events, e.last_seq, r.archived_at IS NOT NULL FROM tree_agent_runs r, \
             (SELECT count(*) AS events, COALESCE(max(seq), 0) AS last_seq FROM tree_agent_events WHERE run_id = $1) e \
             WHERE r.id = $1",
            &[&run.0],
        )
        .await?
        .ok_or_else(|| StoreError::not_found("run", run))?;
    let count = |i: usize| head.get::<_, i64>(i) as u64;
    let mut rows = Vec::new();
    for table in TABLES {
        for row in connection.query(&select(table), &[&run.0]).await? {
            rows.push(cells(table, &row));
        }
    }
    let parts = forks::segments(connection, run).await?;
    if let Some(last) = parts.last() {
        // Events before are counted here, and read one by one.
        let sql = "SELECT count(*) FROM tree_agent_events WHERE run_id = $1 AND seq > $2";
        let own = connection.query_opt(sql, &[&run.0, &(last.until as i64)]).await?;
        let own = own.map_or(0, |row| row.get::<_, i64>(0) as u64);
        let documents = forks::documents(connection, run, None, false).await?;
        let sessions = match forks::line(connection, run).await? {
            Some(line) => {
                let sql = format!(
                    "WITH {LINE} SELECT DISTINCT s.id FROM line JOIN tree_agent_sessions s \
                     ON s.run_id = line.run AND s.created_at <= line.until ORDER BY s.id"
                );
                connection.query(&sql, &[&line.runs, &line.until]).await?
            }
            None => Vec::new(),
        };
        return Ok(Stored {
            archived: head.get(4),
            head_seq: count(0),
            epoch: count(1),
            events: own + last.until,
            last_seq: count(3).max(last.until),
            rows,
            documents: documents.into_values().map(|document| document.record()).collect(),
            sessions: sessions.iter().map(|row| SessionId::new(row.get::<_, String>(0))).collect(),
        });
    }
    let sql = "SELECT id, type_key, base_seq, created_seq, parent_id, linked_seq, linked_at \
               FROM tree_agent_documents WHERE run_id = $1 ORDER BY id";
    let documents = connection.query(sql, &[&run.0]).await?;
    let record = |row: &PostgresRow| DocumentRecord {
        id: DocumentId(row.get(0)),
        type_key: row.get(1),
        base_seq: row.get::<_, i64>(2) as u64,
        created_seq: row.get::<_, i64>(3) as u64,
        edge: edge(row, 4),
    };
    let documents = documents.iter().map(record).collect();
    let sql = "SELECT id FROM tree_agent_sessions WHERE run_id = $1 ORDER BY id";
    let sessions = connection.query(sql, &[&run.0]).await?;
    Ok(Stored {
        archived: head.get(4),
        head_seq: count(0),
        epoch: count(1),
        events: count(2),
        last_seq: count(3),
        rows,
        documents,
        sessions: sessions.iter().map(|row| SessionId::new(row.get::<_, String>(0))).collect(),
    })
}

/// The rows of a run, every column as text.
fn select(table: &Table) -> String {
    let columns = table.columns.iter().map(|(name, kind)| match kind {
        Kind::Time => format!("(extract(epoch FROM {name}) * 1000000)::int8::text"),
        Kind::Uuids => format!("to_jsonb({name})::text"),
        _ => format!("{name}::text"),
    });
    let columns: Vec<_> = columns.collect();
    format!("SELECT id, {} FROM {} WHERE {} = $1 ORDER BY id", columns.join(", "), table.name, table.run)
}

fn cells(table: &Table, row: &PostgresRow) -> Row {
    table.row(row.get(0), (0..table.columns.len()).map(|i| row.get(i + 1)))
}

async fn replace(
    connection: &mut Connection,
    run: RunId,
    head_seq: u64,
    whole: &WholeProjection,
) -> Result<bool, StoreError> {
    let row = connection
        .query_opt("SELECT epoch, head_seq FROM tree_agent_runs WHERE id = $1 FOR UPDATE", &[&run.0])
        .await?
        .ok_or_else(|| StoreError::not_found("run", run))?;
    if row.get::<_, i64>(1) as u64 != head_seq {
        return Ok(false);
    }
    replace_origin(connection, run, whole).await?;
    replace_rows(connection, run, row.get(0), head_seq, whole).await
}

/// The rows of nodes, plans and artifacts, and the columns of the run's row that are derived from them.
pub(super) async fn replace_rows(
    connection: &mut Connection,
    run: RunId,
    epoch: i64,
    head_seq: u64,
    whole: &WholeProjection,
) -> Result<bool, StoreError> {
    for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts"] {
        connection.query(&format!("DELETE FROM {table} WHERE run_id = $1"), &[&run.0]).await?;
    }
    // The statement of an append, without events and without moving the head.
    let columns = Columns::of_projection(run, epoch, (head_seq, whole.updated_at), &whole.rows)?;
    let shape = columns.shape();
    let moved = connection.query(shape.sql(), &columns.params(shape)).await?;
    Ok(moved.len() == 1)
}

/// The columns of the run's row that come from its first event.
pub(super) async fn replace_origin(
    connection: &mut Connection,
    run: RunId,
    whole: &WholeProjection,
) -> Result<(), StoreError> {
    let spec = &whole.spec;
    let projects: Vec<Uuid> = spec.context.project_ids.iter().map(|id| id.0).collect();
    connection
        .query(
            "UPDATE tree_agent_runs SET user_id = $2, objective = $3, spec = $4, strategy = $5, scope = $6, \
             project_ids = $7, metrics = $8, root_node_id = $9, created_at = $10, labels = $11 WHERE id = $1",
            &[
                &run.0,
                &clean(&spec.user_id),
                &clean(&spec.objective),
                &json(spec)?,
                &spec.strategy.as_str(),
                &spec.context.scope.as_str(),
                &projects,
                &json(&context_metrics(spec, whole.created_at))?,
                &whole.root_node_id.0,
                &Time(whole.created_at),
                &json(&spec.labels)?,
            ],
        )
        .await
        .map(drop)
}

//! Forks on Postgres.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::ToSql;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec};
use uuid::Uuid;

use super::PostgresStore;
use super::append::page_sql_from;
use super::archives;
use super::columns::{Columns, json};
use super::connection::Connection;
use super::operations;
use super::runs::note_request;
use super::types::{Json, Time};
use crate::batch::context_metrics;
use crate::error::StoreError;
use crate::forks::{self, Inherited, Piece, Range, ranges};
use crate::ports::{
    Created, DocumentTail, DocumentVersion, Forks, NewFork, Page, PlacedDocument, Projection, Segment,
    StoredChunk, StoredDocument, StoredEvent,
};
use crate::text::{clean, clean_json};

#[async_trait]
impl Forks for PostgresStore {
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError> {
        forks::check(&fork)?;
        let mut connection = self.connection().await?;
        connection.begin().await?;
        match insert(&mut connection, &fork).await {
            Ok(false) => connection.roll_back().await?,
            done => return connection.end(done).await.map(|_| Created::New(fork.run_id)),
        }
        let sql = "SELECT id FROM tree_agent_runs WHERE id = ANY (ARRAY(SELECT $1::uuid UNION ALL \
                   SELECT run_id FROM tree_agent_requests WHERE user_id = $2 AND request_id = $3)) \
                   ORDER BY id = $1 DESC LIMIT 1";
        let params: [&(dyn ToSql + Sync); 3] =
            [&fork.run_id.0, &clean(&fork.spec.user_id), &clean(&fork.request_id)];
        let existing = connection.query_opt(sql, &params).await?;
        let existing =
            existing.ok_or_else(|| StoreError::unavailable("the run changed meanwhile", "try again"))?;
        let id = RunId(existing.get(0));
        match is_same(&mut connection, id, &fork).await? {
            true => Ok(Created::Existing(id)),
            false => Err(StoreError::other_spec(id, &fork.request_id)),
        }
    }

    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError> {
        segments(&mut self.connection().await?, run).await
    }

    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        let document = document(&mut self.connection().await?, run, id).await?;
        document.at(at_seq.unwrap_or(u64::MAX)).ok_or_else(|| StoreError::not_found("document", id))
    }

    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        Ok(document(&mut self.connection().await?, run, id).await?.versions(after, limit))
    }

    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        Ok(document(&mut self.connection().await?, run, id).await?.tail(from, max))
    }
}

/// Inserts the fork; false when the run or its request exists, and then the transaction is to be rolled back.
async fn insert(connection: &mut Connection, fork: &NewFork) -> Result<bool, StoreError> {
    let (parent, spec, at) = (fork.parent_run_id, &fork.spec, Time(fork.event.timestamp));
    // Whoever removes the run waits for its forks.
    let sql = "SELECT head_seq, parent_seq, epoch, root_node_id, archived_at IS NOT NULL, segments FROM tree_agent_runs \
               WHERE id = $1 AND deleted_at IS NULL FOR KEY SHARE";
    let row = connection.query_opt(sql, &[&parent.0]).await?;
    let row = row.ok_or_else(|| StoreError::not_found("run", parent))?;
    let number = |i: usize| row.get::<_, i64>(i) as u64;
    if row.get(4) {
        return Err(StoreError::Archived(parent));
    }
    forks::check_parent(fork, number(0), number(1))?;
    let shared = row.get::<_, Option<Json>>(5).map_or(Ok(Vec::new()), |text| parse(parent, &text))?;
    let parts = forks::extended(parent, number(2), fork.parent_seq, shared);
    let projects: Vec<Uuid> = spec.context.project_ids.iter().map(|id| id.0).collect();
    let rows = connection
        .query(
            "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, spec, strategy, scope, project_ids, \
                 metrics, root_node_id, created_at, updated_at, labels, head_seq, parent_run_id, parent_seq, fork_edits, segments) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12, $13, $14, $15, $16, $17) \
             ON CONFLICT DO NOTHING RETURNING id",
            &[
                &fork.run_id.0,
                &clean(&spec.user_id),
                &clean(&fork.request_id),
                &clean(&spec.objective),
                &json(spec)?,
                &spec.strategy.as_str(),
                &spec.context.scope.as_str(),
                &projects,
                &json(&context_metrics(spec, fork.event.timestamp))?,
                &row.get::<_, Uuid>(3),
                &at,
                &json(&spec.labels)?,
                &(fork.event.seq as i64),
                &parent.0,
                &(fork.parent_seq as i64),
                &json(&fork.edits)?,
                &json(&parts)?,
            ],
        )
        .await?;
    if rows.is_empty() || !note_request(connection, fork.run_id, &spec.user_id, &fork.request_id).await? {
        return Ok(false);
    }
    let event = &fork.event;
    connection
        .query(
            "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            &[
                &fork.run_id.0,
                &(event.seq as i64),
                &EventId::of(fork.run_id, 0, event.seq).0,
                &event.node_id.0,
                &event.parent_node_id.map(|id| id.0),
                &event.body.event_type(),
                &super::types::JsonText(clean_json(event.payload_json())),
                &at,
            ],
        )
        .await?;
    // The statement of an append, without events and without moving the head.
    let projection = Projection { run: Some(fork.row.clone()), ..Projection::default() };
    let columns = Columns::of_projection(fork.run_id, 0, (event.seq, event.timestamp), &projection)?;
    let shape = columns.shape();
    connection.query(shape.sql(), &columns.params(shape)).await?;
    Ok(true)
}

/// True if the run is the fork that is asked for.
async fn is_same(connection: &mut Connection, id: RunId, fork: &NewFork) -> Result<bool, StoreError> {
    let sql = "SELECT r.parent_run_id, r.spec, e.payload FROM tree_agent_runs r JOIN tree_agent_events e \
               ON e.run_id = r.id AND e.seq = r.parent_seq + 1 WHERE r.id = $1 AND r.parent_seq = $2";
    let Some(row) = connection.query_opt(sql, &[&id.0, &(fork.parent_seq as i64)]).await? else {
        return Ok(false);
    };
    let spec = serde_json::from_slice::<RunSpec>(&row.get::<_, Json>(1).0).ok();
    let asked = serde_json::from_slice::<RunSpec>(json(&fork.spec)?.0.as_bytes()).ok();
    let event: Json = row.get(2);
    let event = String::from_utf8_lossy(&event.0);
    Ok(row.get::<_, Option<Uuid>>(0) == Some(fork.parent_run_id.0)
        && spec == asked
        && forks::has_edits_of(&event, &fork.event))
}

/// The parts of the log before the first event that the run wrote itself; empty if it is no fork.
pub(super) async fn segments(connection: &mut Connection, run: RunId) -> Result<Vec<Segment>, StoreError> {
    let sql =
        "SELECT segments FROM tree_agent_runs WHERE id = $1 AND segments IS NOT NULL AND archived_at IS NULL";
    let row = connection.query_opt(sql, &[&run.0]).await?;
    row.map_or(Ok(Vec::new()), |row| parse(run, &row.get::<_, Json>(0)))
}

fn parse(run: RunId, text: &Json) -> Result<Vec<Segment>, StoreError> {
    serde_json::from_slice(&text.0)
        .map_err(|e| StoreError::broken(format!("the segments of run {run} cannot be read"), e))
}

/// The parts of a log as the parameters of a statement.
struct Parts {
    runs: Vec<Uuid>,
    after: Vec<i64>,
    until: Vec<i64>,
}

impl Parts {
    fn of(ranges: &[Range]) -> Self {
        Self {
            runs: ranges.iter().map(|range| range.run.0).collect(),
            after: ranges.iter().map(|range| range.after).collect(),
            until: ranges.iter().map(|range| range.until).collect(),
        }
    }
}

static READ: OnceLock<String> = OnceLock::new();

/// Events of a fork, of which the first after `after` may belong to a run before it, in one round trip. None if the run
/// is no fork.
pub(super) async fn read(
    connection: &mut Connection,
    run: RunId,
    after: i64,
    limit: i64,
) -> Result<Option<Vec<StoredEvent>>, StoreError> {
    let parts = segments(connection, run).await?;
    if parts.is_empty() {
        return Ok(None);
    }
    let wanted: Vec<Range> = ranges(run, &parts).into_iter().filter(|range| range.until > after).collect();
    let parts = Parts::of(&wanted);
    let from = "FROM unnest($1::uuid[], $4::int8[], $5::int8[]) AS s(run, after_seq, until_seq) CROSS JOIN LATERAL \
                (SELECT * FROM tree_agent_events e WHERE e.run_id = s.run AND e.seq > greatest(s.after_seq, $2) \
                AND e.seq <= s.until_seq ORDER BY e.seq LIMIT $3) e";
    let sql = page_sql_from("seq, id, node_id, parent_node_id, created_at, event_type, payload", from, &READ);
    let rows = connection.query(sql, &[&parts.runs, &after, &limit, &parts.after, &parts.until]).await?;
    rows.iter().map(|row| operations::stored_event(run, row)).collect::<Result<_, _>>().map(Some)
}

/// Nodes of a fork, with their parents. None if the run is no fork.
pub(super) async fn nodes(
    connection: &mut Connection,
    run: RunId,
) -> Result<Option<Vec<(NodeId, Option<NodeId>)>>, StoreError> {
    let parts = segments(connection, run).await?;
    if parts.is_empty() {
        return Ok(None);
    }
    let parts = Parts::of(&ranges(run, &parts));
    let sql = "SELECT e.node_id, e.parent_node_id FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS s(run, after_seq, until_seq) \
               JOIN tree_agent_events e ON e.run_id = s.run AND e.seq > s.after_seq AND e.seq <= s.until_seq \
               AND e.event_type = 'tree.node_created' ORDER BY e.seq";
    let rows = connection.query(sql, &[&parts.runs, &parts.after, &parts.until]).await?;
    let node = |row: &Row| (NodeId(row.get(0)), row.get::<_, Option<Uuid>>(1).map(NodeId));
    Ok(Some(forks::nodes(rows.iter().map(node).collect())))
}

/// A document as the run has it.
async fn document(connection: &mut Connection, run: RunId, id: DocumentId) -> Result<Inherited, StoreError> {
    connection.begin_snapshot().await?;
    let found = documents(connection, run, Some(id), true).await;
    let found = connection.end(found).await?.remove(&id);
    found.ok_or_else(|| StoreError::not_found("document", id))
}

/// The documents of a run as it has them, or one of them. Their texts are left out unless `with_texts`.
pub(super) async fn documents(
    connection: &mut Connection,
    run: RunId,
    only: Option<DocumentId>,
    with_texts: bool,
) -> Result<BTreeMap<DocumentId, Inherited>, StoreError> {
    let all = ranges(run, &segments(connection, run).await?);
    let (parts, only) = (Parts::of(&all), only.map(|id| id.0));
    let text = if with_texts { "d.body" } else { "''::text" };
    let from =
        "FROM unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS s(run, after_seq, until_seq, n)";
    let sql = format!(
        "SELECT d.id, d.type_key, d.run_id, d.path, d.title, {text}, d.props, d.created_at, d.updated_at, d.dropped_bytes, \
         d.base_seq, d.created_seq, d.parent_id, d.linked_seq, d.linked_at, octet_length(d.body)::int8, s.n {from} \
         JOIN tree_agent_documents d ON d.run_id = s.run AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq \
         WHERE $4::uuid IS NULL OR d.id = $4 ORDER BY s.n"
    );
    let found = connection.query(&sql, &[&parts.runs, &parts.after, &parts.until, &only]).await?;
    let mut rows = Vec::with_capacity(found.len());
    for row in &found {
        let range = all[usize::try_from(row.get::<_, i64>(16) - 1).unwrap_or_default()];
        rows.push((range, archives::document(row)?, row.get::<_, i64>(15) as u64));
    }
    let sql = format!(
        "SELECT d.document_id, d.seq, d.start_byte, {text}, d.created_at, d.replaces, octet_length(d.body)::int8 {from} \
         JOIN tree_agent_document_chunks d ON d.run_id = s.run AND d.seq > s.after_seq AND d.seq <= s.until_seq \
         WHERE $4::uuid IS NULL OR d.document_id = $4 ORDER BY d.document_id, d.seq"
    );
    let found = connection.query(&sql, &[&parts.runs, &parts.after, &parts.until, &only]).await?;
    let piece = |row: &Row| Piece { chunk: operations::chunk(row), bytes: row.get::<_, i64>(6) as u64 };
    Ok(forks::together(run, rows, found.iter().map(piece).collect()))
}

/// A page of the rows of a fork's documents, by id. Only these are read. None if the run is no fork.
pub(super) async fn document_rows(
    connection: &mut Connection,
    run: RunId,
    after: Option<DocumentId>,
    limit: i64,
) -> Result<Option<Vec<StoredDocument>>, StoreError> {
    let parts = segments(connection, run).await?;
    if parts.is_empty() {
        return Ok(None);
    }
    let parts = Parts::of(&ranges(run, &parts));
    // Of each document the row of the latest part counts.
    let sql = "SELECT DISTINCT ON (d.id) d.id, d.type_key, d.run_id, d.path, d.title, d.body, d.props, d.created_at, \
               d.updated_at, d.dropped_bytes, d.base_seq, d.created_seq, d.parent_id, d.linked_seq, d.linked_at, s.until_seq \
               FROM unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS s(run, after_seq, until_seq, n) \
               CROSS JOIN LATERAL (SELECT * FROM tree_agent_documents d WHERE d.run_id = s.run \
               AND ($4::uuid IS NULL OR d.id > $4) AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq \
               ORDER BY d.id LIMIT $5) d ORDER BY d.id, s.n DESC LIMIT $5";
    let after = after.map(|id| id.0);
    let rows = connection.query(sql, &[&parts.runs, &parts.after, &parts.until, &after, &limit]).await?;
    let row = |row: &Row| Ok(forks::row(run, row.get(15), archives::document(row)?));
    rows.iter().map(row).collect::<Result<_, _>>().map(Some)
}

/// A page of the chunks of a fork's documents, by document and event. Only these are read. None if the run is no fork.
pub(super) async fn chunks(
    connection: &mut Connection,
    run: RunId,
    mut after: (DocumentId, i64),
    limit: i64,
) -> Result<Option<Vec<StoredChunk>>, StoreError> {
    let parts = segments(connection, run).await?;
    if parts.is_empty() {
        return Ok(None);
    }
    let parts = Parts::of(&ranges(run, &parts));
    let next = "SELECT c.document_id, c.seq, c.start_byte, c.body, c.created_at, c.replaces \
                FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS s(run, after_seq, until_seq) \
                CROSS JOIN LATERAL (SELECT * FROM tree_agent_document_chunks c WHERE c.run_id = s.run \
                AND c.seq > s.after_seq AND c.seq <= s.until_seq AND (c.document_id, c.seq) > ($4, $5) \
                ORDER BY c.document_id, c.seq LIMIT $6) c ORDER BY c.document_id, c.seq LIMIT $6";
    let base = "SELECT DISTINCT ON (d.id) d.id, least(d.base_seq, s.until_seq) \
                FROM unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS s(run, after_seq, until_seq, n) \
                JOIN tree_agent_documents d ON d.run_id = s.run AND d.id = ANY ($4) \
                AND d.created_seq > s.after_seq AND d.created_seq <= s.until_seq ORDER BY d.id, s.n DESC";
    let mut chunks = Vec::new();
    // Most often once: few chunks belong to no document, or to a text that is no longer kept.
    loop {
        let left = limit.saturating_sub(chunks.len() as i64);
        let params: [&(dyn ToSql + Sync); 6] =
            [&parts.runs, &parts.after, &parts.until, &after.0.0, &after.1, &left];
        let page: Vec<_> = connection.query(next, &params).await?.iter().map(operations::chunk).collect();
        let is_last = (page.len() as i64) < left;
        let Some(last) = page.last() else { return Ok(Some(chunks)) };
        after = (last.document_id, last.seq as i64);
        let mut ids: Vec<Uuid> = page.iter().map(|chunk| chunk.document_id.0).collect();
        ids.dedup();
        let bases = connection.query(base, &[&parts.runs, &parts.after, &parts.until, &ids]).await?;
        let bases = bases.iter().map(|row| (DocumentId(row.get(0)), row.get(1))).collect();
        chunks.extend(forks::of_documents(page, &bases));
        if is_last || chunks.len() as i64 >= limit {
            return Ok(Some(chunks));
        }
    }
}

/// What a fork reads of the runs before it beside their events and documents.
pub(super) struct Line {
    /// The runs, itself last.
    pub(super) runs: Vec<Uuid>,
    /// The last event of each part.
    pub(super) until: Vec<i64>,
}

/// The common table expression `line` of a [`Line`], whose fields are the parameters 1 and 2: its runs, and the time
/// of the last event that the fork has of each. What was written later is none of its own, except what it wrote
/// itself.
pub(super) const LINE: &str = "line AS (SELECT s.run, s.n, COALESCE((SELECT e.created_at FROM tree_agent_events e \
    WHERE e.run_id = s.run AND e.seq = s.until_seq), CASE s.until_seq WHEN 9223372036854775807 THEN 'infinity' \
    ELSE '-infinity' END::timestamptz) AS until \
    FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS s(run, until_seq, n))";

/// What a fork reads of the runs before it; none if it is no fork.
pub(super) async fn line(connection: &mut Connection, run: RunId) -> Result<Option<Line>, StoreError> {
    let parts = segments(connection, run).await?;
    let Parts { runs, until, .. } = Parts::of(&ranges(run, &parts));
    Ok((!parts.is_empty()).then_some(Line { runs, until }))
}

/// Gives the forks of a run all that they share with it, before it is removed. Forks of such a fork read it there.
///
/// While this waits for a fork that somebody forks, that one becomes another holder. Each that was found is locked and
/// holds nothing of the run any more, so there are none in the end. Whoever forks them from then on waits for this.
pub(super) async fn materialise(connection: &mut Connection, run: RunId) -> Result<(), StoreError> {
    loop {
        let holders = holders(connection, run).await?;
        if holders.is_empty() {
            return Ok(());
        }
        for fork in holders {
            let mut parts = segments(connection, fork).await?;
            for range in forks::take_over(fork, &mut parts, run) {
                copy(connection, fork, range).await?;
            }
            note(connection, fork, &parts).await?;
        }
    }
}

async fn note(connection: &mut Connection, fork: RunId, parts: &[Segment]) -> Result<(), StoreError> {
    let sql = "UPDATE tree_agent_runs SET segments = $2 WHERE id = $1";
    connection.query(sql, &[&fork.0, &json(&parts)?]).await.map(drop)
}

/// The forks of which a part is stored under the run.
async fn holders(connection: &mut Connection, run: RunId) -> Result<Vec<RunId>, StoreError> {
    let sql = "SELECT id FROM tree_agent_runs WHERE segments @> $1 AND id <> $2 AND archived_at IS NULL ORDER BY created_at, id FOR UPDATE";
    let part = json(&serde_json::json!([{"run": run}]))?;
    Ok(connection.query(sql, &[&part, &run.0]).await?.iter().map(|row| RunId(row.get(0))).collect())
}

async fn copy(connection: &mut Connection, fork: RunId, range: Range) -> Result<(), StoreError> {
    for sql in [
        "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
         SELECT $1, seq, id, node_id, parent_node_id, event_type, payload, created_at FROM tree_agent_events \
         WHERE run_id = $2 AND seq > $3 AND seq <= $4",
        "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, dropped_bytes, \
         base_seq, created_seq, parent_id, linked_seq, linked_at) SELECT $1, id, type_key, path, title, body, props, created_at, \
         updated_at, dropped_bytes, least(base_seq, $4), created_seq, CASE WHEN linked_seq <= $4 THEN parent_id END, \
         CASE WHEN linked_seq <= $4 THEN linked_seq END, CASE WHEN linked_seq <= $4 THEN linked_at END FROM tree_agent_documents \
         WHERE run_id = $2 AND created_seq > $3 AND created_seq <= $4 ON CONFLICT (run_id, id) DO NOTHING",
        "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
         SELECT $1, document_id, seq, start_byte, body, replaces, created_at FROM tree_agent_document_chunks \
         WHERE run_id = $2 AND seq > $3 AND seq <= $4",
        "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
         SELECT $1, id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
         WHERE run_id = $2 AND $3::int8 >= 0 AND created_at <= (SELECT max(e.created_at) FROM tree_agent_events e \
         WHERE e.run_id = $1 AND e.seq <= $4) ON CONFLICT (run_id, id) DO NOTHING",
    ] {
        connection.query(sql, &[&fork.0, &range.run.0, &range.after, &range.until]).await?;
    }
    Ok(())
}

/// The row of a fork that comes back from its archive.
pub(super) async fn restore(
    connection: &mut Connection,
    run: RunId,
    parts: &[Segment],
    edits: &[String],
) -> Result<(), StoreError> {
    let Some(last) = parts.last() else { return Ok(()) };
    let sql = "UPDATE tree_agent_runs SET parent_run_id = $2, parent_seq = $3, fork_edits = $4, segments = $5 WHERE id = $1";
    let (edits, parts) = (json(&edits)?, json(&parts)?);
    connection.query(sql, &[&run.0, &last.writer.0, &(last.until as i64), &edits, &parts]).await.map(drop)
}

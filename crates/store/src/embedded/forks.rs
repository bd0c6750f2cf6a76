//! Forks in SQLite.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tree_agent_contract::{DocumentId, Event, NodeId, RunId, RunSpec};
use uuid::Uuid;

use super::EmbeddedStore;
use super::append::{self, ReadPage, execute};
use super::archives;
use super::connection::{map_error, now};
use super::operations;
use super::projection;
use super::runs::note_request;
use crate::batch::context_metrics;
use crate::error::StoreError;
use crate::forks::{self, Inherited, Piece, Range, ranges};
use crate::ports::{
    Created, DocumentTail, DocumentVersion, Forks, NewFork, Page, PlacedDocument, Projection, Segment,
    StoredChunk, StoredDocument, StoredEvent,
};
use crate::text::{clean, fold, json_text};

#[async_trait]
impl Forks for EmbeddedStore {
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError> {
        forks::check(&fork)?;
        self.write(move |tx| {
            let sql = "SELECT id FROM tree_agent_runs WHERE id IN (SELECT ?1 UNION ALL SELECT run_id FROM tree_agent_requests \
                       WHERE user_id = ?2 AND request_id = ?3) ORDER BY id = ?1 DESC LIMIT 1";
            let params = params![fork.run_id.0, clean(&fork.spec.user_id), clean(&fork.request_id)];
            let existing = tx.query_row(sql, params, |row| row.get(0).map(RunId)).optional().map_err(map_error)?;
            match existing {
                Some(id) if is_same(tx, id, &fork)? => Ok(Created::Existing(id)),
                Some(id) => Err(StoreError::other_spec(id, &fork.request_id)),
                None => insert(tx, &fork).map(|()| Created::New(fork.run_id)),
            }
        })
        .await
    }

    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError> {
        self.query(move |db| segments(db, run)).await
    }

    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        self.query(move |db| {
            let document = document(db, run, id)?.ok_or_else(|| StoreError::not_found("document", id))?;
            document.at(at_seq.unwrap_or(u64::MAX)).ok_or_else(|| StoreError::not_found("document", id))
        })
        .await
    }

    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.query(move |db| {
            let document = document(db, run, id)?.ok_or_else(|| StoreError::not_found("document", id))?;
            Ok(document.versions(after, limit))
        })
        .await
    }

    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        self.query(move |db| {
            let document = document(db, run, id)?.ok_or_else(|| StoreError::not_found("document", id))?;
            Ok(document.tail(from, max))
        })
        .await
    }
}

/// True if the run is the fork that is asked for.
fn is_same(db: &Connection, id: RunId, fork: &NewFork) -> Result<bool, StoreError> {
    let sql = "SELECT r.parent_run_id, r.spec, e.payload FROM tree_agent_runs r JOIN tree_agent_events e \
               ON e.run_id = r.id AND e.seq = r.parent_seq + 1 WHERE r.id = ?1 AND r.parent_seq = ?2";
    let row = db.query_row(sql, params![id.0, fork.parent_seq as i64], |row| {
        Ok((row.get::<_, Option<Uuid>>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    });
    let Some((parent, spec, event)) = row.optional().map_err(map_error)? else { return Ok(false) };
    let spec = serde_json::from_str::<RunSpec>(&spec).ok();
    let asked = serde_json::from_str::<RunSpec>(&json_text(&fork.spec)?).ok();
    Ok(parent == Some(fork.parent_run_id.0) && spec == asked && forks::has_edits_of(&event, &fork.event))
}

fn insert(tx: &Transaction<'_>, fork: &NewFork) -> Result<(), StoreError> {
    let (parent, spec, at) = (fork.parent_run_id, &fork.spec, fork.event.timestamp.micros());
    let sql = "SELECT head_seq, parent_seq, epoch, root_node_id, archived_at IS NOT NULL FROM tree_agent_runs \
               WHERE id = ?1 AND deleted_at IS NULL";
    let row = tx.query_row(sql, [parent.0], |row| {
        let numbers =
            (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64);
        Ok((numbers, row.get::<_, Uuid>(3)?, row.get::<_, bool>(4)?))
    });
    let row = row.optional().map_err(map_error)?;
    let ((head, shared, epoch), root, archived) = row.ok_or_else(|| StoreError::not_found("run", parent))?;
    if archived {
        return Err(StoreError::Archived(parent));
    }
    forks::check_parent(fork, head, shared)?;
    let parts = forks::extended(parent, epoch, fork.parent_seq, segments(tx, parent)?);
    execute(
        tx,
        "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, objective_folded, spec, strategy, scope, \
             project_ids, metrics, root_node_id, created_at, updated_at, labels, changed_at, head_seq, parent_run_id, \
             parent_seq, fork_edits, segments) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        params![
            fork.run_id.0,
            clean(&spec.user_id),
            clean(&fork.request_id),
            clean(&spec.objective),
            fold(&spec.objective),
            json_text(spec)?,
            spec.strategy.as_str(),
            spec.context.scope.as_str(),
            json_text(&spec.context.project_ids)?,
            json_text(&context_metrics(spec, fork.event.timestamp))?,
            root,
            at,
            json_text(&spec.labels)?,
            now().micros(),
            fork.event.seq as i64,
            parent.0,
            fork.parent_seq as i64,
            json_text(&fork.edits)?,
            json_text(&parts)?,
        ],
    )?;
    note_request(tx, fork.run_id, &spec.user_id, &fork.request_id)?;
    append::insert_event(tx, 0, &fork.event)?;
    let projection = Projection { run: Some(fork.row.clone()), ..Projection::default() };
    projection::write(tx, fork.run_id, &projection)
}

/// The parts of the log before the first event that the run wrote itself; empty if it is no fork.
pub(super) fn segments(db: &Connection, run: RunId) -> Result<Vec<Segment>, StoreError> {
    let sql =
        "SELECT segments FROM tree_agent_runs WHERE id = ?1 AND segments IS NOT NULL AND archived_at IS NULL";
    let text = db
        .prepare_cached(sql)
        .and_then(|mut s| s.query_row([run.0], |row| row.get::<_, String>(0)).optional());
    text.map_err(map_error)?.map_or(Ok(Vec::new()), |text| parse(run, &text))
}

fn parse(run: RunId, text: &str) -> Result<Vec<Segment>, StoreError> {
    serde_json::from_str(text)
        .map_err(|e| StoreError::broken(format!("the segments of run {run} cannot be read"), e))
}

/// Events of a fork, of which the first after `after` may belong to a run before it. None if the run is no fork.
pub(super) fn read(
    db: &Connection,
    run: RunId,
    after: i64,
    limit: i64,
) -> Result<Option<Vec<StoredEvent>>, StoreError> {
    let parts = segments(db, run)?;
    if parts.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT seq, id, node_id, parent_node_id, created_at, event_type, payload FROM tree_agent_events \
               WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
    let (mut events, mut page) = (Vec::new(), ReadPage::default());
    for range in ranges(run, &parts).into_iter().filter(|range| range.until > after) {
        let left = limit.saturating_sub(events.len() as i64);
        if left == 0 {
            break;
        }
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![range.run.0, range.after.max(after), range.until, left];
        let mut rows = statement.query(params).map_err(map_error)?;
        while let Some(row) = rows.next().map_err(map_error)? {
            let event = operations::stored_event(row).map_err(map_error)?;
            if !page.takes(event.payload.len()) {
                return Ok(Some(events));
            }
            events.push(event);
        }
    }
    Ok(Some(events))
}

/// An event as it is stored, read as one of `run`.
pub(super) fn event(run: RunId, stored: StoredEvent) -> Result<Event, StoreError> {
    forks::event(run, stored)
}

/// Nodes that the runs before have created, with their parents.
pub(super) fn nodes(db: &Connection, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
    let mut created = Vec::new();
    for range in ranges(run, &segments(db, run)?) {
        let sql = "SELECT node_id, parent_node_id FROM tree_agent_events WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 \
                   AND event_type = 'tree.node_created' ORDER BY seq";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let rows = statement.query_map(params![range.run.0, range.after, range.until], |row| {
            Ok((NodeId(row.get(0)?), row.get::<_, Option<Uuid>>(1)?.map(NodeId)))
        });
        for row in rows.map_err(map_error)? {
            created.push(row.map_err(map_error)?);
        }
    }
    Ok(forks::nodes(created))
}

/// A document as the run has it.
fn document(db: &Connection, run: RunId, id: DocumentId) -> Result<Option<Inherited>, StoreError> {
    let snapshot = db.unchecked_transaction().map_err(map_error)?;
    Ok(documents(&snapshot, run, Some(id), true)?.remove(&id))
}

/// The documents of a run as it has them, or one of them. Their texts are left out unless `with_texts`.
pub(super) fn documents(
    db: &Connection,
    run: RunId,
    only: Option<DocumentId>,
    with_texts: bool,
) -> Result<BTreeMap<DocumentId, Inherited>, StoreError> {
    let text = if with_texts { "body" } else { "''" };
    let (mut rows, mut pieces) = (Vec::new(), Vec::new());
    for range in ranges(run, &segments(db, run)?) {
        let params = params![range.run.0, range.after, range.until, only.map(|id| id.0)];
        rows.extend(rows_of(db, text, params)?.into_iter().map(|(stored, bytes)| (range, stored, bytes)));
        let sql = format!(
            "SELECT document_id, seq, start_byte, {text}, created_at, replaces, octet_length(body) \
             FROM tree_agent_document_chunks WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 \
             AND (?4 IS NULL OR document_id = ?4) ORDER BY document_id, seq"
        );
        let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Piece { chunk: operations::chunk(row)?, bytes: row.get::<_, i64>(6)? as u64 })
        };
        for piece in statement.query_map(params, read).map_err(map_error)? {
            pieces.push(piece.map_err(map_error)?);
        }
    }
    Ok(forks::together(run, rows, pieces))
}

fn rows_of(
    db: &Connection,
    text: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(StoredDocument, u64)>, StoreError> {
    let sql = format!(
        "SELECT id, type_key, run_id, path, title, {text}, props, created_at, updated_at, dropped_bytes, base_seq, created_seq, \
         parent_id, linked_seq, linked_at, octet_length(body) FROM tree_agent_documents WHERE run_id = ?1 \
         AND created_seq > ?2 AND created_seq <= ?3 AND (?4 IS NULL OR id = ?4)"
    );
    let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
    let mut found = statement.query(params).map_err(map_error)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next().map_err(map_error)? {
        let bytes = row.get::<_, i64>(15).map_err(map_error)? as u64;
        rows.push((archives::document(row)?, bytes));
    }
    Ok(rows)
}

/// Where a document ends that a fork has from a run before it; none if there is none.
pub(super) fn inherited_end(db: &Connection, run: RunId, id: DocumentId) -> Result<Option<i64>, StoreError> {
    let mut end: Option<(i64, i64)> = None;
    for range in ranges(run, &segments(db, run)?) {
        let sql = "SELECT created_seq, dropped_bytes + octet_length(body) FROM tree_agent_documents \
                   WHERE run_id = ?1 AND id = ?4 AND created_seq > ?2 AND created_seq <= ?3 \
                   UNION ALL SELECT seq, start_byte + octet_length(body) FROM tree_agent_document_chunks \
                   WHERE run_id = ?1 AND document_id = ?4 AND seq > ?2 AND seq <= ?3 ORDER BY 1 DESC LIMIT 1";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![range.run.0, range.after, range.until, id.0];
        let found = statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))).optional();
        end = end.max(found.map_err(map_error)?);
    }
    Ok(end.map(|(_, end)| end))
}

/// The place of a document that a fork has from a run before it: none if there is none, else the one above it.
pub(super) fn inherited_parent(
    db: &Connection,
    run: RunId,
    id: Uuid,
) -> Result<Option<Option<Uuid>>, StoreError> {
    let parts = segments(db, run)?;
    for range in ranges(run, &parts).into_iter().rev().skip(1) {
        let sql = "SELECT CASE WHEN linked_seq <= ?3 THEN parent_id END FROM tree_agent_documents \
                   WHERE run_id = ?1 AND id = ?4 AND created_seq > ?2 AND created_seq <= ?3";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![range.run.0, range.after, range.until, id];
        if let Some(parent) = statement.query_row(params, |row| row.get(0)).optional().map_err(map_error)? {
            return Ok(Some(parent));
        }
    }
    Ok(None)
}

/// Gives the forks of a run all that they share with it, before it is removed. Forks of such a fork read it there.
pub(super) fn materialise(tx: &Transaction<'_>, run: RunId) -> Result<(), StoreError> {
    for fork in holders(tx, run)? {
        let mut parts = segments(tx, fork)?;
        for range in forks::take_over(fork, &mut parts, run) {
            copy(tx, fork, range)?;
        }
        note(tx, fork, &parts)?;
    }
    Ok(())
}

fn note(tx: &Transaction<'_>, fork: RunId, parts: &[Segment]) -> Result<(), StoreError> {
    execute(tx, "UPDATE tree_agent_runs SET segments = ?2 WHERE id = ?1", params![fork.0, json_text(&parts)?])
        .map(drop)
}

/// The forks of which a part is stored under the run, or that name it as a writer.
fn holders(db: &Connection, run: RunId) -> Result<Vec<RunId>, StoreError> {
    let sql = "SELECT id FROM tree_agent_runs WHERE parent_run_id IS NOT NULL AND archived_at IS NULL \
               AND instr(segments, ?1) > 0 AND id <> ?2 ORDER BY created_at, id";
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let forks = statement.query_map(params![run.to_string(), run.0], |row| Ok(RunId(row.get(0)?)));
    forks.and_then(Iterator::collect).map_err(map_error)
}

fn copy(tx: &Transaction<'_>, fork: RunId, range: Range) -> Result<(), StoreError> {
    for sql in [
        "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
         SELECT ?1, seq, id, node_id, parent_node_id, event_type, payload, created_at FROM tree_agent_events \
         WHERE run_id = ?2 AND seq > ?3 AND seq <= ?4",
        "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, dropped_bytes, \
         base_seq, created_seq, parent_id, linked_seq, linked_at) SELECT ?1, id, type_key, path, title, body, props, created_at, \
         updated_at, dropped_bytes, min(base_seq, ?4), created_seq, CASE WHEN linked_seq <= ?4 THEN parent_id END, \
         CASE WHEN linked_seq <= ?4 THEN linked_seq END, CASE WHEN linked_seq <= ?4 THEN linked_at END FROM tree_agent_documents \
         WHERE run_id = ?2 AND created_seq > ?3 AND created_seq <= ?4 ON CONFLICT (run_id, id) DO NOTHING",
        "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
         SELECT ?1, document_id, seq, start_byte, body, replaces, created_at FROM tree_agent_document_chunks \
         WHERE run_id = ?2 AND seq > ?3 AND seq <= ?4",
        "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
         SELECT ?1, id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
         WHERE run_id = ?2 AND created_at <= COALESCE((SELECT max(e.created_at) FROM tree_agent_events e \
         WHERE e.run_id = ?1 AND e.seq <= ?4), 0) AND ?3 >= 0 ON CONFLICT (run_id, id) DO NOTHING",
    ] {
        execute(tx, sql, params![fork.0, range.run.0, range.after, range.until])?;
    }
    Ok(())
}

/// The row of a fork that comes back from its archive.
pub(super) fn restore(
    tx: &Transaction<'_>,
    run: RunId,
    parts: &[Segment],
    edits: &[String],
) -> Result<(), StoreError> {
    let Some(last) = parts.last() else { return Ok(()) };
    let params = params![run.0, last.writer.0, last.until as i64, json_text(&edits)?, json_text(&parts)?];
    execute(
        tx,
        "UPDATE tree_agent_runs SET parent_run_id = ?2, parent_seq = ?3, fork_edits = ?4, segments = ?5 WHERE id = ?1",
        params,
    )
    .map(drop)
}

/// The runs whose rows a fork reads, itself first, each with the time of the last event that the fork has of it. What
/// was written later is none of its own, except what it wrote itself. None if it is no fork.
pub(super) fn line(db: &Connection, run: RunId) -> Result<Option<Vec<(RunId, i64)>>, StoreError> {
    let parts = segments(db, run)?;
    if parts.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT created_at FROM tree_agent_events WHERE run_id = ?1 AND seq = ?2";
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let mut line = Vec::with_capacity(parts.len() + 1);
    for range in ranges(run, &parts).into_iter().rev() {
        let until = match range.until {
            i64::MAX => i64::MAX,
            seq => {
                let at = statement.query_row(params![range.run.0, seq], |row| row.get(0)).optional();
                at.map_err(map_error)?.unwrap_or(i64::MIN)
            }
        };
        line.push((range.run, until));
    }
    Ok(Some(line))
}

/// A page of the rows of a fork's documents, by id. Only these are read. None if the run is no fork.
pub(super) fn document_rows(
    db: &Connection,
    run: RunId,
    after: Option<DocumentId>,
    limit: usize,
) -> Result<Option<Vec<StoredDocument>>, StoreError> {
    let parts = segments(db, run)?;
    if parts.is_empty() {
        return Ok(None);
    }
    // Of each document the row of the latest part counts.
    let mut found: BTreeMap<Uuid, Range> = BTreeMap::new();
    for range in ranges(run, &parts) {
        let sql = "SELECT id FROM tree_agent_documents WHERE run_id = ?1 AND created_seq > ?2 AND created_seq <= ?3 \
                   AND (?4 IS NULL OR id > ?4) ORDER BY id LIMIT ?5";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params = params![range.run.0, range.after, range.until, after.map(|id| id.0), limit];
        for id in statement.query_map(params, |row| row.get(0)).map_err(map_error)? {
            found.insert(id.map_err(map_error)?, range);
        }
    }
    let mut rows = Vec::new();
    for (id, range) in found.into_iter().take(limit) {
        let params = params![range.run.0, range.after, range.until, id];
        let stored = rows_of(db, "body", params)?.into_iter();
        rows.extend(stored.map(|(stored, _)| forks::row(run, range.until, stored)));
    }
    Ok(Some(rows))
}

/// A page of the chunks of a fork's documents, by document and event. Only these are read. None if the run is no fork.
pub(super) fn chunks(
    db: &Connection,
    run: RunId,
    mut after: (DocumentId, i64),
    limit: usize,
) -> Result<Option<Vec<StoredChunk>>, StoreError> {
    let parts = segments(db, run)?;
    if parts.is_empty() {
        return Ok(None);
    }
    let ranges = ranges(run, &parts);
    let mut chunks = Vec::new();
    // Most often once: few chunks belong to no document, or to a text that is no longer kept.
    loop {
        let left = limit.saturating_sub(chunks.len());
        let page = chunks_after(db, &ranges, after, left)?;
        let is_last = page.len() < left;
        let Some(last) = page.last() else { return Ok(Some(chunks)) };
        after = (last.document_id, last.seq as i64);
        let mut bases = BTreeMap::new();
        for chunk in &page {
            if let Entry::Vacant(base) = bases.entry(chunk.document_id)
                && let Some(seq) = base_of(db, &ranges, chunk.document_id)?
            {
                base.insert(seq);
            }
        }
        chunks.extend(forks::of_documents(page, &bases));
        if is_last || chunks.len() >= limit {
            return Ok(Some(chunks));
        }
    }
}

/// The next chunks of all parts, whatever document they belong to.
fn chunks_after(
    db: &Connection,
    ranges: &[Range],
    after: (DocumentId, i64),
    limit: usize,
) -> Result<Vec<StoredChunk>, StoreError> {
    let sql_limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Each event belongs to one part.
    let mut keys: Vec<(Uuid, i64, RunId)> = Vec::new();
    for range in ranges {
        let sql = "SELECT document_id, seq FROM tree_agent_document_chunks WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 \
                   AND (document_id, seq) > (?4, ?5) ORDER BY document_id, seq LIMIT ?6";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![range.run.0, range.after, range.until, after.0.0, after.1, sql_limit];
        let found = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?, range.run)));
        for key in found.map_err(map_error)? {
            keys.push(key.map_err(map_error)?);
        }
    }
    keys.sort_unstable();
    keys.truncate(limit);
    let sql = "SELECT document_id, seq, start_byte, body, created_at, replaces FROM tree_agent_document_chunks \
               WHERE run_id = ?1 AND document_id = ?2 AND seq = ?3";
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let mut chunk = |(document, seq, run): (Uuid, i64, RunId)| {
        statement.query_row(params![run.0, document, seq], operations::chunk).map_err(map_error)
    };
    keys.into_iter().map(&mut chunk).collect()
}

/// The event that the body of a fork's document belongs to; none if it has no such document.
fn base_of(db: &Connection, ranges: &[Range], id: DocumentId) -> Result<Option<i64>, StoreError> {
    for range in ranges.iter().rev() {
        let sql = "SELECT min(base_seq, ?3) FROM tree_agent_documents \
                   WHERE run_id = ?1 AND id = ?4 AND created_seq > ?2 AND created_seq <= ?3";
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![range.run.0, range.after, range.until, id.0];
        if let Some(base) = statement.query_row(params, |row| row.get(0)).optional().map_err(map_error)? {
            return Ok(Some(base));
        }
    }
    Ok(None)
}

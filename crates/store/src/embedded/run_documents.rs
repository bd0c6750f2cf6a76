//! The documents that a run writes, and their places, in SQLite.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tree_agent_contract::{DocumentId, RunId};
use uuid::Uuid;

use super::connection::map_error;
use super::values::done;
use super::values::execute;
use crate::document_writes::{CreateWrite, DocumentWrites, LinkWrite};
use crate::error::StoreError;
use crate::logic::forks::segments;
use crate::logic::inherited::ranges;
use crate::text::{clean, json_text};

/// Each chunk begins where the last one ends, or the body. Only its place is looked up, whatever the document holds.
const CHUNK_AT: &str = "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
     SELECT d.run_id, d.id, ?3, COALESCE((SELECT c.start_byte + octet_length(c.body) \
     FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq \
     ORDER BY c.seq DESC LIMIT 1), d.dropped_bytes + octet_length(d.body)), ?4, ?5, ?6 \
     FROM tree_agent_documents d WHERE d.run_id = ?1 AND d.id = ?2";

/// Writes the documents of an append of `run`.
pub(super) fn write(db: &mut Connection, run: RunId, writes: DocumentWrites<'_>) -> Result<(), StoreError> {
    for create in &writes.creates {
        create_of_run(db, run, create)?;
    }
    for chunk in &writes.appends {
        let (seq, at) = (chunk.seq as i64, chunk.at.micros());
        let params = params![run.0, chunk.id.0, seq, chunk.text, chunk.replaces, at];
        if execute(db, CHUNK_AT, params)? == 0
            && let Some(end) = inherited_end(db, run, chunk.id)?
        {
            // It continues what a run before has written.
            let sql = "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            execute(db, sql, params![run.0, chunk.id.0, seq, end, chunk.text, chunk.replaces, at])?;
        }
    }
    // Documents that are created with those above them come in any order.
    let places = writes.creates.iter().filter_map(|create| create.link);
    places.chain(writes.links.iter().copied()).try_for_each(|link| place(db, run, &link))
}

/// Where a document ends that a fork has from a run before it; none if there is none.
fn inherited_end(db: &mut Connection, run: RunId, id: DocumentId) -> Result<Option<i64>, StoreError> {
    let mut end: Option<(i64, i64)> = None;
    for range in ranges(run, &done(segments(db, run))?) {
        let sql = "SELECT created_seq, dropped_bytes + octet_length(body) FROM tree_agent_documents \
                   WHERE run_id = ?1 AND id = ?4 AND created_seq > ?2 AND created_seq <= ?3 \
                   UNION ALL SELECT seq, start_byte + octet_length(body) FROM tree_agent_document_chunks \
                   WHERE run_id = ?1 AND document_id = ?4 AND seq > ?2 AND seq <= ?3 ORDER BY 1 DESC LIMIT 1";
        let params = params![range.run.0, range.after, range.until, id.0];
        end = end.max(first(db, sql, params, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(end.map(|(_, end)| end))
}

/// The place of a document that a fork has from a run before it: none if there is none, else the one above it.
fn inherited_parent(db: &mut Connection, run: RunId, id: Uuid) -> Result<Option<Option<Uuid>>, StoreError> {
    for range in ranges(run, &done(segments(db, run))?).into_iter().rev().skip(1) {
        let sql = "SELECT CASE WHEN linked_seq <= ?3 THEN parent_id END FROM tree_agent_documents \
                   WHERE run_id = ?1 AND id = ?4 AND created_seq > ?2 AND created_seq <= ?3";
        let params = params![range.run.0, range.after, range.until, id];
        if let Some(parent) = first(db, sql, params, |row| row.get(0))? {
            return Ok(Some(parent));
        }
    }
    Ok(None)
}

/// The place of a document that the run wrote itself: none if there is none, else the one above it.
fn parent(db: &Connection, run: RunId, id: Uuid) -> Result<Option<Option<Uuid>>, StoreError> {
    let sql = "SELECT parent_id FROM tree_agent_documents WHERE run_id = ?1 AND id = ?2";
    first(db, sql, params![run.0, id], |row| row.get(0))
}

/// The first row of a cached statement.
fn first<T>(
    db: &Connection,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    db.prepare_cached(sql).and_then(|mut found| found.query_row(params, read).optional()).map_err(map_error)
}

/// A document that is created. One that exists already begins anew, in its place.
fn create_of_run(db: &Connection, run: RunId, create: &CreateWrite<'_>) -> Result<(), StoreError> {
    if let Some(link) = create.link
        && parent(db, run, link.child.0)?.is_some_and(|parent| parent != Some(link.parent.0))
    {
        let why = "it exists already, in another place";
        return Err(StoreError::refused_place(run, link.child, link.parent, why));
    }
    put(db, run, create)
}

/// Puts a document that is there below another one. The same place again changes nothing.
fn place(db: &mut Connection, run: RunId, link: &LinkWrite) -> Result<(), StoreError> {
    let refused = |why: String| Err(StoreError::refused_place(run, link.child, link.parent, &why));
    match parent(db, run, link.child.0)? {
        // A fork leaves it where it is.
        None if inherited_parent(db, run, link.child.0)?.is_some() => return Ok(()),
        None => return refused("the run has no such document".to_owned()),
        Some(Some(present)) if present == link.parent.0 => return Ok(()),
        Some(Some(present)) => return refused(format!("it is below {present}")),
        Some(None) => {}
    }
    let mut parent_of = |id: Uuid| match parent(db, run, id)? {
        Some(own) => Ok(Some(own)),
        None => inherited_parent(db, run, id),
    };
    let Some(mut above) = parent_of(link.parent.0)?.map(|next| (link.parent.0, next)) else {
        return refused("the run has none to be above it".to_owned());
    };
    loop {
        if above.0 == link.child.0 {
            return refused("it is above it".to_owned());
        }
        let Some(next) = above.1 else { break };
        above = (next, parent_of(next)?.flatten());
    }
    let sql = "UPDATE tree_agent_documents SET parent_id = ?3, linked_seq = ?4, linked_at = ?5 WHERE run_id = ?1 AND id = ?2";
    let params = params![run.0, link.child.0, link.parent.0, link.seq as i64, link.at.micros()];
    execute(db, sql, params).map(drop)
}

/// Inserts a document. If it exists, it begins anew: chunks of events before it do not belong to it any more.
fn put(db: &Connection, run: RunId, create: &CreateWrite<'_>) -> Result<(), StoreError> {
    let document = &create.document;
    execute(
        db,
        "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, base_seq, \
         created_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (run_id, id) DO UPDATE SET \
         title = excluded.title, body = excluded.body, props = excluded.props, updated_at = excluded.updated_at, \
         dropped_bytes = 0, base_seq = excluded.base_seq, created_seq = excluded.created_seq",
        params![
            run.0,
            document.id.0,
            document.kind.as_str(),
            clean(&document.path),
            clean(&document.title),
            clean(&document.body),
            json_text(&document.props)?,
            document.created_at.micros(),
            document.updated_at.micros(),
            create.base_seq as i64,
            create.created_seq as i64,
        ],
    )
    .map(drop)
}

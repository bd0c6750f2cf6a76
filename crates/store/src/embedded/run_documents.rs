//! The documents that a run writes, and their places, in SQLite.

use rusqlite::{Connection, OptionalExtension, params};
use tree_agent_contract::RunId;
use tree_agent_contract::document::Document;
use uuid::Uuid;

use super::append::execute;
use super::connection::map_error;
use super::forks;
use crate::document_writes::{CreateWrite, DocumentWrites, LinkWrite};
use crate::error::StoreError;
use crate::text::{clean, json_text};

/// Writes the documents of an append of `run`.
pub(super) fn write(db: &Connection, run: RunId, writes: DocumentWrites<'_>) -> Result<(), StoreError> {
    for create in &writes.creates {
        create_of_run(db, run, create)?;
    }
    // Each chunk begins where the last one ends, or the body. Only its place is looked up, whatever the document holds.
    let mut chunk_at = db
        .prepare_cached(
            "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
             SELECT d.run_id, d.id, ?3, COALESCE((SELECT c.start_byte + octet_length(c.body) \
             FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq \
             ORDER BY c.seq DESC LIMIT 1), d.dropped_bytes + octet_length(d.body)), ?4, ?5, ?6 \
             FROM tree_agent_documents d WHERE d.run_id = ?1 AND d.id = ?2",
        )
        .map_err(map_error)?;
    for chunk in &writes.appends {
        let params =
            params![run.0, chunk.id.0, chunk.seq as i64, chunk.text, chunk.replaces, chunk.at.micros()];
        let written = chunk_at.execute(params).map_err(map_error)?;
        if written == 0
            && let Some(end) = forks::inherited_end(db, run, chunk.id)?
        {
            // It continues what a run before has written.
            let sql = "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let (seq, at) = (chunk.seq as i64, chunk.at.micros());
            execute(db, sql, params![run.0, chunk.id.0, seq, end, chunk.text, chunk.replaces, at])?;
        }
    }
    // Documents that are created with those above them come in any order.
    let places = writes.creates.iter().filter_map(|create| create.link);
    places.chain(writes.links.iter().copied()).try_for_each(|link| place(db, run, &link))
}

/// A document that is created. One that exists already begins anew, in its place.
fn create_of_run(db: &Connection, run: RunId, create: &CreateWrite<'_>) -> Result<(), StoreError> {
    if let Some(link) = create.link {
        let sql = "SELECT parent_id FROM tree_agent_documents WHERE run_id = ?1 AND id = ?2";
        let there = db.prepare_cached(sql).and_then(|mut statement| {
            statement.query_row(params![run.0, link.child.0], |row| row.get::<_, Option<Uuid>>(0)).optional()
        });
        if there.map_err(map_error)?.is_some_and(|parent| parent != Some(link.parent.0)) {
            let why = "it exists already, in another place";
            return Err(StoreError::refused_place(run, link.child, link.parent, why));
        }
    }
    put_of_run(db, run, create.created_seq, create.base_seq, &create.document, "")
}

/// Puts a document that is there below another one. The same place again changes nothing.
fn place(db: &Connection, run: RunId, link: &LinkWrite) -> Result<(), StoreError> {
    let refused = |why: String| Err(StoreError::refused_place(run, link.child, link.parent, &why));
    let parent_of = |id: Uuid| {
        let sql = "SELECT parent_id FROM tree_agent_documents WHERE run_id = ?1 AND id = ?2";
        db.prepare_cached(sql)
            .and_then(|mut found| {
                found.query_row(params![run.0, id], |row| row.get::<_, Option<Uuid>>(0)).optional()
            })
            .map_err(map_error)
    };
    match parent_of(link.child.0)? {
        // A fork leaves it where it is.
        None if forks::inherited_parent(db, run, link.child.0)?.is_some() => return Ok(()),
        None => return refused("the run has no such document".to_owned()),
        Some(Some(present)) if present == link.parent.0 => return Ok(()),
        Some(Some(present)) => return refused(format!("it is below {present}")),
        Some(None) => {}
    }
    let parent_of = |id: Uuid| match parent_of(id)? {
        Some(own) => Ok(Some(own)),
        None => forks::inherited_parent(db, run, id),
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

/// Inserts a document of a run. If it exists, replaces title, body, props and what `also` sets, and it begins anew:
/// chunks of events up to `base` do not belong to it any more.
pub(super) fn put_of_run(
    db: &Connection,
    run: RunId,
    created: u64,
    base: u64,
    document: &Document,
    also: &str,
) -> Result<(), StoreError> {
    execute(
        db,
        &format!(
            "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, base_seq, \
             created_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (run_id, id) DO UPDATE SET {also}\
             title = excluded.title, body = excluded.body, props = excluded.props, updated_at = excluded.updated_at, \
             dropped_bytes = 0, base_seq = excluded.base_seq, created_seq = excluded.created_seq"
        ),
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
            base as i64,
            created as i64,
        ],
    )
    .map(drop)
}

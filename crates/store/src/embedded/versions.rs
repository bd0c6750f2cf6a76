//! What documents of runs were at an event, in SQLite.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tree_agent_contract::document::Document;
use tree_agent_contract::{DocumentId, Timestamp};
use uuid::Uuid;

use super::connection::map_error;
use super::documents::{CREATOR_FIRST, SHOWN, SUMMARY, summary};
use crate::chunks::cut;
use crate::error::StoreError;
use crate::ports::{DocumentVersion, Page, PlacedDocument};

/// A document as it is now.
pub(super) fn latest(db: &Connection, id: DocumentId) -> Result<PlacedDocument, StoreError> {
    let sql = format!(
        "SELECT {SUMMARY}, d.body, d.created_at FROM onto_documents d WHERE d.id = ?1 AND {SHOWN} \
         ORDER BY {CREATOR_FIRST} LIMIT 1"
    );
    let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
    let mut rows = statement.query([id.0]).map_err(map_error)?;
    let row = rows.next().map_err(map_error)?;
    placed(row.ok_or_else(|| StoreError::not_found("document", id))?)
}

/// A document of a run as it was after the event `seq`.
pub(super) fn at(db: &Connection, id: DocumentId, seq: u64) -> Result<PlacedDocument, StoreError> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let chunks = "FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id AND c.document_id = d.id \
                  AND c.seq > d.base_seq AND c.seq <= ?2";
    let sql = format!(
        "SELECT d.id, d.type_key, NULL, d.run_id, d.path, d.title, 0, d.props, \
         COALESCE((SELECT c.created_at {chunks} ORDER BY c.seq DESC LIMIT 1), d.updated_at), \
         CASE WHEN d.linked_seq <= ?2 THEN d.parent_id END, \
         CASE WHEN d.replaced_seq IS NULL THEN d.body ELSE '' END || COALESCE((SELECT group_concat(c.body, '' ORDER BY c.seq) \
         {chunks} AND c.seq >= COALESCE(d.replaced_seq, 0)), ''), d.created_at \
         FROM (SELECT d.*, (SELECT c.seq {chunks} AND c.replaces = 1 ORDER BY c.seq DESC LIMIT 1) AS replaced_seq \
         FROM (SELECT * FROM tree_agent_documents d WHERE d.id = ?1 AND {SHOWN} ORDER BY {CREATOR_FIRST} LIMIT 1) d \
         WHERE d.created_seq <= ?2) d"
    );
    let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
    let mut rows = statement.query(params![id.0, seq]).map_err(map_error)?;
    let row = rows.next().map_err(map_error)?;
    placed(row.ok_or_else(|| StoreError::not_found("document", id))?)
}

/// The texts of a document, the first one first.
pub(super) fn list(
    db: &Connection,
    id: DocumentId,
    after: u64,
    limit: usize,
) -> Result<Page<DocumentVersion>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT d.run_id, d.base_seq, d.created_seq, d.created_at, d.dropped_bytes, octet_length(d.body) \
         FROM tree_agent_documents d WHERE d.id = ?1 AND {SHOWN} ORDER BY {CREATOR_FIRST} LIMIT 1"
    );
    let read = |row: &Row<'_>| {
        let numbers: [i64; 5] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
        Ok((row.get::<_, Uuid>(0)?, numbers))
    };
    let found = db.query_row(&sql, [id.0], read).optional().map_err(map_error)?;
    let Some((run, [base, created, created_at, dropped, body])) = found else {
        // That of a project has no history.
        latest(db, id)?;
        return Ok(Page { items: Vec::new(), more: false });
    };
    let sql = "SELECT c.seq, c.created_at, c.replaces, c.start_byte + octet_length(c.body) - COALESCE((SELECT o.start_byte \
               FROM tree_agent_document_chunks o WHERE o.run_id = ?1 AND o.document_id = ?2 AND o.seq > ?3 \
               AND o.seq <= c.seq AND o.replaces = 1 ORDER BY o.seq DESC LIMIT 1), ?4) \
               FROM tree_agent_document_chunks c WHERE c.run_id = ?1 AND c.document_id = ?2 AND c.seq > ?3 AND c.seq > ?5 \
               ORDER BY c.seq LIMIT ?6";
    let limit_and_one = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let version = |row: &Row<'_>| {
        Ok(DocumentVersion {
            seq: row.get::<_, i64>(0)? as u64,
            at: Timestamp(row.get(1)?),
            replaced: row.get(2)?,
            bytes: row.get::<_, i64>(3)? as u64,
        })
    };
    let params = params![run, id.0, base, dropped, after, limit_and_one];
    let (seq, at) = (created as u64, Timestamp(created_at));
    let first = DocumentVersion { seq, at, bytes: body as u64, replaced: true };
    let mut items: Vec<_> = (created > after).then_some(first).into_iter().collect();
    for version in statement.query_map(params, version).map_err(map_error)? {
        items.push(version.map_err(map_error)?);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, more })
}

/// A row of [`SUMMARY`], the text and the time of its creation.
fn placed(row: &Row<'_>) -> Result<PlacedDocument, StoreError> {
    let head = summary(row)?;
    Ok(PlacedDocument {
        document: Document {
            id: head.id,
            kind: head.kind,
            project_id: head.project_id,
            run_id: head.run_id,
            path: head.path,
            title: head.title,
            body: cut(row.get(10).map_err(map_error)?),
            props: head.props,
            created_at: Timestamp(row.get(11).map_err(map_error)?),
            updated_at: head.updated_at,
        },
        parent_id: head.parent_id,
    })
}

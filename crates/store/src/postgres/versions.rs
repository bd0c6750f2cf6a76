//! What documents of runs were at an event, on Postgres.

use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::DocumentId;
use tree_agent_contract::document::Document;
use uuid::Uuid;

use super::connection::Connection;
use super::documents::{CREATOR_FIRST, SHOWN, SUMMARY, summary};
use super::types::Time;
use crate::error::StoreError;
use crate::ports::{DocumentVersion, Page, PlacedDocument};

/// A document as it is now.
pub(super) async fn latest(
    connection: &mut Connection,
    id: DocumentId,
) -> Result<PlacedDocument, StoreError> {
    let sql = format!(
        "SELECT {SUMMARY}, d.body, d.created_at FROM onto_documents d WHERE d.id = $1 AND {SHOWN} \
         ORDER BY {CREATOR_FIRST} LIMIT 1"
    );
    let row = connection.query_opt(&sql, &[&id.0]).await?;
    placed(&row.ok_or_else(|| StoreError::not_found("document", id))?)
}

/// A document of a run as it was after the event `seq`.
pub(super) async fn at(
    connection: &mut Connection,
    id: DocumentId,
    seq: u64,
) -> Result<PlacedDocument, StoreError> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    let chunks = "FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id AND c.document_id = d.id \
                  AND c.seq > d.base_seq AND c.seq <= $2";
    let sql = format!(
        "SELECT d.id, d.type_key, NULL::uuid, d.run_id, d.path, d.title, 0::int8, d.props, COALESCE(l.created_at, d.updated_at), \
         CASE WHEN d.linked_seq <= $2 THEN d.parent_id END, \
         tree_agent_tail(CASE WHEN o.seq IS NULL THEN d.body ELSE '' END || COALESCE((SELECT string_agg(c.body, '' ORDER BY c.seq) \
         {chunks} AND c.seq >= COALESCE(o.seq, 0) AND c.start_byte + octet_length(c.body) > l.end_byte - 1048576), ''), 1048576), \
         d.created_at \
         FROM (SELECT * FROM tree_agent_documents d WHERE d.id = $1 AND {SHOWN} ORDER BY {CREATOR_FIRST} LIMIT 1) d \
         LEFT JOIN LATERAL (SELECT c.start_byte + octet_length(c.body) AS end_byte, c.created_at {chunks} \
         ORDER BY c.seq DESC LIMIT 1) l ON true \
         LEFT JOIN LATERAL (SELECT c.seq {chunks} AND c.replaces ORDER BY c.seq DESC LIMIT 1) o ON true \
         WHERE d.created_seq <= $2"
    );
    let row = connection.query_opt(&sql, &[&id.0, &seq]).await?;
    placed(&row.ok_or_else(|| StoreError::not_found("document", id))?)
}

/// The texts of a document, the first one first.
pub(super) async fn list(
    connection: &mut Connection,
    id: DocumentId,
    after: u64,
    limit: usize,
) -> Result<Page<DocumentVersion>, StoreError> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT d.run_id, d.base_seq, d.created_seq, d.created_at, d.dropped_bytes, octet_length(d.body)::int8 \
         FROM tree_agent_documents d WHERE d.id = $1 AND {SHOWN} ORDER BY {CREATOR_FIRST} LIMIT 1"
    );
    let Some(row) = connection.query_opt(&sql, &[&id.0]).await? else {
        // That of a project has no history.
        latest(connection, id).await?;
        return Ok(Page { items: Vec::new(), more: false });
    };
    let (run, base, created): (Uuid, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let (dropped, body): (i64, i64) = (row.get(4), row.get(5));
    let sql = "SELECT c.seq, c.created_at, c.replaces, c.start_byte + octet_length(c.body) - COALESCE((SELECT o.start_byte \
               FROM tree_agent_document_chunks o WHERE o.run_id = $1 AND o.document_id = $2 AND o.seq > $3 \
               AND o.seq <= c.seq AND o.replaces ORDER BY o.seq DESC LIMIT 1), $4) \
               FROM tree_agent_document_chunks c WHERE c.run_id = $1 AND c.document_id = $2 AND c.seq > $3 AND c.seq > $5 \
               ORDER BY c.seq LIMIT $6";
    let limit_and_one = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = connection.query(sql, &[&run, &id.0, &base, &dropped, &after, &limit_and_one]).await?;
    let version = |row: &Row| DocumentVersion {
        seq: row.get::<_, i64>(0) as u64,
        at: row.get::<_, Time>(1).0,
        replaced: row.get(2),
        bytes: row.get::<_, i64>(3) as u64,
    };
    let (seq, at) = (created as u64, row.get::<_, Time>(3).0);
    let first = DocumentVersion { seq, at, bytes: body as u64, replaced: true };
    let mut items: Vec<_> = (created > after).then_some(first).into_iter().collect();
    items.extend(rows.iter().map(version));
    let more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, more })
}

/// A row of [`SUMMARY`], the text and the time of its creation.
fn placed(row: &Row) -> Result<PlacedDocument, StoreError> {
    let head = summary(row)?;
    Ok(PlacedDocument {
        document: Document {
            id: head.id,
            kind: head.kind,
            project_id: head.project_id,
            run_id: head.run_id,
            path: head.path,
            title: head.title,
            body: row.get(10),
            props: head.props,
            created_at: row.get::<_, Time>(11).0,
            updated_at: head.updated_at,
        },
        parent_id: head.parent_id,
    })
}

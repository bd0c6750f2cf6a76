//! Documents that are read by their id alone: as they are, as they were, and from some byte on.

use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::{DocumentId, RunId};
use uuid::Uuid;

use super::forks;
use super::rows::{SUMMARY, placed_document};
use super::sql::{Db, Record};
use crate::chunks::{Span, to_read};
use crate::error::StoreError;
use crate::ports::{DocumentTail, DocumentVersion, Page, PlacedDocument};
use crate::schema::Dialect;

/// Documents of deleted runs are hidden with them.
pub(crate) const SHOWN: &str =
    "NOT EXISTS (SELECT 1 FROM tree_agent_runs r WHERE r.id = d.run_id AND r.deleted_at IS NOT NULL)";

/// The document with the id that is parameter 1. Several runs may have one under this id: restored forks, and forks
/// that outlived the run, hold it too. The one that created it counts. That is the run with the fewest others before
/// it in its line, and of several such forks the oldest.
fn by_id(dialect: Dialect) -> String {
    let length = dialect.pick("jsonb_array_length", "json_array_length");
    format!(
        "d.id = $1 AND {SHOWN} ORDER BY \
         COALESCE((SELECT {length}(r.segments) FROM tree_agent_runs r WHERE r.id = d.run_id), 0), \
         COALESCE((SELECT r.created_at FROM tree_agent_runs r WHERE r.id = d.run_id), d.created_at), \
         d.created_at, d.run_id LIMIT 1"
    )
}

/// A document as it is now.
pub(crate) async fn latest<D: Db>(db: &mut D, id: DocumentId) -> Result<PlacedDocument, StoreError> {
    let sql =
        format!("SELECT {SUMMARY}, d.body, d.created_at FROM onto_documents d WHERE {}", by_id(D::DIALECT));
    placed_document(&db.row(&sql, &[&id.0]).await?.ok_or_else(|| StoreError::not_found("document", id))?)
}

/// The run that created the document; none for one of a project.
async fn creator<D: Db>(db: &mut D, id: DocumentId) -> Result<Option<RunId>, StoreError> {
    let sql = format!("SELECT d.run_id FROM tree_agent_documents d WHERE {}", by_id(D::DIALECT));
    db.row(&sql, &[&id.0]).await?.map(|row| row.get(0).map(RunId)).transpose()
}

/// A document of a run as it was after the event `seq`.
pub(crate) async fn at<D: Db>(db: &mut D, id: DocumentId, seq: u64) -> Result<PlacedDocument, StoreError> {
    let missing = || StoreError::not_found("document", id);
    let run = creator(db, id).await?.ok_or_else(missing)?;
    forks::document(db, run, id, true).await?.at(seq).ok_or_else(missing)
}

/// The texts that a document has had.
pub(crate) async fn versions<D: Db>(
    db: &mut D,
    id: DocumentId,
    after: u64,
    limit: usize,
) -> Result<Page<DocumentVersion>, StoreError> {
    match creator(db, id).await? {
        Some(run) => Ok(forks::document(db, run, id, false).await?.versions(after, limit)),
        None => {
            // That of a project has no history.
            latest(db, id).await?;
            Ok(Page { items: Vec::new(), more: false })
        }
    }
}

/// Bytes of a text, from the one at `from`, counted from 0; `length` of them.
fn bytes(dialect: Dialect, text: &str, from: &str, length: &str) -> String {
    match dialect {
        Dialect::Postgres => format!(
            "substring(convert_to({text}, 'UTF8') FROM CAST(CAST({from} AS bigint) AS integer) + 1 \
             FOR CAST(CAST({length} AS bigint) AS integer))"
        ),
        Dialect::Embedded => format!("COALESCE(substr(CAST({text} AS BLOB), {from} + 1, {length}), x'')"),
    }
}

/// The text of a document from byte `from` on, at most `max` bytes. What a run wrote is read in pieces, and no more of
/// them than is asked for.
pub(crate) async fn tail<D: Db>(
    db: &mut D,
    id: DocumentId,
    from: u64,
    max: usize,
) -> Result<DocumentTail, StoreError> {
    let (to_read, dialect) = (to_read(max), D::DIALECT);
    let sql = format!(
        "SELECT d.run_id, d.base_seq, d.dropped_bytes, d.dropped_bytes + octet_length(d.body), \
         (SELECT c.start_byte + octet_length(c.body) FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id \
         AND c.document_id = d.id AND c.seq > d.base_seq ORDER BY c.seq DESC LIMIT 1), d.updated_at, \
         (SELECT c.start_byte FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id \
         AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces ORDER BY c.seq DESC LIMIT 1) \
         FROM tree_agent_documents d WHERE {}",
        by_id(dialect)
    );
    let Some(row) = db.row(&sql, &[&id.0]).await? else {
        return source_tail(db, id, from, max).await;
    };
    let (run, base, dropped): (Uuid, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let body_end: i64 = row.get(3)?;
    let end = row.get::<Option<i64>>(4)?.unwrap_or(body_end);
    let written_at = row.time(5)?;
    let origin = row.get::<Option<i64>>(6)?.unwrap_or(dropped);
    let span = Span { origin: origin as u64, end: end as u64 };
    let begin = i64::try_from(span.from(from)).unwrap_or(i64::MAX);
    let mut parts = Vec::new();
    if begin < body_end {
        let text = bytes(dialect, "body", "$3", "$4");
        let sql = format!("SELECT {text} FROM tree_agent_documents WHERE run_id = $1 AND id = $2");
        let row = db.row(&sql, &[&run, &id.0, &(begin - dropped), &to_read]).await?;
        parts.extend(row.map(|row| row.get::<Vec<u8>>(0)).transpose()?.map(|text| (begin as u64, text)));
    }
    // Backwards from the end to the chunk in which the reader stands, and no further than is asked for.
    let text = dialect.pick("convert_to(body, 'UTF8')", "CAST(body AS BLOB)");
    let sql = format!(
        "SELECT start_byte, {text} FROM tree_agent_document_chunks \
         WHERE run_id = $1 AND document_id = $2 AND seq > $3 AND start_byte < $5 \
         AND seq >= COALESCE((SELECT seq FROM tree_agent_document_chunks WHERE run_id = $1 \
         AND document_id = $2 AND seq > $3 AND start_byte <= $4 ORDER BY seq DESC LIMIT 1), 0) ORDER BY seq"
    );
    // What was written since then is left to the next call: it may have replaced the text.
    let until = begin.saturating_add(to_read).min(end);
    for row in db.rows(&sql, &[&run, &id.0, &base, &begin, &until]).await? {
        parts.push((row.number(0)?, row.get::<Vec<u8>>(1)?));
    }
    Ok(span.tail(from, max, written_at, parts.iter().map(|(at, text)| (*at, &text[..]))))
}

/// The tail of a document of a project.
async fn source_tail<D: Db>(
    db: &mut D,
    id: DocumentId,
    from: u64,
    max: usize,
) -> Result<DocumentTail, StoreError> {
    let text = bytes(D::DIALECT, "p.body", "p.start", "$3");
    let sql = format!(
        "SELECT p.bytes, p.start, p.updated_at, {text} FROM (SELECT s.body, s.updated_at, s.bytes, \
         CASE WHEN $2 >= s.bytes THEN s.bytes WHEN $2 < s.bytes - {DOCUMENT_BYTES} THEN s.bytes - {DOCUMENT_BYTES} \
         ELSE $2 END AS start FROM (SELECT body, updated_at, CAST(octet_length(body) AS bigint) AS bytes \
         FROM onto_sources WHERE id = $1) s) p"
    );
    let wanted = i64::try_from(from).unwrap_or(i64::MAX);
    let row = db.row(&sql, &[&id.0, &wanted, &to_read(max)]).await?;
    let row = row.ok_or_else(|| StoreError::not_found("document", id))?;
    let (end, begin, written_at) = (row.number(0)?, row.number(1)?, row.time(2)?);
    let text: Vec<u8> = row.get(3)?;
    Ok(Span { origin: 0, end }.tail(from, max, written_at, [(begin, &text[..])]))
}

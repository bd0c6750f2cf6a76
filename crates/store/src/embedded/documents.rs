//! Documents and full-text search in SQLite.

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use tree_agent_contract::document::{Document, DocumentKind, DocumentSummary, SearchHit, SearchResults};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{DocumentId, ProjectId, RunId, Scope, Timestamp};
use uuid::Uuid;

use super::EmbeddedStore;
use super::append::execute;
use super::connection::map_error;
use crate::batch::DocumentWrites;
use crate::error::StoreError;
use crate::ports::{DocumentQuery, DocumentTail, Documents, Page, SearchQuery};
use crate::text::{clean, query_words, snippet};

/// The columns that [`summary`] reads, in its order.
const SUMMARY: &str =
    "d.id, d.type_key, d.project_id, d.run_id, d.path, d.title, octet_length(d.body), d.props, d.updated_at";

/// Documents of deleted runs are hidden with them.
const SHOWN: &str =
    "NOT EXISTS (SELECT 1 FROM tree_agent_runs r WHERE r.id = d.run_id AND r.deleted_at IS NOT NULL)";

#[async_trait]
impl Documents for EmbeddedStore {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        self.query(move |db| {
            let sql = format!(
                "SELECT {SUMMARY}, d.body, d.created_at FROM onto_documents d WHERE d.id = ?1 AND {SHOWN}"
            );
            let row = db
                .query_row(&sql, [id.0], |row| {
                    Ok((summary(row), row.get::<_, String>(9)?, Timestamp(row.get(10)?)))
                })
                .optional()
                .map_err(map_error)?;
            let (head, body, created_at) = row.ok_or_else(|| StoreError::not_found("document", id))?;
            let head = head?;
            Ok(Document {
                id,
                kind: head.kind,
                project_id: head.project_id,
                run_id: head.run_id,
                path: head.path,
                title: head.title,
                body,
                props: head.props,
                created_at,
                updated_at: head.updated_at,
            })
        })
        .await
    }

    async fn document_tail(&self, id: DocumentId, from: u64) -> Result<DocumentTail, StoreError> {
        // Far beyond the end of any document, and far from an overflow.
        let wanted = i64::try_from(from).unwrap_or(i64::MAX).min(i64::MAX / 2);
        self.query(move |db| {
            let row = db
                // substr of an empty blob is NULL.
                .prepare_cached(&format!(
                    "SELECT max(dropped_bytes, ?2), dropped_bytes + octet_length(body), \
                     coalesce(substr(CAST(body AS BLOB), max(?2 - dropped_bytes, 0) + 1), x'') FROM onto_documents d WHERE id = ?1 AND {SHOWN}"
                ))
                .and_then(|mut statement| {
                    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?));
                    statement.query_row(params![id.0, wanted], read).optional()
                })
                .map_err(map_error)?;
            let (start, end, bytes) = row.ok_or_else(|| StoreError::not_found("document", id))?;
            Ok(DocumentTail { start: start as u64, end: end as u64, bytes })
        })
        .await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        let mut filter = Filter::default();
        filter.conditions.push(SHOWN.into());
        filter.projects(&query.project_ids);
        if !query.kinds.is_empty() {
            filter.any_of("d.type_key", query.kinds.iter().map(|kind| Value::Text(kind.as_str().into())));
        }
        if let Some(run) = query.run_id {
            filter.any_of("d.run_id", std::iter::once(blob(run.0)));
        }
        filter.prefix(&query.path_prefix);
        if let Some((path, id)) = &query.after {
            let path = filter.param(Value::Text(clean(path).into_owned()));
            let id = filter.param(blob(id.0));
            filter.conditions.push(format!("(d.path, d.id) > ({path}, {id})"));
        }
        let limit = filter.param(Value::Integer(query.limit as i64 + 1));
        let sql = format!(
            "SELECT {SUMMARY} FROM onto_documents d{} ORDER BY d.path, d.id LIMIT {limit}",
            filter.sql()
        );
        self.query(move |db| {
            let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
            let mut rows = statement.query(params_from_iter(filter.params)).map_err(map_error)?;
            let mut items = Vec::new();
            while let Some(row) = rows.next().map_err(map_error)? {
                items.push(summary(row)?);
            }
            let more = items.len() > query.limit;
            items.truncate(query.limit);
            Ok(Page { items, more })
        })
        .await
    }

    async fn search_documents(&self, query: SearchQuery) -> Result<SearchResults, StoreError> {
        let words = query_words(&query.text);
        if words.is_empty() || query.limit == 0 {
            return Ok(SearchResults::default());
        }
        self.query(move |db| {
            let found = search(db, &query, &words, " AND ")?;
            if found.total == 0 && words.len() > 1 {
                return search(db, &query, &words, " OR ");
            }
            Ok(found)
        })
        .await
    }

    async fn put_document(&self, document: Document) -> Result<(), StoreError> {
        self.write(move |tx| {
            if let Some(id) = document.project_id {
                let known = tx.query_row("SELECT 1 FROM onto_projects WHERE id = ?1", [id.0], |_| Ok(()));
                known.optional().map_err(map_error)?.ok_or_else(|| StoreError::not_found("project", id))?;
            }
            put(
                tx,
                &document,
                "type_key = excluded.type_key, project_id = excluded.project_id, run_id = excluded.run_id, \
                 path = excluded.path, ",
            )
            .map_err(|error| match error {
                StoreError::Conflict(_) => StoreError::path_taken(document.project_id, &document.path),
                other => other,
            })
        })
        .await
    }
}

/// Writes the documents of an append.
pub(super) fn write(db: &Connection, writes: DocumentWrites<'_>) -> Result<(), StoreError> {
    for document in &writes.creates {
        put(db, document, "")?;
    }
    for (id, text, at) in &writes.appends {
        let found = db
            .prepare_cached("SELECT row, body FROM onto_documents WHERE id = ?1")
            .and_then(|mut s| {
                s.query_row([id.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).optional()
            })
            .map_err(map_error)?;
        let Some((row, mut body)) = found else { continue };
        body.push_str(&clean(text));
        let kept = suffix(&body, DOCUMENT_BYTES);
        execute(
            db,
            "UPDATE onto_documents SET body = ?2, updated_at = ?3, dropped_bytes = dropped_bytes + ?4 WHERE row = ?1",
            params![row, kept, at.micros(), (body.len() - kept.len()) as i64],
        )?;
        index(db, row)?;
    }
    Ok(())
}

/// Inserts a document. If its id exists, replaces title, body, props and what `also` sets.
fn put(db: &Connection, document: &Document, also: &str) -> Result<(), StoreError> {
    let row: i64 = db
        .prepare_cached(&format!(
            "INSERT INTO onto_documents (id, type_key, project_id, run_id, path, title, body, props, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO UPDATE SET {also}\
             title = excluded.title, body = excluded.body, props = excluded.props, updated_at = excluded.updated_at, \
             dropped_bytes = 0 \
             RETURNING row"
        ))
        .and_then(|mut statement| {
            statement.query_row(
                params![
                    document.id.0,
                    document.kind.as_str(),
                    document.project_id.map(|id| id.0),
                    document.run_id.map(|id| id.0),
                    clean(&document.path),
                    clean(&document.title),
                    clean(&document.body),
                    serde_json::to_string(&document.props)
                        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?,
                    document.created_at.micros(),
                    document.updated_at.micros(),
                ],
                |row| row.get(0),
            )
        })
        .map_err(map_error)?;
    index(db, row)
}

/// Updates the full-text index for a document. Sources are in it, other documents are not.
fn index(db: &Connection, row: i64) -> Result<(), StoreError> {
    execute(db, "DELETE FROM onto_documents_search WHERE rowid = ?1", &[&row])?;
    execute(
        db,
        "INSERT INTO onto_documents_search (rowid, title, path, body) \
         SELECT row, title, path, body FROM onto_documents WHERE row = ?1 AND type_key = 'document.source'",
        &[&row],
    )?;
    Ok(())
}

fn search(
    db: &Connection,
    query: &SearchQuery,
    words: &[String],
    operator: &str,
) -> Result<SearchResults, StoreError> {
    let terms: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let mut filter = Filter::default();
    let terms = filter.param(Value::Text(terms.join(operator)));
    filter.conditions.push(format!("onto_documents_search MATCH {terms}"));
    if query.context.scope != Scope::Global {
        let ids = query.context.project_ids.iter().map(|id| blob(id.0));
        filter.any_of("d.project_id", ids);
    }
    filter.prefix(&query.path_prefix);
    let matching = format!(
        "FROM onto_documents_search JOIN onto_documents d ON d.row = onto_documents_search.rowid{}",
        filter.sql()
    );
    let total: i64 = db
        .prepare_cached(&format!("SELECT count(*) {matching}"))
        .and_then(|mut count| count.query_row(params_from_iter(&filter.params), |row| row.get(0)))
        .map_err(map_error)?;
    let limit = filter.param(Value::Integer(i64::try_from(query.limit).unwrap_or(i64::MAX)));
    // Titles weigh more than paths, and paths more than text.
    let sql = format!(
        "SELECT {SUMMARY}, d.body, bm25(onto_documents_search, 8.0, 4.0, 1.0) AS rank {matching} \
         ORDER BY rank, d.path, d.id LIMIT {limit}"
    );
    let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
    let mut rows = statement.query(params_from_iter(filter.params)).map_err(map_error)?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next().map_err(map_error)? {
        let body: String = row.get(9).map_err(map_error)?;
        let rank: f64 = row.get(10).map_err(map_error)?;
        hits.push(SearchHit { document: summary(row)?, snippet: snippet(&body, words), score: -rank });
    }
    Ok(SearchResults { hits, total: total as u64 })
}

/// Conditions and their parameters.
#[derive(Default)]
struct Filter {
    conditions: Vec<String>,
    params: Vec<Value>,
}

impl Filter {
    fn param(&mut self, value: Value) -> String {
        self.params.push(value);
        format!("?{}", self.params.len())
    }

    fn any_of(&mut self, column: &str, values: impl Iterator<Item = Value>) {
        let values: Vec<String> = values.map(|value| self.param(value)).collect();
        self.conditions.push(format!("{column} IN ({})", values.join(", ")));
    }

    fn projects(&mut self, ids: &[ProjectId]) {
        if !ids.is_empty() {
            self.any_of("d.project_id", ids.iter().map(|id| blob(id.0)));
        }
    }

    fn prefix(&mut self, prefix: &str) {
        if !prefix.is_empty() {
            let prefix = self.param(Value::Text(clean(prefix).into_owned()));
            self.conditions.push(format!("substr(d.path, 1, length({prefix})) = {prefix}"));
        }
    }

    fn sql(&self) -> String {
        if self.conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.conditions.join(" AND "))
        }
    }
}

fn blob(id: Uuid) -> Value {
    Value::Blob(id.as_bytes().to_vec())
}

fn summary(row: &Row<'_>) -> Result<DocumentSummary, StoreError> {
    let id = DocumentId(row.get(0).map_err(map_error)?);
    let broken = |e: Box<dyn std::error::Error + Send + Sync>| {
        StoreError::broken(format!("document {id} cannot be read"), e)
    };
    let kind: String = row.get(1).map_err(map_error)?;
    let props: String = row.get(7).map_err(map_error)?;
    Ok(DocumentSummary {
        id,
        kind: kind.parse::<DocumentKind>().map_err(|e| broken(e.into()))?,
        project_id: row.get::<_, Option<Uuid>>(2).map_err(map_error)?.map(ProjectId),
        run_id: row.get::<_, Option<Uuid>>(3).map_err(map_error)?.map(RunId),
        path: row.get(4).map_err(map_error)?,
        title: row.get(5).map_err(map_error)?,
        bytes: row.get::<_, i64>(6).map_err(map_error)? as u64,
        props: serde_json::from_str(&props).map_err(|e| broken(e.into()))?,
        updated_at: Timestamp(row.get(8).map_err(map_error)?),
    })
}

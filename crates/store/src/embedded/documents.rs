//! Documents and full-text search in SQLite.

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use tree_agent_contract::document::{Document, DocumentKind, DocumentSummary, SearchHit, SearchResults};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId, Scope, Timestamp};
use uuid::Uuid;

use super::EmbeddedStore;
use super::append::execute;
use super::connection::map_error;
use super::forks;
use super::run_documents::put_of_run;
use super::versions;
use crate::chunks::{Span, to_read};
use crate::error::StoreError;
use crate::ports::{
    ChangedDocuments, DocumentQuery, DocumentTail, DocumentVersion, Documents, Page, PlacedDocument,
    SearchQuery,
};
use crate::text::{INDEX_VERSION, Snippets, clean, index_text, query_words};

/// The columns that [`summary`] reads, in its order.
pub(super) const SUMMARY: &str =
    "d.id, d.type_key, d.project_id, d.run_id, d.path, d.title, d.bytes, d.props, d.updated_at, d.parent_id";

/// The same of a source.
const SOURCE: &str = "d.id, d.type_key, d.project_id, NULL, d.path, d.title, octet_length(d.body), d.props, d.updated_at, NULL";

/// Documents of deleted runs are hidden with them.
pub(super) const SHOWN: &str =
    "NOT EXISTS (SELECT 1 FROM tree_agent_runs r WHERE r.id = d.run_id AND r.deleted_at IS NOT NULL)";

/// Puts the run first that created a document, of all runs which have it under its id: restored forks, and those that
/// outlived the run, hold it too. That is the run with the fewest others before it in its line, and of several such
/// forks the oldest. What an archive says of the document itself does not count.
pub(super) const CREATOR_FIRST: &str = "\
     COALESCE((SELECT json_array_length(r.segments) FROM tree_agent_runs r WHERE r.id = d.run_id), 0), \
     COALESCE((SELECT r.created_at FROM tree_agent_runs r WHERE r.id = d.run_id), d.created_at), d.created_at, d.run_id";

#[async_trait]
impl Documents for EmbeddedStore {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        self.query(move |db| Ok(versions::latest(db, id)?.document)).await
    }

    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        self.query(move |db| match at_seq {
            None => versions::latest(db, id),
            Some(seq) => versions::at(db, id, seq),
        })
        .await
    }

    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.query(move |db| {
            // One moment, so that the list fits the document.
            let snapshot = db.unchecked_transaction().map_err(map_error)?;
            versions::list(&snapshot, id, after, limit)
        })
        .await
    }

    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError> {
        self.query(move |db| {
            // One moment: what is added meanwhile belongs to the next call.
            let snapshot = db.unchecked_transaction().map_err(map_error)?;
            tail(&snapshot, id, from, max)?.ok_or_else(|| StoreError::not_found("document", id))
        })
        .await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        let mut filter = Filter::default();
        filter.conditions.push(SHOWN.into());
        // What belongs to the homework of a run is written by it.
        let run = query.run_id.or(query.homework_run_id);
        if run.is_some() && !query.project_ids.is_empty() {
            return Ok(Page { items: Vec::new(), more: false });
        }
        filter.projects(&query.project_ids);
        if !query.kinds.is_empty() {
            filter.any_of("d.type_key", query.kinds.iter().map(|kind| Value::Text(kind.as_str().into())));
        }
        if let Some(parent) = query.parent_id {
            filter.any_of("d.parent_id", std::iter::once(blob(parent.0)));
        }
        let homework = query.homework_run_id.map(|run| run.to_string());
        for (key, value) in
            [("doc_role", &query.doc_role), ("branch_id", &query.branch_id), ("homework_run_id", &homework)]
        {
            if let Some(value) = value {
                let value = Value::Text(clean(value).into_owned());
                filter.any_of(&format!("d.props ->> '{key}'"), std::iter::once(value));
            }
        }
        filter.prefix(&query.path_prefix);
        let sql = match run {
            Some(run) => of_run(&mut filter, run, &query),
            None => by_path(&mut filter, &query),
        };
        self.query(move |db| {
            if let Some(run) = run.filter(|run| !is_deleted(db, *run).unwrap_or(false))
                && !forks::segments(db, run)?.is_empty()
            {
                let snapshot = db.unchecked_transaction().map_err(map_error)?;
                return Ok(crate::forks::list(&forks::documents(&snapshot, run, None, false)?, &query));
            }
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

    async fn documents_changed(
        &self,
        context: &RunContext,
        since: Timestamp,
        limit: usize,
    ) -> Result<ChangedDocuments, StoreError> {
        let mut filter = Filter::default();
        let since = filter.param(Value::Integer(since.micros()));
        filter.conditions.push(format!("d.updated_at > {since}"));
        filter.reached_by(context);
        let changed = format!("FROM onto_sources d{}", filter.sql());
        self.query(move |db| {
            let snapshot = db.unchecked_transaction().map_err(map_error)?;
            let sql = format!("SELECT count(*) {changed}");
            let total: i64 = snapshot
                .prepare_cached(&sql)
                .and_then(|mut count| count.query_row(params_from_iter(&filter.params), |row| row.get(0)))
                .map_err(map_error)?;
            let limit = filter.param(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
            let sql = format!("SELECT d.id {changed} ORDER BY d.path, d.id LIMIT {limit}");
            let mut statement = snapshot.prepare_cached(&sql).map_err(map_error)?;
            let ids = statement.query_map(params_from_iter(filter.params), |row| Ok(DocumentId(row.get(0)?)));
            let ids = ids.and_then(Iterator::collect).map_err(map_error)?;
            Ok(ChangedDocuments { ids, total: total as u64 })
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
        self.put(document, true).await.map(drop)
    }

    async fn put_tool_document(&self, document: Document) -> Result<bool, StoreError> {
        self.put(document, false).await
    }

    async fn delete_source(&self, id: DocumentId, import: Option<&str>) -> Result<bool, StoreError> {
        let import = import.map(str::to_owned);
        self.write(move |tx| {
            let found = tx
                .query_row(
                    "SELECT row, ?2 IS NULL OR json_extract(props, '$.import.source') IS ?2 FROM onto_sources WHERE id = ?1",
                    params![id.0, import],
                    |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)),
                )
                .optional()
                .map_err(map_error)?;
            let (row, meant) = found.ok_or_else(|| StoreError::not_found("document", id))?;
            if meant {
                execute(tx, "DELETE FROM onto_documents_search WHERE rowid = ?1", &[&row])?;
                execute(tx, "DELETE FROM onto_sources WHERE row = ?1", &[&row])?;
            }
            Ok(meant)
        })
        .await
    }
}

impl EmbeddedStore {
    /// False if a document stands there that is not replaced, because people wrote it.
    async fn put(&self, document: Document, replaces_all: bool) -> Result<bool, StoreError> {
        self.write(move |tx| {
            if let Some(id) = document.project_id {
                let known = tx.query_row("SELECT 1 FROM onto_projects WHERE id = ?1", [id.0], |_| Ok(()));
                known.optional().map_err(map_error)?.ok_or_else(|| StoreError::not_found("project", id))?;
            }
            let written = match document.run_id {
                Some(run) => {
                    let head = tx
                        .query_row("SELECT head_seq FROM tree_agent_runs WHERE id = ?1", [run.0], |row| {
                            row.get::<_, i64>(0)
                        })
                        .optional()
                        .map_err(map_error)?;
                    let head = head.unwrap_or_default() as u64;
                    let also = "type_key = excluded.type_key, path = excluded.path, ";
                    put_of_run(tx, run, head, head, &document, also).map(|()| true)
                }
                None => put(tx, &document, replaces_all),
            };
            written.map_err(|error| match error {
                StoreError::Conflict(_) => StoreError::path_taken(document.project_id, &document.path),
                other => other,
            })
        })
        .await
    }
}

/// True if the run was deleted.
fn is_deleted(db: &Connection, run: RunId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1 AND deleted_at IS NOT NULL";
    db.prepare_cached(sql).and_then(|mut statement| statement.exists([run.0])).map_err(map_error)
}

fn by_path(filter: &mut Filter, query: &DocumentQuery) -> String {
    if let Some((path, id)) = &query.after {
        let path = filter.param(Value::Text(clean(path).into_owned()));
        let id = filter.param(blob(id.0));
        filter.conditions.push(format!("(d.path, d.id) > ({path}, {id})"));
    }
    let limit = filter.param(Value::Integer(query.limit as i64 + 1));
    let conditions = filter.sql();
    format!("SELECT {SUMMARY} FROM onto_documents d{conditions} ORDER BY d.path, d.id LIMIT {limit}")
}

/// Documents of a run in the order of their tree. The place of a document is that of the one above it, then the event
/// that created it.
fn of_run(filter: &mut Filter, run: RunId, query: &DocumentQuery) -> String {
    let run = filter.param(blob(run.0));
    if let Some((_, id)) = &query.after {
        let id = filter.param(blob(id.0));
        filter.conditions.push(format!("tree.place > (SELECT place FROM tree WHERE id = {id})"));
    }
    let limit = filter.param(Value::Integer(query.limit as i64 + 1));
    let conditions = filter.sql();
    format!(
        "WITH RECURSIVE tree (id, place) AS (\
         SELECT d.id, printf('%020d', d.created_seq) || hex(d.id) FROM tree_agent_documents d \
         WHERE d.run_id = {run} AND d.parent_id IS NULL \
         UNION ALL SELECT d.id, tree.place || printf('%020d', d.created_seq) || hex(d.id) \
         FROM tree JOIN tree_agent_documents d ON d.run_id = {run} AND d.parent_id = tree.id) \
         SELECT {SUMMARY} FROM (SELECT tree.id, tree.place FROM tree JOIN tree_agent_documents d \
         ON d.run_id = {run} AND d.id = tree.id{conditions} ORDER BY tree.place LIMIT {limit}) t \
         JOIN onto_documents d ON d.run_id = {run} AND d.id = t.id ORDER BY t.place"
    )
}

fn tail(db: &Connection, id: DocumentId, from: u64, max: usize) -> Result<Option<DocumentTail>, StoreError> {
    let to_read = to_read(max);
    let sql = format!(
        "SELECT d.run_id, d.base_seq, d.dropped_bytes, d.dropped_bytes + octet_length(d.body), (SELECT c.start_byte + octet_length(c.body) \
         FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq \
         ORDER BY c.seq DESC LIMIT 1), d.updated_at, (SELECT c.start_byte FROM tree_agent_document_chunks c \
         WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces = 1 \
         ORDER BY c.seq DESC LIMIT 1) FROM tree_agent_documents d WHERE d.id = ?1 AND {SHOWN} \
         ORDER BY {CREATOR_FIRST} LIMIT 1"
    );
    let found = db
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| {
                let (run, base): (Uuid, i64) = (row.get(0)?, row.get(1)?);
                let (dropped, body_end): (i64, i64) = (row.get(2)?, row.get(3)?);
                let (end, written_at) = (row.get::<_, Option<i64>>(4)?, Timestamp(row.get(5)?));
                let origin = row.get::<_, Option<i64>>(6)?.unwrap_or(dropped);
                Ok((run, base, dropped, origin, body_end, end.unwrap_or(body_end), written_at))
            };
            statement.query_row([id.0], read).optional()
        })
        .map_err(map_error)?;
    let Some((run, base, dropped, origin, body_end, end, written_at)) = found else {
        return source_tail(db, id, from, max);
    };
    let span = Span { origin: origin as u64, end: end as u64 };
    let begin = i64::try_from(span.from(from)).unwrap_or(i64::MAX);
    // Backwards from the end to the chunk in which the reader stands, and no further than is asked for.
    let sql = "SELECT start_byte, CAST(body AS BLOB) FROM tree_agent_document_chunks \
               WHERE run_id = ?1 AND document_id = ?2 AND seq > ?3 AND start_byte < ?5 \
               AND seq >= COALESCE((SELECT seq FROM tree_agent_document_chunks WHERE run_id = ?1 \
               AND document_id = ?2 AND seq > ?3 AND start_byte <= ?4 ORDER BY seq DESC LIMIT 1), 0) ORDER BY seq";
    let mut parts: Vec<(i64, Vec<u8>)> = Vec::new();
    if begin < body_end {
        let sql = "SELECT substr(CAST(body AS BLOB), ?3, ?4) FROM tree_agent_documents WHERE run_id = ?1 AND id = ?2";
        let params = params![run, id.0, begin - dropped + 1, to_read];
        parts.push((begin, db.query_row(sql, params, |row| row.get(0)).map_err(map_error)?));
    }
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let params = params![run, id.0, base, begin, begin.saturating_add(to_read)];
    for part in statement.query_map(params, read).map_err(map_error)? {
        parts.push(part.map_err(map_error)?);
    }
    let parts = parts.iter().map(|(at, text)| (*at as u64, text.as_slice()));
    Ok(Some(span.tail(from, max, written_at, parts)))
}

/// The same of a document of a project.
fn source_tail(
    db: &Connection,
    id: DocumentId,
    from: u64,
    max: usize,
) -> Result<Option<DocumentTail>, StoreError> {
    let sql = "SELECT p.bytes, p.begin, d.updated_at, COALESCE(substr(CAST(d.body AS BLOB), p.begin + 1, ?3), x'') FROM onto_sources d \
               JOIN (SELECT row, octet_length(body) AS bytes, \
               max(octet_length(body) - ?4, min(?2, octet_length(body))) AS begin \
               FROM onto_sources WHERE id = ?1) p ON p.row = d.row";
    let begin = i64::try_from(from).unwrap_or(i64::MAX);
    let read = |row: &Row<'_>| {
        let (end, begin): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((end as u64, begin as u64, Timestamp(row.get(2)?), row.get::<_, Vec<u8>>(3)?))
    };
    let params = params![id.0, begin, to_read(max), DOCUMENT_BYTES as i64];
    let source = db.query_row(sql, params, read).optional().map_err(map_error)?;
    Ok(source.map(|(end, begin, written_at, text)| {
        Span { origin: 0, end }.tail(from, max, written_at, [(begin, text.as_slice())])
    }))
}

/// Inserts or replaces a document of a project.
fn put(db: &Connection, document: &Document, replaces_all: bool) -> Result<bool, StoreError> {
    let row: Option<i64> = db
        .prepare_cached(
            "INSERT INTO onto_sources (id, type_key, project_id, path, title, body, props, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE SET \
             type_key = excluded.type_key, project_id = excluded.project_id, path = excluded.path, \
             title = excluded.title, body = excluded.body, props = excluded.props, updated_at = excluded.updated_at \
             WHERE ?10 OR onto_sources.props ->> '$.tree_agent_run_id' IS NOT NULL RETURNING row",
        )
        .and_then(|mut statement| {
            statement.query_row(
                params![
                    document.id.0,
                    document.kind.as_str(),
                    document.project_id.map(|id| id.0),
                    clean(&document.path),
                    clean(&document.title),
                    clean(&document.body),
                    serde_json::to_string(&document.props)
                        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?,
                    document.created_at.micros(),
                    document.updated_at.micros(),
                    replaces_all,
                ],
                |row| row.get(0),
            )
            .optional()
        })
        .map_err(map_error)?;
    let Some(row) = row else { return Ok(false) };
    let is_source = document.kind == DocumentKind::Source;
    index(db, row, is_source.then_some([&document.title, &document.path, &document.body]))?;
    Ok(true)
}

/// Updates the full-text index for a document with its title, path and body. Sources are in it, other documents are
/// not.
fn index(db: &Connection, row: i64, source: Option<[&String; 3]>) -> Result<(), StoreError> {
    execute(db, "DELETE FROM onto_documents_search WHERE rowid = ?1", &[&row])?;
    if let Some(source) = source {
        let [title, path, body] = source.map(|text| index_text(text));
        execute(
            db,
            "INSERT INTO onto_documents_search (rowid, title, path, body) VALUES (?1, ?2, ?3, ?4)",
            params![row, title, path, body],
        )?;
    }
    execute(db, "UPDATE onto_sources SET search_version = ?2 WHERE row = ?1", params![row, INDEX_VERSION])?;
    Ok(())
}

/// Indexes the documents again that were indexed with another version of the rules.
pub(super) fn index_again(db: &Connection) -> Result<(), StoreError> {
    let sql = "SELECT row, type_key = 'document.source', title, path, body FROM onto_sources \
               WHERE search_version < ?1 LIMIT 1";
    loop {
        let next = db
            .prepare_cached(sql)
            .and_then(|mut statement| {
                let read = |row: &Row<'_>| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                };
                statement.query_row([INDEX_VERSION], read).optional()
            })
            .map_err(map_error)?;
        let Some((row, is_source, title, path, body)) = next else { return Ok(()) };
        index(db, row, is_source.then_some([&title, &path, &body]))?;
    }
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
    filter.reached_by(&query.context);
    filter.prefix(&query.path_prefix);
    let matching = format!(
        "FROM onto_documents_search JOIN onto_sources d ON d.row = onto_documents_search.rowid{}",
        filter.sql()
    );
    let total: i64 = db
        .prepare_cached(&format!("SELECT count(*) {matching}"))
        .and_then(|mut count| count.query_row(params_from_iter(&filter.params), |row| row.get(0)))
        .map_err(map_error)?;
    let limit = filter.param(Value::Integer(i64::try_from(query.limit).unwrap_or(i64::MAX)));
    // Titles weigh more than paths, and paths more than text.
    let sql = format!(
        "SELECT {SOURCE}, d.body, bm25(onto_documents_search, 8.0, 4.0, 1.0) AS rank {matching} \
         ORDER BY rank, d.path, d.id LIMIT {limit}"
    );
    let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
    let mut rows = statement.query(params_from_iter(filter.params)).map_err(map_error)?;
    let (mut hits, mut snippets) = (Vec::new(), Snippets::new(words));
    while let Some(row) = rows.next().map_err(map_error)? {
        let body: String = row.get(10).map_err(map_error)?;
        let rank: f64 = row.get(11).map_err(map_error)?;
        let (snippet, offset) = snippets.of(&body);
        hits.push(SearchHit { document: summary(row)?, snippet, offset, score: -rank });
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

    /// Documents of projects that a context allows.
    fn reached_by(&mut self, context: &RunContext) {
        if context.scope != Scope::Global {
            self.any_of("d.project_id", context.project_ids.iter().map(|id| blob(id.0)));
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

pub(super) fn summary(row: &Row<'_>) -> Result<DocumentSummary, StoreError> {
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
        parent_id: row.get::<_, Option<Uuid>>(9).map_err(map_error)?.map(DocumentId),
    })
}

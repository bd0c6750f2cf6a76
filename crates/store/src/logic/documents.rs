//! Documents: reading, lists and writing.

use async_trait::async_trait;
use tree_agent_contract::document::{Document, DocumentKind, DocumentSummary};
use tree_agent_contract::{DocumentId, RunContext, RunId, Scope, Timestamp};
use uuid::Uuid;

use super::by_id::{self, SHOWN};
use super::rows::{SUMMARY, document_summary, limit, page};
use super::sql::{Backend, Db, Filter, Record};
use super::{forks, inherited, passages, vectors};
use crate::error::StoreError;
use crate::ports::{
    ChangedDocuments, DocumentQuery, DocumentTail, DocumentVersion, Documents, Page, PlacedDocument,
};
use crate::schema::Dialect;
use crate::text::clean;
use crate::types::{List, Time, json};

/// The columns of a [summary](document_summary) of a source.
pub(super) const SOURCE: &str = "d.id, d.type_key, d.project_id, CAST(NULL AS uuid), d.path, d.title, \
     CAST(octet_length(d.body) AS bigint), d.props, d.updated_at, CAST(NULL AS uuid)";

#[async_trait]
impl<S: Backend> Documents for S {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        Ok(self.with(move |db| Box::pin(by_id::latest(db, id))).await?.document)
    }

    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        let Some(seq) = at_seq else {
            return self.with(move |db| Box::pin(by_id::latest(db, id))).await;
        };
        self.snapshot(move |db| Box::pin(by_id::at(db, id, seq))).await
    }

    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.snapshot(move |db| Box::pin(by_id::versions(db, id, after, limit))).await
    }

    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError> {
        self.with(move |db| Box::pin(by_id::tail(db, id, from, max))).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        // What belongs to the homework of a run is written by it.
        match query.run_id.or(query.homework_run_id) {
            Some(_) if !query.project_ids.is_empty() => Ok(Page { items: Vec::new(), more: false }),
            Some(run) => self.snapshot(move |db| Box::pin(list_of_run(db, run, query))).await,
            None => self.with(move |db| Box::pin(list_by_path(db, query))).await,
        }
    }

    async fn documents_changed(
        &self,
        context: &RunContext,
        since: Timestamp,
        limit: usize,
    ) -> Result<ChangedDocuments, StoreError> {
        let context = context.clone();
        self.snapshot(move |db| Box::pin(changed(db, context, since, limit))).await
    }

    async fn put_document(&self, document: Document) -> Result<(), StoreError> {
        self.transaction(move |db| Box::pin(put(db, document, true))).await.map(drop)
    }

    async fn put_tool_document(&self, document: Document) -> Result<bool, StoreError> {
        self.transaction(move |db| Box::pin(put(db, document, false))).await
    }

    async fn delete_source(&self, id: DocumentId, import: Option<&str>) -> Result<bool, StoreError> {
        let import = import.map(str::to_owned);
        self.transaction(move |db| Box::pin(delete_source(db, id, import))).await
    }
}

fn conditions(dialect: Dialect, query: &DocumentQuery) -> Filter {
    let mut filter = Filter::default();
    filter.add(SHOWN);
    if !query.project_ids.is_empty() {
        let projects = filter.param(List(query.project_ids.iter().map(|id| id.0).collect()));
        filter.add(dialect.any_id("d.project_id", &projects));
    }
    if !query.kinds.is_empty() {
        let kinds = filter.param(List(query.kinds.iter().map(|kind| kind.as_str()).collect()));
        filter.add(dialect.any_text("d.type_key", &kinds));
    }
    if let Some(parent) = query.parent_id {
        filter.equals("d.parent_id", parent.0);
    }
    let homework = query.homework_run_id.map(|run| run.to_string());
    for (key, value) in
        [("doc_role", &query.doc_role), ("branch_id", &query.branch_id), ("homework_run_id", &homework)]
    {
        if let Some(value) = value {
            filter.equals(&format!("d.props ->> '{key}'"), clean(value).into_owned());
        }
    }
    below(&mut filter, &query.path_prefix);
    filter
}

/// Only paths that begin so.
pub(super) fn below(filter: &mut Filter, prefix: &str) {
    if !prefix.is_empty() {
        let prefix = filter.param(clean(prefix).into_owned());
        filter.add(format!("substr(d.path, 1, length(CAST({prefix} AS text))) = {prefix}"));
    }
}

/// Only what belongs to projects that the context allows, by the `column` that names the project.
pub(super) fn reached_by(filter: &mut Filter, dialect: Dialect, column: &str, context: &RunContext) {
    if context.scope != Scope::Global {
        let projects = filter.param(List(context.project_ids.iter().map(|id| id.0).collect::<Vec<Uuid>>()));
        filter.add(dialect.any_id(column, &projects));
    }
}

async fn list_by_path<D: Db>(db: &mut D, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
    let mut filter = conditions(D::DIALECT, &query);
    if let Some((path, id)) = &query.after {
        let (path, id) = (filter.param(clean(path).into_owned()), filter.param(id.0));
        filter.add(format!("(d.path, d.id) > ({path}, {id})"));
    }
    let rows = filter.param(query.limit as i64 + 1);
    let sql = format!(
        "SELECT {SUMMARY} FROM onto_documents d WHERE {} ORDER BY d.path, d.id LIMIT {rows}",
        filter.sql()
    );
    let rows = db.rows(&sql, &filter.params()).await?;
    Ok(page(rows.iter().map(document_summary).collect::<Result<_, _>>()?, query.limit))
}

/// Documents of a run in the order of their tree. The place of a document is that of the one above it, then the event
/// that created it.
async fn list_of_run<D: Db>(
    db: &mut D,
    run: RunId,
    query: DocumentQuery,
) -> Result<Page<DocumentSummary>, StoreError> {
    if !forks::segments(db, run).await?.is_empty() {
        let sql = "SELECT 1 FROM tree_agent_runs WHERE id = $1 AND deleted_at IS NOT NULL";
        if db.row(sql, &[&run.0]).await?.is_some() {
            return Ok(Page { items: Vec::new(), more: false });
        }
        return Ok(inherited::list(&forks::documents(db, run, None, false).await?, &query));
    }
    let mut filter = conditions(D::DIALECT, &query);
    let place = D::DIALECT.pick(
        "(lpad(d.created_seq::text, 20, '0') || d.id::text) COLLATE \"C\"",
        "printf('%020d', d.created_seq) || hex(d.id)",
    );
    if let Some((_, id)) = &query.after {
        let id = filter.param(id.0);
        filter.add(format!("tree.place > (SELECT place FROM tree WHERE id = {id})"));
    }
    let run = filter.param(run.0);
    let rows = filter.param(query.limit as i64 + 1);
    let sql = format!(
        "WITH RECURSIVE tree (id, place) AS (\
         SELECT d.id, {place} FROM tree_agent_documents d WHERE d.run_id = {run} AND d.parent_id IS NULL \
         UNION ALL SELECT d.id, tree.place || {place} \
         FROM tree JOIN tree_agent_documents d ON d.run_id = {run} AND d.parent_id = tree.id) \
         SELECT {SUMMARY} FROM (SELECT tree.id, tree.place FROM tree JOIN tree_agent_documents d \
         ON d.run_id = {run} AND d.id = tree.id WHERE {} ORDER BY tree.place LIMIT {rows}) t \
         JOIN onto_documents d ON d.run_id = {run} AND d.id = t.id ORDER BY t.place",
        filter.sql()
    );
    let rows = db.rows(&sql, &filter.params()).await?;
    Ok(page(rows.iter().map(document_summary).collect::<Result<_, _>>()?, query.limit))
}

async fn changed<D: Db>(
    db: &mut D,
    context: RunContext,
    since: Timestamp,
    max: usize,
) -> Result<ChangedDocuments, StoreError> {
    let mut filter = Filter::default();
    let since = filter.param(Time(since));
    filter.add(format!("d.updated_at > {since}"));
    reached_by(&mut filter, D::DIALECT, "d.project_id", &context);
    let changed = format!("FROM onto_sources d WHERE {}", filter.sql());
    let total = db.row(&format!("SELECT count(*) {changed}"), &filter.params()).await?;
    let max = filter.param(limit(max));
    let sql = format!("SELECT d.id {changed} ORDER BY d.path, d.id LIMIT {max}");
    let rows = db.rows(&sql, &filter.params()).await?;
    Ok(ChangedDocuments {
        ids: rows.iter().map(|row| row.get(0).map(DocumentId)).collect::<Result<_, _>>()?,
        total: total.map_or(Ok(0), |row| row.number(0))?,
    })
}

async fn put<D: Db>(db: &mut D, document: Document, replaces_all: bool) -> Result<bool, StoreError> {
    if let Some(id) = document.project_id {
        let known = db.row("SELECT 1 FROM onto_projects WHERE id = $1", &[&id.0]).await?;
        known.ok_or_else(|| StoreError::not_found("project", id))?;
    }
    let written = match document.run_id {
        Some(run) => put_of_run(db, run, &document).await.map(|()| true),
        None => put_source(db, &document, replaces_all).await,
    };
    written.map_err(|error| match error {
        StoreError::Conflict(_) => StoreError::path_taken(document.project_id, &document.path),
        other => other,
    })
}

/// Inserts or replaces a document of a project, with its passages. False if people wrote the one that is there.
async fn put_source<D: Db>(db: &mut D, document: &Document, replaces_all: bool) -> Result<bool, StoreError> {
    let sql = "INSERT INTO onto_sources (id, type_key, project_id, path, title, body, props, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET \
               type_key = EXCLUDED.type_key, project_id = EXCLUDED.project_id, path = EXCLUDED.path, \
               title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, updated_at = EXCLUDED.updated_at \
               WHERE $10 OR onto_sources.props ->> 'tree_agent_run_id' IS NOT NULL RETURNING 1";
    let (path, title, body) = (clean(&document.path), clean(&document.title), clean(&document.body));
    let (created, updated) = (Time(document.created_at), Time(document.updated_at));
    let (id, kind, props) = (document.id.0, document.kind.as_str(), json(&document.props)?);
    let project = document.project_id.map(|id| id.0);
    let written = db
        .row(sql, &[&id, &kind, &project, &path, &title, &body, &props, &created, &updated, &replaces_all])
        .await?;
    if written.is_some() {
        let new = match document.kind {
            DocumentKind::Source => passages::of(&path, &title, &body),
            _ => Vec::new(),
        };
        passages::replace(db, document.id, project, &new).await?;
    }
    Ok(written.is_some())
}

async fn put_of_run<D: Db>(db: &mut D, run: RunId, document: &Document) -> Result<(), StoreError> {
    let sql = "INSERT INTO tree_agent_documents (id, type_key, run_id, path, title, body, props, created_at, updated_at, \
               base_seq, created_seq) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, h.head, h.head \
               FROM (SELECT COALESCE((SELECT head_seq FROM tree_agent_runs WHERE id = $3), 0) AS head) h WHERE TRUE \
               ON CONFLICT (run_id, id) DO UPDATE SET type_key = EXCLUDED.type_key, path = EXCLUDED.path, \
               title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, updated_at = EXCLUDED.updated_at, \
               dropped_bytes = 0, base_seq = EXCLUDED.base_seq, created_seq = EXCLUDED.created_seq";
    let (path, title, body) = (clean(&document.path), clean(&document.title), clean(&document.body));
    let (created, updated) = (Time(document.created_at), Time(document.updated_at));
    let (id, kind, props) = (document.id.0, document.kind.as_str(), json(&document.props)?);
    db.run(sql, &[&id, &kind, &run.0, &path, &title, &body, &props, &created, &updated]).await
}

async fn delete_source<D: Db>(
    db: &mut D,
    id: DocumentId,
    import: Option<String>,
) -> Result<bool, StoreError> {
    let source = D::DIALECT.pick("props #>> '{import,source}'", "props ->> '$.import.source'");
    let sql = format!("DELETE FROM onto_sources WHERE id = $1 AND ({source} = $2 OR $2 IS NULL) RETURNING 1");
    let hashes = passages::hashes(db, id).await?;
    if db.row(&sql, &[&id.0, &import]).await?.is_some() {
        vectors::forget(db, hashes).await?;
        return Ok(true);
    }
    let known = db.row("SELECT 1 FROM onto_sources WHERE id = $1", &[&id.0]).await?;
    known.map(|_| false).ok_or_else(|| StoreError::not_found("document", id))
}

//! Documents of projects in SQLite: their full-text index and the search in it.

use rusqlite::{Connection, OptionalExtension, params};
use tree_agent_contract::document::{Document, DocumentKind};

use super::connection::map_error;
use super::values::Values;
use super::values::execute;
use crate::error::StoreError;
use crate::logic::rows::limit;
use crate::logic::sql::{Db, Filter, Record};
use crate::logic::{SOURCE, below, reached_by};
use crate::ports::SearchQuery;
use crate::schema::Dialect;
use crate::text::{clean, index_text, json_text};

/// Inserts or replaces a document of a project. False if people wrote the one that is there.
pub(super) fn put(db: &Connection, document: &Document, replaces_all: bool) -> Result<bool, StoreError> {
    let sql = "INSERT INTO onto_sources (id, type_key, project_id, path, title, body, props, created_at, updated_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE SET \
               type_key = excluded.type_key, project_id = excluded.project_id, path = excluded.path, \
               title = excluded.title, body = excluded.body, props = excluded.props, updated_at = excluded.updated_at \
               WHERE ?10 OR onto_sources.props ->> '$.tree_agent_run_id' IS NOT NULL RETURNING row";
    let params = params![
        document.id.0,
        document.kind.as_str(),
        document.project_id.map(|id| id.0),
        clean(&document.path),
        clean(&document.title),
        clean(&document.body),
        json_text(&document.props)?,
        document.created_at.micros(),
        document.updated_at.micros(),
        replaces_all,
    ];
    let written = db.prepare_cached(sql).and_then(|mut s| s.query_row(params, |row| row.get(0)).optional());
    let Some(row) = written.map_err(map_error)? else { return Ok(false) };
    let row: i64 = row;
    execute(db, "DELETE FROM onto_documents_search WHERE rowid = ?1", &[&row])?;
    if document.kind == DocumentKind::Source {
        let [title, path, body] =
            [&document.title, &document.path, &document.body].map(|text| index_text(text));
        let sql = "INSERT INTO onto_documents_search (rowid, title, path, body) VALUES (?1, ?2, ?3, ?4)";
        execute(db, sql, params![row, title, path, body])?;
    }
    Ok(true)
}

/// Titles weigh more than paths, and paths more than text.
pub(super) async fn search(
    db: &mut Connection,
    query: &SearchQuery,
    words: &[String],
    all: bool,
) -> Result<(Vec<Values>, u64), StoreError> {
    let terms: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let mut filter = Filter::default();
    let terms = filter.param(terms.join(if all { " AND " } else { " OR " }));
    filter.add(format!("onto_documents_search MATCH {terms}"));
    reached_by(&mut filter, Dialect::Embedded, &query.context);
    below(&mut filter, &query.path_prefix);
    let matching = format!(
        "FROM onto_documents_search JOIN onto_sources d ON d.row = onto_documents_search.rowid WHERE {}",
        filter.sql()
    );
    let total = db.row(&format!("SELECT count(*) {matching}"), &filter.params()).await?;
    let total = total.map_or(Ok(0), |row| row.number(0))?;
    let rows = filter.param(limit(query.limit));
    let sql = format!(
        "SELECT {SOURCE}, d.body, -bm25(onto_documents_search, 8.0, 4.0, 1.0) AS score {matching} \
         ORDER BY score DESC, d.path, d.id LIMIT {rows}"
    );
    Ok((db.rows(&sql, &filter.params()).await?, total))
}

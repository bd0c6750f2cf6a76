//! Documents of projects on Postgres: their full-text index and the search in it.

use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::document::Document;

use super::connection::Connection;
use super::types::{Time, json};
use crate::error::StoreError;
use crate::logic::rows::limit;
use crate::logic::sql::{Db, Filter, Record};
use crate::logic::{SOURCE, below, reached_by};
use crate::ports::SearchQuery;
use crate::schema::Dialect;
use crate::text::{clean, index_text};

/// Inserts or replaces a document of a project. False if people wrote the one that is there.
pub(super) async fn put(
    connection: &mut Connection,
    document: &Document,
    replaces_all: bool,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO onto_sources (id, type_key, project_id, path, title, body, props, created_at, updated_at, \
               search) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $2 = 'document.source' \
               THEN tree_agent_search_vector($10, $11, $12) END) ON CONFLICT (id) DO UPDATE SET \
               type_key = EXCLUDED.type_key, project_id = EXCLUDED.project_id, path = EXCLUDED.path, \
               title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, \
               updated_at = EXCLUDED.updated_at, search = EXCLUDED.search \
               WHERE $13 OR onto_sources.props ? 'tree_agent_run_id' RETURNING id";
    let (path, title, body) = (clean(&document.path), clean(&document.title), clean(&document.body));
    let indexed = [&document.title, &document.path, &document.body].map(|text| index_text(text));
    let rows = connection
        .query(
            sql,
            &[
                &document.id.0,
                &document.kind.as_str(),
                &document.project_id.map(|id| id.0),
                &path,
                &title,
                &body,
                &json(&document.props)?,
                &Time(document.created_at),
                &Time(document.updated_at),
                &indexed[0],
                &indexed[1],
                &indexed[2],
                &replaces_all,
            ],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// All matches are ranked before the limit cuts them, so counting them costs little more.
pub(super) async fn search(
    connection: &mut Connection,
    query: &SearchQuery,
    words: &[String],
    all: bool,
) -> Result<(Vec<Row>, u64), StoreError> {
    let terms: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut filter = Filter::default();
    let terms = filter.param(terms.join(if all { " & " } else { " | " }));
    filter.add("d.search IS NOT NULL AND d.search @@ q.terms");
    reached_by(&mut filter, Dialect::Postgres, &query.context);
    below(&mut filter, &query.path_prefix);
    let rows = filter.param(limit(query.limit));
    let sql = format!(
        "SELECT {SOURCE}, d.body, ts_rank(d.search, q.terms, 1)::float8 AS score, count(*) OVER () AS total \
         FROM to_tsquery('tree_agent', {terms}) AS q(terms), onto_sources d WHERE {} \
         ORDER BY score DESC, d.path, d.id LIMIT {rows}",
        filter.sql()
    );
    let rows = connection.rows(&sql, &filter.params()).await?;
    let total = rows.first().map_or(Ok(0), |row| row.number(12))?;
    Ok((rows, total))
}

//! Documents and full-text search on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::tokio_postgres::{Client, Row};
use tree_agent_contract::document::{Document, DocumentKind, DocumentSummary, SearchHit, SearchResults};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId, Scope, Timestamp};
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{cleaned, json};
use super::connection::{Connection, map_error};
use super::forks;
use super::types::{Json, Time};
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
const SOURCE: &str = "d.id, d.type_key, d.project_id, NULL::uuid, d.path, d.title, octet_length(d.body)::int8, \
                      d.props, d.updated_at, NULL::uuid";

/// Documents of deleted runs are hidden with them.
pub(super) const SHOWN: &str =
    "NOT EXISTS (SELECT FROM tree_agent_runs r WHERE r.id = d.run_id AND r.deleted_at IS NOT NULL)";

/// Puts the run first that created a document, of all runs which have it under its id: restored forks, and those that
/// outlived the run, hold it too. That is the run with the fewest others before it in its line, and of several such
/// forks the oldest. What an archive says of the document itself does not count.
pub(super) const CREATOR_FIRST: &str = "\
     COALESCE((SELECT jsonb_array_length(r.segments) FROM tree_agent_runs r WHERE r.id = d.run_id), 0), \
     COALESCE((SELECT r.created_at FROM tree_agent_runs r WHERE r.id = d.run_id), d.created_at), d.created_at, d.run_id";

#[async_trait]
impl Documents for PostgresStore {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        Ok(versions::latest(&mut self.connection().await?, id).await?.document)
    }

    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        let mut connection = self.connection().await?;
        match at_seq {
            None => versions::latest(&mut connection, id).await,
            Some(seq) => versions::at(&mut connection, id, seq).await,
        }
    }

    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        versions::list(&mut self.connection().await?, id, after, limit).await
    }

    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError> {
        let mut connection = self.connection().await?;
        let to_read = to_read(max);
        let sql = format!(
            "SELECT d.run_id, d.base_seq, d.dropped_bytes, d.dropped_bytes + octet_length(d.body), \
             (SELECT c.start_byte + octet_length(c.body) FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id \
             AND c.document_id = d.id AND c.seq > d.base_seq ORDER BY c.seq DESC LIMIT 1), d.updated_at, \
             (SELECT c.start_byte FROM tree_agent_document_chunks c WHERE c.run_id = d.run_id \
             AND c.document_id = d.id AND c.seq > d.base_seq AND c.replaces ORDER BY c.seq DESC LIMIT 1) \
             FROM tree_agent_documents d WHERE d.id = $1 AND {SHOWN} ORDER BY {CREATOR_FIRST} LIMIT 1"
        );
        let Some(row) = connection.query_opt(&sql, &[&id.0]).await? else {
            let sql = "SELECT octet_length(d.body)::int8, p.begin, d.updated_at, \
                       substring(convert_to(d.body, 'UTF8') FROM p.begin::int4 + 1 FOR $3::int8::int4) \
                       FROM onto_sources d CROSS JOIN LATERAL (SELECT greatest(octet_length(d.body) - $4::int8, \
                       least($2::int8, octet_length(d.body))) AS begin) p WHERE d.id = $1";
            let begin = i64::try_from(from).unwrap_or(i64::MAX);
            let source =
                connection.query_opt(sql, &[&id.0, &begin, &to_read, &(DOCUMENT_BYTES as i64)]).await?;
            let source = source.ok_or_else(|| StoreError::not_found("document", id))?;
            let (end, begin): (i64, i64) = (source.get(0), source.get(1));
            let span = Span { origin: 0, end: end as u64 };
            let parts = [(begin as u64, source.get::<_, &[u8]>(3))];
            return Ok(span.tail(from, max, source.get::<_, Time>(2).0, parts));
        };
        let (run, base, dropped): (Uuid, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let body_end: i64 = row.get(3);
        let end = row.get::<_, Option<i64>>(4).unwrap_or(body_end);
        let written_at = row.get::<_, Time>(5).0;
        let origin = row.get::<_, Option<i64>>(6).unwrap_or(dropped);
        let span = Span { origin: origin as u64, end: end as u64 };
        let begin = i64::try_from(span.from(from)).unwrap_or(i64::MAX);
        let mut parts = Vec::new();
        if begin < body_end {
            let sql = "SELECT $3::int8, substring(convert_to(body, 'UTF8') \
                       FROM ($3::int8 - dropped_bytes)::int4 + 1 FOR $4::int8::int4) \
                       FROM tree_agent_documents WHERE run_id = $1 AND id = $2";
            parts.extend(connection.query(sql, &[&run, &id.0, &begin, &to_read]).await?);
        }
        // Backwards from the end to the chunk in which the reader stands, and no further than is asked for.
        let sql = "SELECT start_byte, convert_to(body, 'UTF8') FROM tree_agent_document_chunks \
                   WHERE run_id = $1 AND document_id = $2 AND seq > $3 AND start_byte < $5 \
                   AND seq >= COALESCE((SELECT seq FROM tree_agent_document_chunks WHERE run_id = $1 \
                   AND document_id = $2 AND seq > $3 AND start_byte <= $4 ORDER BY seq DESC LIMIT 1), 0) ORDER BY seq";
        // What was written since then is left to the next call: it may have replaced the text.
        let until = begin.saturating_add(to_read).min(end);
        parts.extend(connection.query(sql, &[&run, &id.0, &base, &begin, &until]).await?);
        let parts = parts.iter().map(|part| (part.get::<_, i64>(0) as u64, part.get::<_, &[u8]>(1)));
        Ok(span.tail(from, max, written_at, parts))
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        let projects: Vec<Uuid> = query.project_ids.iter().map(|id| id.0).collect();
        let kinds: Vec<&str> = query.kinds.iter().map(|kind| kind.as_str()).collect();
        // What belongs to the homework of a run is written by it.
        let run = query.run_id.or(query.homework_run_id).map(|id| id.0);
        let parent = query.parent_id.map(|id| id.0);
        let homework = query.homework_run_id.map(|id| id.to_string());
        let props = [
            ("homework_run_id", homework.as_deref()),
            ("doc_role", query.doc_role.as_deref()),
            ("branch_id", query.branch_id.as_deref()),
        ];
        let props: Vec<_> = props.into_iter().filter_map(|(key, value)| Some((key, clean(value?)))).collect();
        let prefix = clean(&query.path_prefix);
        let after = query.after.as_ref().map(|(path, id)| (clean(path), id.0));
        let limit = query.limit as i64 + 1;
        if run.is_some() && !projects.is_empty() {
            return Ok(Page { items: Vec::new(), more: false });
        }
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&limit];
        let mut conditions = vec![SHOWN.to_owned()];
        if !projects.is_empty() {
            params.push(&projects);
            conditions.push(format!("d.project_id = ANY (${})", params.len()));
        }
        if !kinds.is_empty() {
            params.push(&kinds);
            conditions.push(format!("d.type_key = ANY (${})", params.len()));
        }
        if let Some(parent) = &parent {
            params.push(parent);
            conditions.push(format!("d.parent_id = ${}", params.len()));
        }
        for (key, value) in &props {
            params.push(value);
            conditions.push(format!("d.props ->> '{key}' = ${}", params.len()));
        }
        if !prefix.is_empty() {
            params.push(&prefix);
            conditions.push(format!("starts_with(d.path, ${})", params.len()));
        }
        let sql = if let Some(run) = &run {
            if let Some((_, id)) = &after {
                params.push(id);
                let after = format!("(SELECT place FROM tree WHERE id = ${})", params.len());
                conditions.push(format!("tree.place COLLATE \"C\" > {after}"));
            }
            params.push(run);
            of_run(params.len(), &conditions.join(" AND "))
        } else {
            if let Some((path, id)) = &after {
                params.push(path);
                params.push(id);
                conditions.push(format!("(d.path, d.id) > (${}, ${})", params.len() - 1, params.len()));
            }
            let conditions = conditions.join(" AND ");
            format!(
                "SELECT {SUMMARY} FROM onto_documents d WHERE {conditions} ORDER BY d.path, d.id LIMIT $1"
            )
        };
        let mut connection = self.connection().await?;
        if let Some(run) = run.map(RunId)
            && !forks::segments(&mut connection, run).await?.is_empty()
        {
            let sql = "SELECT 1 FROM tree_agent_runs WHERE id = $1 AND deleted_at IS NOT NULL";
            if !connection.query(sql, &[&run.0]).await?.is_empty() {
                return Ok(Page { items: Vec::new(), more: false });
            }
            connection.begin_snapshot().await?;
            let documents = forks::documents(&mut connection, run, None, false).await;
            return Ok(crate::forks::list(&connection.end(documents).await?, &query));
        }
        let rows = connection.query(&sql, &params).await?;
        let items = rows.iter().take(query.limit).map(summary).collect::<Result<_, _>>()?;
        Ok(Page { more: rows.len() > query.limit, items })
    }

    async fn documents_changed(
        &self,
        context: &RunContext,
        since: Timestamp,
        limit: usize,
    ) -> Result<ChangedDocuments, StoreError> {
        let projects: Vec<Uuid> = context.project_ids.iter().map(|id| id.0).collect();
        let (everywhere, limit) = (context.scope == Scope::Global, i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = "WITH changed AS (SELECT d.id, d.path FROM onto_sources d WHERE d.updated_at > $1 \
                   AND ($2 OR d.project_id = ANY ($3))) \
                   SELECT (SELECT count(*) FROM changed), ARRAY(SELECT id FROM changed ORDER BY path, id LIMIT $4)";
        let mut connection = self.connection().await?;
        let row = connection.query_opt(sql, &[&Time(since), &everywhere, &projects, &limit]).await?;
        Ok(row.map_or_else(ChangedDocuments::default, |row| ChangedDocuments {
            ids: row.get::<_, Vec<Uuid>>(1).into_iter().map(DocumentId).collect(),
            total: row.get::<_, i64>(0) as u64,
        }))
    }

    async fn search_documents(&self, query: SearchQuery) -> Result<SearchResults, StoreError> {
        let words = query_words(&query.text);
        if words.is_empty() || query.limit == 0 {
            return Ok(SearchResults::default());
        }
        let mut connection = self.connection().await?;
        let found = search(&mut connection, &query, &words, " & ").await?;
        if found.total == 0 && words.len() > 1 {
            return search(&mut connection, &query, &words, " | ").await;
        }
        Ok(found)
    }

    async fn put_document(&self, document: Document) -> Result<(), StoreError> {
        self.put(document, true).await.map(drop)
    }

    async fn put_tool_document(&self, document: Document) -> Result<bool, StoreError> {
        self.put(document, false).await
    }

    async fn delete_source(&self, id: DocumentId, import: Option<&str>) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let sql = "DELETE FROM onto_sources WHERE id = $1 \
                   AND ($2::text IS NULL OR props #>> '{import,source}' = $2) RETURNING 1";
        if !connection.query(sql, &[&id.0, &import]).await?.is_empty() {
            return Ok(true);
        }
        let known = connection.query("SELECT 1 FROM onto_sources WHERE id = $1", &[&id.0]).await?;
        if known.is_empty() { Err(StoreError::not_found("document", id)) } else { Ok(false) }
    }
}

impl PostgresStore {
    /// False if a document stands there that is not replaced, because people wrote it.
    async fn put(&self, document: Document, replaces_all: bool) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let (project, path) = (document.project_id, document.path.clone());
        if let Some(id) = project {
            let known = connection.query("SELECT 1 FROM onto_projects WHERE id = $1", &[&id.0]).await?;
            if known.is_empty() {
                return Err(StoreError::not_found("project", id));
            }
        }
        let sql = match document.run_id {
            None => {
                "INSERT INTO onto_sources (id, type_key, project_id, path, title, body, props, created_at, updated_at, \
                 search, search_version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $2 = 'document.source' \
                 THEN tree_agent_search_vector($10, $11, $12) END, $13) ON CONFLICT (id) DO UPDATE SET \
                 type_key = EXCLUDED.type_key, project_id = EXCLUDED.project_id, path = EXCLUDED.path, \
                 title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, \
                 updated_at = EXCLUDED.updated_at, search = EXCLUDED.search, search_version = EXCLUDED.search_version \
                 WHERE $14 OR onto_sources.props ? 'tree_agent_run_id' RETURNING id"
            }
            Some(_) => {
                "INSERT INTO tree_agent_documents AS d (id, type_key, run_id, path, title, body, props, created_at, updated_at, base_seq, created_seq) \
                 SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, h.head, h.head \
                 FROM (SELECT COALESCE((SELECT head_seq FROM tree_agent_runs WHERE id = $3), 0) AS head) h \
                 ON CONFLICT (run_id, id) DO UPDATE SET type_key = EXCLUDED.type_key, path = EXCLUDED.path, \
                 title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, updated_at = EXCLUDED.updated_at, \
                 dropped_bytes = 0, base_seq = EXCLUDED.base_seq, created_seq = EXCLUDED.created_seq RETURNING id"
            }
        };
        let is_source = document.run_id.is_none();
        let indexed =
            is_source.then(|| [&document.title, &document.path, &document.body].map(|text| index_text(text)));
        let (kind, owner) = (document.kind.as_str(), document.run_id.map(|id| id.0));
        let owner = owner.or(document.project_id.map(|id| id.0));
        let (path_stored, title, body) =
            (cleaned(document.path), cleaned(document.title), cleaned(document.body));
        let (props, times) = (json(&document.props)?, [Time(document.created_at), Time(document.updated_at)]);
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&document.id.0, &kind, &owner, &path_stored, &title, &body, &props, &times[0], &times[1]];
        if let Some(indexed) = &indexed {
            params.extend(indexed.iter().map(|text| text as &(dyn ToSql + Sync)));
            params.extend([&INDEX_VERSION as &(dyn ToSql + Sync), &replaces_all]);
        }
        connection.query(sql, &params).await.map(|rows| !rows.is_empty()).map_err(|error| match error {
            StoreError::Conflict(_) => StoreError::path_taken(project, &path),
            other => other,
        })
    }
}

/// Documents of the run that is parameter `run`, in the order of their tree. The place of a document is that of the one
/// above it, then the event that created it.
fn of_run(run: usize, conditions: &str) -> String {
    format!(
        "WITH RECURSIVE tree (id, place) AS (\
         SELECT d.id, lpad(d.created_seq::text, 20, '0') || d.id::text FROM tree_agent_documents d \
         WHERE d.run_id = ${run} AND d.parent_id IS NULL \
         UNION ALL SELECT d.id, tree.place || lpad(d.created_seq::text, 20, '0') || d.id::text \
         FROM tree JOIN tree_agent_documents d ON d.run_id = ${run} AND d.parent_id = tree.id) \
         SELECT {SUMMARY} FROM (SELECT tree.id, tree.place FROM tree JOIN tree_agent_documents d \
         ON d.run_id = ${run} AND d.id = tree.id WHERE {conditions} ORDER BY tree.place COLLATE \"C\" LIMIT $1) t \
         JOIN onto_documents d ON d.run_id = ${run} AND d.id = t.id ORDER BY t.place COLLATE \"C\""
    )
}

/// Indexes the documents again that were indexed with another version of the rules.
pub(super) async fn index_again(client: &Client) -> Result<(), StoreError> {
    let sql = "SELECT id, title, path, body FROM onto_sources WHERE search_version < $1 LIMIT 100";
    loop {
        let rows = client.query(sql, &[&INDEX_VERSION]).await.map_err(map_error)?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let [title, path, body] = [1, 2, 3].map(|column| index_text(row.get(column)));
            // A gateway that has replaced the document meanwhile has indexed it.
            let sql = "UPDATE onto_sources SET search = CASE WHEN type_key = 'document.source' THEN \
                       tree_agent_search_vector($3, $4, $5) END, search_version = $2 \
                       WHERE id = $1 AND search_version < $2";
            let id: Uuid = row.get(0);
            let params: [&(dyn ToSql + Sync); 5] = [&id, &INDEX_VERSION, &title, &path, &body];
            client.execute(sql, &params).await.map_err(map_error)?;
        }
    }
}

async fn search(
    connection: &mut Connection,
    query: &SearchQuery,
    words: &[String],
    operator: &str,
) -> Result<SearchResults, StoreError> {
    let terms: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let terms = terms.join(operator);
    let projects: Vec<Uuid> = query.context.project_ids.iter().map(|id| id.0).collect();
    let everywhere = query.context.scope == Scope::Global;
    // The body is read for its snippet; there are few hits. All matches are ranked before the limit cuts them, so
    // counting them costs little more.
    let rows = connection
        .query(
            &format!(
                "SELECT {SOURCE}, d.body, ts_rank(d.search, q.terms, 1)::float8 AS score, count(*) OVER () AS total \
                 FROM to_tsquery('tree_agent', $1) AS q(terms), onto_sources d \
                 WHERE d.search IS NOT NULL AND d.search @@ q.terms AND ($2 OR d.project_id = ANY ($3)) \
                 AND starts_with(d.path, $4) ORDER BY score DESC, d.path, d.id LIMIT $5"
            ),
            &[
                &terms,
                &everywhere,
                &projects,
                &clean(&query.path_prefix),
                &i64::try_from(query.limit).unwrap_or(i64::MAX),
            ],
        )
        .await?;
    let mut snippets = Snippets::new(words);
    let hits = rows.iter().map(|row| {
        let (snippet, offset) = snippets.of(row.get(10));
        Ok(SearchHit { document: summary(row)?, snippet, offset, score: row.get(11) })
    });
    let total = rows.first().map_or(0, |row| row.get::<_, i64>(12) as u64);
    Ok(SearchResults { hits: hits.collect::<Result<_, StoreError>>()?, total })
}

pub(super) fn summary(row: &Row) -> Result<DocumentSummary, StoreError> {
    let id = DocumentId(row.get(0));
    let broken = |e: Box<dyn std::error::Error + Send + Sync>| {
        StoreError::broken(format!("document {id} cannot be read"), e)
    };
    let props: Json = row.get(7);
    Ok(DocumentSummary {
        id,
        kind: row.get::<_, &str>(1).parse::<DocumentKind>().map_err(|e| broken(e.into()))?,
        project_id: row.get::<_, Option<Uuid>>(2).map(ProjectId),
        run_id: row.get::<_, Option<Uuid>>(3).map(RunId),
        path: row.get(4),
        title: row.get(5),
        bytes: row.get::<_, i64>(6) as u64,
        props: serde_json::from_slice(&props.0).map_err(|e| broken(e.into()))?,
        updated_at: row.get::<_, Time>(8).0,
        parent_id: row.get::<_, Option<Uuid>>(9).map(DocumentId),
    })
}

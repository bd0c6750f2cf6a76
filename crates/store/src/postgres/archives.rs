//! Archives on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::{FromSql, ToSql};
use tree_agent_contract::session::Session;
use tree_agent_contract::{DocumentId, RunId, RunStatus, Timestamp};
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{cleaned, json};
use super::connection::Connection;
use super::types::{JsonText, Time};
use crate::batch::context_metrics;
use crate::error::StoreError;
use crate::logic::new_run::note_request;
use crate::logic::operations::derive;
use crate::logic::{forks, sessions};
use crate::ports::{
    Archives, Partition, RunRecord, StoredChunk, StoredDocument, StoredEvent, WholeProjection,
};
use crate::text::clean;

/// Events of one insert.
const CHUNK: usize = 2_000;
/// Rows that one statement deletes at the most.
const STEP: i64 = 10_000;
/// The condition for runs of a partition.
const WITHIN: &str = "($1::uuid IS NULL OR r.id >= $1) AND ($2::uuid IS NULL OR r.id < $2)";

#[async_trait]
impl Archives for PostgresStore {
    async fn ended_runs(
        &self,
        before: Timestamp,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let mut connection = self.connection().await?;
        let after = after.map(|run| run.0);
        let rows = connection
            .query(
                "SELECT id FROM tree_agent_runs WHERE status IN ('completed', 'failed', 'cancelled') \
                 AND (archived_at IS NULL OR deleted_at IS NOT NULL) AND updated_at < $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3",
                &[&Time(before), &after, &i64::try_from(limit).unwrap_or(i64::MAX)],
            )
            .await?;
        Ok(rows.iter().map(|row| RunId(row.get(0))).collect())
    }

    async fn run_record(&self, run: RunId) -> Result<RunRecord, StoreError> {
        let mut connection = self.connection().await?;
        record(&mut connection, run, "").await?.ok_or_else(|| StoreError::not_found("run", run))
    }

    async fn run_documents(
        &self,
        run: RunId,
        after: Option<DocumentId>,
        limit: usize,
    ) -> Result<Vec<StoredDocument>, StoreError> {
        forks::document_rows(&mut self.connection().await?, run, after, limit).await
    }

    async fn prune_run(&self, run: RunId, head_seq: u64, sha256: &str) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        let pruned = prune(&mut connection, run, head_seq, sha256).await;
        connection.end(pruned).await
    }

    async fn restore_run(
        &self,
        record: RunRecord,
        events: Vec<StoredEvent>,
        documents: Vec<StoredDocument>,
        chunks: Vec<StoredChunk>,
        said: Vec<Session>,
        whole: WholeProjection,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        let restored = async {
            let is_new = restore(&mut connection, &record, events, documents, &chunks, &whole).await?;
            if is_new {
                forks::restore(&mut connection, record.run_id, &record.segments, &whole.fork_edits).await?;
                let sql = "DELETE FROM tree_agent_sessions WHERE run_id = $1";
                connection.query(sql, &[&record.run_id.0]).await?;
                sessions::write(&mut connection, record.run_id, &said).await?;
            }
            Ok(is_new)
        };
        let restored = restored.await;
        connection.end(restored).await
    }

    async fn tidy(&self) -> Result<Vec<String>, StoreError> {
        let mut dropped = Vec::new();
        for partition in self.partitions().await? {
            let mut connection = self.connection().await?;
            connection.begin().await?;
            let tidied = tidy(&mut connection, &partition).await;
            if connection.end(tidied).await? {
                dropped.push(partition.name);
                continue;
            }
            let mut after = None;
            loop {
                connection.begin().await?;
                let step = tidy_step(&mut connection, &partition, after).await;
                after = connection.end(step).await?;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(dropped)
    }

    async fn make_partitions(&self, months: u32) -> Result<u32, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        let made = async {
            give_way(&mut connection).await?;
            let rows = connection.query("SELECT tree_agent_make_partitions($1)", &[&(months as i32)]).await?;
            Ok(rows.first().map_or(0, |row| row.get::<_, i32>(0)) as u32)
        };
        let made = made.await;
        connection.end(made).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, StoreError> {
        let mut connection = self.connection().await?;
        let rows = connection
            .query(
                "SELECT name, from_id, to_id, is_default, pg_total_relation_size(partition) \
                 FROM tree_agent_event_partitions ORDER BY is_default, to_id",
                &[],
            )
            .await?;
        let partition = |row: &Row| Partition {
            name: row.get(0),
            from: row.get::<_, Option<Uuid>>(1).map(RunId),
            to: row.get::<_, Option<Uuid>>(2).map(RunId),
            is_default: row.get(3),
            bytes: row.get::<_, i64>(4) as u64,
        };
        Ok(rows.iter().map(partition).collect())
    }
}

/// A statement that waits for a lock on a whole table blocks all that queue behind it. It is better to fail and retry.
async fn give_way(connection: &mut Connection) -> Result<(), StoreError> {
    connection.query("SELECT set_config('lock_timeout', '3s', true)", &[]).await.map(drop)
}

async fn record(
    connection: &mut Connection,
    run: RunId,
    lock: &str,
) -> Result<Option<RunRecord>, StoreError> {
    let sql = format!(
        "SELECT request_id, epoch, head_seq, status, archive_sha256, deleted_at FROM tree_agent_runs WHERE id = $1{lock}"
    );
    let Some(row) = connection.query_opt(&sql, &[&run.0]).await? else { return Ok(None) };
    let status = row.get::<_, &str>(3).parse::<RunStatus>();
    Ok(Some(RunRecord {
        run_id: run,
        request_id: row.get(0),
        epoch: row.get::<_, i64>(1) as u64,
        head_seq: row.get::<_, i64>(2) as u64,
        status: status
            .map_err(|e| StoreError::broken(format!("the status of run {run} cannot be read"), e))?,
        archive_sha256: row.get(4),
        deleted_at: row.get::<_, Option<Time>>(5).map(|at| at.0),
        segments: forks::segments(connection, run).await?,
    }))
}

async fn prune(
    connection: &mut Connection,
    run: RunId,
    head_seq: u64,
    sha256: &str,
) -> Result<bool, StoreError> {
    let found = record(connection, run, " FOR UPDATE").await?;
    let found = found.ok_or_else(|| StoreError::not_found("run", run))?;
    let deleted = found.deleted_at.is_some();
    let archived = found.archive_sha256.is_some();
    if found.head_seq != head_seq || !found.status.is_final() || archived && !deleted {
        return Ok(false);
    }
    forks::materialise(connection, run).await?;
    for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts", "tree_agent_documents"] {
        delete_rows(connection, table, run, Uuid::nil()).await?;
    }
    delete_chunks(connection, run).await?;
    delete_rows(connection, "tree_agent_sessions", run, String::new()).await?;
    connection.query("DELETE FROM tree_agent_replies WHERE run_id = $1", &[&run.0]).await?;
    if deleted {
        delete_events(connection, run).await?;
        connection.query("DELETE FROM tree_agent_commands WHERE run_id = $1", &[&run.0]).await?;
        connection
            .query(
                "DELETE FROM tree_agent_requests q USING tree_agent_runs r WHERE r.id = $1 \
                 AND q.user_id = r.user_id AND q.request_id = r.request_id AND q.run_id = r.id",
                &[&run.0],
            )
            .await?;
        connection.query("DELETE FROM tree_agent_runs WHERE id = $1", &[&run.0]).await?;
        return Ok(true);
    }
    // Its events are removed when the partition is tidied, if possible together with the others of its month.
    connection
        .query(
            "UPDATE tree_agent_runs SET archived_at = now(), archive_sha256 = $2 WHERE id = $1",
            &[&run.0, &sha256],
        )
        .await?;
    Ok(true)
}

/// Deletes the rows of a run from a table whose key is `(run_id, id)`. A run may have millions of rows: a statement
/// deletes as many as it can in time, and the transaction deletes all or none. It locks nothing of another run. Each
/// statement begins where the last one ended, because rows that are deleted stay in the index until the transaction
/// ends. `from` is the least id.
async fn delete_rows<Id>(
    connection: &mut Connection,
    table: &str,
    run: RunId,
    mut from: Id,
) -> Result<(), StoreError>
where
    Id: ToSql + Sync + for<'a> FromSql<'a>,
{
    let sql = format!(
        "WITH gone AS (DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} \
             WHERE run_id = $1 AND id >= $2 ORDER BY id LIMIT {STEP})) RETURNING id) \
         SELECT id FROM gone ORDER BY id DESC LIMIT 1"
    );
    while let Some(last) = connection.query_opt(&sql, &[&run.0, &from]).await? {
        from = last.get(0);
    }
    Ok(())
}

/// Deletes the chunks of a run's documents, as [`delete_rows`].
async fn delete_chunks(connection: &mut Connection, run: RunId) -> Result<(), StoreError> {
    let sql = format!(
        "WITH gone AS (DELETE FROM tree_agent_document_chunks WHERE ctid = ANY (ARRAY(\
             SELECT ctid FROM tree_agent_document_chunks WHERE run_id = $1 AND (document_id, seq) >= ($2, $3) \
             ORDER BY document_id, seq LIMIT {STEP})) RETURNING document_id, seq) \
         SELECT document_id, seq FROM gone ORDER BY document_id DESC, seq DESC LIMIT 1"
    );
    let (mut document, mut seq) = (Uuid::nil(), i64::MIN);
    while let Some(last) = connection.query_opt(&sql, &[&run.0, &document, &seq]).await? {
        (document, seq) = (last.get(0), last.get(1));
    }
    Ok(())
}

/// Deletes the events of a run, as [`delete_rows`].
async fn delete_events(connection: &mut Connection, run: RunId) -> Result<(), StoreError> {
    let sql = "SELECT min(seq), max(seq) FROM tree_agent_events WHERE run_id = $1";
    let range = connection.query_opt(sql, &[&run.0]).await?.map(|row| (row.get(0), row.get(1)));
    let Some((Some(first), Some(last))) = range else { return Ok(()) };
    let sql = "DELETE FROM tree_agent_events WHERE run_id = $1 AND seq >= $2 AND seq < $3";
    let mut from: i64 = first;
    while from <= last {
        connection.query(sql, &[&run.0, &from, &(from + STEP)]).await?;
        from += STEP;
    }
    Ok(())
}

async fn restore(
    connection: &mut Connection,
    record: &RunRecord,
    events: Vec<StoredEvent>,
    documents: Vec<StoredDocument>,
    chunks: &[StoredChunk],
    whole: &WholeProjection,
) -> Result<bool, StoreError> {
    let run = record.run_id;
    // The month's partition may have been dropped.
    if run.0.get_version_num() == 7 {
        let made = Timestamp::from_millis((run.0.as_u128() >> 80) as i64);
        connection.query("SELECT tree_agent_make_partition($1)", &[&Time(made)]).await?;
    }
    let spec = &whole.spec;
    connection
        .query(
            "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, spec, strategy, scope, metrics, \
                 root_node_id, created_at, updated_at, archived_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, now()) \
             ON CONFLICT (id) DO NOTHING",
            &[
                &run.0,
                &clean(&spec.user_id),
                &clean(&record.request_id),
                &clean(&spec.objective),
                &json(spec)?,
                &spec.strategy.as_str(),
                &spec.context.scope.as_str(),
                &json(&context_metrics(spec, whole.created_at))?,
                &whole.root_node_id.0,
                &Time(whole.created_at),
            ],
        )
        .await?;
    let archived = connection
        .query(
            "SELECT archive_sha256 FROM tree_agent_runs WHERE id = $1 AND archived_at IS NOT NULL FOR UPDATE",
            &[&run.0],
        )
        .await?;
    let Some(archived) = archived.first() else { return Ok(false) };
    if let Some(pruned_for) = archived.get::<_, Option<String>>(0)
        && record.archive_sha256.as_ref() != Some(&pruned_for)
    {
        return Err(StoreError::other_archive(run, &pruned_for));
    }
    // Events that were not tidied yet would be in the way.
    delete_events(connection, run).await?;
    for chunk in events.chunks(CHUNK) {
        insert_events(connection, run, chunk).await?;
    }
    for document in documents {
        insert_document(connection, run, document).await?;
    }
    delete_chunks(connection, run).await?;
    for chunk in chunks.chunks(CHUNK) {
        insert_chunks(connection, run, chunk).await?;
    }
    connection
        .query(
            "UPDATE tree_agent_runs SET head_seq = $2, epoch = $3, archived_at = NULL, archive_sha256 = NULL, \
             lease_owner = NULL, lease_expires_at = NULL, deleted_at = COALESCE(deleted_at, $4), \
             changed_at = clock_timestamp() WHERE id = $1",
            &[&run.0, &(record.head_seq as i64), &(record.epoch as i64), &record.deleted_at.map(Time)],
        )
        .await?;
    // A request that has created another run meanwhile finds that one.
    note_request(connection, run, &spec.user_id, &record.request_id).await?;
    derive(connection, run, record.epoch, record.head_seq, whole).await
}

async fn insert_events(
    connection: &mut Connection,
    run: RunId,
    events: &[StoredEvent],
) -> Result<(), StoreError> {
    let seq: Vec<i64> = events.iter().map(|e| e.seq as i64).collect();
    let id: Vec<Uuid> = events.iter().map(|e| e.id.0).collect();
    let node: Vec<Uuid> = events.iter().map(|e| e.node_id.0).collect();
    let parent: Vec<Option<Uuid>> = events.iter().map(|e| e.parent_node_id.map(|id| id.0)).collect();
    let kind: Vec<&str> = events.iter().map(|e| e.event_type.as_str()).collect();
    let payload: Vec<JsonText> = events.iter().map(|e| JsonText(e.payload.clone())).collect();
    let at: Vec<Time> = events.iter().map(|e| Time(e.timestamp)).collect();
    connection
        .query(
            "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
             SELECT $1, i.* FROM unnest($2::int8[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::jsonb[], \
             $8::timestamptz[]) AS i",
            &[&run.0, &seq, &id, &node, &parent, &kind, &payload, &at],
        )
        .await
        .map(drop)
}

/// Replaces one that the run wrote after it was pruned.
async fn insert_document(
    connection: &mut Connection,
    run: RunId,
    StoredDocument { document, dropped_bytes, base_seq, created_seq, edge }: StoredDocument,
) -> Result<(), StoreError> {
    connection
        .query(
            "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, \
             dropped_bytes, base_seq, \
             created_seq, parent_id, linked_seq, linked_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
             ON CONFLICT (run_id, id) DO UPDATE SET \
             type_key = excluded.type_key, path = excluded.path, title = excluded.title, body = excluded.body, \
             props = excluded.props, created_at = excluded.created_at, updated_at = excluded.updated_at, \
             dropped_bytes = excluded.dropped_bytes, base_seq = excluded.base_seq, created_seq = excluded.created_seq, \
             parent_id = excluded.parent_id, linked_seq = excluded.linked_seq, linked_at = excluded.linked_at",
            &[
                &run.0,
                &document.id.0,
                &document.kind.as_str(),
                &cleaned(document.path),
                &cleaned(document.title),
                &cleaned(document.body),
                &json(&document.props)?,
                &Time(document.created_at),
                &Time(document.updated_at),
                &(dropped_bytes as i64),
                &(base_seq as i64),
                &(created_seq as i64),
                &edge.map(|edge| edge.parent_id.0),
                &edge.map(|edge| edge.seq as i64),
                &edge.map(|edge| Time(edge.at)),
            ],
        )
        .await
        .map(drop)
}

async fn insert_chunks(
    connection: &mut Connection,
    run: RunId,
    chunks: &[StoredChunk],
) -> Result<(), StoreError> {
    let document: Vec<Uuid> = chunks.iter().map(|c| c.document_id.0).collect();
    let seq: Vec<i64> = chunks.iter().map(|c| c.seq as i64).collect();
    let start: Vec<i64> = chunks.iter().map(|c| c.start_byte as i64).collect();
    let body: Vec<_> = chunks.iter().map(|c| clean(&c.body)).collect();
    let at: Vec<Time> = chunks.iter().map(|c| Time(c.created_at)).collect();
    let replaces: Vec<bool> = chunks.iter().map(|c| c.replaces).collect();
    connection
        .query(
            "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, created_at, replaces) \
             SELECT $1, i.* FROM unnest($2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::timestamptz[], $7::bool[]) AS i",
            &[&run.0, &document, &seq, &start, &body, &at, &replaces],
        )
        .await
        .map(drop)
}

/// Drops the partition if its month has ended and all of its runs are archived. True if it was dropped.
async fn tidy(connection: &mut Connection, partition: &Partition) -> Result<bool, StoreError> {
    let name = &partition.name;
    let (from, to) = (partition.from.map(|run| run.0), partition.to.map(|run| run.0));
    if !partition.is_default {
        let open = format!(
            "SELECT ($2::uuid > tree_agent_first_run_id(date_trunc('month', now(), 'UTC'))) \
             OR EXISTS (SELECT FROM tree_agent_runs r WHERE {WITHIN} AND r.archived_at IS NULL)"
        );
        let is_open = connection.query(&open, &[&from, &to]).await?;
        if is_open.first().is_some_and(|row| !row.get::<_, bool>(0)) {
            give_way(connection).await?;
            // From here on nothing can be restored into it. A second look finds what was restored before.
            connection.execute(&format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")).await?;
            let is_open = connection.query(&open, &[&from, &to]).await?;
            if is_open.first().is_some_and(|row| !row.get::<_, bool>(0)) {
                connection.execute(&format!("ALTER TABLE tree_agent_events DETACH PARTITION {name}")).await?;
                connection.execute(&format!("DROP TABLE {name}")).await?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Deletes events of one archived run from the partition, from the run `after` on, at most [`STEP`]. Returns the run;
/// none when no archived run has events there. The run's row is locked for this step alone, so that it is not restored
/// meanwhile. A restoration in between removes what is left.
async fn tidy_step(
    connection: &mut Connection,
    partition: &Partition,
    after: Option<Uuid>,
) -> Result<Option<Uuid>, StoreError> {
    let name = &partition.name;
    let (from, to) = (partition.from.map(|run| run.0), partition.to.map(|run| run.0));
    let sql = format!(
        "WITH gone AS MATERIALIZED (SELECT r.id FROM tree_agent_runs r \
             WHERE r.archived_at IS NOT NULL AND {WITHIN} AND ($3::uuid IS NULL OR r.id >= $3) \
             AND EXISTS (SELECT FROM {name} e WHERE e.run_id = r.id) ORDER BY r.id LIMIT 1 FOR UPDATE), \
         removed AS (DELETE FROM {name} e USING gone WHERE e.run_id = gone.id AND e.seq < {STEP} + \
             (SELECT min(seq) FROM {name} WHERE run_id = (SELECT id FROM gone))) \
         SELECT id FROM gone"
    );
    let rows = connection.query(&sql, &[&from, &to, &after]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

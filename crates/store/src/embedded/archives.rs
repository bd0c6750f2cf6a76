//! Archives of runs in SQLite. There are no partitions: pruned rows leave the file when it is next tidied.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tree_agent_contract::session::Session;
use tree_agent_contract::{DocumentId, RunId, RunStatus, Timestamp};

use super::connection::{map_error, now};
use super::values::done;
use super::values::execute;
use super::{EmbeddedStore, blocking, locked};
use crate::batch::context_metrics;
use crate::error::StoreError;
use crate::logic::new_run::note_request;
use crate::logic::operations::derive;
use crate::logic::{forks, sessions};
use crate::ports::{
    Archives, Partition, RunRecord, StoredChunk, StoredDocument, StoredEvent, WholeProjection,
};
use crate::text::{clean, fold, json_text};

#[async_trait]
impl Archives for EmbeddedStore {
    async fn ended_runs(
        &self,
        before: Timestamp,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let sql = "SELECT id FROM tree_agent_runs WHERE status IN ('completed', 'failed', 'cancelled') \
                       AND (archived_at IS NULL OR deleted_at IS NOT NULL) AND updated_at < ?1 AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3";
            let mut statement = db.prepare_cached(sql).map_err(map_error)?;
            let params = params![before.micros(), after.map(|run| run.0), limit];
            let ids = statement.query_map(params, |row| Ok(RunId(row.get(0)?)));
            ids.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn run_record(&self, run: RunId) -> Result<RunRecord, StoreError> {
        self.query(move |db| record(db, run)?.ok_or_else(|| StoreError::not_found("run", run))).await
    }

    async fn run_documents(
        &self,
        run: RunId,
        after: Option<DocumentId>,
        limit: usize,
    ) -> Result<Vec<StoredDocument>, StoreError> {
        self.query(move |db| done(forks::document_rows(db, run, after, limit))).await
    }

    async fn prune_run(&self, run: RunId, head_seq: u64, sha256: &str) -> Result<bool, StoreError> {
        let sha256 = sha256.to_owned();
        self.write(move |tx| {
            let found = record(tx, run)?.ok_or_else(|| StoreError::not_found("run", run))?;
            let deleted = found.deleted_at.is_some();
            let archived = found.archive_sha256.is_some();
            if found.head_seq != head_seq || !found.status.is_final() || archived && !deleted {
                return Ok(false);
            }
            done(forks::materialise(tx, run))?;
            remove(tx, run)?;
            execute(tx, "DELETE FROM tree_agent_replies WHERE run_id = ?1", &[&run.0])?;
            if deleted {
                execute(tx, "DELETE FROM tree_agent_commands WHERE run_id = ?1", &[&run.0])?;
                execute(
                    tx,
                    "DELETE FROM tree_agent_requests WHERE run_id = ?1 AND (user_id, request_id) IN \
                     (SELECT user_id, request_id FROM tree_agent_runs WHERE id = ?1)",
                    &[&run.0],
                )?;
                execute(tx, "DELETE FROM tree_agent_runs WHERE id = ?1", &[&run.0])?;
                return Ok(true);
            }
            execute(
                tx,
                "UPDATE tree_agent_runs SET archived_at = ?2, archive_sha256 = ?3 WHERE id = ?1",
                params![run.0, now().micros(), sha256],
            )?;
            Ok(true)
        })
        .await
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
        self.write(move |tx| {
            let restored = restore(tx, &record, &events, documents, &chunks, &whole)?;
            if restored {
                done(forks::restore(tx, record.run_id, &record.segments, &whole.fork_edits))?;
                execute(tx, "DELETE FROM tree_agent_sessions WHERE run_id = ?1", &[&record.run_id.0])?;
                done(sessions::write(tx, record.run_id, &said))?;
            }
            Ok(restored)
        })
        .await
    }

    async fn tidy(&self) -> Result<Vec<String>, StoreError> {
        let inner = self.inner.clone();
        blocking(move || {
            let writer = locked(&inner.writer);
            writer.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);").map_err(map_error)
        })
        .await?;
        Ok(Vec::new())
    }

    async fn make_partitions(&self, _months: u32) -> Result<u32, StoreError> {
        Ok(0)
    }

    async fn partitions(&self) -> Result<Vec<Partition>, StoreError> {
        Ok(Vec::new())
    }
}

fn record(db: &mut Connection, run: RunId) -> Result<Option<RunRecord>, StoreError> {
    let row = db
        .query_row(
            "SELECT request_id, epoch, head_seq, status, archive_sha256, deleted_at FROM tree_agent_runs WHERE id = ?1",
            [run.0],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, String>(3)?,
                    row.get(4)?,
                    row.get::<_, Option<i64>>(5)?,
                ))
            },
        )
        .optional()
        .map_err(map_error)?;
    let Some((request_id, epoch, head_seq, status, archive_sha256, deleted_at)) = row else {
        return Ok(None);
    };
    Ok(Some(RunRecord {
        run_id: run,
        request_id,
        epoch: epoch as u64,
        head_seq: head_seq as u64,
        status: status
            .parse::<RunStatus>()
            .map_err(|e| StoreError::broken(format!("the status of run {run} cannot be read"), e))?,
        archive_sha256,
        deleted_at: deleted_at.map(Timestamp),
        segments: done(forks::segments(db, run))?,
    }))
}

/// Everything of a run except its row.
fn remove(tx: &Connection, run: RunId) -> Result<(), StoreError> {
    for table in [
        "tree_agent_nodes",
        "tree_agent_plans",
        "tree_agent_artifacts",
        "tree_agent_events",
        "tree_agent_documents",
        "tree_agent_document_chunks",
        "tree_agent_sessions",
    ] {
        execute(tx, &format!("DELETE FROM {table} WHERE run_id = ?1"), &[&run.0])?;
    }
    Ok(())
}

fn restore(
    tx: &mut Connection,
    record: &RunRecord,
    events: &[StoredEvent],
    documents: Vec<StoredDocument>,
    chunks: &[StoredChunk],
    whole: &WholeProjection,
) -> Result<bool, StoreError> {
    let (run, spec) = (record.run_id, &whole.spec);
    execute(
        tx,
        "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, objective_folded, spec, strategy, scope, \
             metrics, root_node_id, created_at, updated_at, archived_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11) \
         ON CONFLICT (id) DO NOTHING",
        params![
            run.0,
            clean(&spec.user_id),
            clean(&record.request_id),
            clean(&spec.objective),
            fold(&spec.objective),
            json_text(spec)?,
            spec.strategy.as_str(),
            spec.context.scope.as_str(),
            json_text(&context_metrics(spec, whole.created_at))?,
            whole.root_node_id.0,
            whole.created_at.micros(),
        ],
    )?;
    let archived = tx
        .query_row(
            "SELECT archive_sha256 FROM tree_agent_runs WHERE id = ?1 AND archived_at IS NOT NULL",
            [run.0],
            |row| row.get::<_, Option<String>>(0),
        )
        .optional()
        .map_err(map_error)?;
    let Some(pruned_for) = archived else { return Ok(false) };
    if let Some(pruned_for) = pruned_for
        && record.archive_sha256.as_ref() != Some(&pruned_for)
    {
        return Err(StoreError::other_archive(run, &pruned_for));
    }
    execute(
        tx,
        "UPDATE tree_agent_runs SET head_seq = ?2, epoch = ?3, archived_at = NULL, archive_sha256 = NULL, \
         lease_owner = NULL, lease_expires_at = NULL, deleted_at = COALESCE(deleted_at, ?4), changed_at = ?5 \
         WHERE id = ?1",
        params![
            run.0,
            record.head_seq as i64,
            record.epoch as i64,
            record.deleted_at.map(|at| at.micros()),
            now().micros()
        ],
    )?;
    for event in events {
        execute(
            tx,
            "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                run.0,
                event.seq as i64,
                event.id.0,
                event.node_id.0,
                event.parent_node_id.map(|id| id.0),
                event.event_type,
                event.payload,
                event.timestamp.micros(),
            ],
        )?;
    }
    for StoredDocument { document, dropped_bytes, base_seq, created_seq, edge } in documents {
        execute(
            tx,
            "INSERT INTO tree_agent_documents (run_id, id, type_key, path, title, body, props, created_at, updated_at, \
             dropped_bytes, base_seq, \
             created_seq, parent_id, linked_seq, linked_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
             ON CONFLICT (run_id, id) DO UPDATE SET \
             type_key = excluded.type_key, path = excluded.path, title = excluded.title, body = excluded.body, \
             props = excluded.props, created_at = excluded.created_at, updated_at = excluded.updated_at, \
             dropped_bytes = excluded.dropped_bytes, base_seq = excluded.base_seq, created_seq = excluded.created_seq, \
             parent_id = excluded.parent_id, linked_seq = excluded.linked_seq, linked_at = excluded.linked_at",
            params![
                run.0,
                document.id.0,
                document.kind.as_str(),
                clean(&document.path),
                clean(&document.title),
                clean(&document.body),
                json_text(&document.props)?,
                document.created_at.micros(),
                document.updated_at.micros(),
                dropped_bytes as i64,
                base_seq as i64,
                created_seq as i64,
                edge.map(|edge| edge.parent_id.0),
                edge.map(|edge| edge.seq as i64),
                edge.map(|edge| edge.at.micros()),
            ],
        )?;
    }
    execute(tx, "DELETE FROM tree_agent_document_chunks WHERE run_id = ?1", &[&run.0])?;
    for chunk in chunks {
        execute(
            tx,
            "INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, created_at, replaces) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                run.0,
                chunk.document_id.0,
                chunk.seq as i64,
                chunk.start_byte as i64,
                clean(&chunk.body),
                chunk.created_at.micros(),
                chunk.replaces,
            ],
        )?;
    }
    // A request that has created another run meanwhile finds that one.
    done(note_request(tx, run, &spec.user_id, &record.request_id))?;
    done(derive(tx, run, record.epoch, record.head_seq, whole))
}

//! Runs and their inbox in SQLite.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use tree_agent_contract::{Command, ForkOf, NodeId, Reply, RunId, RunSpec, RunStatus, RunSummary, Timestamp};
use uuid::Uuid;

use super::EmbeddedStore;
use super::append::{self, execute};
use super::commands;
use super::connection::{map_error, now};
use super::forks;
use crate::batch::{FirstAppend, context_metrics};
use crate::error::StoreError;
use crate::ports::{Answer, Created, NewRun, PendingCommand, Runs, Sent, UsageColumn};
use crate::text::{clean, fold, json_text};

/// The columns that [`summary`] reads, in its order.
pub(super) const SUMMARY: &str = "id, json_remove(spec, '$.search.prompts', '$.search.frontmatterSchema'), status, partial, root_node_id, \
     head_seq, node_count, error, created_at, updated_at, usage, started_at, ended_at, \
     parent_run_id, parent_seq, fork_edits";

#[async_trait]
impl Runs for EmbeddedStore {
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError> {
        let run_id = run.run_id;
        let (first, spec, request_id) = FirstAppend::of(run)?;
        let spec_json = json_text(&spec)?;
        self.write(move |tx| {
            let existing = tx
                .query_row(
                    "SELECT id, spec, parent_run_id IS NOT NULL FROM tree_agent_runs WHERE id IN (SELECT ?1 UNION ALL \
                     SELECT run_id FROM tree_agent_requests WHERE user_id = ?2 AND request_id = ?3) \
                     ORDER BY id = ?1 DESC LIMIT 1",
                    params![run_id.0, clean(&spec.user_id), clean(&request_id)],
                    |row| Ok((RunId(row.get(0)?), row.get::<_, String>(1)?, row.get::<_, bool>(2)?)),
                )
                .optional()
                .map_err(map_error)?;
            let Some((id, stored, is_fork)) = existing else {
                insert(tx, first, &spec, &spec_json, &request_id)?;
                return Ok(Created::New(run_id));
            };
            if !is_fork && parse_spec(id, &stored)? == parse_spec(id, &spec_json)? {
                Ok(Created::Existing(id))
            } else {
                Err(StoreError::other_spec(id, &request_id))
            }
        })
        .await
    }

    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError> {
        let (user_id, request_id) = (clean(user_id).into_owned(), clean(request_id).into_owned());
        self.query(move |db| {
            let sql = "SELECT run_id FROM tree_agent_requests WHERE user_id = ?1 AND request_id = ?2";
            let id = db.query_row(sql, params![user_id, request_id], |row| Ok(RunId(row.get(0)?)));
            id.optional().map_err(map_error)
        })
        .await
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.query(move |db| {
            let sql = format!("SELECT {SUMMARY} FROM tree_agent_runs WHERE id = ?1 AND deleted_at IS NULL");
            db.query_row(&sql, [run.0], |row| Ok(summary(row)))
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::not_found("run", run))?
        })
        .await
    }

    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        self.query(move |db| {
            if !forks::segments(db, run)?.is_empty() {
                return forks::nodes(db, run);
            }
            let sql = "SELECT id, parent_node_id FROM tree_agent_nodes WHERE run_id = ?1 ORDER BY depth, id";
            let mut statement = db.prepare_cached(sql).map_err(map_error)?;
            let nodes = statement.query_map([run.0], |row| {
                Ok((NodeId(row.get(0)?), row.get::<_, Option<Uuid>>(1)?.map(NodeId)))
            });
            nodes.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError> {
        let text = json_text(&command)?;
        self.write(move |tx| commands::send(tx, run, &command.request_id, &text)).await
    }

    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError> {
        let request_id = request_id.to_owned();
        self.query(move |db| commands::reply(db, run, &request_id)).await
    }

    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1 AND epoch = ?2";
            let owned =
                tx.query_row(sql, params![run.0, epoch as i64], |_| Ok(())).optional().map_err(map_error)?;
            if owned.is_some() {
                commands::answer(tx, run, &answers)?;
            }
            Ok(owned.is_some())
        })
        .await
    }

    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        let driver = driver.to_owned();
        self.query(move |db| {
            let mut statement = db
                .prepare_cached(
                    "SELECT c.id, c.run_id, c.command FROM tree_agent_commands c CROSS JOIN tree_agent_runs r \
                     WHERE r.id = c.run_id AND r.lease_owner = ?1 ORDER BY c.run_id, c.id",
                )
                .map_err(map_error)?;
            let rows = statement.query_map([driver], |row| {
                Ok((row.get::<_, i64>(0)?, RunId(row.get(1)?), row.get::<_, String>(2)?))
            });
            let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(map_error)?;
            let read = |(id, run, text): (i64, RunId, String)| crate::batch::command(id, run, text.as_bytes());
            Ok(rows.into_iter().filter_map(read).collect())
        })
        .await
    }
}

fn insert(
    tx: &Transaction<'_>,
    first: FirstAppend,
    spec: &RunSpec,
    spec_json: &str,
    request_id: &str,
) -> Result<(), StoreError> {
    execute(
        tx,
        "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, objective_folded, spec, strategy, scope, \
             project_ids, metrics, root_node_id, created_at, updated_at, labels, changed_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14)",
        params![
            first.append.run_id.0,
            clean(&spec.user_id),
            clean(request_id),
            clean(&spec.objective),
            fold(&spec.objective),
            spec_json,
            spec.strategy.as_str(),
            spec.context.scope.as_str(),
            json_text(&spec.context.project_ids)?,
            json_text(&context_metrics(spec, first.created_at))?,
            first.root.0,
            first.created_at.micros(),
            json_text(&spec.labels)?,
            now().micros(),
        ],
    )?;
    note_request(tx, first.append.run_id, &spec.user_id, request_id)?;
    append::write(tx, &first.append).map(drop)
}

/// Notes which run a request created, unless another one did. Nothing is noted without a request id.
pub(super) fn note_request(
    tx: &Transaction<'_>,
    run: RunId,
    user_id: &str,
    request_id: &str,
) -> Result<(), StoreError> {
    execute(
        tx,
        "INSERT OR IGNORE INTO tree_agent_requests (user_id, request_id, run_id) SELECT ?1, ?2, ?3 WHERE ?2 <> ''",
        params![clean(user_id), clean(request_id), run.0],
    )
    .map(drop)
}

fn parse_spec(run: RunId, json: &str) -> Result<RunSpec, StoreError> {
    serde_json::from_str(json)
        .map_err(|e| StoreError::broken(format!("the spec of run {run} cannot be read"), e))
}

pub(super) fn summary(row: &Row<'_>) -> Result<RunSummary, StoreError> {
    let run_id = RunId(row.get(0).map_err(map_error)?);
    let spec: String = row.get(1).map_err(map_error)?;
    let status: String = row.get(2).map_err(map_error)?;
    let usage: String = row.get(10).map_err(map_error)?;
    let fork = match row.get::<_, Option<Uuid>>(13).map_err(map_error)? {
        Some(parent) => Some(Box::new(ForkOf {
            parent_run_id: RunId(parent),
            parent_seq: row.get::<_, i64>(14).map_err(map_error)? as u64,
            edits: crate::forks::edits(run_id, row.get::<_, String>(15).map_err(map_error)?.as_bytes())?,
        })),
        None => None,
    };
    let UsageColumn { usage, models } = serde_json::from_str(&usage)
        .map_err(|e| StoreError::broken(format!("the usage of run {run_id} cannot be read"), e))?;
    Ok(RunSummary {
        run_id,
        spec: parse_spec(run_id, &spec)?,
        status: status
            .parse::<RunStatus>()
            .map_err(|e| StoreError::broken(format!("the status of run {run_id} cannot be read"), e))?,
        partial: row.get(3).map_err(map_error)?,
        root_node_id: NodeId(row.get(4).map_err(map_error)?),
        head_seq: row.get::<_, i64>(5).map_err(map_error)? as u64,
        node_count: row.get::<_, i64>(6).map_err(map_error)? as u64,
        error: row.get(7).map_err(map_error)?,
        created_at: Timestamp(row.get(8).map_err(map_error)?),
        updated_at: Timestamp(row.get(9).map_err(map_error)?),
        started_at: row.get::<_, Option<i64>>(11).map_err(map_error)?.map(Timestamp),
        ended_at: row.get::<_, Option<i64>>(12).map_err(map_error)?.map(Timestamp),
        usage,
        models,
        fork,
    })
}

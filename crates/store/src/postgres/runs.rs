//! Runs and their inbox on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::{Command, ForkOf, NodeId, Reply, RunId, RunSpec, RunStatus, RunSummary};
use uuid::Uuid;

use super::PostgresStore;
use super::append::write;
use super::columns::json;
use super::commands;
use super::connection::Connection;
use super::forks;
use super::types::{Json, JsonText, Time};
use crate::batch::{FirstAppend, context_metrics};
use crate::error::StoreError;
use crate::ports::{Answer, Created, NewRun, PendingCommand, Runs, Sent, UsageColumn};
use crate::text::clean;

/// The columns that [`summary`] reads, in its order.
pub(super) const SUMMARY: &str = "id, spec #- '{search,prompts}' #- '{search,frontmatterSchema}', status, partial, \
                                  root_node_id, head_seq, node_count, error, created_at, updated_at, usage, \
                                  started_at, ended_at, parent_run_id, parent_seq, fork_edits";

#[async_trait]
impl Runs for PostgresStore {
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError> {
        let run_id = run.run_id;
        let (first, spec, request_id) = FirstAppend::of(run)?;
        let spec_json = json(&spec)?;
        let mut connection = self.connection().await?;
        connection.begin().await?;
        match insert(&mut connection, first, &spec, &spec_json, &request_id).await {
            Ok(false) => connection.roll_back().await?,
            done => return connection.end(done).await.map(|_| Created::New(run_id)),
        }
        let existing = connection
            .query_opt(
                "SELECT id, spec, parent_run_id IS NOT NULL FROM tree_agent_runs WHERE id = ANY (ARRAY(SELECT $1::uuid UNION ALL \
                 SELECT run_id FROM tree_agent_requests WHERE user_id = $2 AND request_id = $3)) \
                 ORDER BY id = $1 DESC LIMIT 1",
                &[&run_id.0, &clean(&spec.user_id), &clean(&request_id)],
            )
            .await?
            .ok_or_else(|| StoreError::unavailable("the run changed meanwhile", "try again"))?;
        let id = RunId(existing.get(0));
        let (same, is_fork): (RunSpec, bool) = (stored_spec(id, existing.get(1))?, existing.get(2));
        // Compared as it was stored, so that replaced characters do not make a repeat a conflict.
        if !is_fork && same == parse_spec(id, spec_json.0.as_bytes())? {
            Ok(Created::Existing(id))
        } else {
            Err(StoreError::other_spec(id, &request_id))
        }
    }

    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError> {
        let sql = "SELECT run_id FROM tree_agent_requests WHERE user_id = $1 AND request_id = $2";
        let row = self.connection().await?.query_opt(sql, &[&clean(user_id), &clean(request_id)]).await?;
        Ok(row.map(|row| RunId(row.get(0))))
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let mut connection = self.connection().await?;
        let row = connection
            .query_opt(
                &format!("SELECT {SUMMARY} FROM tree_agent_runs WHERE id = $1 AND deleted_at IS NULL"),
                &[&run.0],
            )
            .await?;
        summary(&row.ok_or_else(|| StoreError::not_found("run", run))?)
    }

    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        let sql = "SELECT id, parent_node_id FROM tree_agent_nodes WHERE run_id = $1 ORDER BY depth, id";
        let mut connection = self.connection().await?;
        if let Some(nodes) = forks::nodes(&mut connection, run).await? {
            return Ok(nodes);
        }
        let rows = connection.query(sql, &[&run.0]).await?;
        Ok(rows.iter().map(|row| (NodeId(row.get(0)), row.get::<_, Option<Uuid>>(1).map(NodeId))).collect())
    }

    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError> {
        commands::send(&mut self.connection().await?, run, &command).await
    }

    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError> {
        commands::reply(&mut self.connection().await?, run, request_id).await
    }

    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError> {
        commands::answer(&mut self.connection().await?, run, epoch, &answers).await
    }

    /// From the few commands to their runs: what the driver owns is not read.
    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        let mut connection = self.connection().await?;
        let rows = connection
            .query(
                "SELECT c.id, c.run_id, c.command FROM tree_agent_commands c CROSS JOIN LATERAL \
                     (SELECT FROM tree_agent_runs r WHERE r.id = c.run_id AND r.lease_owner = $1 OFFSET 0) owned \
                 ORDER BY c.run_id, c.id",
                &[&driver],
            )
            .await?;
        let readable = rows.iter().filter_map(|row| {
            let command: Json = row.get(2);
            crate::batch::command(row.get(0), RunId(row.get(1)), &command.0)
        });
        Ok(readable.collect())
    }
}

/// Inserts the run and its first events; false when the run or its request exists, and then the transaction is to be
/// rolled back.
async fn insert(
    connection: &mut Connection,
    first: FirstAppend,
    spec: &RunSpec,
    spec_json: &JsonText,
    request_id: &str,
) -> Result<bool, StoreError> {
    let projects: Vec<Uuid> = spec.context.project_ids.iter().map(|id| id.0).collect();
    let at = Time(first.created_at);
    let metrics = json(&context_metrics(spec, first.created_at))?;
    let rows = connection
        .query(
            "INSERT INTO tree_agent_runs (id, user_id, request_id, objective, spec, strategy, scope, project_ids, \
                 metrics, root_node_id, created_at, updated_at, labels) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) ON CONFLICT DO NOTHING RETURNING id",
            &[
                &first.append.run_id.0,
                &clean(&spec.user_id),
                &clean(request_id),
                &clean(&spec.objective),
                spec_json,
                &spec.strategy.as_str(),
                &spec.context.scope.as_str(),
                &projects,
                &metrics,
                &first.root.0,
                &at,
                &json(&spec.labels)?,
            ],
        )
        .await?;
    if rows.is_empty() || !note_request(connection, first.append.run_id, &spec.user_id, request_id).await? {
        return Ok(false);
    }
    write(connection, std::slice::from_ref(&first.append)).await?;
    Ok(true)
}

/// Notes which run a request created; false if another one did. Nothing is noted without a request id.
pub(super) async fn note_request(
    connection: &mut Connection,
    run: RunId,
    user_id: &str,
    request_id: &str,
) -> Result<bool, StoreError> {
    if request_id.is_empty() {
        return Ok(true);
    }
    let sql = "INSERT INTO tree_agent_requests (user_id, request_id, run_id) VALUES ($1, $2, $3) \
               ON CONFLICT DO NOTHING RETURNING run_id";
    Ok(connection.query_opt(sql, &[&clean(user_id), &clean(request_id), &run.0]).await?.is_some())
}

fn stored_spec(run: RunId, json: Json) -> Result<RunSpec, StoreError> {
    parse_spec(run, &json.0)
}

fn parse_spec(run: RunId, json: &[u8]) -> Result<RunSpec, StoreError> {
    serde_json::from_slice(json)
        .map_err(|e| StoreError::broken(format!("the spec of run {run} cannot be read"), e))
}

pub(super) fn summary(row: &Row) -> Result<RunSummary, StoreError> {
    let run_id = RunId(row.get(0));
    let status: &str = row.get(2);
    let fork = match row.get::<_, Option<Uuid>>(13) {
        Some(parent) => Some(Box::new(ForkOf {
            parent_run_id: RunId(parent),
            parent_seq: row.get::<_, i64>(14) as u64,
            edits: crate::forks::edits(run_id, &row.get::<_, Json>(15).0)?,
        })),
        None => None,
    };
    let UsageColumn { usage, models } = serde_json::from_slice(&row.get::<_, Json>(10).0)
        .map_err(|e| StoreError::broken(format!("the usage of run {run_id} cannot be read"), e))?;
    Ok(RunSummary {
        run_id,
        spec: stored_spec(run_id, row.get(1))?,
        status: status
            .parse::<RunStatus>()
            .map_err(|e| StoreError::broken(format!("the status of run {run_id} cannot be read"), e))?,
        partial: row.get(3),
        root_node_id: NodeId(row.get(4)),
        head_seq: row.get::<_, i64>(5) as u64,
        node_count: row.get::<_, i64>(6) as u64,
        error: row.get(7),
        created_at: row.get::<_, Time>(8).0,
        updated_at: row.get::<_, Time>(9).0,
        started_at: row.get::<_, Option<Time>>(11).map(|at| at.0),
        ended_at: row.get::<_, Option<Time>>(12).map(|at| at.0),
        usage,
        models,
        fork,
    })
}

//! Runs and their inbox.

use async_trait::async_trait;
use tree_agent_contract::{Command, NodeId, Reply, RunId, RunSpec, RunSummary, Timestamp};

use super::forks;
use super::new_run::{NewRow, existing, of_request};
use super::rows::{node, run_summary};
use super::sql::{Backend, Db, Record, parse};
use crate::LIVE;
use crate::batch::{self, FirstAppend};
use crate::error::StoreError;
use crate::ports::{Answer, Created, NewRun, PendingCommand, Runs, Sent, UsedBy};
use crate::schema::Dialect;
use crate::text::clean;
use crate::types::{Json, Time, json};

/// The columns of a [run](run_summary). The texts of a search are left out.
pub(crate) fn summary(dialect: Dialect) -> String {
    let spec = dialect.pick(
        "spec #- '{search,prompts}' #- '{search,frontmatterSchema}'",
        "json_remove(spec, '$.search.prompts', '$.search.frontmatterSchema')",
    );
    format!(
        "id, {spec}, status, partial, root_node_id, head_seq, node_count, error, created_at, updated_at, usage, \
         started_at, ended_at, parent_run_id, parent_seq, fork_edits"
    )
}

#[async_trait]
impl<S: Backend> Runs for S {
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError> {
        let run_id = run.run_id;
        let (first, spec, request_id) = FirstAppend::of(run)?;
        let (made, request) = (spec.clone(), request_id.clone());
        let insert =
            self.transaction_if(|is_new| *is_new, move |db| Box::pin(insert(db, first, made, request)));
        if insert.await? {
            return Ok(Created::New(run_id));
        }
        self.with(move |db| Box::pin(created_before(db, run_id, spec, request_id))).await
    }

    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError> {
        let (user_id, request_id) = (user_id.to_owned(), request_id.to_owned());
        self.with(move |db| Box::pin(async move { of_request(db, &user_id, &request_id).await })).await
    }

    async fn used_by(&self, user_id: &str, now: Timestamp) -> Result<UsedBy, StoreError> {
        let user_id = user_id.to_owned();
        self.with(move |db| Box::pin(used_by(db, user_id, now))).await
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.with(move |db| Box::pin(one(db, run))).await
    }

    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        self.with(move |db| Box::pin(nodes(db, run))).await
    }

    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError> {
        self.write(move |db| Box::pin(async move { db.send(run, &command).await })).await
    }

    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError> {
        let request_id = request_id.to_owned();
        self.with(move |db| Box::pin(reply(db, run, request_id))).await
    }

    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError> {
        self.write(move |db| Box::pin(async move { db.answer(run, epoch, &answers).await })).await
    }

    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        let driver = driver.to_owned();
        self.with(move |db| Box::pin(commands(db, driver))).await
    }
}

/// Inserts the run and its first events. False, and the transaction is to be rolled back, if the run or its request
/// exists.
async fn insert<D: Db>(
    db: &mut D,
    first: FirstAppend,
    spec: RunSpec,
    request_id: String,
) -> Result<bool, StoreError> {
    let row = NewRow::of(D::DIALECT, &spec, first.root.0, first.created_at)?;
    let is_new = row.insert(db, first.append.run_id, &spec, first.created_at, &request_id).await?;
    if is_new {
        db.append_first(&first.append).await?;
    }
    Ok(is_new)
}

/// What an earlier call with the same id or request has made: the same run, or another one.
async fn created_before<D: Db>(
    db: &mut D,
    run: RunId,
    spec: RunSpec,
    request_id: String,
) -> Result<Created, StoreError> {
    let id = existing(db, run, &spec.user_id, &request_id).await?;
    let sql = "SELECT spec, parent_run_id IS NOT NULL FROM tree_agent_runs WHERE id = $1";
    let Some(row) = db.row(sql, &[&id.0]).await? else {
        // The run is gone, and its request goes with it.
        return Err(StoreError::unavailable("the run changed meanwhile", "try again"));
    };
    let what = || format!("the spec of run {id}");
    // Compared as it was stored, so that replaced characters do not make a repeat a conflict.
    let asked: RunSpec = parse(json(&spec)?.0.as_bytes(), what)?;
    if !row.get::<bool>(1)? && row.json::<RunSpec>(0, what)? == asked {
        Ok(Created::Existing(id))
    } else {
        Err(StoreError::other_spec(id, &request_id))
    }
}

async fn used_by<D: Db>(db: &mut D, user_id: String, now: Timestamp) -> Result<UsedBy, StoreError> {
    let before = |seconds: i64| Time(Timestamp(now.0.saturating_sub(seconds * 1_000_000)));
    let user = clean(&user_id);
    let live = format!("SELECT count(*) FROM tree_agent_runs WHERE user_id = $1 AND {LIVE}");
    let live = db.row(&live, &[&user]).await?.map_or(Ok(0), |row| row.number(0))?;
    // A live run may still use what is left of its budget.
    let greater = D::DIALECT.pick("greatest", "max");
    let number = |value: &str| format!("COALESCE(CAST({value} AS bigint), 0)");
    let sum = |used: String, budget: &str| {
        let budget = number(&format!("spec -> 'budgets' ->> '{budget}'"));
        format!(
            "CAST(COALESCE(sum(CASE WHEN {LIVE} THEN {greater}({used}, {budget}) ELSE {used} END), 0) AS bigint)"
        )
    };
    let tokens = format!("{} + {}", number("usage ->> 'inputTokens'"), number("usage ->> 'outputTokens'"));
    let sql = format!(
        "SELECT count(*) FILTER (WHERE created_at > $3), {}, {} FROM tree_agent_runs \
         WHERE user_id = $1 AND created_at > $2 AND created_at <= $4",
        sum(tokens, "maxTokens"),
        sum(number("usage ->> 'costMicros'"), "maxCostMicros")
    );
    let row = db.row(&sql, &[&user, &before(86_400), &before(60), &Time(now)]).await?;
    let number = |i| row.as_ref().map_or(Ok(0), |row| row.number(i));
    Ok(UsedBy { live, new: number(0)?, tokens: number(1)?, cost_micros: number(2)? })
}

async fn one<D: Db>(db: &mut D, run: RunId) -> Result<RunSummary, StoreError> {
    let columns = summary(D::DIALECT);
    let sql = format!("SELECT {columns} FROM tree_agent_runs WHERE id = $1 AND deleted_at IS NULL");
    run_summary(&db.row(&sql, &[&run.0]).await?.ok_or_else(|| StoreError::not_found("run", run))?)
}

async fn nodes<D: Db>(db: &mut D, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
    if let Some(nodes) = forks::nodes(db, run).await? {
        return Ok(nodes);
    }
    let sql = "SELECT id, parent_node_id FROM tree_agent_nodes WHERE run_id = $1 ORDER BY depth, id";
    db.rows(sql, &[&run.0]).await?.iter().map(node).collect()
}

async fn reply<D: Db>(db: &mut D, run: RunId, request_id: String) -> Result<Option<Reply>, StoreError> {
    let sql = "SELECT reply FROM tree_agent_replies WHERE run_id = $1 AND request_id = $2";
    let Some(row) = db.row(sql, &[&run.0, &clean(&request_id)]).await? else { return Ok(None) };
    let text = row.get::<Option<Json>>(0)?;
    text.map(|text| batch::reply(run, &request_id, &text.0)).transpose()
}

/// From the few commands to their runs: what the driver owns is not read.
async fn commands<D: Db>(db: &mut D, driver: String) -> Result<Vec<PendingCommand>, StoreError> {
    let owned = D::DIALECT.pick(
        "LATERAL (SELECT FROM tree_agent_runs r WHERE r.id = c.run_id AND r.lease_owner = $1 OFFSET 0) owned",
        "tree_agent_runs r WHERE r.id = c.run_id AND r.lease_owner = $1",
    );
    let sql = format!(
        "SELECT c.id, c.run_id, c.command FROM tree_agent_commands c CROSS JOIN {owned} ORDER BY c.run_id, c.id"
    );
    let mut commands = Vec::new();
    for row in db.rows(&sql, &[&driver]).await? {
        commands.extend(batch::command(row.get(0)?, RunId(row.get(1)?), &row.get::<Json>(2)?.0));
    }
    Ok(commands)
}

//! The row of a run that is made, and the request that made it.

use tree_agent_contract::{RunId, RunSpec, Timestamp};
use uuid::Uuid;

use super::sql::{Db, Param, Record};
use crate::batch::context_metrics;
use crate::error::StoreError;
use crate::schema::Dialect;
use crate::text::{clean, fold};
use crate::types::{List, Time, json, now};

/// The row of a run, column by column.
pub(crate) struct NewRow {
    columns: Vec<(&'static str, Box<dyn Param>)>,
}

impl NewRow {
    /// The columns that come from the first event.
    pub(crate) fn of(
        dialect: Dialect,
        spec: &RunSpec,
        root: Uuid,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut row = Self { columns: Vec::with_capacity(20) };
        row.add("user_id", clean(&spec.user_id).into_owned());
        row.add("objective", clean(&spec.objective).into_owned());
        row.add("spec", json(spec)?);
        row.add("strategy", spec.strategy.as_str());
        row.add("scope", spec.context.scope.as_str());
        row.add("project_ids", List(spec.context.project_ids.iter().map(|id| id.0).collect()));
        row.add("metrics", json(&context_metrics(spec, at))?);
        row.add("root_node_id", root);
        row.add("created_at", Time(at));
        row.add("labels", json(&spec.labels)?);
        if dialect == Dialect::Embedded {
            row.add("objective_folded", fold(&spec.objective));
        }
        Ok(row)
    }

    pub(crate) fn add(&mut self, column: &'static str, value: impl Param + 'static) {
        self.columns.push((column, Box::new(value)));
    }

    fn params(&self) -> Vec<&dyn Param> {
        self.columns.iter().map(|(_, value)| &**value).collect()
    }

    /// Inserts the row of the run and its request. False if one of them exists.
    pub(crate) async fn insert<D: Db>(
        mut self,
        db: &mut D,
        run: RunId,
        spec: &RunSpec,
        at: Timestamp,
        request_id: &str,
    ) -> Result<bool, StoreError> {
        self.add("id", run.0);
        self.add("request_id", clean(request_id).into_owned());
        self.add("updated_at", Time(at));
        if D::DIALECT == Dialect::Embedded {
            self.add("changed_at", Time(now()));
        }
        let names: Vec<_> = self.columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = (1..=names.len()).map(|n| format!("${n}")).collect();
        let sql = format!(
            "INSERT INTO tree_agent_runs ({}) VALUES ({}) ON CONFLICT DO NOTHING RETURNING id",
            names.join(", "),
            values.join(", ")
        );
        Ok(db.row(&sql, &self.params()).await?.is_some()
            && note_request(db, run, &spec.user_id, request_id).await?)
    }

    /// Replaces the columns of the run.
    pub(crate) async fn update<D: Db>(mut self, db: &mut D, run: RunId) -> Result<(), StoreError> {
        let set: Vec<_> = (1..).zip(&self.columns).map(|(n, (name, _))| format!("{name} = ${n}")).collect();
        self.add("id", run.0);
        let sql = format!("UPDATE tree_agent_runs SET {} WHERE id = ${}", set.join(", "), self.columns.len());
        db.run(&sql, &self.params()).await
    }
}

/// Notes which run a request created; false if another one did. Nothing is noted without a request id.
pub(crate) async fn note_request<D: Db>(
    db: &mut D,
    run: RunId,
    user_id: &str,
    request_id: &str,
) -> Result<bool, StoreError> {
    if request_id.is_empty() {
        return Ok(true);
    }
    let sql = "INSERT INTO tree_agent_requests (user_id, request_id, run_id) VALUES ($1, $2, $3) \
               ON CONFLICT DO NOTHING RETURNING run_id";
    Ok(db.row(sql, &[&clean(user_id), &clean(request_id), &run.0]).await?.is_some())
}

/// The run that a request created.
pub(crate) async fn of_request<D: Db>(
    db: &mut D,
    user_id: &str,
    request_id: &str,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run_id FROM tree_agent_requests WHERE user_id = $1 AND request_id = $2";
    let row = db.row(sql, &[&clean(user_id), &clean(request_id)]).await?;
    row.map(|row| row.get(0).map(RunId)).transpose()
}

/// The run that stands in the way of a new one: the one with its id, or the one that its request created.
pub(crate) async fn existing<D: Db>(
    db: &mut D,
    run: RunId,
    user_id: &str,
    request_id: &str,
) -> Result<RunId, StoreError> {
    if db.row("SELECT 1 FROM tree_agent_runs WHERE id = $1", &[&run.0]).await?.is_some() {
        return Ok(run);
    }
    let found = of_request(db, user_id, request_id).await?;
    found.ok_or_else(|| StoreError::unavailable("the run changed meanwhile", "try again"))
}

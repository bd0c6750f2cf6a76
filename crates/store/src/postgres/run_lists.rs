//! Runs in lists, on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::types::ToSql;
use tree_agent_contract::{RunId, RunSummary, Timestamp};
use uuid::Uuid;

use super::PostgresStore;
use super::columns::json;
use super::runs::{SUMMARY, summary};
use super::types::Time;
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{ListedRun, Page, RunFilter, RunLists, RunQuery};
use crate::text::clean;

/// Digits that only few ids begin or end with.
const MANY_DIGITS: usize = 6;

#[async_trait]
impl RunLists for PostgresStore {
    async fn list_runs(&self, query: RunQuery) -> Result<Page<RunSummary>, StoreError> {
        let mut conditions = Conditions::default();
        let limit = conditions.param(query.limit as i64 + 1);
        conditions.filter(&query.filter)?;
        if let Some((at, id)) = query.before {
            let (at, id) = (conditions.param(Time(at)), conditions.param(id.0));
            conditions.add(format!("(created_at, id) < ({at}, {id})"));
        }
        let sql = format!(
            "SELECT {SUMMARY} FROM tree_agent_runs WHERE deleted_at IS NULL{} \
             ORDER BY created_at DESC, id DESC LIMIT {limit}",
            conditions.sql
        );
        let mut connection = self.connection().await?;
        let rows = connection.query(&sql, &conditions.params()).await?;
        let more = rows.len() > query.limit;
        let items = rows.iter().take(query.limit).map(summary).collect::<Result<_, _>>()?;
        Ok(Page { items, more })
    }

    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError> {
        let sql = format!(
            "UPDATE tree_agent_runs SET deleted_at = COALESCE(deleted_at, now()), \
             changed_at = CASE WHEN deleted_at IS NULL THEN clock_timestamp() ELSE changed_at END \
             WHERE id = $1 AND NOT ({LIVE}) RETURNING id"
        );
        let mut connection = self.connection().await?;
        if connection.query_opt(&sql, &[&run.0]).await?.is_some() {
            return Ok(true);
        }
        let there = connection.query_opt("SELECT 1 FROM tree_agent_runs WHERE id = $1", &[&run.0]).await?;
        there.map(|_| false).ok_or_else(|| StoreError::not_found("run", run))
    }

    async fn last_list_change(&self) -> Result<Timestamp, StoreError> {
        let sql = "SELECT max(changed_at) FROM tree_agent_runs";
        let rows = self.connection().await?.query(sql, &[]).await?;
        let last = rows.first().and_then(|row| row.get::<_, Option<Time>>(0));
        Ok(last.map_or_else(Timestamp::default, |at| at.0))
    }

    async fn list_changes(
        &self,
        (at, id): (Timestamp, RunId),
        limit: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        let sql = "SELECT changed_at, id FROM tree_agent_runs WHERE (changed_at, id) > ($1, $2) \
                   ORDER BY changed_at, id LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.connection().await?.query(sql, &[&Time(at), &id.0, &limit]).await?;
        Ok(rows.iter().map(|row| (row.get::<_, Time>(0).0, RunId(row.get(1)))).collect())
    }

    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError> {
        let sql = format!("SELECT id, head_seq FROM tree_agent_runs WHERE {LIVE}");
        let rows = self.connection().await?.query(&sql, &[]).await?;
        Ok(rows.iter().map(|row| (RunId(row.get(0)), row.get::<_, i64>(1) as u64)).collect())
    }

    async fn listed_runs(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let sql =
            format!("SELECT {SUMMARY}, deleted_at IS NOT NULL FROM tree_agent_runs WHERE id = ANY ($1)");
        let rows = self.connection().await?.query(&sql, &[&ids]).await?;
        rows.iter().map(|row| Ok(ListedRun { summary: summary(row)?, deleted: row.get(16) })).collect()
    }
}

/// Conditions and the parameters that they name.
#[derive(Default)]
struct Conditions {
    params: Vec<Box<dyn ToSql + Send + Sync>>,
    /// Each begins with `AND`.
    sql: String,
}

impl Conditions {
    fn param(&mut self, value: impl ToSql + Send + Sync + 'static) -> String {
        self.params.push(Box::new(value));
        format!("${}", self.params.len())
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect()
    }

    fn add(&mut self, condition: String) {
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition);
    }

    /// `column = value`, unless the value is empty.
    fn equals(&mut self, column: &str, value: &str) {
        if !value.is_empty() {
            let value = self.param(clean(value).into_owned());
            self.add(format!("{column} = {value}"));
        }
    }

    /// `column` is one of the names, unless there are none.
    fn any_of(&mut self, column: &str, names: Vec<&'static str>) {
        if !names.is_empty() {
            let names = self.param(names);
            self.add(format!("{column} = ANY ({names})"));
        }
    }

    fn filter(&mut self, filter: &RunFilter) -> Result<(), StoreError> {
        self.any_of("status", filter.statuses.iter().map(|status| status.as_str()).collect());
        if filter.only_live() {
            self.add(LIVE.into());
        }
        if let Some(project) = filter.project_id {
            let projects = self.param(vec![project.0]);
            self.add(format!("project_ids @> {projects}"));
        }
        if !filter.objective_contains.is_empty() {
            let text = self.param(clean(&filter.objective_contains).into_owned());
            self.add(format!("position(lower({text}) IN lower(objective)) > 0"));
        }
        self.equals("user_id", &filter.user_id);
        if !filter.model.is_empty() {
            let model = self.param(clean(&filter.model).into_owned());
            self.add(format!("(spec ->> 'model' = {model} OR usage -> 'models' ? {model})"));
        }
        self.any_of("strategy", filter.strategies.iter().map(|strategy| strategy.as_str()).collect());
        for (at, operator) in [(filter.created_after, ">="), (filter.created_before, "<")] {
            if let Some(at) = at {
                let at = self.param(Time(at));
                self.add(format!("created_at {operator} {at}"));
            }
        }
        for label in &filter.labels {
            let condition = match &label.value {
                Some(value) => {
                    let both = json(&std::collections::BTreeMap::from([(&label.key, value)]))?;
                    format!("labels @> {}", self.param(both))
                }
                None => format!("labels ? {}", self.param(label.key.clone())),
            };
            // The index is of runs that have labels.
            self.add(format!("labels <> '{{}}' AND {condition}"));
        }
        if let Some(copied) = filter.copy_of {
            let copied = self.param(copied.to_string());
            // The index is of copies.
            self.add(format!("spec ? 'copyOf' AND spec ->> 'copyOf' = {copied}"));
        }
        if let Some(parent) = filter.parent_run_id {
            let parent = self.param(parent.0);
            self.add(format!("parent_run_id = {parent}"));
        }
        if let Some(part) = &filter.id_part {
            let (low, high) = part.range();
            let (low, high) = (self.param(low), self.param(high));
            // Every digit is less than `g`.
            let begin: String = part.digits().chars().rev().collect();
            let (begin, beyond) = (self.param(begin.clone()), self.param(format!("{begin}g")));
            let backwards = "reverse(replace(id::text, '-', '')) COLLATE \"C\"";
            let begins = format!("id BETWEEN {low} AND {high}");
            let ends = format!("{backwards} >= {begin} AND {backwards} < {beyond}");
            // Few runs match many digits: they are looked up first, because the planner would rather go through all
            // runs in the order of the list.
            self.add(if part.digits().len() >= MANY_DIGITS {
                let find = |condition| format!("SELECT id FROM tree_agent_runs WHERE {condition}");
                format!("id = ANY (ARRAY({} UNION ALL {}))", find(begins), find(ends))
            } else {
                format!("({begins} OR ({ends}))")
            });
        }
        Ok(())
    }
}

//! Runs in lists, in SQLite.

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params, params_from_iter};
use tree_agent_contract::{RunId, RunSummary, Timestamp};
use uuid::Uuid;

use super::EmbeddedStore;
use super::append::execute;
use super::connection::{map_error, now};
use super::runs::{SUMMARY, summary};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{ListedRun, Page, RunFilter, RunLists, RunQuery};
use crate::text::{clean, fold};

#[async_trait]
impl RunLists for EmbeddedStore {
    async fn list_runs(&self, query: RunQuery) -> Result<Page<RunSummary>, StoreError> {
        let mut conditions = Conditions::default();
        let limit = conditions.param(Value::Integer(query.limit as i64 + 1));
        conditions.filter(&query.filter);
        if let Some((at, id)) = query.before {
            let (at, id) = (conditions.param(Value::Integer(at.micros())), conditions.param(blob(id.0)));
            conditions.add(format!("(created_at, id) < ({at}, {id})"));
        }
        let Conditions { params, sql } = conditions;
        let sql = format!(
            "SELECT {SUMMARY} FROM tree_agent_runs WHERE deleted_at IS NULL{sql} \
             ORDER BY created_at DESC, id DESC LIMIT {limit}"
        );
        self.query(move |db| {
            let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
            let mut rows = statement.query(params_from_iter(params)).map_err(map_error)?;
            let mut items = Vec::new();
            while let Some(row) = rows.next().map_err(map_error)? {
                items.push(summary(row)?);
            }
            let more = items.len() > query.limit;
            items.truncate(query.limit);
            Ok(Page { items, more })
        })
        .await
    }

    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let sql = format!("SELECT {LIVE} FROM tree_agent_runs WHERE id = ?1");
            let live = tx.query_row(&sql, [run.0], |row| row.get::<_, bool>(0)).optional();
            let live = live.map_err(map_error)?.ok_or_else(|| StoreError::not_found("run", run))?;
            if !live {
                let sql = "UPDATE tree_agent_runs SET deleted_at = ?2, changed_at = ?2 \
                           WHERE id = ?1 AND deleted_at IS NULL";
                execute(tx, sql, params![run.0, now().micros()])?;
            }
            Ok(!live)
        })
        .await
    }

    async fn last_list_change(&self) -> Result<Timestamp, StoreError> {
        self.query(|db| {
            let sql = "SELECT COALESCE(max(changed_at), 0) FROM tree_agent_runs";
            db.query_row(sql, [], |row| Ok(Timestamp(row.get(0)?))).map_err(map_error)
        })
        .await
    }

    async fn list_changes(
        &self,
        (at, id): (Timestamp, RunId),
        limit: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let sql = "SELECT changed_at, id FROM tree_agent_runs WHERE (changed_at, id) > (?1, ?2) \
                       ORDER BY changed_at, id LIMIT ?3";
            let mut statement = db.prepare_cached(sql).map_err(map_error)?;
            let changes = statement.query_map(params![at.micros(), id.0, limit], |row| {
                Ok((Timestamp(row.get(0)?), RunId(row.get(1)?)))
            });
            changes.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError> {
        self.query(|db| {
            let sql = format!("SELECT id, head_seq FROM tree_agent_runs WHERE {LIVE}");
            let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
            let heads = statement.query_map([], |row| Ok((RunId(row.get(0)?), row.get::<_, i64>(1)? as u64)));
            heads.and_then(Iterator::collect).map_err(map_error)
        })
        .await
    }

    async fn listed_runs(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        let runs = runs.to_vec();
        self.query(move |db| {
            let sql = format!("SELECT {SUMMARY}, deleted_at IS NOT NULL FROM tree_agent_runs WHERE id = ?1");
            let mut statement = db.prepare_cached(&sql).map_err(map_error)?;
            let mut listed = Vec::with_capacity(runs.len());
            for run in runs {
                let mut rows = statement.query([run.0]).map_err(map_error)?;
                if let Some(row) = rows.next().map_err(map_error)? {
                    let deleted = row.get(16).map_err(map_error)?;
                    listed.push(ListedRun { summary: summary(row)?, deleted });
                }
            }
            Ok(listed)
        })
        .await
    }
}

fn blob(id: Uuid) -> Value {
    Value::Blob(id.as_bytes().to_vec())
}

fn text(value: &str) -> Value {
    Value::Text(clean(value).into_owned())
}

/// Conditions and the parameters that they name.
#[derive(Default)]
struct Conditions {
    params: Vec<Value>,
    /// Each begins with `AND`.
    sql: String,
}

impl Conditions {
    fn param(&mut self, value: Value) -> String {
        self.params.push(value);
        format!("?{}", self.params.len())
    }

    fn add(&mut self, condition: String) {
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition);
    }

    /// `column = value`, unless the value is empty.
    fn equals(&mut self, column: &str, value: &str) {
        if !value.is_empty() {
            let value = self.param(text(value));
            self.add(format!("{column} = {value}"));
        }
    }

    /// `column` is one of the names, unless there are none.
    fn any_of(&mut self, column: &str, names: impl Iterator<Item = &'static str>) {
        let names: Vec<_> = names.map(|name| self.param(Value::Text(name.into()))).collect();
        if !names.is_empty() {
            self.add(format!("{column} IN ({})", names.join(", ")));
        }
    }

    fn filter(&mut self, filter: &RunFilter) {
        self.any_of("status", filter.statuses.iter().map(|status| status.as_str()));
        if filter.only_live() {
            self.add(LIVE.into());
        }
        if let Some(project) = filter.project_id {
            let id = self.param(Value::Text(project.to_string()));
            self.add(format!("EXISTS (SELECT 1 FROM json_each(project_ids) p WHERE p.value = {id})"));
        }
        if !filter.objective_contains.is_empty() {
            let text = self.param(Value::Text(fold(&filter.objective_contains)));
            self.add(format!("instr(objective_folded, {text}) > 0"));
        }
        self.equals("user_id", &filter.user_id);
        if !filter.model.is_empty() {
            let model = self.param(text(&filter.model));
            let answered = format!("SELECT 1 FROM json_each(usage, '$.models') m WHERE m.value = {model}");
            self.add(format!("(spec ->> 'model' = {model} OR EXISTS ({answered}))"));
        }
        self.any_of("strategy", filter.strategies.iter().map(|strategy| strategy.as_str()));
        for (at, operator) in [(filter.created_after, ">="), (filter.created_before, "<")] {
            if let Some(at) = at {
                let at = self.param(Value::Integer(at.micros()));
                self.add(format!("created_at {operator} {at}"));
            }
        }
        for label in &filter.labels {
            let key = self.param(text(&label.key));
            let value = label.value.as_ref().map(|value| self.param(text(value)));
            let value = value.map_or_else(String::new, |value| format!(" AND l.value = {value}"));
            self.add(format!("EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.key = {key}{value})"));
        }
        if let Some(copied) = filter.copy_of {
            let copied = self.param(Value::Text(copied.to_string()));
            self.add(format!("spec ->> '$.copyOf' = {copied}"));
        }
        if let Some(parent) = filter.parent_run_id {
            let parent = self.param(blob(parent.0));
            self.add(format!("parent_run_id = {parent}"));
        }
        if let Some(part) = &filter.id_part {
            let (low, high) = part.range();
            let (low, high) = (self.param(blob(low)), self.param(blob(high)));
            let digits = self.param(Value::Text(part.digits().into()));
            self.add(format!(
                "(id BETWEEN {low} AND {high} OR substr(lower(hex(id)), -length({digits})) = {digits})"
            ));
        }
    }
}

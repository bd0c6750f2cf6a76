//! Runs in lists.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tree_agent_contract::{RunId, RunSummary, Timestamp};
use uuid::Uuid;

use super::rows::{head, limit, page, run_summary};
use super::runs::summary;
use super::sql::{Backend, Db, Filter, Record};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{IdPart, ListedRun, Page, RunFilter, RunLists, RunQuery};
use crate::schema::Dialect;
use crate::text::{clean, fold};
use crate::types::{List, Time, json, now};

/// Digits that only few ids begin or end with.
const MANY_DIGITS: usize = 6;

#[async_trait]
impl<S: Backend> RunLists for S {
    async fn list_runs(&self, query: RunQuery) -> Result<Page<RunSummary>, StoreError> {
        self.with(move |db| Box::pin(list(db, query))).await
    }

    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError> {
        self.write(move |db| Box::pin(delete(db, run))).await
    }

    async fn last_list_change(&self) -> Result<Timestamp, StoreError> {
        self.with(move |db| Box::pin(last_change(db))).await
    }

    async fn list_changes(
        &self,
        after: (Timestamp, RunId),
        limit: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        self.with(move |db| Box::pin(changes(db, after, limit))).await
    }

    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError> {
        self.with(move |db| Box::pin(live_heads(db))).await
    }

    async fn listed_runs(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        let ids = List(runs.iter().map(|run| run.0).collect());
        self.with(move |db| Box::pin(listed(db, ids))).await
    }
}

async fn list<D: Db>(db: &mut D, query: RunQuery) -> Result<Page<RunSummary>, StoreError> {
    let mut filter = Filter::default();
    let limit = filter.param(query.limit as i64 + 1);
    filter.add("deleted_at IS NULL");
    conditions(&mut filter, D::DIALECT, &query.filter)?;
    if let Some((at, id)) = query.before {
        let (at, id) = (filter.param(Time(at)), filter.param(id.0));
        filter.add(format!("(created_at, id) < ({at}, {id})"));
    }
    let sql = format!(
        "SELECT {} FROM tree_agent_runs WHERE {} ORDER BY created_at DESC, id DESC LIMIT {limit}",
        summary(D::DIALECT),
        filter.sql()
    );
    let rows = db.rows(&sql, &filter.params()).await?;
    Ok(page(rows.iter().map(run_summary).collect::<Result<_, _>>()?, query.limit))
}

async fn delete<D: Db>(db: &mut D, run: RunId) -> Result<bool, StoreError> {
    let now = format!("CAST({} AS bigint)", now().micros());
    let now = D::DIALECT.pick("clock_timestamp()", &now);
    let sql = format!(
        "UPDATE tree_agent_runs SET deleted_at = COALESCE(deleted_at, {now}), \
         changed_at = CASE WHEN deleted_at IS NULL THEN {now} ELSE changed_at END \
         WHERE id = $1 AND NOT ({LIVE}) RETURNING id"
    );
    if db.row(&sql, &[&run.0]).await?.is_some() {
        return Ok(true);
    }
    let there = db.row("SELECT 1 FROM tree_agent_runs WHERE id = $1", &[&run.0]).await?;
    there.map(|_| false).ok_or_else(|| StoreError::not_found("run", run))
}

async fn last_change<D: Db>(db: &mut D) -> Result<Timestamp, StoreError> {
    let row = db.row("SELECT max(changed_at) FROM tree_agent_runs", &[]).await?;
    Ok(row.map_or(Ok(None), |row| row.time_opt(0))?.unwrap_or_default())
}

async fn changes<D: Db>(
    db: &mut D,
    (at, id): (Timestamp, RunId),
    max: usize,
) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
    let sql = "SELECT changed_at, id FROM tree_agent_runs WHERE (changed_at, id) > ($1, $2) \
               ORDER BY changed_at, id LIMIT $3";
    let rows = db.rows(sql, &[&Time(at), &id.0, &limit(max)]).await?;
    rows.iter().map(|row| Ok((row.time(0)?, RunId(row.get(1)?)))).collect()
}

async fn live_heads<D: Db>(db: &mut D) -> Result<Vec<(RunId, u64)>, StoreError> {
    let sql = format!("SELECT id, head_seq FROM tree_agent_runs WHERE {LIVE}");
    db.rows(&sql, &[]).await?.iter().map(head).collect()
}

async fn listed<D: Db>(db: &mut D, ids: List<Uuid>) -> Result<Vec<ListedRun>, StoreError> {
    let (columns, these) = (summary(D::DIALECT), D::DIALECT.any_id("id", "$1"));
    let sql = format!("SELECT {columns}, deleted_at IS NOT NULL FROM tree_agent_runs WHERE {these}");
    let rows = db.rows(&sql, &[&ids]).await?;
    rows.iter().map(|row| Ok(ListedRun { summary: run_summary(row)?, deleted: row.get(16)? })).collect()
}

fn conditions(filter: &mut Filter, dialect: Dialect, runs: &RunFilter) -> Result<(), StoreError> {
    let text: fn(&str) -> String = |text| clean(text).into_owned();
    if !runs.statuses.is_empty() {
        let names = filter.param(List(runs.statuses.iter().map(|status| status.as_str()).collect()));
        filter.add(dialect.any_text("status", &names));
    }
    if runs.only_live() {
        filter.add(LIVE);
    }
    if let Some(project) = runs.project_id {
        let project = filter.param(List(vec![project.0]));
        filter.add(match dialect {
            Dialect::Postgres => format!("project_ids @> {project}"),
            Dialect::Embedded => format!(
                "EXISTS (SELECT 1 FROM json_each(project_ids) p WHERE p.value = json_extract({project}, '$[0]'))"
            ),
        });
    }
    if runs.global {
        filter.add(dialect.pick("cardinality(project_ids) = 0", "project_ids = '[]'"));
    }
    if !runs.objective_contains.is_empty() {
        let part = &runs.objective_contains;
        // Postgres folds letters itself.
        let part = filter.param(dialect.pick(text, fold)(part));
        filter.add(match dialect {
            Dialect::Postgres => format!("position(lower({part}) IN lower(objective)) > 0"),
            Dialect::Embedded => format!("instr(objective_folded, {part}) > 0"),
        });
    }
    if !runs.user_id.is_empty() {
        filter.equals("user_id", text(&runs.user_id));
    }
    if !runs.model.is_empty() {
        let model = filter.param(text(&runs.model));
        let answered = match dialect {
            Dialect::Postgres => format!("usage -> 'models' ? {model}"),
            Dialect::Embedded => {
                format!("EXISTS (SELECT 1 FROM json_each(usage, '$.models') m WHERE m.value = {model})")
            }
        };
        filter.add(format!("(spec ->> 'model' = {model} OR {answered})"));
    }
    if !runs.strategies.is_empty() {
        let names = filter.param(List(runs.strategies.iter().map(|strategy| strategy.as_str()).collect()));
        filter.add(dialect.any_text("strategy", &names));
    }
    for (at, operator) in [(runs.created_after, ">="), (runs.created_before, "<")] {
        if let Some(at) = at {
            let at = filter.param(Time(at));
            filter.add(format!("created_at {operator} {at}"));
        }
    }
    for label in &runs.labels {
        let condition = match (dialect, &label.value) {
            (Dialect::Postgres, Some(value)) => {
                let both = filter.param(json(&BTreeMap::from([(&label.key, value)]))?);
                // The index is of runs that have labels.
                format!("labels <> '{{}}' AND labels @> {both}")
            }
            (Dialect::Postgres, None) => {
                format!("labels <> '{{}}' AND labels ? {}", filter.param(label.key.clone()))
            }
            (Dialect::Embedded, value) => {
                let key = filter.param(text(&label.key));
                let value = value.as_ref().map(|value| filter.param(text(value)));
                let value = value.map_or_else(String::new, |value| format!(" AND l.value = {value}"));
                format!("EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.key = {key}{value})")
            }
        };
        filter.add(condition);
    }
    if let Some(copied) = runs.copy_of {
        // The index is of copies.
        filter.add(dialect.pick("spec ? 'copyOf'", "spec ->> '$.copyOf' IS NOT NULL"));
        filter.equals(dialect.pick("spec ->> 'copyOf'", "spec ->> '$.copyOf'"), copied.to_string());
    }
    if let Some(parent) = runs.parent_run_id {
        filter.equals("parent_run_id", parent.0);
    }
    if let Some(reader) = &runs.readable_by {
        let user = filter.param(text(&reader.user_id));
        let projects = filter.param(List(reader.project_ids.iter().map(|id| id.0).collect::<Vec<Uuid>>()));
        let all_readable = match dialect {
            Dialect::Postgres => format!("project_ids <> '{{}}' AND project_ids <@ {projects}"),
            Dialect::Embedded => format!(
                "project_ids <> '[]' AND NOT EXISTS (SELECT 1 FROM json_each(project_ids) p \
                 WHERE p.value NOT IN (SELECT value FROM json_each({projects})))"
            ),
        };
        filter.add(format!("(user_id = {user} OR ({all_readable}))"));
    }
    if let Some(part) = &runs.id_part {
        id_part(filter, dialect, part);
    }
    Ok(())
}

fn id_part(filter: &mut Filter, dialect: Dialect, part: &IdPart) {
    let (low, high) = part.range();
    let (low, high) = (filter.param(low), filter.param(high));
    let begins = format!("id BETWEEN {low} AND {high}");
    if dialect == Dialect::Embedded {
        let digits = filter.param(part.digits().to_owned());
        filter.add(format!("({begins} OR substr(lower(hex(id)), -length({digits})) = {digits})"));
        return;
    }
    // Every digit is less than `g`.
    let begin: String = part.digits().chars().rev().collect();
    let (begin, beyond) = (filter.param(begin.clone()), filter.param(format!("{begin}g")));
    let backwards = "reverse(replace(id::text, '-', '')) COLLATE \"C\"";
    let ends = format!("{backwards} >= {begin} AND {backwards} < {beyond}");
    // Few runs match many digits: they are looked up first, because the planner would rather go through all runs in the
    // order of the list.
    filter.add(if part.digits().len() >= MANY_DIGITS {
        let find = |condition| format!("SELECT id FROM tree_agent_runs WHERE {condition}");
        format!("id = ANY (ARRAY({} UNION ALL {}))", find(begins), find(ends))
    } else {
        format!("({begins} OR ({ends}))")
    });
}

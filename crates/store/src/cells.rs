//! Rows as text, cell by cell. Stored rows are compared with the log in this form, in either database.

use serde_json::Value;
use tree_agent_contract::RunId;
use tree_agent_contract::graph::Usage;
use uuid::Uuid;

use crate::batch::context_metrics;
use crate::ports::{ArtifactRow, NodeRow, PlanRow, RunRow, WholeProjection};
use crate::text::{clean, json_text};

/// One row of a table that is derived from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The table, such as `tree_agent_nodes`.
    pub table: &'static str,
    /// The row's id within its run.
    pub id: Uuid,
    /// Column names and their values in the same form for every database: ids with hyphens, times as microseconds since
    /// the Unix epoch, JSON with sorted keys; none for null.
    pub cells: Vec<(&'static str, Option<String>)>,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Uuid,
    Text,
    Int,
    Bool,
    Time,
    Json,
    /// Sums of usage as JSON, in which an absent key is 0. What stands beside them is not compared.
    Usage,
    /// `uuid[]` in Postgres, a JSON list in SQLite.
    Uuids,
}

/// A table that is derived from the log.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The column that names the run.
    pub(crate) run: &'static str,
    /// Its derived columns beside `id`.
    pub(crate) columns: &'static [(&'static str, Kind)],
}

const RUNS: Table = Table {
    name: "tree_agent_runs",
    run: "id",
    columns: &[
        ("user_id", Kind::Text),
        ("objective", Kind::Text),
        ("spec", Kind::Json),
        ("strategy", Kind::Text),
        ("scope", Kind::Text),
        ("project_ids", Kind::Uuids),
        ("metrics", Kind::Json),
        ("root_node_id", Kind::Uuid),
        ("created_at", Kind::Time),
        ("updated_at", Kind::Time),
        ("status", Kind::Text),
        ("partial", Kind::Bool),
        ("error", Kind::Text),
        ("node_count", Kind::Int),
        ("usage", Kind::Usage),
        ("labels", Kind::Json),
        ("started_at", Kind::Time),
        ("ended_at", Kind::Time),
    ],
};

const NODES: Table = Table {
    name: "tree_agent_nodes",
    run: "run_id",
    columns: &[
        ("parent_node_id", Kind::Uuid),
        ("title", Kind::Text),
        ("reason", Kind::Text),
        ("success_criteria", Kind::Json),
        ("band_index", Kind::Int),
        ("step_index", Kind::Int),
        ("depth", Kind::Int),
        ("status", Kind::Text),
        ("role_state", Kind::Text),
        ("scratchpad_doc_id", Kind::Uuid),
        ("started_at", Kind::Time),
        ("ended_at", Kind::Time),
        ("created_at", Kind::Time),
        ("updated_at", Kind::Time),
    ],
};

const PLANS: Table = Table {
    name: "tree_agent_plans",
    run: "run_id",
    columns: &[
        ("node_id", Kind::Uuid),
        ("version", Kind::Int),
        ("plan_json", Kind::Json),
        ("created_at", Kind::Time),
    ],
};

const ARTIFACTS: Table = Table {
    name: "tree_agent_artifacts",
    run: "run_id",
    columns: &[
        ("node_id", Kind::Uuid),
        ("artifact_type", Kind::Text),
        ("document_id", Kind::Uuid),
        ("json_payload", Kind::Json),
        ("is_primary", Kind::Bool),
        ("label", Kind::Text),
        ("created_at", Kind::Time),
    ],
};

/// Every derived table, in the order of [`Stored::rows`](crate::ports::Stored::rows).
pub(crate) const TABLES: [&Table; 4] = [&RUNS, &NODES, &PLANS, &ARTIFACTS];

impl Table {
    /// The row `id` of what a database gave as text, one cell per column.
    pub(crate) fn row(&self, id: Uuid, cells: impl IntoIterator<Item = Option<String>>) -> Row {
        let cells = self.columns.iter().zip(cells);
        let cells = cells.map(|(&(name, kind), cell)| (name, cell.map(|text| canonical(kind, text))));
        Row { table: self.name, id, cells: cells.collect() }
    }
}

/// The same form for values that databases write differently. Malformed values stay as they are.
fn canonical(kind: Kind, text: String) -> String {
    match kind {
        Kind::Usage => {
            let whole = serde_json::from_str::<Usage>(&text).ok().and_then(|usage| json(&usage));
            canonical(Kind::Json, whole.unwrap_or(text))
        }
        Kind::Uuid => Uuid::try_parse(&text).map_or(text, |id| id.to_string()),
        Kind::Bool => match text.as_str() {
            "1" => "true".to_owned(),
            "0" => "false".to_owned(),
            _ => text,
        },
        Kind::Json | Kind::Uuids => {
            serde_json::from_str(&text).map_or(text, |value: Value| sorted(value).to_string())
        }
        Kind::Text | Kind::Int | Kind::Time => text,
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn text(value: &str) -> Option<String> {
    Some(clean(value).into_owned())
}

fn json(value: &impl serde::Serialize) -> Option<String> {
    // A value without a JSON form could not have been stored.
    json_text(value).ok()
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

impl WholeProjection {
    /// The rows of `run` as they must be in the tables, in the order of [`Stored::rows`](crate::ports::Stored::rows).
    pub fn rows(&self, run: RunId) -> Vec<Row> {
        let mut rows = Vec::with_capacity(1 + self.rows.nodes.len());
        rows.extend(self.rows.run.as_ref().map(|row| self.run_row(run, row)));
        let mut of_table = |mut table: Vec<Row>| {
            table.sort_by_key(|row| row.id);
            rows.append(&mut table);
        };
        of_table(self.rows.nodes.iter().map(node_row).collect());
        of_table(self.rows.plans.iter().map(plan_row).collect());
        of_table(self.rows.artifacts.iter().map(artifact_row).collect());
        rows
    }

    fn run_row(&self, run: RunId, row: &RunRow) -> Row {
        let RunRow { status, partial, error, node_count, usage, started_at, ended_at, .. } = row;
        let spec = &self.spec;
        let cells = [
            text(&spec.user_id),
            text(&spec.objective),
            json(spec),
            text(spec.strategy.as_str()),
            text(spec.context.scope.as_str()),
            json(&spec.context.project_ids),
            json(&context_metrics(spec, self.created_at)),
            some(self.root_node_id),
            some(self.created_at.micros()),
            some(self.updated_at.micros()),
            text(status.as_str()),
            some(partial),
            error.as_deref().and_then(text),
            some(node_count),
            json(usage),
            json(&spec.labels),
            started_at.and_then(|at| some(at.micros())),
            ended_at.and_then(|at| some(at.micros())),
        ];
        RUNS.row(run.0, cells)
    }
}

fn node_row(row: &NodeRow) -> Row {
    let cells = [
        row.parent_node_id.and_then(some),
        text(&row.title),
        text(&row.reason),
        json(&row.success_criteria),
        row.band_index.and_then(some),
        row.step_index.and_then(some),
        some(row.depth),
        text(row.status.as_str()),
        text(row.role_state.as_str()),
        row.scratchpad_doc_id.and_then(some),
        row.started_at.and_then(|at| some(at.micros())),
        row.ended_at.and_then(|at| some(at.micros())),
        some(row.created_at.micros()),
        some(row.updated_at.micros()),
    ];
    NODES.row(row.id.0, cells)
}

fn plan_row(row: &PlanRow) -> Row {
    let cells = [some(row.node_id), some(row.version), json(&row.plan_json), some(row.created_at.micros())];
    PLANS.row(row.id.0, cells)
}

fn artifact_row(row: &ArtifactRow) -> Row {
    let cells = [
        some(row.node_id),
        text(row.artifact_type.as_str()),
        row.document_id.and_then(some),
        row.json_payload.as_ref().and_then(json),
        some(row.is_primary),
        text(&row.label),
        some(row.created_at.micros()),
    ];
    ARTIFACTS.row(row.id.0, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_one_form() {
        let id = Uuid::from_u128(0xabc);
        let row = ARTIFACTS.row(
            id,
            [
                Some(id.simple().to_string()),
                Some("json".into()),
                None,
                Some(r#"{"b": [1, {"d": 2, "c": 0.50}], "a": "x"}"#.into()),
                Some("1".into()),
                Some("0".into()),
                Some("17".into()),
            ],
        );
        let cells: Vec<_> = row.cells.iter().map(|(_, cell)| cell.as_deref()).collect();
        let hyphenated = id.to_string();
        let json = r#"{"a":"x","b":[1,{"c":0.5,"d":2}]}"#;
        assert_eq!(
            cells,
            [Some(&*hyphenated), Some("json"), None, Some(json), Some("true"), Some("0"), Some("17")]
        );
    }
}

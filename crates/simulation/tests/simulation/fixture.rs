//! The simulated store for the contract suite of the real ones.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use tree_agent_simulation::{Model, SimStore};
use tree_agent_store::{Claim, Store};

use crate::make;
pub use crate::make::*;

pub struct Fixture {
    pub store: Arc<dyn Store>,
    simulated: SimStore,
}

impl Fixture {
    pub fn simulated() -> Self {
        let simulated = SimStore::quiet();
        Self { store: Arc::new(simulated.clone()), simulated }
    }

    pub async fn claimed(&self, n: u128, owner: &str) -> Claim {
        make::claimed(&*self.store, n, owner).await
    }

    /// The rows of a query. The tables show the model in the way the real stores show their content.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        let tables = tables(&self.simulated.snapshot()).unwrap();
        let mut statement = tables.prepare(sql).unwrap();
        let columns = statement.column_count();
        let cell = |value: ValueRef<'_>| match value {
            ValueRef::Null => "-".to_owned(),
            ValueRef::Integer(i) => i.to_string(),
            other => other.as_str().unwrap().to_owned(),
        };
        let rows = statement.query_map([], |row| {
            let cells: Vec<_> = (0..columns).map(|i| cell(row.get_ref(i).unwrap())).collect();
            Ok(cells.join("|"))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

/// The columns that the suite reads.
fn tables(model: &Model) -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(
        "CREATE TABLE tree_agent_runs (id, user_id, strategy, scope);
         CREATE TABLE tree_agent_events (run_id, seq);
         CREATE TABLE tree_agent_nodes (run_id, id, title, depth, status);
         CREATE TABLE tree_agent_plans (run_id, id, version);
         CREATE TABLE tree_agent_artifacts (run_id, id, label, artifact_type, is_primary);
         CREATE TABLE tree_agent_commands (run_id, id);
         CREATE TABLE onto_documents (id, body);",
    )?;
    for (run, id) in model.commands.keys() {
        db.execute("INSERT INTO tree_agent_commands VALUES (?1, ?2)", params![run.0, id])?;
    }
    for (id, run) in &model.runs {
        let (spec, id) = (&run.spec, id.0);
        let (strategy, scope) = (spec.strategy.as_str(), spec.context.scope.as_str());
        db.execute(
            "INSERT INTO tree_agent_runs VALUES (?1, ?2, ?3, ?4)",
            params![id, spec.user_id, strategy, scope],
        )?;
        for (_, event) in &run.log {
            db.execute("INSERT INTO tree_agent_events VALUES (?1, ?2)", params![id, event.seq as i64])?;
        }
        for node in run.nodes.values() {
            let status = node.status.as_str();
            db.execute(
                "INSERT INTO tree_agent_nodes VALUES (?1, ?2, ?3, ?4, ?5)",
                params![id, node.id.0, node.title, node.depth, status],
            )?;
        }
        for plan in run.plans.values() {
            db.execute(
                "INSERT INTO tree_agent_plans VALUES (?1, ?2, ?3)",
                params![id, plan.id.0, plan.version],
            )?;
        }
        for artifact in run.artifacts.values() {
            let kind = artifact.artifact_type.as_str();
            db.execute(
                "INSERT INTO tree_agent_artifacts VALUES (?1, ?2, ?3, ?4, ?5)",
                params![id, artifact.id.0, artifact.label, kind, artifact.is_primary],
            )?;
        }
    }
    for document in model.documents.values() {
        db.execute("INSERT INTO onto_documents VALUES (?1, ?2)", params![document.id.0, document.body])?;
    }
    Ok(db)
}

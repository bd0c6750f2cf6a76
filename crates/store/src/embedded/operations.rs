//! What operators need, in SQLite.

use async_trait::async_trait;
use rusqlite::OptionalExtension;
use tree_agent_contract::RunId;

use super::connection::map_error;
use super::{EmbeddedStore, append, projection as rows};
use crate::error::StoreError;
use crate::ports::{Operations, Projection};

#[async_trait]
impl Operations for EmbeddedStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.query(|db| db.query_row("SELECT 1", [], |_| Ok(())).map_err(map_error)).await
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        projection: Projection,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let head = tx
                .query_row("SELECT head_seq FROM tree_agent_runs WHERE id = ?1", [run.0], |row| {
                    row.get::<_, i64>(0)
                })
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::not_found("run", run))?;
            if head as u64 != head_seq {
                return Ok(false);
            }
            for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts"] {
                append::execute(tx, &format!("DELETE FROM {table} WHERE run_id = ?1"), &[&run.0])?;
            }
            rows::write(tx, run, &projection)?;
            Ok(true)
        })
        .await
    }
}

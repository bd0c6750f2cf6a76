//! What operators need, on Postgres.

use async_trait::async_trait;
use tree_agent_contract::RunId;

use super::PostgresStore;
use super::columns::Columns;
use super::connection::Connection;
use super::types::Time;
use crate::error::StoreError;
use crate::ports::{Operations, Projection};

#[async_trait]
impl Operations for PostgresStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.connection().await?.query("SELECT 1", &[]).await.map(drop)
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        projection: Projection,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        let replaced = replace(&mut connection, run, head_seq, &projection).await;
        connection.end(replaced).await
    }
}

async fn replace(
    connection: &mut Connection,
    run: RunId,
    head_seq: u64,
    projection: &Projection,
) -> Result<bool, StoreError> {
    let row = connection
        .query_opt(
            "SELECT epoch, head_seq, updated_at FROM tree_agent_runs WHERE id = $1 FOR UPDATE",
            &[&run.0],
        )
        .await?
        .ok_or_else(|| StoreError::not_found("run", run))?;
    if row.get::<_, i64>(1) as u64 != head_seq {
        return Ok(false);
    }
    for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts"] {
        connection.query(&format!("DELETE FROM {table} WHERE run_id = $1"), &[&run.0]).await?;
    }
    // The append's own statement, without events and with the head staying where it is.
    let columns = Columns::of_projection(run, row.get(0), (head_seq, row.get::<_, Time>(2).0), projection)?;
    let shape = columns.shape();
    let moved = connection.query(shape.sql(), &columns.params(shape)).await?;
    Ok(moved.len() == 1)
}

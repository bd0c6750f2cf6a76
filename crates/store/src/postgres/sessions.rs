//! Conversations on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::session::Session;
use tree_agent_contract::{NodeId, RunId, SessionId};

use super::PostgresStore;
use super::columns::json;
use super::connection::Connection;
use super::forks::{self, LINE};
use super::types::{Json, Time};
use crate::error::StoreError;
use crate::ports::{CHAIN, Sessions};

#[async_trait]
impl Sessions for PostgresStore {
    async fn session_chain(&self, run: RunId, id: &SessionId) -> Result<Vec<Session>, StoreError> {
        let mut connection = self.connection().await?;
        if let Some(line) = forks::line(&mut connection, run).await? {
            let found = "SELECT s.* FROM line JOIN tree_agent_sessions s \
                         ON s.run_id = line.run AND s.created_at <= line.until";
            let first = "ORDER BY line.n DESC LIMIT 1";
            let sql = format!(
                "WITH RECURSIVE {LINE}, chain AS ((SELECT s.*, 1 AS place FROM ({found} WHERE s.id = $3 {first}) s) \
                 UNION ALL SELECT s.*, chain.place + 1 FROM chain CROSS JOIN LATERAL \
                 ({found} WHERE s.id = chain.parent_session_id {first}) s WHERE chain.place < {CHAIN}) \
                 SELECT id, node_id, parent_session_id, messages, created_at FROM chain ORDER BY place DESC"
            );
            let rows = connection.query(&sql, &[&line.runs, &line.until, &id.as_str()]).await?;
            return rows.iter().map(session).collect();
        }
        let sql = format!(
            "WITH RECURSIVE chain AS (SELECT s.*, 1 AS place FROM tree_agent_sessions s WHERE run_id = $1 AND id = $2 \
             UNION ALL SELECT s.*, chain.place + 1 FROM chain JOIN tree_agent_sessions s \
             ON s.run_id = $1 AND s.id = chain.parent_session_id WHERE chain.place < {CHAIN}) \
             SELECT id, node_id, parent_session_id, messages, created_at FROM chain ORDER BY place DESC"
        );
        let rows = connection.query(&sql, &[&run.0, &id.as_str()]).await?;
        rows.iter().map(session).collect()
    }

    async fn run_sessions(
        &self,
        run: RunId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let mut connection = self.connection().await?;
        let after = after.as_ref().map_or("", SessionId::as_str);
        if let Some(line) = forks::line(&mut connection, run).await? {
            let sql = format!(
                "WITH {LINE} SELECT DISTINCT ON (s.id COLLATE \"C\") s.id, s.node_id, s.parent_session_id, s.messages, s.created_at \
                 FROM line JOIN tree_agent_sessions s ON s.run_id = line.run AND s.created_at <= line.until \
                 WHERE s.id COLLATE \"C\" > $3 ORDER BY s.id COLLATE \"C\", line.n DESC LIMIT $4"
            );
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = connection.query(&sql, &[&line.runs, &line.until, &after, &limit]).await?;
            return rows.iter().map(session).collect();
        }
        let rows = connection
            .query(
                "SELECT id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
                 WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3",
                &[&run.0, &after, &i64::try_from(limit).unwrap_or(i64::MAX)],
            )
            .await?;
        rows.iter().map(session).collect()
    }
}

fn session(row: &Row) -> Result<Session, StoreError> {
    let id: String = row.get(0);
    let messages: Json = row.get(3);
    let messages = serde_json::from_slice(&messages.0)
        .map_err(|e| StoreError::broken(format!("conversation {id} cannot be read"), e))?;
    Ok(Session {
        id: SessionId::new(id),
        node_id: NodeId(row.get(1)),
        parent_id: row.get::<_, Option<String>>(2).map(SessionId::new),
        messages,
        created_at: row.get::<_, Time>(4).0,
    })
}

/// Brings back the conversations of a run.
pub(super) async fn restore(
    connection: &mut Connection,
    run: RunId,
    sessions: &[Session],
) -> Result<(), StoreError> {
    connection.query("DELETE FROM tree_agent_sessions WHERE run_id = $1", &[&run.0]).await?;
    for session in sessions {
        connection
            .query(
                "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
                &[
                    &run.0,
                    &session.id.as_str(),
                    &session.node_id.0,
                    &session.parent_id.as_ref().map(SessionId::as_str),
                    &json(&session.messages)?,
                    &Time(session.created_at),
                ],
            )
            .await?;
    }
    Ok(())
}

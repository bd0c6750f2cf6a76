//! Conversations in SQLite.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tree_agent_contract::session::Session;
use tree_agent_contract::{NodeId, RunId, SessionId, Timestamp};

use super::EmbeddedStore;
use super::append::execute;
use super::connection::map_error;
use super::forks;
use crate::error::StoreError;
use crate::ports::{CHAIN, Sessions};
use crate::text::json_text;

#[async_trait]
impl Sessions for EmbeddedStore {
    async fn session_chain(&self, run: RunId, id: &SessionId) -> Result<Vec<Session>, StoreError> {
        let id = id.clone();
        self.query(move |db| {
            if let Some(line) = forks::line(db, run)? {
                return chain_of(db, &line, id);
            }
            let sql = format!(
                "WITH RECURSIVE chain AS (SELECT *, 1 AS place FROM tree_agent_sessions WHERE run_id = ?1 AND id = ?2 \
                 UNION ALL SELECT s.*, chain.place + 1 FROM chain JOIN tree_agent_sessions s \
                 ON s.run_id = ?1 AND s.id = chain.parent_session_id WHERE chain.place < {CHAIN}) \
                 SELECT id, node_id, parent_session_id, messages, created_at FROM chain ORDER BY place DESC"
            );
            rows(db, &sql, params![run.0, id.as_str()])
        })
        .await
    }

    async fn run_sessions(
        &self,
        run: RunId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let after = after.as_ref().map_or("", SessionId::as_str);
            if let Some(line) = forks::line(db, run)? {
                return sessions_of(db, &line, after, limit);
            }
            let sql = "SELECT id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
                       WHERE run_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
            rows(db, sql, params![run.0, after, limit])
        })
        .await
    }
}

/// The conversation `id` and those that it continues, as a fork with this [line](forks::line) has them.
fn chain_of(db: &Connection, line: &[(RunId, i64)], id: SessionId) -> Result<Vec<Session>, StoreError> {
    let mut chain: Vec<Session> = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next.take().filter(|_| chain.len() < CHAIN as usize) {
        let found = line.iter().find_map(|(run, until)| {
            let sql = "SELECT id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
                       WHERE run_id = ?1 AND id = ?2 AND created_at <= ?3";
            rows(db, sql, params![run.0, id.as_str(), until]).map(|mut found| found.pop()).transpose()
        });
        let Some(session) = found.transpose()? else { break };
        next.clone_from(&session.parent_id);
        chain.push(session);
    }
    chain.reverse();
    Ok(chain)
}

/// Conversations of a fork with this [line](forks::line), by id.
pub(super) fn sessions_of(
    db: &Connection,
    line: &[(RunId, i64)],
    after: &str,
    limit: i64,
) -> Result<Vec<Session>, StoreError> {
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    for (run, until) in line {
        let sql = "SELECT id, node_id, parent_session_id, messages, created_at FROM tree_agent_sessions \
                   WHERE run_id = ?1 AND id > ?2 AND created_at <= ?4 ORDER BY id LIMIT ?3";
        for session in rows(db, sql, params![run.0, after, limit, until])? {
            sessions.entry(session.id.as_str().to_owned()).or_insert(session);
        }
    }
    Ok(sessions.into_values().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
}

fn rows(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Session>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let mut rows = statement.query(params).map_err(map_error)?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next().map_err(map_error)? {
        sessions.push(session(row)?);
    }
    Ok(sessions)
}

fn session(row: &Row<'_>) -> Result<Session, StoreError> {
    let id: String = row.get(0).map_err(map_error)?;
    let messages: String = row.get(3).map_err(map_error)?;
    let messages = serde_json::from_str(&messages)
        .map_err(|e| StoreError::broken(format!("conversation {id} cannot be read"), e))?;
    Ok(Session {
        id: SessionId::new(id),
        node_id: NodeId(row.get(1).map_err(map_error)?),
        parent_id: row.get::<_, Option<String>>(2).map_err(map_error)?.map(SessionId::new),
        messages,
        created_at: Timestamp(row.get(4).map_err(map_error)?),
    })
}

/// Writes conversations with the events that they belong to.
pub(super) fn write(db: &Connection, run: RunId, sessions: &[Session]) -> Result<(), StoreError> {
    for session in sessions {
        execute(
            db,
            "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (run_id, id) DO UPDATE SET messages = excluded.messages",
            params![
                run.0,
                session.id.as_str(),
                session.node_id.0,
                session.parent_id.as_ref().map(SessionId::as_str),
                json_text(&session.messages)?,
                session.created_at.micros(),
            ],
        )?;
    }
    Ok(())
}

//! Conversations.

use async_trait::async_trait;
use tree_agent_contract::session::Session;
use tree_agent_contract::{RunId, SessionId};

use super::forks::{Parts, parts};
use super::rows::{limit, session};
use super::sql::{Backend, Db, Record};
use crate::error::StoreError;
use crate::ports::{CHAIN, Sessions};
use crate::schema::Dialect;
use crate::types::json;

const COLUMNS: &str = "s.id, s.node_id, s.parent_session_id, s.messages, s.created_at";

/// The conversations that a run has, itself last. What was written to a run before it after the last event that they
/// share is none of its own.
const OF_LINE: &str =
    "FROM line JOIN tree_agent_sessions s ON s.run_id = line.run AND s.created_at <= line.until";

/// The common table expression `line`: the runs of which a log consists, and the time of the last event of each that
/// belongs to it. The parameters 1 to 3 are the [`Parts`].
fn line(dialect: Dialect) -> String {
    let none = dialect.pick(
        "CASE s.until_seq WHEN 9223372036854775807 THEN 'infinity' ELSE '-infinity' END::timestamptz",
        "CASE s.until_seq WHEN 9223372036854775807 THEN 9223372036854775807 ELSE -1 END",
    );
    format!(
        "line AS (SELECT s.run, s.n, COALESCE((SELECT e.created_at FROM tree_agent_events e \
         WHERE e.run_id = s.run AND e.seq = s.until_seq), {none}) AS until FROM {})",
        Parts::from(dialect)
    )
}

#[async_trait]
impl<S: Backend> Sessions for S {
    async fn session_chain(&self, run: RunId, id: &SessionId) -> Result<Vec<Session>, StoreError> {
        let id = id.clone();
        self.with(move |db| Box::pin(chain(db, run, id))).await
    }

    async fn run_sessions(
        &self,
        run: RunId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        self.with(move |db| Box::pin(of_run(db, run, after, limit))).await
    }
}

async fn chain<D: Db>(db: &mut D, run: RunId, id: SessionId) -> Result<Vec<Session>, StoreError> {
    let parts = parts(db, run).await?;
    if !parts.is_fork() {
        let sql = format!(
            "WITH RECURSIVE chain AS (SELECT s.*, 1 AS place FROM tree_agent_sessions s WHERE run_id = $1 AND id = $2 \
             UNION ALL SELECT s.*, chain.place + 1 FROM chain JOIN tree_agent_sessions s \
             ON s.run_id = $1 AND s.id = chain.parent_session_id WHERE chain.place < {CHAIN}) \
             SELECT {COLUMNS} FROM chain s ORDER BY place DESC"
        );
        return db.rows(&sql, &[&run.0, &id.as_str()]).await?.iter().map(session).collect();
    }
    let sql = format!(
        "WITH {} SELECT {COLUMNS} {OF_LINE} WHERE s.id = $4 ORDER BY line.n DESC LIMIT 1",
        line(D::DIALECT)
    );
    let mut chain: Vec<Session> = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next.take().filter(|_| chain.len() < CHAIN as usize) {
        let [runs, after, until] = parts.params();
        let Some(row) = db.row(&sql, &[runs, after, until, &id.as_str()]).await? else { break };
        let found = session(&row)?;
        next.clone_from(&found.parent_id);
        chain.push(found);
    }
    chain.reverse();
    Ok(chain)
}

/// The ids of all conversations that the run has.
pub(crate) async fn ids<D: Db>(db: &mut D, run: RunId) -> Result<Vec<SessionId>, StoreError> {
    let parts = parts(db, run).await?;
    let sql = format!("WITH {} SELECT DISTINCT s.id {OF_LINE} ORDER BY s.id", line(D::DIALECT));
    let rows = db.rows(&sql, &parts.params()).await?;
    rows.iter().map(|row| row.get(0).map(|id: String| SessionId::new(id))).collect()
}

/// Conversations that the run has, by id after `after`.
async fn of_run<D: Db>(
    db: &mut D,
    run: RunId,
    after: Option<SessionId>,
    max: usize,
) -> Result<Vec<Session>, StoreError> {
    let parts = parts(db, run).await?;
    let [runs, shared, until] = parts.params();
    let after = after.as_ref().map_or("", SessionId::as_str);
    let sql = format!(
        "WITH {} SELECT {COLUMNS} {OF_LINE} WHERE s.id > $4 AND NOT EXISTS (SELECT 1 FROM line l \
         JOIN tree_agent_sessions o ON o.run_id = l.run AND o.id = s.id AND o.created_at <= l.until \
         WHERE l.n > line.n) ORDER BY s.id LIMIT $5",
        line(D::DIALECT)
    );
    db.rows(&sql, &[runs, shared, until, &after, &limit(max)]).await?.iter().map(session).collect()
}

/// Writes conversations of a run, each once.
pub(crate) async fn write<D: Db>(db: &mut D, run: RunId, sessions: &[Session]) -> Result<(), StoreError> {
    for session in sessions {
        let parent = session.parent_id.as_ref().map(SessionId::as_str);
        let (messages, at) = (json(&session.messages)?, crate::types::Time(session.created_at));
        let sql = "INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id, id) DO UPDATE SET messages = EXCLUDED.messages";
        db.run(sql, &[&run.0, &session.id.as_str(), &session.node_id.0, &parent, &messages, &at]).await?;
    }
    Ok(())
}

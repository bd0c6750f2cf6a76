//! The inbox of a run on Postgres.

use std::sync::LazyLock;

use tree_agent_contract::{Command, RunId};

use super::columns::json;
use super::connection::Connection;
use super::types::{Json, JsonText};
use crate::LIVE;
use crate::batch::sent_before;
use crate::error::StoreError;
use crate::ports::{Answer, Sent};
use crate::text::clean;

/// Sends a command. Nothing is written for a request that was sent before, also if both arrive at the same time, nor
/// for a run that has ended. The row of the run is locked by whoever is first: a command is there before the run ends,
/// or it is not sent.
static SEND: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH called AS (UPDATE tree_agent_runs SET last_command = last_command + 1 WHERE id = $1 AND {LIVE} \
             AND NOT EXISTS (SELECT FROM tree_agent_replies WHERE run_id = $1 AND request_id = $3) \
             RETURNING id, last_command), \
         noted AS (INSERT INTO tree_agent_replies (run_id, request_id, command_id, command) \
             SELECT id, $3, last_command, $2 FROM called WHERE $3::text <> '' ON CONFLICT DO NOTHING RETURNING run_id) \
         INSERT INTO tree_agent_commands (run_id, id, command) SELECT id, last_command, $2 FROM called \
         WHERE $3::text = '' OR EXISTS (SELECT FROM noted) RETURNING id"
    )
});

/// Empties the inboxes of runs that have ended. What is still in them is refused.
pub(super) static END_INBOXES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH ended AS MATERIALIZED (SELECT id FROM tree_agent_runs WHERE id = ANY ($1) AND NOT ({LIVE})), \
         refused AS (UPDATE tree_agent_replies p SET reply = $2 FROM ended \
             WHERE p.run_id = ended.id AND p.reply IS NULL) \
         DELETE FROM tree_agent_commands c USING ended WHERE c.run_id = ended.id"
    )
});

const ANSWER: &str = "WITH owned AS MATERIALIZED (SELECT id FROM tree_agent_runs WHERE id = $1 AND epoch = $2 FOR SHARE), \
     replies AS (UPDATE tree_agent_replies p SET reply = i.reply \
         FROM owned, unnest($3::text[], $4::jsonb[]) AS i(request_id, reply) \
         WHERE p.run_id = owned.id AND p.request_id = i.request_id AND i.request_id <> '' AND p.reply IS NULL), \
     handled AS (DELETE FROM tree_agent_commands c USING owned WHERE c.run_id = owned.id AND c.id = ANY ($5)) \
     SELECT id FROM owned";

/// Sends a command, or says what has become of it.
pub(super) async fn send(
    connection: &mut Connection,
    run: RunId,
    command: &Command,
) -> Result<Sent, StoreError> {
    let (text, key) = (json(command)?, clean(&command.request_id));
    if let Some(row) = connection.query_opt(&SEND, &[&run.0, &text, &key]).await? {
        return Ok(Sent::Pending(row.get(0)));
    }
    let before =
        "SELECT command_id, command, reply FROM tree_agent_replies WHERE run_id = $1 AND request_id = $2";
    if let Some(row) = connection.query_opt(before, &[&run.0, &key]).await? {
        let (stored, reply): (Json, Option<Json>) = (row.get(1), row.get(2));
        let stored = (row.get(0), &stored.0[..], reply.as_ref().map(|reply| &reply.0[..]));
        return sent_before(run, &command.request_id, stored, text.0.as_bytes());
    }
    let ended = connection.query_opt("SELECT FROM tree_agent_runs WHERE id = $1", &[&run.0]).await?;
    ended.map(|_| Sent::Ended).ok_or_else(|| StoreError::not_found("run", run))
}

/// Answers commands without an event. False if the run is in another epoch.
pub(super) async fn answer(
    connection: &mut Connection,
    run: RunId,
    epoch: u64,
    answers: &[Answer],
) -> Result<bool, StoreError> {
    let ids: Vec<i64> = answers.iter().map(|answer| answer.id).collect();
    let requests: Vec<_> = answers.iter().map(|answer| clean(&answer.request_id)).collect();
    let replies = answers.iter().map(|answer| json(&answer.reply)).collect::<Result<Vec<JsonText>, _>>()?;
    let params: [&(dyn deadpool_postgres::tokio_postgres::types::ToSql + Sync); 5] =
        [&run.0, &(epoch as i64), &requests, &replies, &ids];
    Ok(connection.query_opt(ANSWER, &params).await?.is_some())
}

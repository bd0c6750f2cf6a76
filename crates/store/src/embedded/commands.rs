//! The inbox of a run in SQLite.

use rusqlite::{Connection, OptionalExtension, params};
use tree_agent_contract::RunId;

use super::connection::{map_error, now};
use super::values::execute;
use crate::LIVE;
use crate::batch::sent_before;
use crate::error::StoreError;
use crate::ports::{Answer, Sent, too_late};
use crate::text::{clean, json_text};

/// Puts the command with this text in the inbox, unless it was sent before or the run has ended.
pub(super) fn send(tx: &Connection, run: RunId, request_id: &str, command: &str) -> Result<Sent, StoreError> {
    let key = clean(request_id);
    let before = tx
        .query_row(
            "SELECT command_id, command, reply FROM tree_agent_replies WHERE run_id = ?1 AND request_id = ?2",
            params![run.0, key],
            |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?)),
        )
        .optional()
        .map_err(map_error)?;
    if let Some((id, stored, reply)) = before {
        let stored = (id, stored.as_bytes(), reply.as_deref().map(str::as_bytes));
        return sent_before(run, request_id, stored, command.as_bytes());
    }
    let sql = format!(
        "UPDATE tree_agent_runs SET last_command = last_command + 1 WHERE id = ?1 AND {LIVE} RETURNING last_command"
    );
    let id = tx.query_row(&sql, [run.0], |row| row.get::<_, i64>(0)).optional().map_err(map_error)?;
    let Some(id) = id else {
        let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1";
        let ended = tx.query_row(sql, [run.0], |_| Ok(())).optional().map_err(map_error)?;
        return ended.map(|()| Sent::Ended).ok_or_else(|| StoreError::not_found("run", run));
    };
    let at = now().micros();
    execute(
        tx,
        "INSERT INTO tree_agent_commands (run_id, id, command, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![run.0, id, command, at],
    )?;
    if !key.is_empty() {
        execute(
            tx,
            "INSERT INTO tree_agent_replies (run_id, request_id, command_id, command, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![run.0, key, id, command, at],
        )?;
    }
    Ok(Sent::Pending(id))
}

/// Answers commands, which leave the inbox.
pub(super) fn answer(tx: &Connection, run: RunId, answers: &[Answer]) -> Result<(), StoreError> {
    for Answer { id, request_id, reply } in answers {
        execute(tx, "DELETE FROM tree_agent_commands WHERE run_id = ?1 AND id = ?2", params![run.0, id])?;
        execute(
            tx,
            "UPDATE tree_agent_replies SET reply = ?3 WHERE run_id = ?1 AND request_id = ?2 AND reply IS NULL",
            params![run.0, clean(request_id), json_text(reply)?],
        )?;
    }
    Ok(())
}

/// Empties the inbox of a run that has ended. What is still in it is refused.
pub(super) fn end(tx: &Connection, run: RunId) -> Result<(), StoreError> {
    execute(tx, "DELETE FROM tree_agent_commands WHERE run_id = ?1", params![run.0])?;
    execute(
        tx,
        "UPDATE tree_agent_replies SET reply = ?2 WHERE run_id = ?1 AND reply IS NULL",
        params![run.0, json_text(&too_late())?],
    )
    .map(drop)
}

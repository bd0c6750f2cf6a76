//! The log in SQLite.

use rusqlite::{Connection, params};
use tree_agent_contract::Event;
use tree_agent_contract::ids::EventId;
use uuid::Uuid;

use super::connection::map_error;
use super::values::{done, execute};
use super::{commands, projection, run_documents};
use crate::batch;
use crate::document_writes::DocumentWrites;
use crate::error::StoreError;
use crate::logic::inherited::Range;
use crate::logic::rows::stored_event;
use crate::logic::sessions;
use crate::ports::{AppendOutcome, READ_BYTES, RunAppend, StoredEvent};
use crate::text::clean_json;

/// Events of the parts of a log.
pub(super) fn events(
    db: &Connection,
    parts: &[Range],
    after: i64,
    limit: i64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let sql = "SELECT seq, id, node_id, parent_node_id, created_at, event_type, payload FROM tree_agent_events \
               WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
    let (mut events, mut bytes) = (Vec::new(), 0);
    for part in parts {
        let left = limit.saturating_sub(events.len() as i64);
        if left == 0 {
            break;
        }
        let mut statement = db.prepare_cached(sql).map_err(map_error)?;
        let params = params![part.run.0, part.after.max(after), part.until, left];
        let mut rows = statement.query(params).map_err(map_error)?;
        while let Some(row) = rows.next().map_err(map_error)? {
            let event = stored_event(row)?;
            bytes += event.payload.len();
            if bytes > READ_BYTES && !events.is_empty() {
                return Ok(events);
            }
            events.push(event);
        }
    }
    Ok(events)
}

/// Writes one run's part, or nothing if the run's epoch or head is not what the writer believes.
pub(super) fn write(tx: &mut Connection, append: &RunAppend) -> Result<AppendOutcome, StoreError> {
    let (run, epoch) = (append.run_id, append.epoch);
    let last = append.events.last().map(|e| (e.seq as i64, e.timestamp.micros())).unwrap_or_default();
    let moved = execute(
        tx,
        "UPDATE tree_agent_runs SET head_seq = ?4, updated_at = ?5, progress_seq = max(progress_seq, ?6) \
         WHERE id = ?1 AND epoch = ?2 AND head_seq = ?3",
        params![
            run.0,
            epoch as i64,
            append.expected_head as i64,
            last.0,
            last.1,
            batch::last_progress(&append.events) as i64
        ],
    )?;
    if moved == 0 {
        let written = was_written(tx, append)?;
        return Ok(if written { AppendOutcome::Appended } else { AppendOutcome::Fenced });
    }
    append.events.iter().try_for_each(|event| insert_event(tx, epoch, event))?;
    projection::write(tx, run, &append.projection)?;
    let first = append.expected_head + 1;
    run_documents::write(tx, run, DocumentWrites::merge(&append.documents, first, last.0 as u64))?;
    done(sessions::write(tx, run, &append.sessions))?;
    commands::answer(tx, run, &append.answers)?;
    if append.ends_run() {
        commands::end(tx, run)?;
    }
    Ok(AppendOutcome::Appended)
}

/// Inserts an event that is written in `epoch`.
fn insert_event(tx: &Connection, epoch: u64, event: &Event) -> Result<(), StoreError> {
    execute(
        tx,
        "INSERT INTO tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            event.run_id.0,
            event.seq as i64,
            EventId::of(event.run_id, epoch, event.seq).0,
            event.node_id.0,
            event.parent_node_id.map(|id| id.0),
            event.body.event_type(),
            clean_json(event.payload_json()),
            event.timestamp.micros(),
        ],
    )
    .map(drop)
}

/// True if an earlier attempt of this same append was committed and its reply was lost: the run is still in our epoch
/// and holds our events.
fn was_written(db: &Connection, append: &RunAppend) -> Result<bool, StoreError> {
    let last = append.expected_head as i64 + append.events.len() as i64;
    let mut statement = db
        .prepare_cached(
            "SELECT e.id, e.node_id, e.event_type, e.created_at FROM tree_agent_runs r \
             JOIN tree_agent_events e ON e.run_id = r.id AND e.seq > ?3 AND e.seq <= ?4 \
             WHERE r.id = ?1 AND r.epoch = ?2 AND r.head_seq >= ?4 ORDER BY e.seq",
        )
        .map_err(map_error)?;
    let rows = statement
        .query_map(params![append.run_id.0, append.epoch as i64, append.expected_head as i64, last], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .map_err(map_error)?;
    let stored: Vec<(Uuid, Uuid, String, i64)> = rows.collect::<Result<_, _>>().map_err(map_error)?;
    let ours = append.events.iter().map(|event| {
        let id = EventId::of(append.run_id, append.epoch, event.seq);
        (id.0, event.node_id.0, event.body.event_type().to_owned(), event.timestamp.micros())
    });
    Ok(ours.eq(stored))
}

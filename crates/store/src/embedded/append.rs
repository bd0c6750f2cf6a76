//! The log in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{Event, EventBody, NodeId, RunId, Timestamp};
use uuid::Uuid;

use super::EmbeddedStore;
use super::connection::map_error;
use super::{commands, forks, projection, run_documents, sessions};
use crate::batch;
use crate::document_writes::DocumentWrites;
use crate::error::StoreError;
use crate::ports::{AppendOutcome, EventLog, READ_BYTES, RunAppend};
use crate::text::clean_json;

#[async_trait]
impl EventLog for EmbeddedStore {
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        batch::check(&appends)?;
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |tx| appends.iter().map(|append| write(tx, append)).collect()).await
    }

    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(move |db| {
            let mut statement = db
                .prepare_cached(
                    "SELECT seq, node_id, parent_node_id, created_at, event_type, payload FROM tree_agent_events \
                     WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
                )
                .map_err(map_error)?;
            let mut rows = statement.query(params![run.0, after, limit]).map_err(map_error)?;
            let (mut events, mut page) = (Vec::new(), ReadPage::default());
            while let Some(row) = rows.next().map_err(map_error)? {
                if !page.takes(row.get_ref(5).and_then(|payload| Ok(payload.as_str()?.len())).map_err(map_error)?) {
                    break;
                }
                events.push(event(run, row)?);
            }
            // The first events of a fork are those of the runs before it.
            if events.first().is_none_or(|first: &Event| first.seq as i64 != after + 1)
                && let Some(stored) = forks::read(db, run, after, limit)?
            {
                events = stored.into_iter().map(|stored| forks::event(run, stored)).collect::<Result<_, _>>()?;
            }
            if events.is_empty() {
                refuse_archived(db, run, after)?;
            }
            Ok(events)
        })
        .await
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
        let runs = runs.to_vec();
        self.query(move |db| {
            let mut heads = Vec::with_capacity(runs.len());
            let mut statement =
                db.prepare_cached("SELECT head_seq FROM tree_agent_runs WHERE id = ?1").map_err(map_error)?;
            for run in runs {
                let head = statement.query_row([run.0], |row| row.get::<_, i64>(0)).optional();
                heads.extend(head.map_err(map_error)?.map(|head| (run, head as u64)));
            }
            Ok(heads)
        })
        .await
    }
}

/// The bytes of a page of the log so far.
#[derive(Default)]
pub(super) struct ReadPage(usize);

impl ReadPage {
    /// True if an event with `bytes` of payload belongs to the page.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let first = self.0 == 0;
        self.0 += bytes;
        first || self.0 <= READ_BYTES
    }
}

/// An archived run has no events here, which must not be taken for the end of its log.
fn refuse_archived(db: &Connection, run: RunId, after: i64) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1 AND head_seq > ?2 AND archived_at IS NOT NULL";
    let mut statement = db.prepare_cached(sql).map_err(map_error)?;
    let archived = statement.exists(params![run.0, after]).map_err(map_error)?;
    if archived { Err(StoreError::Archived(run)) } else { Ok(()) }
}

fn event(run: RunId, row: &rusqlite::Row<'_>) -> Result<Event, StoreError> {
    let seq = row.get::<_, i64>(0).map_err(map_error)? as u64;
    let event_type: String = row.get(4).map_err(map_error)?;
    let payload: String = row.get(5).map_err(map_error)?;
    let body = EventBody::from_json(&event_type, payload.as_bytes())
        .map_err(|e| StoreError::broken(format!("event {seq} of run {run} cannot be read"), e))?;
    Ok(Event {
        run_id: run,
        seq,
        node_id: NodeId(row.get(1).map_err(map_error)?),
        parent_node_id: row.get::<_, Option<Uuid>>(2).map_err(map_error)?.map(NodeId),
        timestamp: Timestamp(row.get(3).map_err(map_error)?),
        body,
    })
}

/// Writes one run's part, or nothing if the run's epoch or head is not what the writer believes.
pub(super) fn write(tx: &Transaction<'_>, append: &RunAppend) -> Result<AppendOutcome, StoreError> {
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
    sessions::write(tx, run, &append.sessions)?;
    commands::answer(tx, run, &append.answers)?;
    if append.ends_run() {
        commands::end(tx, run)?;
    }
    Ok(AppendOutcome::Appended)
}

/// Inserts an event that is written in `epoch`.
pub(super) fn insert_event(tx: &Transaction<'_>, epoch: u64, event: &Event) -> Result<(), StoreError> {
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

/// Runs a cached statement and returns how many rows it changed.
pub(super) fn execute(
    db: &Connection,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<usize, StoreError> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(map_error)
}

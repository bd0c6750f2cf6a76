//! The log on Postgres.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{Event, EventBody, NodeId, RunId};
use uuid::Uuid;

use super::PostgresStore;
use super::columns::{Columns, json};
use super::commands::END_INBOXES;
use super::connection::Connection;
use super::forks;
use super::types::{Json, Time};
use crate::batch;
use crate::error::StoreError;
use crate::ports::{AppendOutcome, EventLog, READ_BYTES, RunAppend, too_late};

#[async_trait]
impl EventLog for PostgresStore {
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        batch::check(&appends)?;
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        let mut connection = self.connections.take_ordered().await?;
        let columns = Columns::of(&appends)?;
        let moved = if !columns.links.is_empty() {
            connection.begin().await?;
            let moved = write_all(&mut connection, &appends, &columns).await;
            connection.end(moved).await?
        } else if appends.iter().any(|append| append.ends_run()) {
            write_ends(&mut connection, &appends, &columns).await?
        } else {
            let shape = columns.shape();
            ids(&connection.query(shape.sql(), &columns.params(shape)).await?)
        };
        let mut outcomes = Vec::with_capacity(appends.len());
        for append in appends.iter() {
            let done =
                moved.binary_search(&append.run_id.0).is_ok() || was_written(&mut connection, append).await?;
            outcomes.push(if done { AppendOutcome::Appended } else { AppendOutcome::Fenced });
        }
        Ok(outcomes)
    }

    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let mut connection = self.connection().await?;
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = connection
            .query(
                page_sql("seq, node_id, parent_node_id, created_at, event_type, payload", &READ),
                &[&run.0, &after, &limit],
            )
            .await?;
        // The first events of a fork are those of the runs before it.
        if rows.first().is_none_or(|first| first.get::<_, i64>(0) != after.saturating_add(1))
            && let Some(stored) = forks::read(&mut connection, run, after, limit).await?
            && !stored.is_empty()
        {
            return stored.into_iter().map(|stored| crate::forks::event(run, stored)).collect();
        }
        if rows.is_empty() {
            refuse_archived(&mut connection, run, after).await?;
        }
        rows.iter()
            .map(|row| {
                let seq = row.get::<_, i64>(0) as u64;
                let event_type: &str = row.get(4);
                let payload: Json = row.get(5);
                let body = EventBody::from_json(event_type, &payload.0)
                    .map_err(|e| StoreError::broken(format!("event {seq} of run {run} cannot be read"), e))?;
                Ok(Event {
                    run_id: run,
                    seq,
                    node_id: NodeId(row.get(1)),
                    parent_node_id: row.get::<_, Option<Uuid>>(2).map(NodeId),
                    timestamp: row.get::<_, Time>(3).0,
                    body,
                })
            })
            .collect()
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let mut connection = self.connection().await?;
        let rows =
            connection.query("SELECT id, head_seq FROM tree_agent_runs WHERE id = ANY ($1)", &[&ids]).await?;
        Ok(rows.iter().map(|row| (RunId(row.get(0)), row.get::<_, i64>(1) as u64)).collect())
    }
}

static READ: OnceLock<String> = OnceLock::new();

/// A page of the log that is bounded in rows and in bytes. A payload that is not compressed is measured without being
/// read, so that pages of small events cost nothing more.
pub(super) fn page_sql(columns: &str, sql: &'static OnceLock<String>) -> &'static str {
    page_sql_from(columns, "FROM tree_agent_events WHERE run_id = $1 AND seq > $2", sql)
}

/// As [`page_sql`], of the events that `from` names.
pub(super) fn page_sql_from(columns: &str, from: &str, sql: &'static OnceLock<String>) -> &'static str {
    sql.get_or_init(|| {
        format!(
            "SELECT {columns} FROM (SELECT *, sum(size) OVER (ORDER BY seq) AS whole FROM (\
                 SELECT *, CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload) \
                 ELSE octet_length(payload::text) END AS size \
                 {from} ORDER BY seq LIMIT $3) e) e \
             WHERE whole <= {READ_BYTES} OR whole = size ORDER BY seq"
        )
    })
}

/// An archived run has no events here, which must not be taken for the end of its log.
async fn refuse_archived(connection: &mut Connection, run: RunId, after: i64) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM tree_agent_runs WHERE id = $1 AND head_seq > $2 AND archived_at IS NOT NULL";
    let archived = !connection.query(sql, &[&run.0, &after]).await?.is_empty();
    if archived { Err(StoreError::Archived(run)) } else { Ok(()) }
}

/// Writes the parts that pass the fence, within a transaction. Returns the ids of the runs whose head moved, sorted.
pub(super) async fn write(
    connection: &mut Connection,
    appends: &[RunAppend],
) -> Result<Vec<Uuid>, StoreError> {
    write_all(connection, appends, &Columns::of(appends)?).await
}

/// As [`write`]. Documents that were there before get their places one after the other, because each of them decides
/// which places the others may have. That is rare: a document has its place when it is created.
async fn write_all(
    connection: &mut Connection,
    appends: &[RunAppend],
    columns: &Columns<'_>,
) -> Result<Vec<Uuid>, StoreError> {
    let shape = columns.shape();
    let moved = ids(&connection.query(shape.sql(), &columns.params(shape)).await?);
    for (run, link) in columns.links.iter().filter(|(run, _)| moved.binary_search(&run.0).is_ok()) {
        let sql = "SELECT tree_agent_place_document($1, $2, $3, $4, $5)";
        let (seq, at) = (link.seq as i64, Time(link.at));
        connection.query(sql, &[&run.0, &link.child.0, &link.parent.0, &seq, &at]).await?;
    }
    let ended = ended(appends);
    if !ended.is_empty() {
        connection.query(&END_INBOXES, &[&ended, &json(&too_late())?]).await?;
    }
    Ok(moved)
}

/// The runs that end with `appends`.
fn ended(appends: &[RunAppend]) -> Vec<Uuid> {
    appends.iter().filter(|append| append.ends_run()).map(|append| append.run_id.0).collect()
}

/// As one statement, for runs of which some end. Their inboxes are emptied by a second statement in the same
/// transaction and round trip: the first one does not see a command that was sent while it waited for the row of the
/// run.
async fn write_ends(
    connection: &mut Connection,
    appends: &[RunAppend],
    columns: &Columns<'_>,
) -> Result<Vec<Uuid>, StoreError> {
    let shape = columns.shape();
    let ended = ended(appends);
    let reply = json(&too_late())?;
    let append = (shape.sql(), &columns.params(shape)[..]);
    let rows = connection.query_both(append, (&END_INBOXES, &[&ended, &reply])).await?;
    Ok(ids(&rows))
}

/// The ids in the first column, sorted.
fn ids(rows: &[Row]) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    ids
}

/// True if an earlier attempt of this same append was committed and its reply was lost: the run is still in our epoch
/// and holds our events.
async fn was_written(connection: &mut Connection, append: &RunAppend) -> Result<bool, StoreError> {
    let (epoch, first) = (append.epoch as i64, append.expected_head as i64 + 1);
    let last = append.expected_head as i64 + append.events.len() as i64;
    let rows = connection
        .query(
            "SELECT e.id, e.node_id, e.event_type, e.created_at FROM tree_agent_runs r \
             JOIN tree_agent_events e ON e.run_id = r.id AND e.seq BETWEEN $3 AND $4 \
             WHERE r.id = $1 AND r.epoch = $2 AND r.head_seq >= $4 ORDER BY e.seq",
            &[&append.run_id.0, &epoch, &first, &last],
        )
        .await?;
    let ours = |(row, event): (&Row, &Event)| {
        row.get::<_, Uuid>(0) == EventId::of(append.run_id, append.epoch, event.seq).0
            && row.get::<_, Uuid>(1) == event.node_id.0
            && row.get::<_, &str>(2) == event.body.event_type()
            && row.get::<_, Time>(3) == Time(event.timestamp)
    };
    Ok(rows.len() == append.events.len() && rows.iter().zip(&append.events).all(ours))
}

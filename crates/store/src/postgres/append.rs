//! The log on Postgres.

use std::sync::OnceLock;

use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::Event;
use tree_agent_contract::ids::EventId;
use uuid::Uuid;

use super::columns::{Columns, json};
use super::commands::END_INBOXES;
use super::connection::Connection;
use super::types::Time;
use crate::error::StoreError;
use crate::logic::inherited::Range;
use crate::logic::rows::stored_event;
use crate::ports::{AppendOutcome, READ_BYTES, RunAppend, StoredEvent, too_late};

/// Writes appends in one transaction. The runs are locked in the order of their ids.
pub(super) async fn append(
    connection: &mut Connection,
    appends: &[RunAppend],
) -> Result<Vec<AppendOutcome>, StoreError> {
    let columns = Columns::of(appends)?;
    let moved = if !columns.links.is_empty() {
        connection.begin().await?;
        let moved = write_all(connection, appends, &columns).await;
        connection.end(moved).await?
    } else if appends.iter().any(|append| append.ends_run()) {
        write_ends(connection, appends, &columns).await?
    } else {
        let shape = columns.shape();
        ids(&connection.query(shape.sql(), &columns.params(shape)).await?)
    };
    let mut outcomes = Vec::with_capacity(appends.len());
    for append in appends {
        let done = moved.binary_search(&append.run_id.0).is_ok() || was_written(connection, append).await?;
        outcomes.push(if done { AppendOutcome::Appended } else { AppendOutcome::Fenced });
    }
    Ok(outcomes)
}

/// The columns of a stored event.
const EVENT: &str = "seq, id, node_id, parent_node_id, created_at, event_type, payload";

/// Events of the parts of a log, in one round trip.
pub(super) async fn events(
    connection: &mut Connection,
    parts: &[Range],
    after: i64,
    limit: i64,
) -> Result<Vec<StoredEvent>, StoreError> {
    static OF_ONE: OnceLock<String> = OnceLock::new();
    static OF_PARTS: OnceLock<String> = OnceLock::new();
    let rows = if let [Range { run, after: 0, until: i64::MAX }] = parts {
        let sql = OF_ONE.get_or_init(|| page_sql("FROM tree_agent_events WHERE run_id = $1 AND seq > $2"));
        connection.query(sql, &[&run.0, &after, &limit]).await?
    } else {
        let sql = OF_PARTS.get_or_init(|| {
            page_sql(
                "FROM unnest($1::uuid[], $4::int8[], $5::int8[]) AS s(run, after_seq, until_seq) CROSS JOIN LATERAL \
                 (SELECT * FROM tree_agent_events e WHERE e.run_id = s.run AND e.seq > greatest(s.after_seq, $2) \
                 AND e.seq <= s.until_seq ORDER BY e.seq LIMIT $3) e",
            )
        });
        let runs: Vec<Uuid> = parts.iter().map(|part| part.run.0).collect();
        let (from, until): (Vec<i64>, Vec<i64>) = parts.iter().map(|part| (part.after, part.until)).unzip();
        connection.query(sql, &[&runs, &after, &limit, &from, &until]).await?
    };
    rows.iter().map(stored_event).collect()
}

/// A page of the events that `from` names, bounded in rows and in bytes. A payload that is not compressed is measured
/// without being read, so that pages of small events cost nothing more.
fn page_sql(from: &str) -> String {
    format!(
        "SELECT {EVENT} FROM (SELECT *, sum(size) OVER (ORDER BY seq) AS whole FROM (\
             SELECT *, CASE WHEN pg_column_compression(payload) IS NULL THEN pg_column_size(payload) \
             ELSE octet_length(payload::text) END AS size \
             {from} ORDER BY seq LIMIT $3) e) e \
         WHERE whole <= {READ_BYTES} OR whole = size ORDER BY seq"
    )
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

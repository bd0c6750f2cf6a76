//! Operations for operators.

use async_trait::async_trait;
use tree_agent_contract::{DocumentId, RunId};
use uuid::Uuid;

use super::new_run::NewRow;
use super::rows::{self, limit};
use super::sql::{Backend, Db, Record};
use super::{forks, log, sessions};
use crate::LIVE;
use crate::cells::{Kind, TABLES, Table};
use crate::error::StoreError;
use crate::ports::{
    ClusterState, DriverAbout, DriverState, Operations, Stored, StoredChunk, StoredEvent, WholeProjection,
};
use crate::schema::Dialect;
use crate::types::{Time, json};

#[async_trait]
impl<S: Backend> Operations for S {
    async fn ping(&self) -> Result<(), StoreError> {
        self.with(|db| Box::pin(db.run("SELECT 1", &[]))).await
    }

    fn schema_version(&self) -> u32 {
        // A store is opened only with the version that this program needs.
        S::Db::DIALECT.version().unsigned_abs()
    }

    fn connections(&self) -> Vec<(&'static str, usize)> {
        self.levels()
    }

    async fn note_driver(&self, driver: &str, about: &DriverAbout) -> Result<(), StoreError> {
        let (driver, about) = (driver.to_owned(), json(about)?);
        let sql = "UPDATE tree_agent_drivers SET about = $2 WHERE id = $1";
        self.write(move |db| Box::pin(async move { db.run(sql, &[&driver, &about]).await })).await
    }

    async fn drivers(&self) -> Result<Vec<DriverState>, StoreError> {
        self.with(|db| Box::pin(drivers(db))).await
    }

    async fn cluster(&self) -> Result<ClusterState, StoreError> {
        self.snapshot(|db| Box::pin(cluster(db))).await
    }

    async fn run_ids(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.with(move |db| Box::pin(run_ids(db, after, limit))).await
    }

    async fn stored(&self, run: RunId) -> Result<Stored, StoreError> {
        self.snapshot(move |db| Box::pin(stored(db, run))).await
    }

    async fn stored_events(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.with(move |db| Box::pin(log::stored(db, run, after_seq, limit))).await
    }

    async fn document_chunks(
        &self,
        run: RunId,
        after: Option<(DocumentId, u64)>,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        let after = after.map_or((DocumentId(Uuid::nil()), -1), |(id, seq)| (id, seq as i64));
        self.with(move |db| Box::pin(forks::chunks(db, run, after, limit))).await
    }

    async fn replace_projection(
        &self,
        run: RunId,
        head_seq: u64,
        whole: WholeProjection,
    ) -> Result<bool, StoreError> {
        self.transaction(move |db| Box::pin(replace(db, run, head_seq, whole))).await
    }
}

/// Milliseconds since `at`, by the clock of the store.
fn since(dialect: Dialect, at: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("CAST(extract(epoch FROM now() - {at}) * 1000 AS bigint)"),
        Dialect::Embedded => format!("(CAST(unixepoch('subsec') * 1000 AS INTEGER) - {at} / 1000)"),
    }
}

async fn drivers<D: Db>(db: &mut D) -> Result<Vec<DriverState>, StoreError> {
    let owned = D::DIALECT.pick("lease_expires_at = 'infinity'", "lease_expires_at = 9223372036854775807");
    let sql = format!(
        "SELECT d.id, -{}, (SELECT count(*) FROM tree_agent_runs WHERE lease_owner = d.id AND {LIVE} AND {owned}), \
         d.about FROM tree_agent_drivers d ORDER BY d.id",
        since(D::DIALECT, "d.lease_expires_at")
    );
    let rows = db.rows(&sql, &[]).await?;
    let driver = |row: &D::Row| {
        let about = row.json(3, || "what a driver says about itself".to_owned())?;
        Ok(DriverState { id: row.get(0)?, ends_in_ms: row.get(1)?, runs: row.number(2)?, about })
    };
    rows.iter().map(driver).collect()
}

async fn cluster<D: Db>(db: &mut D) -> Result<ClusterState, StoreError> {
    let drivers = drivers(db).await?;
    let waits = "status <> 'paused' AND lease_expires_at IS NULL";
    let sql = format!(
        "SELECT count(*), count(*) FILTER (WHERE {waits}), \
         COALESCE(max({}) FILTER (WHERE {waits} AND epoch = 0), 0) FROM tree_agent_runs WHERE {LIVE}",
        since(D::DIALECT, "created_at")
    );
    let row = db.row(&sql, &[]).await?;
    // A clock may have been ahead.
    let number = |i| row.as_ref().map_or(Ok(0), |row| Ok(row.get::<i64>(i)?.max(0).unsigned_abs()));
    Ok(ClusterState { drivers, live: number(0)?, waiting: number(1)?, longest_wait_ms: number(2)? })
}

async fn run_ids<D: Db>(db: &mut D, after: Option<RunId>, max: usize) -> Result<Vec<RunId>, StoreError> {
    let sql = "SELECT id FROM tree_agent_runs WHERE id > $1 OR $1 IS NULL ORDER BY id LIMIT $2";
    rows::run_ids(&db.rows(sql, &[&after.map(|run| run.0), &limit(max)]).await?)
}

async fn stored<D: Db>(db: &mut D, run: RunId) -> Result<Stored, StoreError> {
    let sql = "SELECT head_seq, epoch, archived_at IS NOT NULL FROM tree_agent_runs WHERE id = $1";
    let head = db.row(sql, &[&run.0]).await?.ok_or_else(|| StoreError::not_found("run", run))?;
    let shared = forks::segments(db, run).await?.last().map_or(0, |part| part.until);
    let sql = "SELECT count(*), COALESCE(max(seq), 0) FROM tree_agent_events WHERE run_id = $1 AND seq > $2";
    // Events before are counted here, and read one by one.
    let own = db.row(sql, &[&run.0, &(shared as i64)]).await?;
    let (own, last) = own.map_or(Ok((0, 0)), |own| Ok::<_, StoreError>((own.number(0)?, own.number(1)?)))?;
    let mut cells = Vec::new();
    for table in TABLES {
        for row in db.rows(&select(D::DIALECT, table), &[&run.0]).await? {
            let values = (1..=table.columns.len()).map(|i| row.get(i)).collect::<Result<Vec<_>, _>>()?;
            cells.push(table.row(row.get(0)?, values));
        }
    }
    Ok(Stored {
        archived: head.get(2)?,
        head_seq: head.number(0)?,
        epoch: head.number(1)?,
        events: own + shared,
        last_seq: last.max(shared),
        rows: cells,
        documents: forks::records(db, run).await?,
        sessions: sessions::ids(db, run).await?,
    })
}

/// The rows of a run, every column as text.
fn select(dialect: Dialect, table: &Table) -> String {
    let columns = table.columns.iter().map(|(name, kind)| match (dialect, kind) {
        (Dialect::Postgres, Kind::Time) => format!("(extract(epoch FROM {name}) * 1000000)::int8::text"),
        (Dialect::Postgres, Kind::Uuids) => format!("to_jsonb({name})::text"),
        (Dialect::Embedded, Kind::Uuid) => {
            format!("CASE WHEN {name} IS NULL THEN NULL ELSE lower(hex({name})) END")
        }
        _ => format!("CAST({name} AS text)"),
    });
    let columns: Vec<_> = columns.collect();
    format!("SELECT id, {} FROM {} WHERE {} = $1 ORDER BY id", columns.join(", "), table.name, table.run)
}

async fn replace<D: Db>(
    db: &mut D,
    run: RunId,
    head_seq: u64,
    whole: WholeProjection,
) -> Result<bool, StoreError> {
    let lock = D::DIALECT.pick(" FOR UPDATE", "");
    let sql = format!("SELECT epoch, head_seq FROM tree_agent_runs WHERE id = $1{lock}");
    let row = db.row(&sql, &[&run.0]).await?.ok_or_else(|| StoreError::not_found("run", run))?;
    if row.number(1)? != head_seq {
        return Ok(false);
    }
    for table in ["tree_agent_nodes", "tree_agent_plans", "tree_agent_artifacts"] {
        db.run(&format!("DELETE FROM {table} WHERE run_id = $1"), &[&run.0]).await?;
    }
    derive(db, run, row.number(0)?, head_seq, &whole).await
}

/// Writes all that is derived from the log of a run. The rows of nodes, plans and artifacts are not there yet.
pub(crate) async fn derive<D: Db>(
    db: &mut D,
    run: RunId,
    epoch: u64,
    head_seq: u64,
    whole: &WholeProjection,
) -> Result<bool, StoreError> {
    let mut row = NewRow::of(D::DIALECT, &whole.spec, whole.root_node_id.0, whole.created_at)?;
    row.add("updated_at", Time(whole.updated_at));
    row.update(db, run).await?;
    db.project(run, epoch, (head_seq, whole.updated_at), &whole.rows).await
}

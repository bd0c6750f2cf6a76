//! The log: pages of it, also those of forks, and its heads.

use std::sync::Arc;

use async_trait::async_trait;
use tree_agent_contract::{Event, RunId};
use uuid::Uuid;

use super::forks::segments;
use super::inherited::{Range, ranges};
use super::rows::{self, limit};
use super::sql::{Backend, Db};
use crate::batch;
use crate::error::StoreError;
use crate::ports::{AppendOutcome, EventLog, RunAppend, StoredEvent};
use crate::types::List;

#[async_trait]
impl<S: Backend> EventLog for S {
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        batch::check(&appends)?;
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        Backend::append(self, appends).await
    }

    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.with(move |db| Box::pin(read(db, run, after_seq, limit))).await
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
        let runs = List(runs.iter().map(|run| run.0).collect());
        self.with(move |db| Box::pin(heads(db, runs))).await
    }
}

async fn heads<D: Db>(db: &mut D, runs: List<Uuid>) -> Result<Vec<(RunId, u64)>, StoreError> {
    let sql = format!("SELECT id, head_seq FROM tree_agent_runs WHERE {}", D::DIALECT.any_id("id", "$1"));
    db.rows(&sql, &[&runs]).await?.iter().map(rows::head).collect()
}

async fn read<D: Db>(db: &mut D, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    let events = stored(db, run, after_seq, limit).await?;
    if events.is_empty() {
        // An archived run has no events here, which must not be taken for the end of its log.
        let sql = "SELECT 1 FROM tree_agent_runs WHERE id = $1 AND head_seq > $2 AND archived_at IS NOT NULL";
        let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
        if db.row(sql, &[&run.0, &after]).await?.is_some() {
            return Err(StoreError::Archived(run));
        }
    }
    events.into_iter().map(|stored| rows::event(run, stored)).collect()
}

/// Events as they are stored, in order.
pub(crate) async fn stored<D: Db>(
    db: &mut D,
    run: RunId,
    after_seq: u64,
    max: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let after = i64::try_from(after_seq).unwrap_or(i64::MAX);
    let own = db.events(&[Range { run, after: 0, until: i64::MAX }], after, limit(max)).await?;
    if own.first().is_some_and(|first| first.seq as i64 == after.saturating_add(1)) {
        return Ok(own);
    }
    // The first events of a fork are those of the runs before it.
    let segments = segments(db, run).await?;
    if segments.is_empty() {
        return Ok(own);
    }
    let wanted: Vec<Range> = ranges(run, &segments).into_iter().filter(|range| range.until > after).collect();
    db.events(&wanted, after, limit(max)).await
}

//! Leases in SQLite. They use the clock of this process, because no other process writes.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tree_agent_contract::RunId;

use super::EmbeddedStore;
use super::append::execute;
use super::connection::{map_error, now};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{Claim, Leases};

impl EmbeddedStore {
    /// Sets the runs aside that have not ended yet, and returns how many these are: until the store is opened again, no
    /// driver can claim them.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn set_unfinished_aside(&self) -> Result<usize, StoreError> {
        self.write(|tx| {
            execute(
                tx,
                &format!(
                    "INSERT OR IGNORE INTO temp.runs_set_aside SELECT id FROM tree_agent_runs WHERE {LIVE}"
                ),
                &[],
            )?;
            tx.query_one("SELECT count(*) FROM temp.runs_set_aside", [], |row| row.get::<_, i64>(0))
                .map(|count| usize::try_from(count).unwrap_or_default())
                .map_err(map_error)
        })
        .await
    }
}

#[async_trait]
impl Leases for EmbeddedStore {
    async fn claim(&self, owner: &str, ttl: Duration, limit: usize) -> Result<Vec<Claim>, StoreError> {
        let owner = owner.to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.write(move |tx| {
            let now = now().micros();
            let mut statement = tx
                .prepare_cached(&format!(
                    "SELECT id, epoch, head_seq FROM tree_agent_runs \
                     WHERE {LIVE} AND (lease_expires_at IS NULL OR lease_expires_at < ?1) \
                     AND id NOT IN (SELECT id FROM temp.runs_set_aside) \
                     ORDER BY created_at, id LIMIT ?2"
                ))
                .map_err(map_error)?;
            let rows = statement
                .query_map([now, limit], |row| {
                    Ok(Claim {
                        run_id: RunId(row.get(0)?),
                        epoch: row.get::<_, i64>(1)? as u64 + 1,
                        head_seq: row.get::<_, i64>(2)? as u64,
                    })
                })
                .map_err(map_error)?;
            let claims: Vec<Claim> = rows.collect::<Result<_, _>>().map_err(map_error)?;
            for claim in &claims {
                execute(
                    tx,
                    "UPDATE tree_agent_runs SET epoch = ?2, lease_owner = ?3, lease_expires_at = ?4 WHERE id = ?1",
                    params![claim.run_id.0, claim.epoch as i64, owner, end(now, ttl)],
                )?;
            }
            Ok(claims)
        })
        .await
    }

    async fn renew(&self, held: &[(RunId, u64)], ttl: Duration) -> Result<Vec<RunId>, StoreError> {
        let held = held.to_vec();
        self.write(move |tx| {
            let until = end(now().micros(), ttl);
            let mut renewed = Vec::with_capacity(held.len());
            for (run, epoch) in held {
                // An expired lease that nobody took is still held; a released one is not.
                let changed = execute(
                    tx,
                    "UPDATE tree_agent_runs SET lease_expires_at = ?3 \
                     WHERE id = ?1 AND epoch = ?2 AND lease_owner IS NOT NULL",
                    params![run.0, epoch as i64, until],
                )?;
                renewed.extend((changed == 1).then_some(run));
            }
            Ok(renewed)
        })
        .await
    }

    async fn release(&self, held: &[(RunId, u64)]) -> Result<(), StoreError> {
        let held = held.to_vec();
        self.write(move |tx| {
            held.iter().try_for_each(|(run, epoch)| {
                execute(
                    tx,
                    "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = NULL \
                     WHERE id = ?1 AND epoch = ?2",
                    params![run.0, *epoch as i64],
                )
                .map(drop)
            })
        })
        .await
    }
}

fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}

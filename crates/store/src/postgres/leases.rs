//! Leases on Postgres. They use the clock of the database.

use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::RunId;
use uuid::Uuid;

use super::{PostgresStore, micros};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{Claim, Leases};

/// How often a renewal retries rows that were locked, most likely by an append of the same driver.
const LOCKED_ROUNDS: u32 = 5;
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

#[async_trait]
impl Leases for PostgresStore {
    async fn claim(&self, owner: &str, ttl: Duration, limit: usize) -> Result<Vec<Claim>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut connection = self.connection().await?;
        let rows = connection
            .query(
                &format!(
                    "WITH free AS (SELECT id FROM tree_agent_runs \
                         WHERE {LIVE} AND (lease_expires_at IS NULL OR lease_expires_at < now()) \
                         ORDER BY created_at, id LIMIT $3 FOR UPDATE SKIP LOCKED), \
                     claimed AS (UPDATE tree_agent_runs r SET epoch = r.epoch + 1, lease_owner = $1, \
                         lease_expires_at = now() + $2 * interval '1 microsecond' \
                         FROM free WHERE r.id = free.id RETURNING r.id, r.epoch, r.head_seq, r.created_at) \
                     SELECT id, epoch, head_seq FROM claimed ORDER BY created_at, id"
                ),
                &[&owner, &(micros(ttl) as f64), &limit],
            )
            .await?;
        Ok(rows
            .iter()
            .map(|row| Claim {
                run_id: RunId(row.get(0)),
                epoch: row.get::<_, i64>(1) as u64,
                head_seq: row.get::<_, i64>(2) as u64,
            })
            .collect())
    }

    async fn renew(&self, held: &[(RunId, u64)], ttl: Duration) -> Result<Vec<RunId>, StoreError> {
        let mut connection = self.connection().await?;
        let mut kept = Vec::with_capacity(held.len());
        let mut left = held.to_vec();
        for round in 0..LOCKED_ROUNDS {
            if round > 0 {
                tokio::time::sleep(LOCKED_PAUSE).await;
            }
            let (ids, epochs) = arrays(&left);
            // An expired lease that nobody took is still held; a released one is not. Locked rows are skipped, so that
            // a client that locks one row does not block the renewal of all other leases.
            let rows = connection
                .query(
                    "WITH held AS (SELECT r.id FROM tree_agent_runs r \
                         JOIN unnest($1::uuid[], $2::int8[]) AS h(id, epoch) ON r.id = h.id AND r.epoch = h.epoch \
                         WHERE r.lease_owner IS NOT NULL ORDER BY r.id FOR UPDATE OF r SKIP LOCKED), \
                     renewed AS (UPDATE tree_agent_runs r \
                         SET lease_expires_at = now() + $3 * interval '1 microsecond' \
                         FROM held WHERE r.id = held.id RETURNING r.id) \
                     SELECT r.id, n.id IS NOT NULL FROM tree_agent_runs r \
                     JOIN unnest($1::uuid[], $2::int8[]) AS h(id, epoch) ON r.id = h.id AND r.epoch = h.epoch \
                     LEFT JOIN renewed n ON n.id = r.id WHERE r.lease_owner IS NOT NULL",
                    &[&ids, &epochs, &(micros(ttl) as f64)],
                )
                .await?;
            let done: Vec<Uuid> = rows.iter().filter(|row| row.get(1)).map(|row| row.get(0)).collect();
            kept.extend(done.iter().copied().map(RunId));
            let locked: Vec<Uuid> =
                rows.iter().filter(|row| !row.get::<_, bool>(1)).map(|row| row.get(0)).collect();
            left.retain(|(run, _)| locked.contains(&run.0));
            if left.is_empty() {
                return Ok(kept);
            }
        }
        // Treat them as still ours. The next append or the next renewal shows whether they are.
        kept.extend(left.into_iter().map(|(run, _)| run));
        Ok(kept)
    }

    async fn release(&self, held: &[(RunId, u64)]) -> Result<(), StoreError> {
        let (ids, epochs) = arrays(held);
        let mut connection = self.connection().await?;
        connection
            .query(
                "WITH held AS (SELECT r.id FROM tree_agent_runs r \
                     JOIN unnest($1::uuid[], $2::int8[]) AS h(id, epoch) ON r.id = h.id AND r.epoch = h.epoch \
                     ORDER BY r.id FOR UPDATE OF r) \
                 UPDATE tree_agent_runs r SET lease_owner = NULL, lease_expires_at = NULL \
                 FROM held WHERE r.id = held.id",
                &[&ids, &epochs],
            )
            .await?;
        Ok(())
    }
}

fn arrays(held: &[(RunId, u64)]) -> (Vec<Uuid>, Vec<i64>) {
    held.iter().map(|(run, epoch)| (run.0, *epoch as i64)).unzip()
}

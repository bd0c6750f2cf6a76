//! Leases on Postgres. They use the clock of the database.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::RunId;
use uuid::Uuid;

use super::connection::Connection;
use super::{PostgresStore, micros};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{Claim, Failed, Leases, QUARANTINE_MAX, Renewed, Term, quarantine_time};
use crate::text::clean;

/// The condition for runs that no driver owns by its lease. With the statuses that `CLAIM` names beside it, it is word
/// for word that of the index `tree_agent_runs_unowned`.
const UNOWNED: &str = "(lease_expires_at IS NULL OR lease_expires_at < 'infinity')";

/// Claims runs. What is locked is what is taken: rows that another claim has locked are skipped, and a driver whose
/// lease is looked at cannot renew it or begin another term meanwhile. A claim that finds nothing locks and writes
/// nothing.
static CLAIM: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH me AS MATERIALIZED (SELECT id, held_since FROM tree_agent_drivers \
             WHERE id = $1 AND term = $2 AND lease_expires_at >= now()), \
         gone AS MATERIALIZED (SELECT d.id, d.lease_expires_at - d.renewed_at AS lease \
             FROM tree_agent_drivers d, me \
             WHERE d.lease_expires_at < now() AND d.id <> me.id AND me.held_since < \
                 greatest(d.lease_expires_at, now() - (d.lease_expires_at - d.renewed_at) / 3) \
             AND EXISTS (SELECT FROM tree_agent_runs \
                 WHERE {LIVE} AND lease_expires_at = 'infinity' AND lease_owner = d.id) \
             FOR SHARE OF d SKIP LOCKED), \
         called AS MATERIALIZED (SELECT r.id, CASE WHEN r.lease_expires_at < 'infinity' THEN NULL \
                 WHEN r.lease_owner IS NULL THEN NULL \
                 WHEN r.progress_seq > r.failed_seq THEN 1 ELSE r.expiries + 1 END AS expiries FROM tree_agent_runs r \
             WHERE {LIVE} AND last_command > claimed_command AND EXISTS (SELECT FROM me) \
             AND (lease_owner IS NULL OR lease_expires_at < now() OR lease_owner IN (SELECT id FROM gone)) \
             AND EXISTS (SELECT FROM tree_agent_commands c WHERE c.run_id = r.id) \
             ORDER BY r.created_at, r.id LIMIT $4 FOR UPDATE OF r SKIP LOCKED), \
         orphaned AS MATERIALIZED (SELECT r.id, r.expiries, \
                 least(interval '{max} s', g.lease * power(2, least(r.expiries - 2, 16))) AS wait \
             FROM gone g CROSS JOIN LATERAL (SELECT id, \
                 CASE WHEN progress_seq > failed_seq THEN 1 ELSE expiries + 1 END AS expiries FROM tree_agent_runs \
                 WHERE {LIVE} AND lease_expires_at = 'infinity' AND lease_owner = g.id \
                 AND id <> ALL (ARRAY(SELECT id FROM called)) \
                 ORDER BY created_at, id LIMIT $3 FOR UPDATE SKIP LOCKED) r LIMIT $3), \
         unowned AS MATERIALIZED (SELECT id FROM tree_agent_runs \
             WHERE status IN ('queued', 'running') AND {UNOWNED} AND not_before <= now() \
             AND (lease_expires_at IS NULL OR lease_expires_at < now()) AND EXISTS (SELECT FROM me) \
             AND id <> ALL (ARRAY(SELECT id FROM called)) \
             ORDER BY not_before, created_at, id LIMIT $5 FOR UPDATE SKIP LOCKED), \
         waited_for AS MATERIALIZED (SELECT id FROM tree_agent_runs \
             WHERE id IN (SELECT run_id FROM tree_agent_commands UNION ALL \
                 SELECT id FROM tree_agent_runs WHERE status = 'paused' AND spec #> '{{review,goesOnAfterMs}}' IS NOT NULL \
                 UNION ALL SELECT id FROM tree_agent_runs WHERE status = 'paused' AND not_before > '-infinity') \
             AND status = 'paused' AND {UNOWNED} \
             AND not_before <= now() AND (lease_expires_at IS NULL OR lease_expires_at < now()) \
             AND EXISTS (SELECT FROM me) AND id <> ALL (ARRAY(SELECT id FROM called)) \
             ORDER BY not_before, created_at, id LIMIT $5 FOR UPDATE SKIP LOCKED), \
         late AS (UPDATE tree_agent_runs r SET lease_owner = NULL, lease_expires_at = now() + o.wait, \
                 not_before = now() + o.wait, expiries = o.expiries, failed_seq = r.progress_seq, \
                 failures = CASE WHEN r.progress_seq > r.failed_seq THEN 0 ELSE r.failures END \
             FROM orphaned o WHERE r.id = o.id AND o.expiries > 1), \
         free AS MATERIALIZED (SELECT id, expiries FROM called UNION ALL \
             (SELECT id, expiries FROM orphaned WHERE expiries = 1 UNION ALL (SELECT id, NULL::int4 FROM unowned \
             UNION ALL SELECT id, NULL FROM waited_for LIMIT $5) LIMIT $3)), \
         owner AS MATERIALIZED (SELECT id FROM tree_agent_drivers \
             WHERE id = $1 AND term = $2 AND EXISTS (SELECT FROM free) FOR SHARE), \
         claimed AS (UPDATE tree_agent_runs r SET epoch = r.epoch + 1, lease_owner = owner.id, \
                 lease_expires_at = 'infinity', claimed_command = r.last_command, \
                 not_before = CASE r.status WHEN 'paused' THEN r.not_before ELSE '-infinity' END, \
                 expiries = COALESCE(free.expiries, r.expiries), \
                 failures = CASE WHEN r.progress_seq > r.failed_seq THEN 0 ELSE r.failures END, \
                 failed_seq = CASE WHEN free.expiries IS NULL THEN r.failed_seq ELSE r.progress_seq END \
             FROM free, owner WHERE r.id = free.id \
             RETURNING r.id, r.epoch, r.head_seq, r.failures, r.created_at) \
         SELECT id, epoch, head_seq, failures FROM claimed ORDER BY created_at, id",
        max = QUARANTINE_MAX.as_secs(),
    )
});

const RENEW: &str = "UPDATE tree_agent_drivers d SET renewed_at = now(), \
         lease_expires_at = now() + $3 * interval '1 microsecond', spare = $4, \
         held_since = CASE WHEN before.lease_expires_at < now() THEN now() ELSE d.held_since END \
     FROM (SELECT id, lease_expires_at FROM tree_agent_drivers WHERE id = $1 AND term = $2 FOR UPDATE) before \
     WHERE d.id = before.id RETURNING before.lease_expires_at >= now(), \
         (SELECT COALESCE(sum(o.spare), 0)::int8 FROM tree_agent_drivers o \
             WHERE o.id <> d.id AND now() < o.renewed_at + (o.lease_expires_at - o.renewed_at) / 2)";

#[async_trait]
impl Leases for PostgresStore {
    async fn begin_term(&self, driver: &str, ttl: Duration) -> Result<Term, StoreError> {
        let mut connection = self.connections.take_ordered().await?;
        connection.begin().await?;
        let term = begin_term(&mut connection, driver, ttl).await;
        connection.end(term).await
    }

    async fn claim(
        &self,
        driver: &str,
        term: u64,
        limit: usize,
        unowned: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let [limit, unowned, called] =
            [limit, unowned.min(limit), called].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let mut connection = self.connections.take_ordered().await?;
        let rows = connection.query(&CLAIM, &[&driver, &(term as i64), &limit, &called, &unowned]).await?;
        Ok(rows.iter().map(claim).collect())
    }

    async fn renew(
        &self,
        driver: &str,
        term: u64,
        ttl: Duration,
        spare: usize,
    ) -> Result<Renewed, StoreError> {
        let params: [&(dyn deadpool_postgres::tokio_postgres::types::ToSql + Sync); 4] =
            [&driver, &(term as i64), &(micros(ttl) as f64), &(spare as i64)];
        let rows = self.connections.query_beside(RENEW, &params).await?;
        let renewed =
            rows.first().map(|row| Renewed { held: row.get(0), spare: row.get::<_, i64>(1) as usize });
        Ok(renewed.unwrap_or_default())
    }

    async fn release(&self, held: &[(RunId, u64)]) -> Result<Vec<RunId>, StoreError> {
        let (ids, epochs): (Vec<Uuid>, Vec<i64>) =
            held.iter().map(|(run, epoch)| (run.0, *epoch as i64)).unzip();
        let mut connection = self.connections.take_ordered().await?;
        let rows = connection
            .query(
                "WITH held AS (SELECT r.id FROM tree_agent_runs r \
                     JOIN unnest($1::uuid[], $2::int8[]) AS h(id, epoch) ON r.id = h.id AND r.epoch = h.epoch \
                     WHERE r.lease_owner IS NOT NULL ORDER BY r.id FOR UPDATE OF r SKIP LOCKED), \
                 released AS (UPDATE tree_agent_runs r SET lease_owner = NULL, lease_expires_at = NULL \
                     FROM held WHERE r.id = held.id RETURNING r.id) \
                 SELECT r.id FROM tree_agent_runs r \
                 JOIN unnest($1::uuid[], $2::int8[]) AS h(id, epoch) ON r.id = h.id AND r.epoch = h.epoch \
                 WHERE r.lease_owner IS NOT NULL AND r.id <> ALL (ARRAY(SELECT id FROM released))",
                &[&ids, &epochs],
            )
            .await?;
        Ok(rows.iter().map(|row| RunId(row.get(0))).collect())
    }

    async fn fail(
        &self,
        run: RunId,
        epoch: u64,
        reason: &str,
        lease: Duration,
    ) -> Result<Option<Failed>, StoreError> {
        let mut connection = self.connections.take_ordered().await?;
        let row = connection
            .query_opt(
                "WITH failed AS (SELECT id, CASE WHEN progress_seq > failed_seq THEN 1 ELSE failures + 1 END AS times \
                     FROM tree_agent_runs WHERE id = $1 AND epoch = $2 AND lease_owner IS NOT NULL FOR UPDATE), \
                 waits AS (SELECT id, times, now() + \
                     least($5, $4 * power(2, least(times, 16))) * interval '1 microsecond' AS until FROM failed) \
                 UPDATE tree_agent_runs r SET lease_owner = NULL, lease_expires_at = w.until, not_before = w.until, \
                     failures = w.times, failure = $3, failed_seq = r.progress_seq, \
                     expiries = CASE WHEN r.progress_seq > r.failed_seq THEN 0 ELSE r.expiries END \
                 FROM waits w WHERE r.id = w.id RETURNING w.times",
                &[
                    &run.0,
                    &(epoch as i64),
                    &clean(reason),
                    &(micros(lease) as f64),
                    &(micros(QUARANTINE_MAX) as f64),
                ],
            )
            .await?;
        Ok(row.map(|row| {
            let times = row.get::<_, i32>(0) as u32;
            Failed { times, wait: quarantine_time(lease, times) }
        }))
    }

    async fn last_failure(&self, run: RunId) -> Result<String, StoreError> {
        let sql = "SELECT COALESCE(failure, '') FROM tree_agent_runs WHERE id = $1";
        let row = self.connection().await?.query_opt(sql, &[&run.0]).await?;
        Ok(row.map(|row| row.get(0)).unwrap_or_default())
    }

    async fn quarantine(&self, run: RunId, epoch: u64, wait: Duration) -> Result<(), StoreError> {
        let mut connection = self.connections.take_ordered().await?;
        connection
            .query(
                "UPDATE tree_agent_runs SET lease_owner = NULL, \
                     lease_expires_at = now() + $3 * interval '1 microsecond', \
                     not_before = now() + $3 * interval '1 microsecond' \
                 WHERE id = $1 AND epoch = $2 AND lease_owner IS NOT NULL",
                &[&run.0, &(epoch as i64), &(micros(wait) as f64)],
            )
            .await
            .map(drop)
    }
}

async fn begin_term(connection: &mut Connection, driver: &str, ttl: Duration) -> Result<Term, StoreError> {
    // Rows of drivers that have been gone for so long that none of their claims can still be on its way.
    connection
        .query(
            &format!(
                "DELETE FROM tree_agent_drivers d WHERE lease_expires_at < now() - interval '1 hour' \
                 AND NOT EXISTS (SELECT FROM tree_agent_runs \
                     WHERE {LIVE} AND lease_expires_at = 'infinity' AND lease_owner = d.id)"
            ),
            &[],
        )
        .await?;
    let begun = connection
        .query(
            "INSERT INTO tree_agent_drivers AS d (id, term, held_since, renewed_at, lease_expires_at) \
             VALUES ($1, 1, now(), now(), now() + $2 * interval '1 microsecond') ON CONFLICT (id) DO UPDATE \
             SET term = d.term + 1, renewed_at = now(), lease_expires_at = excluded.lease_expires_at, \
                 held_since = CASE WHEN d.lease_expires_at < now() THEN now() ELSE d.held_since END \
             RETURNING term",
            &[&driver, &(micros(ttl) as f64)],
        )
        .await?;
    // The row is locked now, so no claim of an older term can take anything after this look.
    let owned = connection
        .query(
            &format!(
                "SELECT id, epoch, head_seq, CASE WHEN progress_seq > failed_seq THEN 0 ELSE failures END \
                 FROM tree_agent_runs \
                 WHERE {LIVE} AND lease_expires_at = 'infinity' AND lease_owner = $1 ORDER BY created_at, id"
            ),
            &[&driver],
        )
        .await?;
    let number = begun.first().map_or(0, |row| row.get::<_, i64>(0)) as u64;
    Ok(Term { number, owned: owned.iter().map(claim).collect() })
}

fn claim(row: &Row) -> Claim {
    Claim {
        run_id: RunId(row.get(0)),
        epoch: row.get::<_, i64>(1) as u64,
        head_seq: row.get::<_, i64>(2) as u64,
        failures: row.get::<_, i32>(3) as u32,
    }
}

//! Leases in SQLite. They use the clock of this process, because no other process writes.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tree_agent_contract::RunId;

use super::EmbeddedStore;
use super::connection::{map_error, now};
use super::values::execute;
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{Claim, Failed, Leases, Renewed, Term, quarantine_time};

impl EmbeddedStore {
    /// Sets the runs aside that have not ended yet, and returns how many these are: until the store is opened again, or
    /// they are [brought back](Self::bring_back), no driver can claim them.
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

    /// Lets drivers claim the run again, if it was set aside.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn bring_back(&self, run: RunId) -> Result<(), StoreError> {
        self.write(move |tx| {
            execute(tx, "DELETE FROM temp.runs_set_aside WHERE id = ?1", &[&run.0]).map(drop)
        })
        .await
    }

    /// Ends the leases of every driver, so that their runs need not wait for that. Only one process has the store open:
    /// before it begins to drive runs, every other driver is gone. Runs in quarantine stay there.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn end_leases(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            let sql = format!(
                "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = NULL \
                 WHERE {LIVE} AND lease_expires_at = {INFINITY}"
            );
            execute(tx, &sql, &[])?;
            execute(tx, "DELETE FROM tree_agent_drivers", &[]).map(drop)
        })
        .await
    }
}

/// An hour in microseconds. No claim of a driver is on its way for that long.
const HOUR: i64 = 3_600_000_000;
/// Stands for the end of a lease that is the driver's.
const INFINITY: i64 = i64::MAX;

/// A run whose review ends by itself, or that its driver has put aside until its time comes.
const TIMED: &str = "(spec ->> '$.review.goesOnAfterMs' IS NOT NULL OR not_before > 0)";
/// A command waits for the run.
const WAITED_FOR: &str = "EXISTS (SELECT 1 FROM tree_agent_commands c WHERE c.run_id = tree_agent_runs.id)";

/// Failures since the last progress.
const FAILURES: &str = "CASE WHEN progress_seq > failed_seq THEN 0 ELSE failures END";

#[async_trait]
impl Leases for EmbeddedStore {
    async fn begin_term(&self, driver: &str, ttl: Duration) -> Result<Term, StoreError> {
        let driver = driver.to_owned();
        self.write(move |tx| {
            let now = now().micros();
            execute(
                tx,
                &format!(
                    "DELETE FROM tree_agent_drivers WHERE lease_expires_at < ?1 AND NOT EXISTS (SELECT 1 \
                     FROM tree_agent_runs WHERE {LIVE} AND lease_expires_at = {INFINITY} \
                     AND lease_owner = tree_agent_drivers.id)"
                ),
                params![now - HOUR],
            )?;
            execute(
                tx,
                "INSERT INTO tree_agent_drivers (id, term, held_since, renewed_at, lease_expires_at) \
                 VALUES (?1, 1, ?2, ?2, ?3) ON CONFLICT (id) DO UPDATE SET term = term + 1, renewed_at = ?2, \
                 held_since = CASE WHEN lease_expires_at < ?2 THEN ?2 ELSE held_since END, lease_expires_at = ?3",
                params![driver, now, end(now, ttl)],
            )?;
            let number = tx
                .query_row("SELECT term FROM tree_agent_drivers WHERE id = ?1", [&driver], |row| {
                    row.get::<_, i64>(0)
                })
                .map_err(map_error)?;
            let owned = runs(
                tx,
                &format!(
                    "SELECT id, epoch, head_seq, {FAILURES} FROM tree_agent_runs \
                     WHERE {LIVE} AND lease_expires_at = {INFINITY} AND lease_owner = ?1 ORDER BY created_at, id"
                ),
                params![driver],
            )?;
            Ok(Term { number: number as u64, owned })
        })
        .await
    }

    async fn claim(
        &self,
        driver: &str,
        term: u64,
        limit: usize,
        unowned: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let driver = driver.to_owned();
        self.write(move |tx| {
            let now = now().micros();
            let held_since = tx
                .query_row(
                    "SELECT held_since FROM tree_agent_drivers \
                     WHERE id = ?1 AND term = ?2 AND lease_expires_at >= ?3",
                    params![driver, term as i64, now],
                    |row| row.get::<_, i64>(0),
                )
                .optional()
                .map_err(map_error)?;
            let Some(held_since) = held_since else { return Ok(Vec::new()) };
            let gone = gone(tx, &driver, held_since, now)?;
            let called = take(tx, &driver, self::called(tx, &gone, now, called)?)?;
            let mut claims = orphaned(tx, &gone, now, limit)?;
            let left = i64::try_from(unowned.min(limit - claims.len())).unwrap_or(i64::MAX);
            claims.extend(runs(
                tx,
                &format!(
                    "SELECT id, epoch, head_seq, {FAILURES} FROM tree_agent_runs \
                     WHERE (status IN ('queued', 'running') OR status = 'paused' AND ({WAITED_FOR} OR {TIMED})) \
                     AND (lease_expires_at IS NULL OR lease_expires_at < {INFINITY}) \
                     AND not_before <= ?1 AND (lease_expires_at IS NULL OR lease_expires_at < ?1) \
                     AND id NOT IN (SELECT id FROM temp.runs_set_aside) \
                     ORDER BY not_before, created_at, id LIMIT ?2"
                ),
                params![now, left],
            )?);
            Ok([called, take(tx, &driver, claims)?].concat())
        })
        .await
    }

    async fn renew(
        &self,
        driver: &str,
        term: u64,
        ttl: Duration,
        spare: usize,
    ) -> Result<Renewed, StoreError> {
        let driver = driver.to_owned();
        self.write(move |tx| {
            let now = now().micros();
            let held = tx
                .query_row(
                    "SELECT lease_expires_at >= ?3 FROM tree_agent_drivers WHERE id = ?1 AND term = ?2",
                    params![driver, term as i64, now],
                    |row| row.get::<_, bool>(0),
                )
                .optional()
                .map_err(map_error)?;
            execute(
                tx,
                "UPDATE tree_agent_drivers SET renewed_at = ?3, lease_expires_at = ?4, spare = ?5, \
                 held_since = CASE WHEN lease_expires_at < ?3 THEN ?3 ELSE held_since END \
                 WHERE id = ?1 AND term = ?2",
                params![driver, term as i64, now, end(now, ttl), spare as i64],
            )?;
            let others = "SELECT COALESCE(sum(spare), 0) FROM tree_agent_drivers WHERE id <> ?1 \
                 AND ?2 < renewed_at + (lease_expires_at - renewed_at) / 2";
            let spare: i64 =
                tx.query_row(others, params![driver, now], |row| row.get(0)).map_err(map_error)?;
            Ok(held.map(|held| Renewed { held, spare: spare as usize }).unwrap_or_default())
        })
        .await
    }

    async fn release(&self, held: &[(RunId, u64)]) -> Result<Vec<RunId>, StoreError> {
        let held = held.to_vec();
        self.write(move |tx| {
            for (run, epoch) in held {
                execute(
                    tx,
                    "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = NULL \
                     WHERE id = ?1 AND epoch = ?2 AND lease_owner IS NOT NULL",
                    params![run.0, epoch as i64],
                )?;
            }
            // Nobody else can hold a row locked.
            Ok(Vec::new())
        })
        .await
    }

    async fn fail(
        &self,
        run: RunId,
        epoch: u64,
        reason: &str,
        lease: Duration,
    ) -> Result<Option<Failed>, StoreError> {
        let reason = reason.to_owned();
        self.write(move |tx| {
            let times = tx
                .query_row(
                    "SELECT CASE WHEN progress_seq > failed_seq THEN 1 ELSE failures + 1 END \
                     FROM tree_agent_runs WHERE id = ?1 AND epoch = ?2 AND lease_owner IS NOT NULL",
                    params![run.0, epoch as i64],
                    |row| row.get::<_, u32>(0),
                )
                .optional()
                .map_err(map_error)?;
            let Some(times) = times else { return Ok(None) };
            let wait = quarantine_time(lease, times);
            execute(
                tx,
                "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = ?2, not_before = ?2, \
                 failures = ?3, failure = ?4, failed_seq = progress_seq, \
                 expiries = CASE WHEN progress_seq > failed_seq THEN 0 ELSE expiries END WHERE id = ?1",
                params![run.0, end(now().micros(), wait), times, reason],
            )?;
            Ok(Some(Failed { times, wait }))
        })
        .await
    }

    async fn last_failure(&self, run: RunId) -> Result<String, StoreError> {
        self.query(move |db| {
            let sql = "SELECT COALESCE(failure, '') FROM tree_agent_runs WHERE id = ?1";
            let reason = db.query_row(sql, [run.0], |row| row.get(0)).optional().map_err(map_error)?;
            Ok(reason.unwrap_or_default())
        })
        .await
    }

    async fn quarantine(&self, run: RunId, epoch: u64, wait: Duration) -> Result<(), StoreError> {
        self.write(move |tx| {
            execute(
                tx,
                "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = ?3, not_before = ?3 \
                 WHERE id = ?1 AND epoch = ?2 AND lease_owner IS NOT NULL",
                params![run.0, epoch as i64, end(now().micros(), wait)],
            )
            .map(drop)
        })
        .await
    }
}

/// Makes the driver the owner of the runs, each in its next epoch. A paused run keeps the time at which it goes on,
/// in case this driver gives it back before it has looked.
fn take(tx: &Connection, driver: &str, mut claims: Vec<Claim>) -> Result<Vec<Claim>, StoreError> {
    for claim in &mut claims {
        claim.epoch += 1;
        execute(
            tx,
            "UPDATE tree_agent_runs SET epoch = ?2, lease_owner = ?3, lease_expires_at = ?4, \
             not_before = CASE status WHEN 'paused' THEN not_before ELSE 0 END, claimed_command = last_command WHERE id = ?1",
            params![claim.run_id.0, claim.epoch as i64, driver, INFINITY],
        )?;
    }
    Ok(claims)
}

/// Other drivers whose leases have ended, with the length of these.
fn gone(tx: &Connection, driver: &str, held_since: i64, now: i64) -> Result<Vec<(String, i64)>, StoreError> {
    let mut statement = tx
        .prepare_cached(
            "SELECT id, lease_expires_at - renewed_at FROM tree_agent_drivers WHERE lease_expires_at < ?2 AND id <> ?1 \
             AND ?3 < max(lease_expires_at, ?2 - (lease_expires_at - renewed_at) / 3) ORDER BY id",
        )
        .map_err(map_error)?;
    let gone = statement.query_map(params![driver, now, held_since], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    });
    gone.and_then(Iterator::collect).map_err(map_error)
}

/// Runs to which a command was sent since they were last claimed, and which nobody owns, still in their old epochs.
fn called(tx: &Connection, gone: &[(String, i64)], now: i64, limit: usize) -> Result<Vec<Claim>, StoreError> {
    let mut statement = tx
        .prepare_cached(&format!(
            "SELECT id, epoch, head_seq, {FAILURES}, lease_owner, lease_expires_at FROM tree_agent_runs \
             WHERE {LIVE} AND last_command > claimed_command \
             AND {WAITED_FOR} AND id NOT IN (SELECT id FROM temp.runs_set_aside) ORDER BY created_at, id"
        ))
        .map_err(map_error)?;
    let mut rows = statement.query([]).map_err(map_error)?;
    let mut claims = Vec::new();
    while let Some(row) = rows.next().map_err(map_error)?.filter(|_| claims.len() < limit) {
        let owner: Option<String> = row.get(4).map_err(map_error)?;
        let end: Option<i64> = row.get(5).map_err(map_error)?;
        let orphan = owner.as_ref().is_some_and(|owner| gone.iter().any(|(id, _)| id == owner));
        if owner.is_some() && !orphan && end.is_none_or(|end| end >= now) {
            continue;
        }
        let claim = claim(row).map_err(map_error)?;
        if orphan && end == Some(INFINITY) {
            count_expiry(tx, claim.run_id)?;
        }
        claims.push(claim);
    }
    Ok(claims)
}

/// Counts that the lease of a run's driver ended. Returns how often in a row, without progress.
fn count_expiry(tx: &Connection, run: RunId) -> Result<u32, StoreError> {
    execute(
        tx,
        "UPDATE tree_agent_runs SET failed_seq = progress_seq, \
         failures = CASE WHEN progress_seq > failed_seq THEN 0 ELSE failures END, \
         expiries = CASE WHEN progress_seq > failed_seq THEN 1 ELSE expiries + 1 END WHERE id = ?1",
        params![run.0],
    )?;
    let sql = "SELECT expiries FROM tree_agent_runs WHERE id = ?1";
    tx.query_row(sql, [run.0], |row| row.get(0)).map_err(map_error)
}

/// Runs of drivers whose leases have ended, still in their old epochs.
fn orphaned(
    tx: &Connection,
    gone: &[(String, i64)],
    now: i64,
    limit: usize,
) -> Result<Vec<Claim>, StoreError> {
    let mut claims = Vec::new();
    for (owner, lease) in gone {
        let left = i64::try_from(limit - claims.len()).unwrap_or(i64::MAX);
        let orphans = runs(
            tx,
            &format!(
                "SELECT id, epoch, head_seq, {FAILURES} FROM tree_agent_runs \
                 WHERE {LIVE} AND lease_expires_at = {INFINITY} AND lease_owner = ?1 \
                 AND id NOT IN (SELECT id FROM temp.runs_set_aside) ORDER BY created_at, id LIMIT ?2"
            ),
            params![owner, left],
        )?;
        for claim in orphans {
            let expiries = count_expiry(tx, claim.run_id)?;
            if expiries == 1 {
                claims.push(claim);
                continue;
            }
            let until = end(now, quarantine_time(Duration::from_micros(lease.unsigned_abs()), expiries - 2));
            execute(
                tx,
                "UPDATE tree_agent_runs SET lease_owner = NULL, lease_expires_at = ?2, not_before = ?2 WHERE id = ?1",
                params![claim.run_id.0, until],
            )?;
        }
    }
    Ok(claims)
}

fn runs(tx: &Connection, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<Claim>, StoreError> {
    let mut statement = tx.prepare_cached(sql).map_err(map_error)?;
    let rows = statement.query_map(params, claim);
    rows.and_then(Iterator::collect).map_err(map_error)
}

fn claim(row: &Row<'_>) -> Result<Claim, rusqlite::Error> {
    Ok(Claim {
        run_id: RunId(row.get(0)?),
        epoch: row.get::<_, i64>(1)? as u64,
        head_seq: row.get::<_, i64>(2)? as u64,
        failures: row.get(3)?,
    })
}

fn end(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)).min(INFINITY - 1)
}

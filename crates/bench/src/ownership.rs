//! What a claim that finds nothing and a renewal cost while others drive 1,000 and 100,000 runs. Both should stay flat.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tree_agent_store::Leases;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

use crate::cluster::{Cluster, median, report};
use crate::raw;

/// The driver that owns the runs, and the one that looks for some.
const OWNER: &str = "bench-owner";
const CLAIMER: &str = "bench-claimer";
const LEASE: Duration = Duration::from_secs(3_600);
/// Runs that a driver claims at once.
const LIMIT: usize = 32;

pub(crate) async fn run(cluster: &Cluster, quick: bool) -> anyhow::Result<()> {
    let (counts, repeat) = if quick { ([10, 100], 20) } else { ([1_000, 100_000], 500) };
    let url = std::env::var("TREE_AGENT_DATABASE_URL").context("TREE_AGENT_DATABASE_URL is not set")?;
    let store = PostgresStore::connect(&url, PoolConfig::default()).await?;
    let database = raw::connect().await?;
    let like = cluster.quiet_run().await?.run_id;
    let owner = store.begin_term(OWNER, LEASE).await?.number;
    let claimer = store.begin_term(CLAIMER, LEASE).await?.number;
    let mut live = 0;
    for count in counts {
        let clone = format!(
            "INSERT INTO tree_agent_runs SELECT (jsonb_populate_record(r, jsonb_build_object(\
                 'id', gen_random_uuid(), 'lease_owner', '{OWNER}', 'lease_expires_at', 'infinity'))).* \
             FROM tree_agent_runs r, generate_series(1, {}) WHERE r.id = '{like}'",
            count - live
        );
        database.batch_execute(&clone).await?;
        // What the insert left to write would slow the commits that are measured.
        database.batch_execute("VACUUM (ANALYZE) tree_agent_runs").await?;
        database.batch_execute("CHECKPOINT").await?;
        live = count;
        let (mut claims, mut renewals) = (Vec::new(), Vec::new());
        for _ in 0..repeat {
            let begun = Instant::now();
            let claimed = store.claim(CLAIMER, claimer, LIMIT, LIMIT, 0).await?;
            claims.push(begun.elapsed().as_secs_f64() * 1e3);
            ensure!(claimed.is_empty(), "{} runs were free", claimed.len());
            let begun = Instant::now();
            ensure!(store.renew(OWNER, owner, LEASE, 0).await?.held, "the lease was lost");
            renewals.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let more = json!({"live_runs": live, "repeat": repeat});
        report(&format!("claim of nothing, {live} live runs"), median(claims), "ms", more.clone());
        report(&format!("renewal, {live} live runs"), median(renewals), "ms", more);
    }
    let clean = format!(
        "DELETE FROM tree_agent_runs WHERE lease_owner = '{OWNER}'; \
         DELETE FROM tree_agent_drivers WHERE id IN ('{OWNER}', '{CLAIMER}')"
    );
    database.batch_execute(&clean).await?;
    cluster.cancel(&like).await?;
    cluster.quiet().await
}

//! A database that cannot write because its disk is full or its rows are locked.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use tonic::Code;
use tree_agent_cluster_tests::{Cluster, Options, SOON, eventually};
use tree_agent_proto::v1 as pb;

use super::completed;

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=150";

/// Fills the disk of the database.
fn fill(cluster: &Cluster) -> std::path::PathBuf {
    let ballast = cluster.postgres.disk().expect("a small disk").join("ballast");
    let mut file = File::create(&ballast).expect("the disk is there");
    let mut block = vec![0; 1024 * 1024];
    while block.len() >= 512 {
        if file.write_all(&block).is_err() {
            block.truncate(block.len() / 2);
        }
    }
    ballast
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f14_a_full_disk_is_said_and_nothing_is_half_written() {
    let small_disk = Some(64 * 1024 * 1024);
    let cluster = Cluster::start(Options { small_disk, ..Options::default() }).await;
    // Megabytes of results: half-filled pages have no room for them.
    let run = cluster.create("scripted:fanout=4,depth=3,latency_ms=150,result_bytes=16000").await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    let ballast = fill(&cluster);
    // What fits into existing pages is still written. Then appends fail and new runs are refused.
    let mut created = vec![run];
    let mut refusal = None;
    for n in 0..2_000 {
        let request = pb::CreateRunRequest {
            objective: format!("{n} {}", "x".repeat(12_000)),
            model: "scripted:fanout=1,depth=1".into(),
            ..Default::default()
        };
        match cluster.runs().create_run(request).await {
            Ok(answer) => created.push(answer.into_inner().run.expect("the run").run_id),
            Err(status) => {
                refusal = Some(status);
                break;
            }
        }
    }
    let refusal = refusal.expect("a full disk takes no runs");
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    eventually("the driver says what is wrong", SOON, async || {
        cluster.planners[0].log().contains("append failed; repeating it")
    })
    .await;
    // Nothing is half written: every log ends at its run's head, and every run has its first events.
    let torn = "SELECT count(*) FROM tree_agent_runs r LEFT JOIN (SELECT run_id, count(*) AS n, max(seq) AS last \
                FROM tree_agent_events GROUP BY run_id) e ON e.run_id = r.id \
                WHERE e.n IS DISTINCT FROM r.head_seq OR e.last IS DISTINCT FROM r.head_seq";
    let torn: i64 = cluster.sql().await.query_one(torn, &[]).await.expect("readable").get(0);
    assert_eq!(torn, 0);
    std::fs::remove_file(ballast).expect("room again");
    for run in &created {
        cluster.follow(run).end().await.assert_whole();
    }
    follower.end().await.assert_whole();
    let listed: i64 = cluster
        .sql()
        .await
        .query_one("SELECT count(*) FROM tree_agent_runs", &[])
        .await
        .expect("a count")
        .get(0);
    assert_eq!(listed, created.len() as i64, "a refused run was written");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f14_a_row_that_an_idle_client_locks_delays_its_own_run_only() {
    let lease = Duration::from_secs(4);
    let options = Options { replicas: 2, lease, ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let runs = [cluster.create(MODEL).await, cluster.create(MODEL).await];
    let mut followers = runs.each_ref().map(|run| cluster.follow(run));
    for follower in &mut followers {
        follower.until("a leaf is done", |events| completed(events) >= 1).await;
    }
    // A forgotten operator's session holds both rows locked. There are as many rows as commit lanes.
    let mut session = cluster.sql().await;
    let forgotten = session.transaction().await.expect("begun");
    for run in &runs {
        let lock = "SELECT 1 FROM tree_agent_runs WHERE id::text = $1 FOR UPDATE";
        forgotten.query_one(lock, &[run]).await.expect("locked");
    }
    let said = async |cluster: &Cluster| {
        let said = |n: usize| cluster.planners[n].log().contains("holds the run's row locked");
        said(0) || said(1)
    };
    eventually("the lock is said", SOON, async || said(&cluster).await).await;
    // Runs that last for several leases are written and renewed beside the stuck ones.
    for _ in 0..2 {
        let other = cluster.create("scripted:fanout=2,bands=3,depth=1,latency_ms=900").await;
        cluster.follow(&other).end().await.assert_whole();
        assert_eq!(cluster.epoch_of(&other).await, 1, "a lease ran out beside a locked row");
    }
    // The drivers die while the rows are locked. Nobody can take the runs over until the locks are released.
    for planner in &mut cluster.planners {
        planner.kill();
        planner.start();
    }
    cluster.healthy().await;
    let other = cluster.create("scripted:fanout=1,depth=1").await;
    cluster.follow(&other).end().await.assert_whole();
    forgotten.rollback().await.expect("ended");
    let unlocked = Instant::now();
    for run in &runs {
        cluster.driver_of(run).await;
    }
    let waited = unlocked.elapsed();
    assert!(waited < lease + Duration::from_secs(2), "taken over only after {waited:?}");
    for follower in &mut followers {
        follower.end().await.assert_whole();
    }
}

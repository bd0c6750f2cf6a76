//! Appends whose outcome is unknown, and appends that never return.

use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, Options, SOON, eventually};
use tree_agent_proto::v1 as pb;

use super::completed;

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=120";

/// How Postgres ends an answer outside a transaction: ReadyForQuery, idle. It is sent after the commit.
const COMMITTED: &[u8] = b"Z\0\0\0\x05I";

#[tokio::test(flavor = "multi_thread")]
async fn f03_a_commit_whose_reply_is_lost_is_there_once() {
    // A long lease: nobody may take over here, however busy the machine is.
    let lease = Duration::from_secs(30);
    let cluster = Cluster::start(Options { postgres_proxy: true, lease, ..Options::default() }).await;
    let proxy = cluster.to_postgres();
    // Only appends send the types of events to Postgres.
    let lost = ["tree.plan_created", "tree.node_result", "tree.node_aggregated"];
    for event in lost {
        proxy.lose_reply_to(event.as_bytes(), COMMITTED);
    }
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 13);
    assert_eq!(proxy.sprung(), lost.len(), "replies that were lost");
    // The writer found its own events and continued; nobody had to take over.
    assert_eq!(cluster.epoch_of(&run).await, 1);
    assert!(cluster.writers_of(&run).await.iter().skip(4).all(|&epoch| epoch == 1));
    let repeats = cluster.planners[0].log().matches("append failed; repeating it").count();
    assert!(repeats >= lost.len(), "{repeats} appends were repeated");
    // Projections were written once as well.
    let sql = cluster.sql().await;
    let query = "SELECT count(*) FROM tree_agent_nodes WHERE run_id::text = $1";
    let nodes: i64 = sql.query_one(query, &[&run]).await.expect("a count").get(0);
    assert_eq!(nodes, 13);
    // The last append: the run is over and must not be driven again.
    proxy.lose_reply_to(b"tree.run_status", COMMITTED);
    let run = cluster.create("scripted:fanout=1,depth=1").await;
    cluster.follow(&run).end().await.assert_whole();
    eventually("the run is given up", SOON, async || {
        cluster.run(&run).await.status() == pb::RunStatus::Completed
    })
    .await;
    assert_eq!(cluster.epoch_of(&run).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f11_a_wedged_task_is_noticed_and_its_run_reclaimed() {
    let options = Options { replicas: 2, postgres_proxy: true, ..Options::default() };
    let cluster = Cluster::start(options).await;
    let run = cluster.create(MODEL).await;
    let mut follower = cluster.follow(&run);
    follower.until("a leaf is done", |events| completed(events) >= 1).await;
    // The connection with the next append hangs, and with it the run's task. The rest of the process works: its health,
    // its other connections, the renewal of other leases.
    cluster.to_postgres().freeze_on(b"tree.node_result");
    eventually("the append gets stuck", SOON, async || cluster.to_postgres().sprung() == 1).await;
    let driver = cluster.driver_of(&run).await;
    let epoch = cluster.epoch_of(&run).await;
    eventually("the run is reclaimed", SOON, async || cluster.epoch_of(&run).await > epoch).await;
    assert!(cluster.planners[driver].serving().await, "the process was well all the time");
    let log = cluster.planners[driver].log();
    assert!(log.contains("the run's task makes no progress"), "the stuck task is logged");
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 13);
    // The stuck append finally fails, and what its task wrote later is refused.
    cluster.to_postgres().heal();
    let writers = cluster.writers_of(&run).await;
    assert!(writers.is_sorted(), "{writers:?}");
    let next = cluster.create(MODEL).await;
    cluster.follow(&next).end().await.assert_whole();
    assert_eq!(cluster.writers_of(&run).await, writers, "a late append of the wedged task");
}

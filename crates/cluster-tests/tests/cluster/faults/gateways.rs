//! Gateways that die or shut down while runs are watched.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, Follower, Options};
use tree_agent_contract::Event;

const MODEL: &str = "scripted:fanout=3,depth=2,latency_ms=150,tools=1";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_watchers_of_a_killed_gateway_miss_nothing() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create(MODEL).await;
    // One watcher moves to the other gateway, one waits until its own is back.
    let mut moving = cluster.follow(&run);
    let mut faithful = cluster
        .command(&format!("watch -o jsonl {run}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut printed = BufReader::new(faithful.stdout.take().expect("piped")).lines();
    let first = printed.next().expect("it prints").expect("readable");
    let printed = tokio::task::spawn_blocking(move || {
        std::iter::once(Ok(first)).chain(printed).collect::<std::io::Result<Vec<_>>>()
    });
    moving.until("the run is under way", |events| events.len() > 30).await;
    cluster.gateways[0].kill();
    moving.until("events through the other gateway", |events| events.len() > 60).await;
    assert!(moving.broken() >= 1 && moving.streams() >= 2);
    cluster.gateways[0].start();
    let history = moving.end().await;
    history.assert_whole();
    history.assert_tool_calls_once();

    let printed = printed.await.expect("joined").expect("readable");
    let status =
        tokio::task::spawn_blocking(move || faithful.wait()).await.expect("joined").expect("waited for");
    assert_eq!(status.code(), Some(0), "the command line's watch");
    let printed: Vec<Event> =
        printed.iter().map(|line| serde_json::from_str(line).expect("an event a line")).collect();
    assert_eq!(printed.len(), history.events().len());
    assert!(printed.iter().zip(history.events()).all(|(printed, event)| printed == event));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_a_leaving_gateway_tells_its_watchers_where_to_go_on() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create("scripted:fanout=3,depth=2,latency_ms=250").await;
    let mut follower = Follower::new(&run, &cluster.gateway_urls());
    follower.until("the run is under way", |events| events.len() > 20).await;
    assert_eq!(cluster.gateways[0].terminate(Duration::from_secs(10)), 0);
    let (hint, seen) = follower.resume_hint().await;
    assert_eq!(hint, seen, "the hint names the last event that was sent");
    let history = follower.end().await;
    history.assert_whole();
}

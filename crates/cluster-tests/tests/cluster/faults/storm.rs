//! Everything fails, one thing after the other, while many runs are live.

use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, Follower, Options, Process, SOON, Signal, eventually};
use tree_agent_contract::EventBody;
use tree_agent_proto::v1 as pb;

const RUNS: usize = 6;
const FAILURES: usize = 12;
/// Events between two failures. In total they are fewer than all runs of 21 nodes write.
const GAP: usize = 60;

/// Something that can be killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Gateway,
    Planner,
    Executor,
    Aggregator,
    Redis,
    Postgres,
}

const VICTIMS: [Victim; 6] =
    [Victim::Planner, Victim::Executor, Victim::Gateway, Victim::Aggregator, Victim::Redis, Victim::Postgres];

fn revive(processes: &mut [Process], replica: usize) {
    processes[replica].kill();
    processes[replica].start();
}

impl Victim {
    /// Kills one of its processes and starts it again at once.
    fn strike(self, cluster: &mut Cluster, replica: usize) {
        match self {
            Victim::Gateway => revive(&mut cluster.gateways, replica),
            Victim::Planner => revive(&mut cluster.planners, replica),
            Victim::Executor => revive(&mut cluster.executors, replica),
            Victim::Aggregator => revive(&mut cluster.aggregators, replica),
            Victim::Redis => {
                Signal::Kill.send(cluster.redis.pid().expect("it runs"));
                cluster.redis.stop();
                cluster.redis.start_again().expect("Redis starts");
            }
            Victim::Postgres => {
                Signal::Quit.send(cluster.postgres.pid().expect("it runs"));
                cluster.postgres.stop();
                cluster.postgres.start_again().expect("Postgres starts");
            }
        }
    }
}

/// Events of all runs seen so far, and whether any run is still live.
fn progress(followers: &[Follower]) -> (usize, bool) {
    let count = followers.iter().map(Follower::count).sum();
    (count, followers.iter().any(|follower| !follower.ended()))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_no_run_is_lost_in_a_storm() {
    let mut cluster =
        Cluster::start(Options { replicas: 2, lease: Duration::from_secs(1), ..Options::default() }).await;
    // Killed roles cost attempts; how many is not the point here.
    let budgets = pb::Budgets { max_attempts: Some(20), ..Default::default() };
    let mut followers = Vec::new();
    for n in 0..RUNS {
        let model = format!("scripted:fanout=4,depth=2,latency_ms={}", 100 + 40 * n);
        let run = cluster.create_with(&model, budgets).await;
        followers.push(cluster.follow(&run));
    }
    for failure in 0..FAILURES {
        let (before, under_way) = progress(&followers);
        assert!(under_way, "the runs ended before failure {failure}");
        let victim = VICTIMS[failure % VICTIMS.len()];
        victim.strike(&mut cluster, failure / VICTIMS.len() % 2);
        // The next failure comes once the runs have continued after this one.
        eventually(&format!("the runs go on after failure {failure}, {victim:?}"), SOON, async || {
            let (now, under_way) = progress(&followers);
            now > before + GAP || !under_way
        })
        .await;
    }
    for follower in &mut followers {
        let history = follower.end().await;
        history.assert_whole();
        assert_eq!(history.nodes(), 21);
        let results = history.events().iter().filter(|e| matches!(e.body, EventBody::NodeResult(_))).count();
        assert_eq!(results, 21);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f10_a_rolling_restart_costs_no_attempt() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create("scripted:fanout=4,bands=3,depth=2,latency_ms=200").await;
    let mut follower = cluster.follow(&run);
    for replica in 0..2 {
        for service in 0..4 {
            follower
                .until("the run goes on", |events| events.len() > 40 + 60 * (4 * replica + service))
                .await;
            assert!(!follower.ended(), "the run ended before the restarts did");
            let processes = match service {
                0 => &mut cluster.planners,
                1 => &mut cluster.executors,
                2 => &mut cluster.aggregators,
                _ => &mut cluster.gateways,
            };
            assert_eq!(processes[replica].terminate(SOON), 0);
            processes[replica].start();
            cluster.healthy().await;
        }
    }
    let history = follower.end().await;
    history.assert_whole();
    let retries: Vec<_> = history.messages().into_iter().filter(|m| m.starts_with("retry:")).collect();
    assert!(retries.is_empty(), "{retries:?}");
    assert_eq!(follower.broken(), 0, "a watcher was cut off without a hint");
}

//! Many faults for a long time: nothing may drift.

use std::time::{Duration, Instant};

use tree_agent_cluster_tests::{Cluster, Follower, Options, Process, SOON, Signal, eventually};
use tree_agent_proto::v1 as pb;

/// Live runs while things fail.
const RUNS: usize = 4;
/// A run that is watched while nothing fails.
const PROBE: &str = "scripted:fanout=4,depth=2,latency_ms=20,result_bytes=1000";
/// 43 nodes and some seconds, so that most faults meet most runs.
const LOAD: &str = "scripted:fanout=3,bands=2,depth=2,latency_ms=200,result_bytes=1000,tools=1";

/// The faults. The first replica of each service is never killed, because its memory is measured.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillPlanner,
    KillExecutor,
    KillAggregator,
    KillGateway,
    FreezePlanner,
    CutPostgres,
    CrashPostgres,
    KillRedis,
}

const FAULTS: [Fault; 8] = [
    Fault::KillPlanner,
    Fault::CutPostgres,
    Fault::KillExecutor,
    Fault::FreezePlanner,
    Fault::KillRedis,
    Fault::KillGateway,
    Fault::CrashPostgres,
    Fault::KillAggregator,
];

fn revive(process: &mut Process) {
    process.kill();
    process.start();
}

/// Progress of the runs: events seen, and whether any run is still live.
fn progress(followers: &[Follower]) -> (usize, bool) {
    (followers.iter().map(Follower::count).sum(), followers.iter().any(|follower| !follower.ended()))
}

async fn strike(cluster: &mut Cluster, fault: Fault, followers: &[Follower]) {
    let (before, _) = progress(followers);
    let gone_on = async || {
        let (now, under_way) = progress(followers);
        now > before + 30 || !under_way
    };
    match fault {
        Fault::KillPlanner => revive(&mut cluster.planners[1]),
        Fault::KillExecutor => revive(&mut cluster.executors[1]),
        Fault::KillAggregator => revive(&mut cluster.aggregators[1]),
        Fault::KillGateway => revive(&mut cluster.gateways[1]),
        Fault::FreezePlanner => {
            cluster.planners[1].signal(Signal::Stop);
            eventually("the runs go on without it", SOON, gone_on).await;
            cluster.planners[1].signal(Signal::Continue);
        }
        Fault::CutPostgres => cluster.to_postgres().reset(),
        Fault::CrashPostgres => {
            Signal::Quit.send(cluster.postgres.pid().expect("it runs"));
            cluster.postgres.stop();
            cluster.postgres.start_again().expect("Postgres starts");
        }
        Fault::KillRedis => {
            Signal::Kill.send(cluster.redis.pid().expect("it runs"));
            cluster.redis.stop();
            cluster.redis.start_again().expect("Redis starts");
        }
    }
    eventually(&format!("the runs go on after {fault:?}"), SOON, gone_on).await;
    cluster.healthy().await;
}

/// Measurements in a quiet moment.
#[derive(Clone, Debug)]
struct Sample {
    /// Bytes resident in the first gateway, planner, executor and aggregator.
    memory: [u64; 4],
    /// The p99 of the times from an event's timestamp to its arrival.
    p99: Duration,
}

async fn sample(cluster: &Cluster) -> Sample {
    let run = cluster.create(PROBE).await;
    let mut follower = cluster.follow(&run);
    follower.end().await.assert_whole();
    let services = [&cluster.gateways, &cluster.planners, &cluster.executors, &cluster.aggregators];
    Sample { memory: services.map(|service| service[0].memory()), p99: follower.delay(0.99) }
}

fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values[values.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "an hour unless SOAK_MINUTES says otherwise; make soak"]
async fn f15_nothing_drifts_in_a_soak() {
    let minutes = std::env::var("SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60_u64);
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let settings = vec![("", "TREE_AGENT_LOG", "warn".to_owned())];
    let options = Options { replicas: 2, postgres_proxy: true, settings, ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    // Killed roles cost attempts; how many is not the point here.
    let budgets = pb::Budgets { max_attempts: Some(20), ..Default::default() };
    let (mut samples, mut runs, mut struck) = (Vec::new(), 0, 0);
    let began = Instant::now();
    // At least two rounds: the first one warms up.
    while Instant::now() < deadline || samples.len() < 4 {
        let mut followers = Vec::new();
        for fault in FAULTS {
            while followers.iter().filter(|follower: &&Follower| !follower.ended()).count() < RUNS {
                let run = cluster.create_with(LOAD, budgets).await;
                followers.push(cluster.follow(&run));
                runs += 1;
            }
            strike(&mut cluster, fault, &followers).await;
            struck += 1;
        }
        for follower in &mut followers {
            let history = follower.end().await;
            history.assert_whole();
            assert_eq!(history.nodes(), 43);
        }
        drop(followers);
        let now = sample(&cluster).await;
        eprintln!(
            "{:4} s, {runs} runs, {struck} faults: MiB of gateway, planner, executor, aggregator {:?}, p99 {:?}",
            began.elapsed().as_secs(),
            now.memory.map(|bytes| bytes / (1024 * 1024)),
            now.p99
        );
        samples.push(now);
    }
    // The first round fills caches and pools. Of the rest, the first and the last third are compared.
    let samples = &samples[1..];
    let third = samples.len().div_ceil(3);
    let (first, last) = (&samples[..third], &samples[samples.len() - third..]);
    for (n, service) in ["gateway", "planner", "executor", "aggregator"].into_iter().enumerate() {
        let of = |samples: &[Sample]| median(samples.iter().map(|sample| sample.memory[n]));
        let (before, after) = (of(first), of(last));
        // A tenth, plus what an allocator keeps. A leak of 1 KiB per event would be hundreds of MiB in an hour.
        let most = before + before / 10 + 24 * 1024 * 1024;
        assert!(after <= most, "the {service} grew from {before} to {after} bytes");
    }
    let of = |samples: &[Sample]| median(samples.iter().map(|sample| sample.p99));
    let (before, after) = (of(first), of(last));
    // Room for other load on the machine. A creeping delay would exceed it by far.
    let most = before * 3 + Duration::from_millis(250);
    assert!(after <= most, "p99 went from {before:?} to {after:?}");
    eprintln!("no drift over {runs} runs and {struck} faults: p99 {before:?} at first, {after:?} at last");
}

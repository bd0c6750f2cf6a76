//! What the log says of an outage: that it began and that it is over, once for each change and not for each retry.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, Options, Process, SOON, Signal, eventually};

/// Lines that all survivors together may write.
const MOST: usize = 20;
/// How long an outage lasts: many retries.
const LASTS: Duration = Duration::from_secs(8);

/// The lines of every process that runs, by its name.
fn lines(cluster: &Cluster) -> BTreeMap<String, Vec<String>> {
    let alive = cluster.processes().filter(|process| process.alive());
    alive.map(|p| (p.name().to_owned(), p.log().lines().map(str::to_owned).collect())).collect()
}

/// What the processes that ran before and after have written since.
fn since(cluster: &Cluster, before: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let now = lines(cluster).into_iter();
    let new = now.filter_map(|(name, lines)| Some((before.get(&name)?.len(), name, lines)));
    // One that was away and starts says what it always says.
    let stayed =
        new.filter(|(known, _, lines)| !lines[*known..].iter().any(|line| line.contains("is ready")));
    stayed
        .flat_map(|(known, name, lines)| {
            lines.into_iter().skip(known).map(move |line| format!("{name}: {line}")).collect::<Vec<_>>()
        })
        .collect()
}

async fn says(cluster: &Cluster, before: &BTreeMap<String, Vec<String>>, words: &str) {
    eventually(&format!("somebody says {words:?}"), SOON, async || {
        since(cluster, before).iter().any(|line| line.contains(words))
    })
    .await;
}

/// Who is away.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// A service, and how many of its two replicas.
    Service(fn(&mut Cluster) -> &mut Vec<Process>, usize),
    Postgres,
    Frozen,
    Redis,
}

impl Away {
    fn begin(self, cluster: &mut Cluster) {
        match self {
            Self::Service(of, replicas) => of(cluster)[..replicas].iter_mut().for_each(Process::kill),
            Self::Postgres => {
                Signal::Quit.send(cluster.postgres.pid().expect("it runs"));
                cluster.postgres.stop();
            }
            Self::Frozen => cluster.to_postgres().hold(),
            Self::Redis => cluster.redis.stop(),
        }
    }

    fn end(self, cluster: &mut Cluster) {
        match self {
            Self::Service(of, replicas) => of(cluster)[..replicas].iter_mut().for_each(Process::start),
            Self::Postgres => cluster.postgres.start_again().expect("Postgres starts"),
            Self::Frozen => cluster.to_postgres().heal(),
            Self::Redis => cluster.redis.start_again().expect("Redis starts"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f17_an_outage_is_said_once_with_its_end() {
    let settings = vec![("", "TREE_AGENT_LOG", "info".to_owned())];
    let options = Options { replicas: 2, postgres_proxy: true, settings, ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let gateways: fn(&mut Cluster) -> &mut Vec<Process> = |cluster| &mut cluster.gateways;
    for (what, away, begins, ends) in [
        (
            "a planner",
            Away::Service(|c| &mut c.planners, 1),
            "the lease of a planner ended",
            "planners answer again",
        ),
        (
            "an executor",
            Away::Service(|c| &mut c.executors, 1),
            "1 of 2 executors answer",
            "executors answer again",
        ),
        (
            "an aggregator",
            Away::Service(|c| &mut c.aggregators, 1),
            "1 of 2 aggregators answer",
            "aggregators answer again",
        ),
        ("a gateway", Away::Service(gateways, 1), "1 of 2 gateways answer", "gateways answer again"),
        ("both executors", Away::Service(|c| &mut c.executors, 2), "none of 2", "dependency is up"),
        (
            "both planners",
            Away::Service(|c| &mut c.planners, 2),
            "no planner holds a lease",
            "dependency is up",
        ),
        ("Postgres", Away::Postgres, "dependency is down", "dependency is up after"),
        ("frozen Postgres", Away::Frozen, "dependency is down", "dependency is up after"),
        ("Redis", Away::Redis, "dependency is down", "dependency is up after"),
    ] {
        // Work goes on all the while.
        let run = cluster.create("scripted:fanout=4,depth=2,latency_ms=300").await;
        cluster.follow(&run).until("it has begun", |events| events.len() > 6).await;
        let before = lines(&cluster);
        away.begin(&mut cluster);
        says(&cluster, &before, begins).await;
        // An outage of a second would hide what is repeated.
        tokio::time::sleep(LASTS).await;
        away.end(&mut cluster);
        cluster.follow(&run).end().await.assert_whole();
        says(&cluster, &before, ends).await;
        let said = since(&cluster, &before);
        let text = said.join("\n");
        assert!((1..=MOST).contains(&said.len()), "{what}: {} lines\n{text}", said.len());
        cluster.healthy().await;
    }
}

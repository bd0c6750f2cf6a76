//! Clocks that disagree: leases use the database's clock, and a run's own time continues from its log.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use tree_agent_cluster_tests::{Cluster, Options};
use tree_agent_contract::Event;

use super::completed;

/// The error of the clocks, in each direction.
const OFF: Duration = Duration::from_secs(600);

/// The library of Debian's package faketime.
fn faketime() -> PathBuf {
    let libraries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = libraries.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|file| file.is_file()).expect("faketime is installed; run scripts/setup")
}

/// Settings that shift a process's wall clock. Its monotonic clock stays right.
fn off_by(whose: &'static str, offset: &str) -> [(&'static str, &'static str, String); 4] {
    [
        (whose, "LD_PRELOAD", faketime().display().to_string()),
        (whose, "FAKETIME", offset.to_owned()),
        (whose, "FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        (whose, "DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

/// How many events have a timestamp about [`OFF`] ahead of our clock, and how many about as far behind.
fn off(events: &[Event]) -> (usize, usize) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_micros()).expect("before the year 294,000");
    let half = i64::try_from(OFF.as_micros() / 2).expect("small");
    let count = |test: &dyn Fn(i64) -> bool| events.iter().filter(|e| test(e.timestamp.0)).count();
    (count(&|t| t > now + half), count(&|t| t < now - half))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f05_clocks_ten_minutes_off_cause_no_takeover_and_no_second_writer() {
    // Long enough that a driver on a busy machine never misses its renewals.
    let lease = Duration::from_secs(4);
    let settings = [
        off_by("planner-1", "+600s"),
        off_by("planner-2", "-600s"),
        off_by("event-gateway-1", "-600s"),
        off_by("executor-1", "+600s"),
        off_by("aggregator-2", "-600s"),
    ];
    let settings = settings.into_iter().flatten().collect();
    let mut cluster = Cluster::start(Options { replicas: 2, lease, settings, ..Options::default() }).await;
    // Every executor fails once, so that the log sets the times of retries.
    let model = "scripted:fanout=3,depth=2,bands=2,latency_ms=200,fail=overloaded,fail_attempts=1";
    let mut met = (0, 0);
    for first in 0..4 {
        // One planner is alone at first, so that each of the two is killed once.
        let other = 1 - first % 2;
        cluster.planners[other].kill();
        let run = cluster.create(model).await;
        let mut follower = cluster.follow(&run);
        follower.until("the run is driven", |events| events.len() > 10).await;
        cluster.planners[other].start();
        cluster.healthy().await;
        // If the other planner judged leases by its own clock, it could take the run during several leases.
        follower.until("leaves are done", |events| completed(events) >= 6).await;
        let driver = cluster.driver_of(&run).await;
        assert_eq!((driver, cluster.epoch_of(&run).await), (1 - other, 1), "an early takeover");
        cluster.planners[driver].kill();
        let killed = Instant::now();
        assert_eq!(cluster.driver_of(&run).await, other);
        let waited = killed.elapsed();
        assert!(waited < lease + Duration::from_secs(2), "taken over only after {waited:?}");
        let history = follower.end().await;
        history.assert_whole();
        let writers = cluster.writers_of(&run).await;
        assert!(writers.is_sorted(), "two writers: {writers:?}");
        let (ahead, behind) = off(history.events());
        met = (met.0 + ahead, met.1 + behind);
        let times: Vec<_> = history.events()[4..].iter().map(|event| event.timestamp).collect();
        assert!(times.is_sorted(), "the run's own time went backwards");
        cluster.planners[driver].start();
        cluster.healthy().await;
    }
    assert!(met.0 > 0 && met.1 > 0, "the clocks were not off: {met:?}");
}

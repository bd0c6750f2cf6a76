//! Commands of users are heard whatever their runs do.

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use support::*;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunStatus;
use tree_agent_driver::{Driver, DriverConfig};
use tree_agent_engine::CallKind;
use tree_agent_fanout::{Fanout, InProcessFanout};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Command, Store};

/// Far longer than these tests are patient.
const LONG: Duration = Duration::from_secs(3_600);

async fn world() -> (Arc<dyn Store>, Arc<dyn Fanout>) {
    let store = EmbeddedStore::open_in_memory().await.expect("a store in memory");
    (Arc::new(store), Arc::new(InProcessFanout::new()))
}

#[tokio::test]
async fn a_run_cancelled_before_it_was_claimed_makes_no_call() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    cancel(&*store, &*fanout, run).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    assert!(roles.made().is_empty());
    driver.stop().await;
}

#[tokio::test]
async fn a_run_that_rests_hears_that_it_is_cancelled() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    let term = store.begin_term("before", LONG).await.expect("begun").number;
    let claim = store.claim("before", term, 1, 0).await.expect("claimed")[0];
    store.quarantine(run, claim.epoch, LONG).await.expect("put");
    let driver = Running::start("a", &store, &fanout, &roles);
    // The driver claims, but not this run.
    let other = create_run(&*store, 1).await;
    assert_eq!(ended(&*store, other).await.status, RunStatus::Completed);
    let made = roles.made().len();
    cancel(&*store, &*fanout, run).await;
    assert_eq!(ended(&*store, run).await.status, RunStatus::Cancelled);
    assert_eq!(roles.made().len(), made, "a cancelled run makes no calls");
    driver.stop().await;
}

#[tokio::test]
async fn a_driver_that_is_full_hears_that_other_runs_are_cancelled() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let mut config = DriverConfig::new("a");
    (config.max_runs, config.poll) = (1, Duration::from_millis(20));
    let stop = CancellationToken::new();
    let driver = Driver::new(store.clone(), fanout.clone(), roles.clone(), config);
    let stats = driver.stats();
    let task = tokio::spawn(driver.run(stop.clone()));
    let first = create_run(&*store, 1).await;
    roles.wait_for_held(2).await;
    let mut queued = Vec::new();
    for _ in 0..20 {
        queued.push(create_run(&*store, 1).await);
    }
    let made = roles.made().len();
    for run in &queued[1..] {
        cancel(&*store, &*fanout, *run).await;
    }
    for run in &queued[1..] {
        assert_eq!(ended(&*store, *run).await.status, RunStatus::Cancelled);
    }
    assert_eq!(roles.made().len(), made, "a cancelled run makes no calls");
    assert_eq!(store.run(first).await.expect("there").status, RunStatus::Running);
    assert_eq!(store.run(queued[0]).await.expect("there").status, RunStatus::Queued, "it waits for its turn");
    assert_eq!(stats.claimed.load(std::sync::atomic::Ordering::SeqCst), 20);
    roles.open_gate();
    for run in [first, queued[0]] {
        assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    }
    stop.cancel();
    task.await.expect("a driver ends cleanly");
}

#[tokio::test]
async fn nothing_of_a_cancellation_is_left_when_its_run_ends_by_itself() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run(&*store, 1).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    // As often as it is taken, at every moment of the run until it has ended.
    let again = Command::Cancel { reason: String::new() };
    while store.send_command(run, again.clone()).await.expect("answered").is_some() {}
    assert!(store.run(run).await.expect("there").status.is_final());
    assert_eq!(store.commands("a").await.expect("readable"), []);
    driver.stop().await;
}

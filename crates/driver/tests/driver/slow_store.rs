//! A driver on a store that was away, or that is slow: what it has begun goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use tree_agent_contract::RunStatus;
use tree_agent_engine::CallKind;
use tree_agent_fanout::{Fanout, InProcessFanout};
use tree_agent_store::Store;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_testkit::proxy::Proxy;
use tree_agent_testkit::services::PrivatePostgres;

#[tokio::test]
async fn drivers_rob_neither_themselves_nor_each_other_after_an_outage() {
    let (inner, fanout) = world().await;
    let unreliable = Unreliable::new(inner);
    let store: Arc<dyn Store> = unreliable.clone();
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(create_run(&*store, 1).await);
    }
    let lease = Duration::from_millis(900);
    let drivers = ["a", "b"].map(|name| Running::start_with_lease(name, &store, &fanout, &roles, lease));
    roles.wait_for_held(16).await;
    unreliable.down.store(true, Ordering::SeqCst);
    tokio::time::sleep(lease * 3).await;
    unreliable.down.store(false, Ordering::SeqCst);
    // Long enough for whoever would take what is not its own.
    tokio::time::sleep(lease * 2).await;
    roles.open_gate();
    for run in runs {
        assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    }
    assert!(roles.made().values().all(|&n| n == 1), "a call was made twice: {:?}", roles.made());
    for driver in drivers {
        assert_eq!(driver.stats.takeovers.load(Ordering::SeqCst), 0);
        assert_eq!(driver.stats.lost.load(Ordering::SeqCst), 0);
        driver.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_take_longer_than_a_lease_cost_no_run() {
    let server =
        tokio::task::spawn_blocking(PrivatePostgres::start).await.expect("no panic").expect("Postgres");
    let url = server.create_database().expect("a database");
    PostgresStore::migrate(&url).await.expect("migrated");
    let (before, behind) = url.split_once('@').expect("a user");
    let (address, database) = behind.split_once('/').expect("a database");
    let proxy = Proxy::start(address.parse().expect("an address")).expect("a proxy");
    let slow = format!("{before}@{}/{database}", proxy.address());
    let config = PoolConfig { connect_timeout: Duration::from_secs(30), ..PoolConfig::default() };
    let fanout: Arc<dyn Fanout> = Arc::new(InProcessFanout::new());
    let direct = PostgresStore::connect(&url, config).await.expect("connected");
    // Long enough that a busy machine renews in time.
    let lease = Duration::from_millis(1_800);
    let roles = TreeRoles::new(2, Some(CallKind::Execute));
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(create_run(&direct, 1).await);
    }
    let mut drivers = Vec::new();
    for name in ["a", "b"] {
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&slow, config).await.expect("connected"));
        drivers.push(Running::start_with_lease(name, &store, &fanout, &roles, lease));
    }
    roles.wait_for_held(8).await;
    proxy.delay_answers(lease * 3 / 2);
    tokio::time::sleep(lease * 4).await;
    roles.open_gate();
    for run in runs {
        assert_eq!(ended(&direct, run).await.status, RunStatus::Completed);
    }
    assert!(roles.made().values().all(|&n| n == 1), "a call was made twice: {:?}", roles.made());
    for driver in drivers {
        assert_eq!(driver.stats.takeovers.load(Ordering::SeqCst), 0);
        assert_eq!(driver.stats.lost.load(Ordering::SeqCst), 0);
        proxy.heal();
        driver.stop().await;
    }
}

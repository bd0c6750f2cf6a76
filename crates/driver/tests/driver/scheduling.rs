//! Who gets the permits for role calls when there are fewer than calls due.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::role::{CallKind, RoleError};
use tree_agent_contract::{RunId, RunStatus};
use tree_agent_driver::{Driver, DriverConfig, Roles, Updates};
use tree_agent_engine::{CallOutput, RoleCall};
use tree_agent_fanout::{Fanout, InProcessFanout};
use tree_agent_store::Store;
use tree_agent_store::embedded::EmbeddedStore;

use crate::support::*;

/// Answers like [`TreeRoles`]. Every execution waits for a ticket.
struct Turnstile {
    tree: Arc<TreeRoles>,
    tickets: Semaphore,
    /// The runs of the executions that have begun, in that order.
    begun: Mutex<Vec<RunId>>,
    changed: tokio::sync::Notify,
}

impl Turnstile {
    fn begun(&self) -> Vec<RunId> {
        self.begun.lock().expect("no panic while locked").clone()
    }

    /// Waits until `n` executions have begun.
    async fn wait_for(&self, n: usize) -> Vec<RunId> {
        let seen = async {
            loop {
                let changed = self.changed.notified();
                if self.begun().len() >= n {
                    return self.begun();
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen).await.expect("they begin")
    }
}

#[async_trait]
impl Roles for Turnstile {
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        if call.key.kind == CallKind::Execute {
            self.begun.lock().expect("no panic while locked").push(call.input.context().run_id);
            self.changed.notify_waiters();
            self.tickets.acquire().await.expect("never closed").forget();
        }
        self.tree.call(call, updates).await
    }
}

struct World {
    store: Arc<dyn Store>,
    roles: Arc<Turnstile>,
    stop: CancellationToken,
    driver: tokio::task::JoinHandle<()>,
}

/// A driver with four permits, and plans of four steps.
async fn world() -> World {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open_in_memory().await.expect("a store in memory"));
    let fanout: Arc<dyn Fanout> = Arc::new(InProcessFanout::new());
    let roles = Arc::new(Turnstile {
        tree: TreeRoles::new(4, None),
        tickets: Semaphore::new(0),
        begun: Mutex::default(),
        changed: tokio::sync::Notify::new(),
    });
    let config = DriverConfig { max_calls: 4, poll: Duration::from_millis(20), ..DriverConfig::new("a") };
    let driver = Driver::new(store.clone(), fanout, roles.clone(), config);
    let stop = CancellationToken::new();
    let driver = tokio::spawn(driver.run(stop.clone()));
    World { store, roles, stop, driver }
}

impl World {
    async fn stop(self) {
        self.stop.cancel();
        self.driver.await.expect("a driver ends cleanly");
    }
}

#[tokio::test]
async fn a_small_run_goes_on_beside_a_wide_one_that_has_every_permit() {
    let world = world().await;
    let wide = create_run(&*world.store, 2).await;
    assert_eq!(world.roles.wait_for(4).await, [wide; 4]);
    let small = create_run(&*world.store, 0).await;
    // It is claimed and waits before a permit is free.
    while world.store.run(small).await.expect("the run exists").status != RunStatus::Running {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Its turn comes as soon as it has asked, although twelve older calls of the wide run are due.
    let mut n = 4;
    while !world.roles.begun().contains(&small) {
        world.roles.tickets.add_permits(1);
        n += 1;
        world.roles.wait_for(n).await;
    }
    assert!(n <= 8, "the small run waited for {n} calls");
    world.roles.tickets.add_permits(100);
    assert_eq!(ended(&*world.store, small).await.status, RunStatus::Completed);
    assert_eq!(ended(&*world.store, wide).await.status, RunStatus::Completed);
    world.stop().await;
}

#[tokio::test]
async fn the_oldest_run_ends_first() {
    let world = world().await;
    let mut runs = vec![create_run(&*world.store, 2).await];
    world.roles.wait_for(4).await;
    for _ in 0..2 {
        runs.push(create_run(&*world.store, 2).await);
    }
    for n in 5..=3 * 16 {
        world.roles.tickets.add_permits(1);
        world.roles.wait_for(n).await;
    }
    world.roles.tickets.add_permits(4);
    for run in &runs {
        assert_eq!(ended(&*world.store, *run).await.status, RunStatus::Completed);
    }
    // The others keep one call each, so the oldest has at least two of four permits, and its 16 leaves begin while the
    // others begin 16 together. In turns it would be nearly all 48.
    let begun = world.roles.begun();
    let last = begun.iter().rposition(|run| *run == runs[0]).expect("it began leaves");
    assert!(last < 40, "the oldest run's last leaf was number {last} to begin");
    world.stop().await;
}

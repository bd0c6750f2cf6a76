//! The store port over a model in memory, behind a network that loses, delays and repeats calls.

mod commands;
mod documents;
mod forks;
mod leases;
mod model;
mod ports;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_store::StoreError;

pub use commands::StoredReply;
pub use model::{Model, StoredRun};
pub(crate) use ports::create;

use crate::flaw::Flaw;
use crate::node::Node;
use crate::plan::{Fault, Plan};
use crate::world::World;

/// How long a client of the store waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(2);

/// The store as one process reaches it.
#[derive(Clone)]
pub struct SimStore {
    pub(crate) node: Arc<Node>,
}

/// What the network does to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallFate {
    Works,
    /// Fails without effect.
    Refused,
    /// Takes effect, but fails.
    ReplyLost,
    /// Fails, but takes effect later.
    Late,
}

impl SimStore {
    pub(crate) fn of(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// A store without faults, for the contract suite. Must be created within a tokio runtime.
    pub fn quiet() -> Self {
        let plan = Plan { faults: Default::default(), ..Plan::of(0) };
        Self::of(Node::new("test".into(), World::new(plan, None), 0))
    }

    /// Its current content.
    pub fn snapshot(&self) -> Model {
        self.node.world.model().clone()
    }

    /// Makes one call. `work` happens in the store at one moment, whatever happens to the caller.
    async fn call<T, F>(&self, what: &'static str, runs: &[RunId], work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Model, Timestamp) -> Result<T, StoreError> + Send + 'static,
    {
        let (node, world) = (&self.node, &self.node.world);
        node.point(what).await;
        if matches!(what, "append" | "read") {
            node.pass_wedge(runs).await;
        }
        if node.is_cut() || world.store_is_down() {
            tokio::time::sleep(if world.dice.chance(50) { Duration::from_millis(5) } else { PATIENCE }).await;
            node.pass().await;
            return Err(unavailable(what, "cut off"));
        }
        let fate = self.fate();
        if fate == CallFate::Refused {
            tokio::time::sleep(world.dice.millis(1..=40)).await;
            node.pass().await;
            return Err(unavailable(what, "refused"));
        }
        let (there, back) = (self.delay(), self.delay());
        let late = if fate == CallFate::Late { world.dice.millis(1..=9_000) } else { Duration::ZERO };
        let (reply, received) = oneshot::channel();
        // A request in transit outlives its sender.
        let (at, sender) = (world.clone(), node.name.clone());
        tokio::spawn(async move {
            tokio::time::sleep(there + late).await;
            let now = at.now();
            let done = work(&mut at.model(), now);
            if !late.is_zero() {
                at.note(&sender, format_args!("{what}: takes effect late"));
            }
            let _ = reply.send(done);
        });
        match fate {
            CallFate::Late => {
                tokio::time::sleep(there + world.dice.millis(1..=200)).await;
                node.pass().await;
                Err(unavailable(what, "gave up waiting"))
            }
            fate => {
                let done = received.await;
                node.point(what).await;
                tokio::time::sleep(back).await;
                node.pass().await;
                match done {
                    Ok(done) if fate == CallFate::Works => done,
                    _ => Err(unavailable(what, "the reply was lost")),
                }
            }
        }
    }

    fn fate(&self) -> CallFate {
        let world = &self.node.world;
        for (fault, fate) in [
            (Fault::RefusedStore, CallFate::Refused),
            (Fault::LostReplies, CallFate::ReplyLost),
            (Fault::LateRequests, CallFate::Late),
        ] {
            if world.on(fault) && world.dice.chance(8) {
                return fate;
            }
        }
        CallFate::Works
    }

    fn delay(&self) -> Duration {
        let world = &self.node.world;
        match world.on(Fault::SlowStore) && world.dice.chance(5) {
            true => world.dice.millis(100..=3_000),
            false => world.dice.millis(0..=3),
        }
    }

    /// The clock that applies to this caller's claims and renewals.
    fn lease_clock(&self, now: Timestamp) -> Timestamp {
        match self.node.world.flaw {
            Some(Flaw::CallersClock) => Timestamp(now.micros() + self.node.clock_off()),
            _ => now,
        }
    }
}

fn unavailable(what: &str, why: &str) -> StoreError {
    StoreError::Unavailable { message: format!("{what}: {why}"), source: None }
}

//! The fan-out port over a broker that loses, duplicates and reorders messages, stops delivering, and goes down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tree_agent_fanout::{Fanout, FanoutError, Signal, Subscription, Topic};

use crate::node::Node;
use crate::plan::Fault;
use crate::world::{World, run_name};

/// Messages that may wait for a slow listener, as in the real adapters.
const BUFFER: usize = 128;

/// Who listens to what.
#[derive(Default)]
pub(crate) struct Topics(Mutex<Listeners>);

#[derive(Default)]
struct Listeners {
    next: u64,
    all: BTreeMap<u64, Listener>,
}

struct Listener {
    topic: Topic,
    node: Arc<Node>,
    /// Messages in order, each with the moment at which it arrives.
    line: mpsc::UnboundedSender<(Instant, Signal)>,
    /// Bypasses the queue, for messages that overtake others.
    direct: broadcast::Sender<Signal>,
    deaf_until: Option<Instant>,
    /// The connection to the broker broke, and has not been made again.
    lost: bool,
}

impl Topics {
    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For `time`, no listener receives anything, and none of them notices.
    pub(crate) fn deafen(&self, time: Duration) {
        self.lock().all.values_mut().for_each(|l| l.deaf_until = Some(Instant::now() + time));
    }

    /// The broker goes down. What is published from now on is lost.
    pub(crate) fn lose(&self) {
        self.lock().all.values_mut().for_each(|l| l.lost = true);
    }

    /// The broker is back with its subscriptions. Every listener reads the log.
    pub(crate) fn restore(&self) {
        for listener in self.lock().all.values_mut() {
            listener.deaf_until = None;
            if std::mem::take(&mut listener.lost) {
                let _ = listener.line.send((Instant::now(), Signal::Missed));
            }
        }
    }
}

/// Fan-out as one process reaches it.
pub(crate) struct SimFanout {
    pub(crate) node: Arc<Node>,
}

impl SimFanout {
    fn world(&self) -> &Arc<World> {
        &self.node.world
    }

    fn unavailable(&self) -> FanoutError {
        FanoutError { message: "the simulated broker is gone".into(), source: None }
    }

    /// Delivers one message to one listener: once, never, twice, or after the next message.
    fn deliver(&self, listener: &Listener, message: &Bytes) {
        let (world, now) = (self.world(), Instant::now());
        let deaf = listener.lost || listener.deaf_until.is_some_and(|until| now < until);
        if deaf || world.on(Fault::LostHints) && world.dice.chance(20) {
            return;
        }
        let signal = Signal::Message(message.clone());
        if world.on(Fault::DoubledHints) && world.dice.chance(20) {
            let _ = listener.line.send((now + world.dice.millis(0..=4), signal.clone()));
        }
        let at = now + world.dice.millis(0..=4);
        if world.on(Fault::ReorderedHints) && world.dice.chance(30) {
            let (direct, late) = (listener.direct.clone(), world.dice.millis(5..=400));
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                let _ = direct.send(signal);
            });
        } else {
            let _ = listener.line.send((at, signal));
        }
    }
}

#[async_trait]
impl Fanout for SimFanout {
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
        self.node.point("publish").await;
        let world = self.world();
        tokio::time::sleep(world.dice.millis(0..=2)).await;
        self.node.pass().await;
        if world.fanout_is_down() {
            tokio::time::sleep(world.dice.millis(0..=500)).await;
            return Err(self.unavailable());
        }
        {
            let listeners = world.topics.lock();
            for (topic, message) in &messages {
                for listener in listeners.all.values().filter(|l| l.topic == *topic && !l.node.is_gone()) {
                    self.deliver(listener, message);
                }
            }
        }
        self.node.point("published").await;
        Ok(())
    }

    async fn subscribe(&self, topic: Topic) -> Result<Subscription, FanoutError> {
        self.node.pass().await;
        let world = self.world();
        tokio::time::sleep(world.dice.millis(0..=5)).await;
        if world.fanout_is_down() {
            tokio::time::sleep(world.dice.millis(0..=3_000)).await;
            return Err(self.unavailable());
        }
        let (direct, receiver) = broadcast::channel(BUFFER);
        let (line, mut waiting) = mpsc::unbounded_channel::<(Instant, Signal)>();
        let heard = direct.clone();
        tokio::spawn(async move {
            while let Some((at, signal)) = waiting.recv().await {
                tokio::time::sleep_until(at).await;
                let _ = heard.send(signal);
            }
        });
        let id = {
            let mut listeners = world.topics.lock();
            let id = listeners.next;
            listeners.next += 1;
            let node = self.node.clone();
            let listener = Listener { topic, node, line, direct, deaf_until: None, lost: false };
            listeners.all.insert(id, listener);
            id
        };
        if let Topic::Run(run) = topic {
            world.note(&self.node.name, format_args!("subscribes to {}", run_name(run)));
        }
        // The confirmation takes time too.
        tokio::time::sleep(world.dice.millis(0..=5)).await;
        self.node.pass().await;
        Ok(Subscription::new(receiver, UnsubscribeOnDrop { world: world.clone(), id }))
    }

    async fn ping(&self) -> Result<(), FanoutError> {
        match self.world().fanout_is_down() {
            true => Err(self.unavailable()),
            false => Ok(()),
        }
    }

    fn dropped(&self) -> u64 {
        0
    }
}

/// Unsubscribes when it is dropped.
struct UnsubscribeOnDrop {
    world: Arc<World>,
    id: u64,
}

impl Drop for UnsubscribeOnDrop {
    fn drop(&mut self) {
        self.world.topics.lock().all.remove(&self.id);
    }
}

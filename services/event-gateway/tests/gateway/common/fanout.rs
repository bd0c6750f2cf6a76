//! A fan-out that loses, doubles, reorders or is not there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::broadcast;
use tree_agent_fanout::{Fanout, FanoutError, Signal, Subscription, Topic};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Faithful,
    /// Every second message is lost.
    Lossy,
    /// Every message comes twice.
    Doubled,
    /// Messages swap places in pairs.
    Reordered,
    /// Subscriptions work, nothing is ever delivered.
    Deaf,
    /// Nothing works.
    Down,
}

pub struct TestFanout {
    mode: Mutex<Mode>,
    topics: Mutex<HashMap<Topic, broadcast::Sender<Signal>>>,
    held: Mutex<Option<(Topic, Bytes)>>,
    count: AtomicUsize,
    pub subscribed: AtomicUsize,
    wakes: AtomicUsize,
}

impl TestFanout {
    pub fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self {
            mode: Mutex::new(mode),
            topics: Mutex::default(),
            held: Mutex::default(),
            count: AtomicUsize::new(0),
            subscribed: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
        })
    }

    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// Listeners of a topic now.
    pub fn listeners(&self, topic: Topic) -> usize {
        self.topics.lock().unwrap().get(&topic).map_or(0, broadcast::Sender::receiver_count)
    }

    /// How often drivers were woken.
    pub fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    fn deliver(&self, topic: Topic, message: Bytes) {
        if let Some(sender) = self.topics.lock().unwrap().get(&topic) {
            let _ = sender.send(Signal::Message(message));
        }
    }

    fn check(&self) -> Result<Mode, FanoutError> {
        match *self.mode.lock().unwrap() {
            Mode::Down => Err(FanoutError { message: "switched off".into(), source: None }),
            mode => Ok(mode),
        }
    }
}

#[async_trait]
impl Fanout for TestFanout {
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
        let mode = self.check()?;
        for (topic, message) in messages {
            if topic == Topic::Wake {
                self.wakes.fetch_add(1, Ordering::SeqCst);
            }
            let nth = self.count.fetch_add(1, Ordering::SeqCst);
            match mode {
                Mode::Faithful => self.deliver(topic, message),
                Mode::Lossy if nth.is_multiple_of(2) => {}
                Mode::Lossy => self.deliver(topic, message),
                Mode::Doubled => {
                    self.deliver(topic, message.clone());
                    self.deliver(topic, message);
                }
                Mode::Reordered => {
                    let before = self.held.lock().unwrap().take();
                    match before {
                        None => *self.held.lock().unwrap() = Some((topic, message)),
                        Some((earlier, held)) => {
                            self.deliver(topic, message);
                            self.deliver(earlier, held);
                        }
                    }
                }
                Mode::Deaf | Mode::Down => {}
            }
        }
        Ok(())
    }

    async fn subscribe(&self, topic: Topic) -> Result<Subscription, FanoutError> {
        self.check()?;
        self.subscribed.fetch_add(1, Ordering::SeqCst);
        let mut topics = self.topics.lock().unwrap();
        let sender = topics.entry(topic).or_insert_with(|| broadcast::channel(16).0);
        Ok(Subscription::new(sender.subscribe(), ()))
    }

    async fn ping(&self) -> Result<(), FanoutError> {
        self.check().map(|_| ())
    }

    fn dropped(&self) -> u64 {
        0
    }
}

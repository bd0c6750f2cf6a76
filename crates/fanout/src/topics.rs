//! The listeners of each topic in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::{Signal, Topic};

/// Messages that a listener may be behind before it is told that it missed some. Each topic buffers this many.
const BUFFER: usize = 128;

/// The topics with listeners.
#[derive(Default)]
pub(crate) struct Topics {
    map: Mutex<HashMap<Topic, Entry>>,
}

struct Entry {
    sender: Sender<Signal>,
    listeners: usize,
    /// The broker has not confirmed the topic since the connection broke.
    lost: bool,
}

impl Topics {
    /// Adds a listener. True if it is the first.
    pub(crate) fn listen(&self, topic: Topic) -> (Receiver<Signal>, bool) {
        let mut map = self.map();
        let mut first = false;
        let entry = map.entry(topic).or_insert_with(|| {
            first = true;
            Entry { sender: channel(BUFFER).0, listeners: 0, lost: false }
        });
        entry.listeners += 1;
        (entry.sender.subscribe(), first)
    }

    /// Removes a listener. True if it was the last. The topic stays until [`forget`](Self::forget).
    pub(crate) fn leave(&self, topic: Topic) -> bool {
        let mut map = self.map();
        map.get_mut(&topic).is_some_and(|entry| {
            entry.listeners = entry.listeners.saturating_sub(1);
            entry.listeners == 0
        })
    }

    /// Removes a topic without listeners. False if it has listeners again or does not exist.
    pub(crate) fn forget(&self, topic: Topic) -> bool {
        let mut map = self.map();
        let unused = map.get(&topic).is_some_and(|entry| entry.listeners == 0);
        if unused {
            map.remove(&topic);
        }
        unused
    }

    /// Delivers a message to every listener of the topic.
    pub(crate) fn deliver(&self, topic: Topic, signal: Signal) {
        if let Some(entry) = self.map().get(&topic) {
            // It is not an error if nobody listens.
            let _ = entry.sender.send(signal);
        }
    }

    /// The connection broke. Messages from now on are missed.
    pub(crate) fn lost(&self) {
        self.map().values_mut().for_each(|entry| entry.lost = true);
    }

    /// The broker no longer delivers one topic. A topic that was unsubscribed on purpose has been removed by now.
    pub(crate) fn lost_one(&self, topic: Topic) {
        if let Some(entry) = self.map().get_mut(&topic) {
            entry.lost = true;
        }
    }

    /// Topics that the broker has not confirmed since they were lost.
    pub(crate) fn lost_ones(&self) -> Vec<Topic> {
        self.map().iter().filter(|(_, entry)| entry.lost).map(|(topic, _)| *topic).collect()
    }

    /// The broker has confirmed the topic. Earlier listeners read the log for what they missed.
    pub(crate) fn confirmed(&self, topic: Topic) {
        if let Some(entry) = self.map().get_mut(&topic)
            && std::mem::take(&mut entry.lost)
        {
            let _ = entry.sender.send(Signal::Missed);
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Topic, Entry>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An adapter that unsubscribes from a topic when nobody listens to it any more.
pub(crate) trait Leave: Send + Sync + 'static {
    /// The listeners.
    fn topics(&self) -> &Topics;

    /// Unsubscribes, unless somebody listens again by then.
    fn unsubscribe(self: Arc<Self>, topic: Topic) -> impl Future<Output = ()> + Send;
}

/// Unsubscribes from its topic when it is dropped.
pub(crate) struct Listener<A: Leave> {
    pub(crate) adapter: Arc<A>,
    pub(crate) topic: Topic,
}

impl<A: Leave> Drop for Listener<A> {
    fn drop(&mut self) {
        if self.adapter.topics().leave(self.topic)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(self.adapter.clone().unsubscribe(self.topic));
        }
    }
}

//! Who listens to what in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::{Signal, Topic};

/// Signals that a listener may fall behind before it is told that it missed some. Each topic holds this many.
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
    /// Adds a listener; true when it is the first.
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

    /// Removes a listener; true when it was the last. The topic stays until [`forget`](Self::forget).
    pub(crate) fn leave(&self, topic: Topic) -> bool {
        let mut map = self.map();
        map.get_mut(&topic).is_some_and(|entry| {
            entry.listeners = entry.listeners.saturating_sub(1);
            entry.listeners == 0
        })
    }

    /// Removes a topic that has no listeners; false when it has some again, or is gone.
    pub(crate) fn forget(&self, topic: Topic) -> bool {
        let mut map = self.map();
        let unused = map.get(&topic).is_some_and(|entry| entry.listeners == 0);
        if unused {
            map.remove(&topic);
        }
        unused
    }

    /// Gives a message to every listener of the topic.
    pub(crate) fn deliver(&self, topic: Topic, signal: Signal) {
        if let Some(entry) = self.map().get(&topic) {
            // Nobody listening is no error.
            let _ = entry.sender.send(signal);
        }
    }

    /// The connection broke: what is published from now on is missed.
    pub(crate) fn lost(&self) {
        self.map().values_mut().for_each(|entry| entry.lost = true);
    }

    /// The broker no longer delivers one topic. One that was left on purpose is gone by now.
    pub(crate) fn lost_one(&self, topic: Topic) {
        if let Some(entry) = self.map().get_mut(&topic) {
            entry.lost = true;
        }
    }

    /// Topics that the broker has not confirmed since they were lost.
    pub(crate) fn lost_ones(&self) -> Vec<Topic> {
        self.map().iter().filter(|(_, entry)| entry.lost).map(|(topic, _)| *topic).collect()
    }

    /// The broker has confirmed the topic: whoever listened before looks at the log for what was missed.
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

/// An adapter whose broker is to be told when nobody listens to a topic any more.
pub(crate) trait Leave: Send + Sync + 'static {
    /// Who listens.
    fn topics(&self) -> &Topics;

    /// Tells the broker, unless somebody listens again by then.
    fn unsubscribe(self: Arc<Self>, topic: Topic) -> impl Future<Output = ()> + Send;
}

/// Leaves its topic when it is dropped.
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

//! The topics that this process listens to, and their listeners.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::{Signal, Topic};

/// Signals that each topic buffers. A listener that falls further behind is told that it missed some.
const BUFFER: usize = 128;

/// The topics with listeners.
#[derive(Default)]
pub(crate) struct Topics {
    map: Mutex<HashMap<Topic, Entry>>,
}

struct Entry {
    sender: Sender<Signal>,
    listeners: usize,
    /// The broker has confirmed it to a listener.
    subscribed: bool,
    /// True until the broker confirms the topic after the connection broke.
    lost: bool,
}

impl Topics {
    /// Adds a listener. Returns true if the topic is [subscribed](Self::subscribed) to.
    pub(crate) fn listen(&self, topic: Topic) -> (Receiver<Signal>, bool) {
        let mut map = self.map();
        let new = || Entry { sender: channel(BUFFER).0, listeners: 0, subscribed: false, lost: false };
        let entry = map.entry(topic).or_insert_with(new);
        entry.listeners += 1;
        (entry.sender.subscribe(), entry.subscribed)
    }

    /// A subscription was confirmed. It holds until the topic is forgotten, because connections renew it.
    pub(crate) fn subscribed(&self, topic: Topic) {
        if let Some(entry) = self.map().get_mut(&topic) {
            entry.subscribed = true;
        }
    }

    /// Removes a listener. Returns true if it was the last. The topic stays until [`forget`](Self::forget).
    pub(crate) fn leave(&self, topic: Topic) -> bool {
        let mut map = self.map();
        map.get_mut(&topic).is_some_and(|entry| {
            entry.listeners = entry.listeners.saturating_sub(1);
            entry.listeners == 0
        })
    }

    /// Removes a topic that has no listeners. Returns false if it has some again, or is already gone.
    pub(crate) fn forget(&self, topic: Topic) -> bool {
        let mut map = self.map();
        let unused = map.get(&topic).is_some_and(|entry| entry.listeners == 0);
        if unused {
            map.remove(&topic);
        }
        unused
    }

    /// Sends a signal to every listener of the topic.
    pub(crate) fn deliver(&self, topic: Topic, signal: Signal) {
        if let Some(entry) = self.map().get(&topic) {
            // It is not an error if nobody listens.
            let _ = entry.sender.send(signal);
        }
    }

    /// The connection broke: from now on every topic misses messages.
    pub(crate) fn mark_all_lost(&self) {
        self.map().values_mut().for_each(|entry| entry.lost = true);
    }

    /// The broker confirmed the topic. Its listeners are told to read what they missed from the log.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first listener's subscription failed while the second waited for its turn.
    #[test]
    fn a_listener_of_a_topic_that_was_never_confirmed_subscribes_itself() {
        let (topics, topic) = (Topics::default(), Topic::Wake);
        let (_first, subscribed) = topics.listen(topic);
        assert!(!subscribed);
        let (_second, subscribed) = topics.listen(topic);
        assert!(!subscribed, "nobody has said so");
        assert!(!topics.leave(topic));
        topics.subscribed(topic);
        assert!(topics.listen(topic).1);
    }
}

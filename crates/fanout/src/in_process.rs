//! Fan-out within one process.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::topics::Topics;
use crate::{Fanout, FanoutError, Signal, Subscription, Topic};

/// Fan-out within one process. Clones share their topics.
#[derive(Clone, Default)]
pub struct InProcessFanout {
    topics: Arc<Topics>,
}

impl InProcessFanout {
    /// A fan-out without listeners.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Fanout for InProcessFanout {
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
        for (topic, message) in messages {
            self.topics.deliver(topic, Signal::Message(message));
        }
        Ok(())
    }

    async fn subscribe(&self, topic: Topic) -> Result<Subscription, FanoutError> {
        let (receiver, _) = self.topics.listen(topic);
        Ok(Subscription::new(receiver, Listener { topics: self.topics.clone(), topic }))
    }

    async fn ping(&self) -> Result<(), FanoutError> {
        Ok(())
    }

    fn dropped(&self) -> u64 {
        0
    }
}

/// Leaves when it is dropped.
struct Listener {
    topics: Arc<Topics>,
    topic: Topic,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.topics.leave(self.topic) {
            self.topics.forget(self.topic);
        }
    }
}

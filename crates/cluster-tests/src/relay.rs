//! A hostile relay between two Redis servers. Drivers publish on one, gateways listen on the other, and the relay
//! drops, duplicates, swaps and garbles messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use tokio::task::JoinHandle;

/// Relays every message of tree-agent. Of each seven in a row, one is dropped, one is duplicated, two are swapped and
/// one is followed by garbage. It stops when it is dropped.
#[derive(Debug)]
pub struct HostileRelay {
    task: JoinHandle<()>,
    heard: Arc<AtomicUsize>,
}

impl HostileRelay {
    /// Listens at `from` and publishes at `to`. Both are URLs of running Redis servers.
    ///
    /// # Panics
    /// If one of them does not answer.
    pub async fn start(from: &str, to: &str) -> Self {
        let open = |url: &str| redis::Client::open(url).expect("a Redis URL");
        let mut subscription = open(from).get_async_pubsub().await.expect("Redis answers");
        subscription.psubscribe("tree-agent:*").await.expect("Redis subscribes");
        let mut publisher = open(to).get_multiplexed_async_connection().await.expect("Redis answers");
        let heard = Arc::new(AtomicUsize::new(0));
        let count = heard.clone();
        let task = tokio::spawn(async move {
            let mut messages = subscription.into_on_message();
            let mut kept: Option<(String, Vec<u8>)> = None;
            while let Some(message) = messages.next().await {
                let n = count.fetch_add(1, Ordering::Relaxed);
                let topic = message.get_channel_name().to_owned();
                let message = (topic.clone(), message.get_payload_bytes().to_vec());
                let say = match n % 7 {
                    1 => vec![],
                    2 => vec![message.clone(), message],
                    3 => {
                        kept = Some(message);
                        vec![]
                    }
                    4 => [Some(message), kept.take()].into_iter().flatten().collect(),
                    5 => vec![message, (topic, b"\x0a\xffno protobuf".to_vec())],
                    _ => vec![message],
                };
                for (topic, message) in say {
                    let said: redis::RedisResult<()> =
                        redis::cmd("PUBLISH").arg(topic).arg(message).query_async(&mut publisher).await;
                    if said.is_err() {
                        return;
                    }
                }
            }
        });
        Self { task, heard }
    }

    /// Messages received so far.
    pub fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }
}

impl Drop for HostileRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

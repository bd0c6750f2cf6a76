//! Fan-out: how drivers tell gateways and each other that there is something new.
//!
//! Every message is a hint. It may be lost, duplicated or reordered, so listeners check it against the log. Over Redis
//! the services share a key ([`ConnectOptions::key`]): messages that are not signed with it are dropped. Without a key
//! nothing of a message is used: each one is delivered as [`Signal::Missed`].
//!
//! Two adapters implement [`Fanout`]: Redis pub/sub and in-process.

mod authentication;
mod in_process;
mod redis_adapter;
mod topics;

use async_trait::async_trait;
use bytes::Bytes;
use tree_agent_contract::RunId;

pub use authentication::Signer;
pub use in_process::InProcessFanout;
pub use redis_adapter::{ConnectOptions, check_url, connect};

/// A topic's name is public: `tree-agent:run:<id>` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Every event of the run, as protobuf `treeagent.v1.EventBatch`.
    Run(RunId),
    /// Something for drivers to do: a new run or a command. The payload is empty.
    Wake,
}

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Topic::Run(id) => write!(f, "tree-agent:run:{id}"),
            Topic::Wake => f.write_str("tree-agent:wake"),
        }
    }
}

impl std::str::FromStr for Topic {
    type Err = FanoutError;

    fn from_str(name: &str) -> Result<Self, FanoutError> {
        let unknown = |source: Option<Box<dyn std::error::Error + Send + Sync>>| FanoutError {
            message: format!("{name:?} is no topic of tree-agent"),
            source,
        };
        let rest = name.strip_prefix("tree-agent:").ok_or_else(|| unknown(None))?;
        match rest.split_once(':') {
            Some(("run", id)) => id.parse().map(Topic::Run).map_err(|e| unknown(Some(e.into()))),
            None if rest == "wake" => Ok(Topic::Wake),
            _ => Err(unknown(None)),
        }
    }
}

/// Why fan-out did not work. Never a reason to stop: the log has everything.
#[derive(Debug, thiserror::Error)]
#[error("fan-out is unavailable: {message}")]
pub struct FanoutError {
    /// What happened.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl FanoutError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    fn caused(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }
}

/// Publish and subscribe.
#[async_trait]
pub trait Fanout: Send + Sync {
    /// Sends all messages in order, in one round trip.
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError>;

    /// Listens to a topic. Returns once the broker has confirmed the subscription: what is published after that
    /// is delivered, unless the connection breaks or the buffer overflows. Reconnects and resubscribes by itself.
    /// Several subscriptions to one topic in one process share one at the broker. Dropping it unsubscribes.
    async fn subscribe(&self, topic: Topic) -> Result<Subscription, FanoutError>;

    /// Makes a round trip to the broker. Fails if messages cannot be sent or received now.
    async fn ping(&self) -> Result<(), FanoutError>;

    /// How many messages were dropped because none of our services published them.
    fn dropped(&self) -> u64;
}

/// One listener.
pub struct Subscription {
    receiver: tokio::sync::broadcast::Receiver<Signal>,
    /// Released when the subscription is dropped, so that the adapter can unsubscribe.
    _guard: Box<dyn std::any::Any + Send + Sync>,
}

/// What a subscription hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A message.
    Message(Bytes),
    /// Messages may have been missed, because of an overflow, a broken connection or a missing key: look at the log.
    Missed,
}

impl Subscription {
    /// Wraps what an adapter delivers into; `guard` is dropped with the subscription.
    pub fn new(
        receiver: tokio::sync::broadcast::Receiver<Signal>,
        guard: impl std::any::Any + Send + Sync,
    ) -> Self {
        Self { receiver, _guard: Box::new(guard) }
    }

    /// The next signal; `None` when the adapter is gone.
    pub async fn next(&mut self) -> Option<Signal> {
        use tokio::sync::broadcast::error::RecvError;
        match self.receiver.recv().await {
            Ok(signal) => Some(signal),
            Err(RecvError::Lagged(_)) => Some(Signal::Missed),
            Err(RecvError::Closed) => None,
        }
    }
}

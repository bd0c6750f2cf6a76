//! Fan-out: how drivers tell gateways and each other that there is something new.
//!
//! Every message is a hint. It may be lost, duplicated or reordered, so listeners check it against the log. Over Redis
//! it may also be forged, unless the services share a key ([`ConnectOptions::key`]): messages that are not signed with
//! it are dropped.
//!
//! Three adapters implement [`Fanout`]: Redis pub/sub, sharded pub/sub of a Redis Cluster, and in-process. [`connect`]
//! chooses between the first two by the URL.

mod authentication;
mod in_process;
mod redis_adapter;
mod redis_cluster;
mod topics;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use redis::TlsCertificates;
use tree_agent_contract::RunId;
use tree_agent_security::{Roots, SharedSecrets, install_crypto_provider};

pub use authentication::{Signed, Signer};
pub use in_process::InProcessFanout;
pub use redis_adapter::RedisFanout;
pub use redis_cluster::RedisClusterFanout;

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

/// Bytes that are kept of a message that anybody may have published, in any number and of any size. The run and the
/// number of a first event stand in them.
pub const HINT_BYTES: usize = 128;

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

    /// Whether every delivered message was published by one of our services. If not, a message only means that the log
    /// may have grown, and its content must be read there: at most its first [`HINT_BYTES`] are delivered.
    fn is_authenticated(&self) -> bool;

    /// How many messages were dropped because none of our services published them.
    fn dropped(&self) -> u64;
}

/// How a Redis is connected to.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Authenticates messages; all services of a cluster need the same key.
    pub key: Option<SharedSecrets>,
    /// The certificate authorities to trust when the URL asks for TLS.
    pub roots: Roots,
}

/// The fan-out over what `url` names: one Redis server (`redis://…`) or a Redis Cluster (`redis-cluster://…`, with
/// sharded pub/sub); `rediss://…` and `rediss-cluster://…` are the same over TLS. If it cannot be reached, the fan-out
/// keeps trying to connect in the background.
///
/// # Errors
/// Only for a malformed URL.
pub async fn connect(url: &str, options: &ConnectOptions) -> Result<Arc<dyn Fanout>, FanoutError> {
    install_crypto_provider();
    if url.starts_with("redis-cluster:") || url.starts_with("rediss-cluster:") {
        Ok(Arc::new(RedisClusterFanout::connect(url, options).await?))
    } else {
        Ok(Arc::new(RedisFanout::connect(url, options).await?))
    }
}

/// The certificate authorities for a Redis client; `None` for those of the system.
fn certificates(options: &ConnectOptions) -> Option<TlsCertificates> {
    let root_cert = options.roots.pem().map(<[u8]>::to_vec);
    root_cert.map(|root_cert| TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
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
    /// Messages may have been missed (overflow, or the connection to the broker broke): look at the log.
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

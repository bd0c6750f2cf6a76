//! Fan-out over Redis pub/sub.
//!
//! There are two connections, one to publish and one to listen, so that incoming messages do not delay outgoing ones.
//! Each reconnects until it succeeds. Meanwhile every call fails at once instead of waiting.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisResult, TlsCertificates, Value,
};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tree_agent_security::{Roots, SharedSecrets, install_crypto_provider};

use crate::authentication::Authenticator;
use crate::topics::Topics;
use crate::{Fanout, FanoutError, Subscription, Topic};

/// Time limit of a publication. After it, reading the log is faster.
const PUBLISH_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit of a subscription or a ping.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for Redis at the start.
const INITIAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks of an idle connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How a Redis is connected to.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Authenticates messages; all services of a cluster need the same key.
    pub key: Option<SharedSecrets>,
    /// The certificate authorities to trust when the URL asks for TLS.
    pub roots: Roots,
}

/// A fan-out over the Redis server at `url` (`redis://host:6379`, or `rediss://host:6379` over TLS). If it cannot be
/// reached, the fan-out keeps trying to connect in the background.
///
/// # Errors
/// Only for a URL that names no single Redis server.
pub async fn connect(url: &str, options: &ConnectOptions) -> Result<Arc<dyn Fanout>, FanoutError> {
    install_crypto_provider();
    Ok(Arc::new(RedisFanout::connect(url, options).await?))
}

/// Reads a URL as [`connect`] does.
///
/// # Errors
/// For a URL that names no single Redis server.
pub fn check_url(url: &str) -> Result<(), FanoutError> {
    read_url(url).map(drop)
}

fn malformed(error: RedisError) -> FanoutError {
    FanoutError::caused("the Redis URL is malformed; expected redis://user:password@host:6379", error)
}

fn read_url(url: &str) -> Result<ConnectionInfo, FanoutError> {
    if url.starts_with("redis-cluster:") || url.starts_with("rediss-cluster:") {
        let message =
            "a Redis Cluster cannot be used; name one Redis server, redis://user:password@host:6379";
        return Err(FanoutError::new(message));
    }
    url.into_connection_info().map_err(malformed)
}

/// Fan-out over one Redis server.
struct RedisFanout {
    shared: Arc<Shared>,
}

struct Shared {
    publishing: Link,
    listening: Link,
    authenticator: Arc<Authenticator>,
    topics: Arc<Topics>,
    /// Held while a topic is subscribed to or unsubscribed from, so that the two never overtake each other.
    subscribing: Mutex<()>,
}

impl RedisFanout {
    async fn connect(url: &str, options: &ConnectOptions) -> Result<Self, FanoutError> {
        let info = read_url(url)?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings);
        let tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let client = match options.roots.pem().filter(|_| tls) {
            Some(pem) => Client::build_with_tls(
                info,
                TlsCertificates { client_tls: None, root_cert: Some(pem.to_vec()) },
            ),
            None => Client::open(info),
        };
        let client = client.map_err(malformed)?;
        let topics = Arc::new(Topics::default());
        let authenticator = Arc::new(Authenticator::new(options.key.as_ref()));
        let listening = Link::start(&client, Some((topics.clone(), authenticator.clone())))?;
        let publishing = Link::start(&client, None)?;
        let shared = Shared { publishing, listening, authenticator, topics, subscribing: Mutex::new(()) };
        let fanout = Self { shared: Arc::new(shared) };
        if fanout.shared.wait_until_connected().await.is_err() {
            tracing::warn!("Redis cannot be reached; watchers read the log until it can");
        }
        Ok(fanout)
    }
}

#[async_trait]
impl Fanout for RedisFanout {
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
        if messages.is_empty() {
            return Ok(());
        }
        let mut pipeline = redis::pipe();
        for (topic, message) in messages {
            let topic = topic.to_string();
            pipeline
                .cmd("PUBLISH")
                .arg(&topic)
                .arg(&self.shared.authenticator.sign(&topic, &message)[..])
                .ignore();
        }
        let link = &self.shared.publishing;
        let mut manager = link.manager.clone();
        link.call("publish", PUBLISH_TIMEOUT, pipeline.query_async::<()>(&mut manager)).await
    }

    async fn subscribe(&self, topic: Topic) -> Result<Subscription, FanoutError> {
        // In its own task: a caller that goes away must not leave a topic half subscribed.
        let shared = self.shared.clone();
        match tokio::spawn(async move { shared.subscribe(topic).await }).await {
            Ok(result) => result,
            Err(e) => Err(FanoutError::caused("the subscription was interrupted", e)),
        }
    }

    async fn ping(&self) -> Result<(), FanoutError> {
        for link in [&self.shared.publishing, &self.shared.listening] {
            let mut manager = link.manager.clone();
            let ping = async { redis::cmd("PING").query_async::<()>(&mut manager).await };
            link.call("ping", REQUEST_TIMEOUT, ping).await?;
        }
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.shared.authenticator.dropped()
    }
}

impl Shared {
    async fn wait_until_connected(&self) -> Result<(), tokio::time::error::Elapsed> {
        tokio::time::timeout(INITIAL_CONNECT_TIMEOUT, async {
            self.publishing.wait_until_up().await;
            self.listening.wait_until_up().await;
        })
        .await
    }

    async fn subscribe(self: Arc<Self>, topic: Topic) -> Result<Subscription, FanoutError> {
        let _subscribing = tokio::time::timeout(REQUEST_TIMEOUT, self.subscribing.lock())
            .await
            .map_err(|e| FanoutError::caused("Redis is slow to confirm subscriptions", e))?;
        let (receiver, subscribed) = self.topics.listen(topic);
        // From here on the guard leaves again, also after an error.
        let subscription = Subscription::new(receiver, TopicGuard { shared: self.clone(), topic });
        if !subscribed {
            let mut manager = self.listening.manager.clone();
            let subscribe = async { manager.subscribe(topic.to_string()).await };
            self.listening.call("subscribe", REQUEST_TIMEOUT, subscribe).await?;
            self.topics.subscribed(topic);
        } else if !self.listening.is_up() {
            return Err(FanoutError::new("Redis cannot be reached"));
        }
        Ok(subscription)
    }

    /// Unsubscribes, unless the topic has a listener again.
    async fn unsubscribe(&self, topic: Topic) {
        let _subscribing = self.subscribing.lock().await;
        if self.topics.forget(topic) {
            let mut manager = self.listening.manager.clone();
            let unsubscribe = async { manager.unsubscribe(topic.to_string()).await };
            if let Err(error) = self.listening.call("unsubscribe", REQUEST_TIMEOUT, unsubscribe).await {
                tracing::debug!(%topic, %error, "unsubscribing failed");
            }
        }
    }
}

/// Removes its listener when it is dropped.
struct TopicGuard {
    shared: Arc<Shared>,
    topic: Topic,
}

impl Drop for TopicGuard {
    fn drop(&mut self) {
        if self.shared.topics.leave(self.topic)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (shared, topic) = (self.shared.clone(), self.topic);
            runtime.spawn(async move { shared.unsubscribe(topic).await });
        }
    }
}

/// A connection that reconnects by itself, and whether it is up.
struct Link {
    manager: ConnectionManager,
    state: Arc<State>,
    check: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    up: AtomicBool,
    /// Something went wrong: check now.
    check_now: Notify,
    changed: Notify,
}

impl State {
    fn set(&self, up: bool) {
        if self.up.swap(up, Ordering::AcqRel) != up {
            tracing::debug!(up, "connection to Redis");
            self.changed.notify_waiters();
        }
        if !up {
            self.check_now.notify_one();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.check.abort();
    }
}

impl Link {
    /// A connection with topics listens and delivers messages to them.
    fn start(
        client: &Client,
        topics: Option<(Arc<Topics>, Arc<Authenticator>)>,
    ) -> Result<Self, FanoutError> {
        let state = Arc::new(State::default());
        // The defaults give up after a few seconds, and then subscribers receive nothing more.
        let mut config = ConnectionManagerConfig::new()
            .set_number_of_retries(usize::MAX)
            .set_max_delay(Duration::from_secs(1))
            .set_connection_timeout(Some(Duration::from_secs(2)))
            .set_response_timeout(Some(REQUEST_TIMEOUT));
        if let Some((topics, authenticator)) = topics {
            let state = state.clone();
            config = config
                .set_push_sender(move |push: PushInfo| -> Result<(), FanoutError> {
                    receive(&topics, &authenticator, &state, push);
                    Ok(())
                })
                .set_automatic_resubscription();
        }
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)
            .map_err(|e| FanoutError::caused("the connection to Redis cannot be set up", e))?;
        let check = tokio::spawn(keep_checking(manager.clone(), state.clone()));
        Ok(Self { manager, state, check })
    }

    fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Acquire)
    }

    async fn wait_until_up(&self) {
        loop {
            let changed = self.state.changed.notified();
            if self.is_up() {
                return;
            }
            changed.await;
        }
    }

    /// Makes a call. It fails at once while the connection is down, and after `limit` at the latest.
    async fn call(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = RedisResult<()>>,
    ) -> Result<(), FanoutError> {
        if !self.is_up() {
            return Err(FanoutError::new(format!("{what} failed, Redis cannot be reached")));
        }
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => {
                self.state.set(false);
                Err(FanoutError::caused(format!("{what} failed"), e))
            }
            Err(e) => {
                self.state.set(false);
                Err(FanoutError::caused(format!("{what} took longer than {limit:?}"), e))
            }
        }
    }
}

/// Keeps the state of a connection up to date, and keeps it trying to connect.
async fn keep_checking(mut manager: ConnectionManager, state: Arc<State>) {
    loop {
        // While the manager reconnects, this waits with it.
        let alive = redis::cmd("PING").query_async::<()>(&mut manager).await.is_ok();
        if alive {
            state.set(true);
            let _ = tokio::time::timeout(CHECK_INTERVAL, state.check_now.notified()).await;
        } else {
            state.set(false);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The topic named in a push message.
fn topic_of(value: Option<Value>) -> Option<Topic> {
    match value {
        Some(Value::BulkString(name)) => std::str::from_utf8(&name).ok()?.parse::<Topic>().ok(),
        Some(Value::SimpleString(name)) => name.parse().ok(),
        _ => None,
    }
}

/// Handles what the broker sends unasked.
fn receive(topics: &Topics, authenticator: &Authenticator, state: &State, push: PushInfo) {
    let mut data = push.data.into_iter();
    match push.kind {
        PushKind::Message => {
            if let (Some(topic), Some(Value::BulkString(message))) = (topic_of(data.next()), data.next())
                && let Some(signal) = authenticator.verify(topic, Bytes::from(message))
            {
                topics.deliver(topic, signal);
            }
        }
        PushKind::Subscribe => {
            if let Some(topic) = topic_of(data.next()) {
                topics.confirmed(topic);
            }
        }
        PushKind::Disconnection => {
            topics.mark_all_lost();
            state.set(false);
        }
        _ => {}
    }
}

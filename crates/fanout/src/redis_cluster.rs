//! Fan-out over a Redis Cluster with sharded pub/sub (Redis 7). A topic lives on the node that owns its slot, so
//! messages do not go to every node.
//!
//! The client library follows changes of the cluster's layout when a command is redirected. Two things it leaves to us:
//!
//! - When a slot moves or a node dies, its subscriptions are lost. We mark their topics as lost, and subscribe again
//!   until the topic's new node confirms it.
//! - After an outage of all nodes a connection may stay silent although they are back. We replace a connection that
//!   does not answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo, SingleNodeRoutingInfo};
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisResult};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::authentication::Authenticator;
use crate::redis_adapter::topic_of;
use crate::topics::{TopicGuard, Topics, Unsubscribe};
use crate::{ConnectOptions, Fanout, FanoutError, Signal, Subscription, Topic, certificates};

/// Time limit of publications. After it, reading the log is faster.
const PUBLISH_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit of a subscription or a ping.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for the cluster at the start.
const INITIAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks of an idle connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a failed check or a failed subscription is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a connection may be silent before it is replaced.
const RECONNECT_AFTER: Duration = Duration::from_secs(3);
/// Subscriptions in flight at the same time after an outage.
const CONCURRENT_SUBSCRIBES: usize = 64;

/// Fan-out over a Redis Cluster. Clones share its connections.
#[derive(Clone)]
pub struct RedisClusterFanout {
    shared: Arc<Shared>,
    _tasks: Arc<Tasks>,
}

struct Shared {
    /// `None` until the first connection.
    publishing: watch::Receiver<Option<ClusterConnection>>,
    listening: watch::Receiver<Option<ClusterConnection>>,
    topics: Arc<Topics>,
    authenticator: Arc<Authenticator>,
    state: Arc<State>,
    /// Held while a topic is subscribed to or unsubscribed from, so that the two never overtake each other.
    subscribing: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Some node answered the last check.
    up: AtomicBool,
    /// Something went wrong: check now.
    check_now: Notify,
}

/// Background work that ends with the fan-out.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl RedisClusterFanout {
    /// A fan-out over the cluster of which `url` (`redis-cluster://host:6379,host2:6379`, over TLS with
    /// `rediss-cluster://`) names some nodes. If none of them can be reached, the fan-out keeps trying to connect in
    /// the background.
    ///
    /// # Errors
    /// Only for a malformed URL.
    pub async fn connect(url: &str, options: &ConnectOptions) -> Result<Self, FanoutError> {
        let nodes = nodes(url)?;
        let topics = Arc::new(Topics::default());
        let state = Arc::new(State::default());
        let (set_publishing, publishing) = watch::channel(None);
        let (set_listening, listening) = watch::channel(None);
        let authenticator = Arc::new(Authenticator::new(options.key.as_ref()));
        let pushes = (topics.clone(), authenticator.clone(), state.clone());
        let listener = client(&nodes, options, Some(pushes))?;
        let publisher = client(&nodes, options, None)?;
        let subscribing = Mutex::new(());
        let shared = Arc::new(Shared { publishing, listening, topics, authenticator, state, subscribing });
        let maintainer = shared.clone();
        let tasks = vec![
            tokio::spawn(async move {
                let mut link = Link::reach(publisher, set_publishing).await;
                loop {
                    let reachable = link.check().await != Check::Unreachable;
                    tokio::time::sleep(if reachable { CHECK_INTERVAL } else { RETRY_DELAY }).await;
                }
            }),
            tokio::spawn(async move {
                let link = Link::reach(listener, set_listening).await;
                maintainer.maintain(link).await;
            }),
        ];
        if tokio::time::timeout(INITIAL_CONNECT_TIMEOUT, shared.wait_until_connected()).await.is_err() {
            tracing::warn!("the Redis Cluster cannot be reached; watchers read the log until it can");
        }
        Ok(Self { shared, _tasks: Arc::new(Tasks(tasks)) })
    }
}

/// The nodes named in a URL, each with its user and password.
fn nodes(url: &str) -> Result<Vec<ConnectionInfo>, FanoutError> {
    let malformed = |cause: Option<redis::RedisError>| FanoutError {
        message: "the Redis URL is malformed; expected redis-cluster://user:password@host:6379,host2:6379"
            .into(),
        source: cause.map(Into::into),
    };
    let (scheme, rest) = url.split_once("-cluster://").ok_or_else(|| malformed(None))?;
    let (user, hosts) = rest.rsplit_once('@').map_or((String::new(), rest), |(u, h)| (format!("{u}@"), h));
    hosts
        .trim_end_matches('/')
        .split(',')
        .map(|host| format!("{scheme}://{user}{host}").into_connection_info().map_err(|e| malformed(Some(e))))
        .collect()
}

fn client(
    nodes: &[ConnectionInfo],
    options: &ConnectOptions,
    pushes: Option<(Arc<Topics>, Arc<Authenticator>, Arc<State>)>,
) -> Result<ClusterClient, FanoutError> {
    let mut builder = ClusterClient::builder(nodes.to_vec())
        .use_protocol(ProtocolVersion::RESP3)
        .connection_timeout(REQUEST_TIMEOUT)
        .response_timeout(REQUEST_TIMEOUT)
        .min_retry_wait(10)
        .max_retry_wait(200);
    if let Some(certificates) = certificates(options) {
        builder = builder.certs(certificates);
    }
    if let Some((topics, authenticator, state)) = pushes {
        builder = builder.push_sender(move |push: PushInfo| -> Result<(), FanoutError> {
            receive(&topics, &authenticator, &state, push);
            Ok(())
        });
    }
    builder.build().map_err(|e| FanoutError::caused("the Redis Cluster cannot be used", e))
}

/// The result of [`Link::check`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// No node answered.
    Unreachable,
    /// A node answered on the existing connection.
    Alive,
    /// A node answered on a new connection, which has no subscriptions.
    Reconnected,
}

/// A connection to the cluster that is replaced when it does not answer.
struct Link {
    client: ClusterClient,
    connection: ClusterConnection,
    /// Where others get it.
    shown: watch::Sender<Option<ClusterConnection>>,
    /// The time of the first check that failed, if the last one did.
    silent: Option<Instant>,
}

impl Link {
    /// Connects, and tries again until it succeeds.
    async fn reach(client: ClusterClient, shown: watch::Sender<Option<ClusterConnection>>) -> Self {
        let connection = loop {
            match client.get_async_connection().await {
                Ok(connection) => break connection,
                Err(error) => {
                    tracing::debug!(%error, "no node of the Redis Cluster answers");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        };
        shown.send_replace(Some(connection.clone()));
        Self { client, connection, shown, silent: None }
    }

    /// Pings a random node, and reconnects after too many failures.
    async fn check(&mut self) -> Check {
        let random = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        let ping = self.connection.route_command(redis::cmd("PING"), random);
        if tokio::time::timeout(REQUEST_TIMEOUT, ping).await.is_ok_and(|answer| answer.is_ok()) {
            self.silent = None;
            return Check::Alive;
        }
        if self.silent.get_or_insert_with(Instant::now).elapsed() < RECONNECT_AFTER {
            return Check::Unreachable;
        }
        let Ok(Ok(connection)) =
            tokio::time::timeout(REQUEST_TIMEOUT, self.client.get_async_connection()).await
        else {
            return Check::Unreachable;
        };
        tracing::info!("a connection to the Redis Cluster that did not answer is replaced");
        self.shown.send_replace(Some(connection.clone()));
        (self.connection, self.silent) = (connection, None);
        Check::Reconnected
    }
}

impl Unsubscribe for Shared {
    fn topics(&self) -> &Topics {
        &self.topics
    }

    async fn unsubscribe(self: Arc<Self>, topic: Topic) {
        let _subscribing = self.subscribing.lock().await;
        if self.topics.forget(topic)
            && let Ok(mut connection) = self.ready(&self.listening, "unsubscribe")
            && let Err(error) = self
                .with_timeout("unsubscribe", REQUEST_TIMEOUT, connection.sunsubscribe(topic.to_string()))
                .await
        {
            tracing::debug!(%topic, %error, "unsubscribing failed");
        }
    }
}

#[async_trait]
impl Fanout for RedisClusterFanout {
    async fn publish(&self, messages: Vec<(Topic, Bytes)>) -> Result<(), FanoutError> {
        if messages.is_empty() {
            return Ok(());
        }
        let connection = self.shared.ready(&self.shared.publishing, "publish")?;
        // A pipeline goes to one node, so each topic has its own; within a topic the order is kept.
        let mut pipelines: HashMap<Topic, redis::Pipeline> = HashMap::new();
        for (topic, message) in messages {
            let (name, pipeline) = (topic.to_string(), pipelines.entry(topic).or_default());
            pipeline.cmd("SPUBLISH").arg(&name).arg(self.shared.authenticator.sign(&name, &message)).ignore();
        }
        let sent = pipelines.into_values().map(|pipeline| {
            let mut connection = connection.clone();
            async move { pipeline.query_async::<()>(&mut connection).await }
        });
        // All are tried, even if one node is down.
        let sent = async {
            let outcomes = futures::future::join_all(sent).await;
            outcomes.into_iter().collect::<RedisResult<()>>()
        };
        self.shared.with_timeout("publish", PUBLISH_TIMEOUT, sent).await
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
            let mut connection = self.shared.ready(link, "ping")?;
            let masters = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::AllSucceeded));
            let ping = connection.route_command(redis::cmd("PING"), RoutingInfo::MultiNode(masters));
            self.shared.with_timeout("ping", REQUEST_TIMEOUT, async { ping.await.map(drop) }).await?;
        }
        Ok(())
    }

    fn is_authenticated(&self) -> bool {
        self.shared.authenticator.has_key()
    }

    fn dropped(&self) -> u64 {
        self.shared.authenticator.dropped()
    }
}

impl Shared {
    async fn wait_until_connected(&self) {
        for link in [&self.publishing, &self.listening] {
            // Both stay open as long as the fan-out.
            let _ = link.clone().wait_for(Option::is_some).await;
        }
        while !self.state.up.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The connection, if the last check succeeded.
    fn ready(
        &self,
        link: &watch::Receiver<Option<ClusterConnection>>,
        what: &str,
    ) -> Result<ClusterConnection, FanoutError> {
        let connection = link.borrow().clone().filter(|_| self.state.up.load(Ordering::Acquire));
        connection
            .ok_or_else(|| FanoutError::new(format!("{what} failed, the Redis Cluster cannot be reached")))
    }

    async fn with_timeout(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = RedisResult<()>>,
    ) -> Result<(), FanoutError> {
        let failed = match tokio::time::timeout(limit, call).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => FanoutError::caused(format!("{what} failed"), e),
            Err(e) => FanoutError::caused(format!("{what} took longer than {limit:?}"), e),
        };
        self.state.check_now.notify_one();
        Err(failed)
    }

    async fn subscribe(self: Arc<Self>, topic: Topic) -> Result<Subscription, FanoutError> {
        let _subscribing = tokio::time::timeout(REQUEST_TIMEOUT, self.subscribing.lock())
            .await
            .map_err(|e| FanoutError::caused("Redis is slow to confirm subscriptions", e))?;
        let mut connection = self.ready(&self.listening, "subscribe")?;
        let (receiver, first) = self.topics.listen(topic);
        // From here on the guard leaves again, also after an error.
        let subscription = Subscription::new(receiver, TopicGuard { adapter: self.clone(), topic });
        if first {
            self.with_timeout("subscribe", REQUEST_TIMEOUT, connection.ssubscribe(topic.to_string())).await?;
        }
        Ok(subscription)
    }

    /// Keeps the state up to date and the topics subscribed.
    async fn maintain(&self, mut link: Link) {
        loop {
            let outcome = link.check().await;
            if outcome == Check::Reconnected {
                self.topics.mark_all_lost();
            }
            let up = outcome != Check::Unreachable;
            if self.state.up.swap(up, Ordering::AcqRel) != up {
                tracing::info!(up, "connection to the Redis Cluster");
            }
            let resubscribed = up && self.resubscribe(&link.connection).await;
            let wait = if resubscribed { CHECK_INTERVAL } else { RETRY_DELAY };
            let _ = tokio::time::timeout(wait, self.state.check_now.notified()).await;
        }
    }

    /// Subscribes to lost topics again. Returns true if none is left.
    async fn resubscribe(&self, connection: &ClusterConnection) -> bool {
        let lost = self.topics.lost_topics();
        let confirmed = futures::stream::iter(lost.iter().copied())
            .map(|topic| {
                let mut connection = connection.clone();
                async move {
                    let subscribe = connection.ssubscribe(topic.to_string());
                    let done = tokio::time::timeout(REQUEST_TIMEOUT, subscribe)
                        .await
                        .is_ok_and(|answer| answer.is_ok());
                    if done {
                        self.topics.confirmed(topic);
                    }
                    done
                }
            })
            .buffer_unordered(CONCURRENT_SUBSCRIBES)
            .filter(|done| std::future::ready(*done))
            .count()
            .await;
        confirmed == lost.len()
    }
}

/// Handles what the nodes send unasked.
fn receive(topics: &Topics, authenticator: &Authenticator, state: &State, push: PushInfo) {
    let mut data = push.data.into_iter();
    match push.kind {
        PushKind::SMessage => {
            if let (Some(topic), Some(redis::Value::BulkString(message))) =
                (topic_of(data.next()), data.next())
                && let Some(message) = authenticator.verify(topic, Bytes::from(message))
            {
                topics.deliver(topic, Signal::Message(message));
            }
        }
        // We unsubscribed, or the node did because the slot moved away.
        PushKind::SUnsubscribe => {
            if let Some(topic) = topic_of(data.next()) {
                topics.mark_lost(topic);
                state.check_now.notify_one();
            }
        }
        // The message does not say which node it was.
        PushKind::Disconnection => {
            topics.mark_all_lost();
            state.check_now.notify_one();
        }
        _ => {}
    }
}

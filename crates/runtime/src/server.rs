//! The server behind every port.
//!
//! `accept` accepts connections, `connection` serves one over its `socket`, [`crate::request`] checks (`hosts`,
//! `origins`) and observes each request, `bodies` limits request bodies by their `framing`, `remainder` reads what
//! services leave of them, `answers` limits the bytes that clients do not read, `public` limits health checks and
//! reflection, and a `shared_limit` each holds for open requests and for the answers that their clients do not read
//! (`unread`).

mod accept;
pub(crate) mod answers;
mod args;
pub(crate) mod bodies;
pub(crate) mod connection;
mod framing;
pub(crate) mod hosts;
pub(crate) mod origins;
pub(crate) mod public;
pub(crate) mod remainder;
pub(crate) mod shared_limit;
mod socket;
pub(crate) mod unread;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::IntoResponse;
use http::Request;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

use self::accept::Slots;
use self::answers::Answers;
use self::bodies::Bodies;
use self::connection::Port;
use self::public::PublicRequests;
use self::shared_limit::SharedLimit;
use crate::metrics::Metrics;
use crate::protocol::Protocol;
use crate::readiness::Readiness;
use crate::request::RequestPolicy;
use crate::{errors, former_path, listen};

pub use accept::Proxies;
pub use answers::{OnDemand, Static};
pub use args::ServerArgs;
pub use bodies::BodyLimits;
pub use hosts::Hosts;
pub use origins::Origins;

/// The default time that open calls have to end after shutdown.
pub const DRAIN: Duration = Duration::from_secs(10);

/// Everything that can be set for a port.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The time that open calls have to end after shutdown. Default [`DRAIN`].
    pub drain: Duration,
    /// The address for metrics; `None` serves them on the port of the calls.
    pub metrics: Option<SocketAddr>,
    /// The names under which the server may be called, besides IP addresses and loopback names.
    pub hosts: Hosts,
    /// Which web pages, besides the server's own, may call from a browser.
    pub origins: Origins,
    /// Limits of connections.
    pub connections: ConnectionLimits,
    /// Limits of request bodies.
    pub bodies: BodyLimits,
    /// Bytes of all answers that their clients have not read yet. Default 256 MiB.
    pub answer_bytes: usize,
    /// Answers that may wait for their clients; beyond them the connection with the most is cut. Default 16,384.
    pub unread_answers: usize,
    /// Requests that may be open; beyond them the connection with the most is cut. Default 32,768.
    pub open_requests: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            drain: DRAIN,
            metrics: None,
            hosts: Hosts::default(),
            origins: Origins::default(),
            connections: ConnectionLimits::default(),
            bodies: BodyLimits::default(),
            answer_bytes: answers::BUDGET_BYTES,
            unread_answers: unread::ANSWERS,
            open_requests: connection::REQUESTS,
        }
    }
}

impl ServerConfig {
    fn policy(&self, message_bytes: fn(&str) -> usize, counts_bodies: bool) -> Arc<RequestPolicy> {
        Arc::new(RequestPolicy {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            bodies: Bodies::new(self.bodies),
            answers: Answers::new(self.answer_bytes),
            unread: SharedLimit::new(self.unread_answers, "TREE_AGENT_UNREAD_ANSWERS"),
            requests: SharedLimit::new(self.open_requests, "TREE_AGENT_OPEN_REQUESTS"),
            public: PublicRequests::default(),
            message_bytes,
            counts_bodies,
        })
    }
}

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Connections that may be open; further clients wait. Default 10,000, and never more than three quarters of the
    /// files that the process may have open.
    pub total: usize,
    /// Connections that one address may have open; further ones are closed at once. Loopback and `proxies` have no such
    /// limit. Default 256.
    pub per_address: usize,
    /// Addresses that stand for many clients.
    pub proxies: Proxies,
    /// Streams that a connection may have open; a client waits with further ones. Default 4,096.
    pub streams: u32,
    /// How long a new connection may take to send the head of its first request. Default 10 s.
    pub first_request: Duration,
    /// How long a connection stays without an open request, and how long a client may take nothing of what waits for it
    /// on the connection. Default 300 s.
    pub idle: Duration,
    /// Silence after which a client is pinged. Default 30 s.
    pub keep_alive: Duration,
    /// How long the answer to a ping may take before the connection is closed with all its streams. Default 20 s.
    pub keep_alive_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total: 10_000,
            per_address: 256,
            proxies: Proxies::default(),
            streams: 4_096,
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            keep_alive: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(20),
        }
    }
}

/// Sets the message size limit of the public contract on a generated server:
/// `limited!(PlannerServiceServer::new(planner))`.
#[macro_export]
macro_rules! limited {
    ($server:expr) => {
        $server
            .max_decoding_message_size($crate::server::MESSAGE_BYTES)
            .max_encoding_message_size($crate::server::MESSAGE_BYTES)
    };
}

/// Bytes of one gRPC message in either direction.
pub const MESSAGE_BYTES: usize = tree_agent_contract::limits::MESSAGE_BYTES;

/// Why a server stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The API's own descriptors cannot be served.
    #[error("reflection cannot be served")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The address for metrics cannot be used.
    #[error("TREE_AGENT_METRICS_LISTEN: metrics cannot be served there")]
    Metrics(#[from] listen::BindError),
    /// The listener cannot be used.
    #[error("the listener cannot be used")]
    Listener(#[from] io::Error),
}

/// Builds a server. It adds `grpc.health.v1`, reflection v1 and v1alpha, `GET /metrics`, one log line per request,
/// keep-alive, the limits of [`ServerConfig`] and a bounded drain to the services that are added.
pub struct Server {
    routes: Routes,
    readiness: Readiness,
    config: ServerConfig,
    metrics: Metrics,
    message_bytes: fn(&str) -> usize,
    counts_bodies: bool,
}

/// The maximum for services that set none.
fn default_message_bytes(_: &str) -> usize {
    MESSAGE_BYTES
}

impl Server {
    /// A server whose health is that of `readiness`.
    pub fn new(readiness: Readiness) -> Self {
        Self {
            routes: Routes::default(),
            metrics: Metrics::new(&readiness),
            readiness,
            config: ServerConfig::default(),
            message_bytes: default_message_bytes,
            counts_bodies: false,
        }
    }

    /// Sets the maximum bytes of a request's message by the path of its method (`/package.Service/Method`). Without it
    /// [`MESSAGE_BYTES`] applies to all. A longer message is refused before memory is allocated for it.
    #[must_use]
    pub fn message_bytes(mut self, of: fn(&str) -> usize) -> Self {
        self.message_bytes = of;
        self
    }

    /// Counts the body of a request among the open requests until its answer ends. A stream may keep what it was asked
    /// for. Servers whose callers are trusted leave this out, because their calls take long and may have large bodies.
    #[must_use]
    pub fn count_bodies(mut self) -> Self {
        self.counts_bodies = true;
        self
    }

    /// Adds a service. Wrap generated servers in [`limited!`](crate::limited).
    #[must_use]
    pub fn service<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes = self.routes.add_service(service);
        self
    }

    /// Like [`service`](Self::service); methods at paths in `former` (`/old.v1.Service/Method`) answer as well.
    #[must_use]
    pub fn service_formerly_at<S>(mut self, service: S, former: &[&'static str]) -> Self
    where
        S: Service<Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes = former_path::add(self.routes, service, former);
        self
    }

    /// Sets everything that can be configured, instead of the defaults.
    #[must_use]
    pub fn config(mut self, config: ServerConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the time that open calls have to end after shutdown.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.config.drain = drain;
        self
    }

    /// Adds the metrics of a part of the service.
    #[must_use]
    pub fn measure(mut self, add: impl FnOnce(&mut Metrics)) -> Self {
        add(&mut self.metrics);
        self
    }

    /// Serves until `shutdown` is cancelled and open calls have ended, or the drain time is over.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        self.serve_wrapped(listener, shutdown, |routes| routes).await
    }

    /// Like [`serve`](Self::serve), with all routes (health and reflection among them, metrics not) passed through
    /// `wrap`.
    pub async fn serve_wrapped(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
        wrap: impl FnOnce(Routes) -> Routes,
    ) -> Result<(), ServeError> {
        let Self { routes, readiness, config, mut metrics, message_bytes, counts_bodies } = self;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tree_agent_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = routes
            .add_service(readiness.service())
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        let (policy, limits) = (config.policy(message_bytes, counts_bodies), config.connections);
        let slots = || Slots::new(limits.total, limits.per_address, limits.proxies.clone());
        let counted = slots();
        measure(&mut metrics, &counted, &policy);
        let metrics = Arc::new(metrics).router();
        let (routes, apart) = match config.metrics {
            None => (Routes::from(metrics.merge(wrap(routes).into_axum_router())), None),
            Some(address) => (wrap(routes), Some((listen::bind(address).await?, Routes::from(metrics)))),
        };
        let cut = CancellationToken::new();
        let port = |routes: Routes, slots, stop| {
            let (policy, limits) = (policy.clone(), limits.clone());
            Arc::new(Port::new(routes.prepare(), policy, limits, slots, stop, cut.clone()))
        };
        // Metrics stay readable while calls drain.
        let _ends_with_us = cut.clone().drop_guard();
        if let Some((listener, routes)) = apart {
            let port = port(routes, slots(), cut.clone());
            tokio::spawn(async move { port.accept(&listener).await });
        }
        let port = port(routes, counted, shutdown.clone());
        let drained = async {
            port.accept(&listener).await;
            // New clients are refused at once, so that they try another replica.
            drop(listener);
            port.closed().await;
        };
        let drain = config.drain;
        let end = async {
            shutdown.cancelled().await;
            readiness.drain().await;
            tokio::time::sleep(drain).await;
            tracing::warn!(
                after_ms = drain.as_millis() as u64,
                "calls are still open after the drain time; cutting them"
            );
            cut.cancel();
            // `drained` completes when all connections are closed.
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            () = drained => Ok(()),
            never = end => match never {},
        }
    }
}

/// The lock of a mutex. What a panic left behind is counts, which are no worse than before.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the metrics of a port.
fn measure(metrics: &mut Metrics, slots: &Slots, policy: &RequestPolicy) {
    let RequestPolicy { bodies, answers, unread, requests, .. } = policy;
    let (open, refused) = (slots.clone(), slots.clone());
    metrics
        .gauge("tree_agent_connections", "Connections of clients that are open", move || open.open() as f64);
    metrics.counter(
        "tree_agent_connections_refused",
        "Connections closed at once because their address had too many",
        move || refused.refused() as f64,
    );
    let (held, refused) = (bodies.clone(), bodies.clone());
    metrics.gauge("tree_agent_request_body_bytes", "Bytes of request bodies that are held", move || {
        held.held() as f64
    });
    metrics.counter(
        "tree_agent_request_bodies_refused",
        "Request bodies refused because they were too long, too slow or too many",
        move || refused.refused() as f64,
    );
    let (held, dropped) = (answers.clone(), answers.clone());
    metrics.gauge(
        "tree_agent_answer_bytes",
        "Bytes of answers that their clients have not read yet",
        move || held.held() as f64,
    );
    metrics.counter(
        "tree_agent_answers_dropped",
        "Answers dropped because their clients did not read them while others waited",
        move || dropped.dropped() as f64,
    );
    let waiting = unread.clone();
    metrics.gauge("tree_agent_unread_answers", "Answers that wait for their clients to read on", move || {
        waiting.held() as f64
    });
    let open = requests.clone();
    metrics.gauge(
        "tree_agent_open_requests",
        "Requests whose answers have not ended, those with long heads several times",
        move || open.held() as f64,
    );
    let limits = [unread.clone(), requests.clone()];
    metrics.counter(
        "tree_agent_connections_cut",
        "Connections cut because they had the most open requests or unread answers when there were too many",
        move || limits.iter().map(SharedLimit::cut).sum::<u64>() as f64,
    );
}

/// Serves health on `listener` while `connecting` runs: not ready, with the reasons that `connecting` sets in
/// `readiness`. Every other call is `UNAVAILABLE`. Returns the listener and the result of `connecting`, or `None` if
/// `shutdown` comes first.
pub async fn while_starting<T>(
    listener: TcpListener,
    config: &ServerConfig,
    readiness: &Readiness,
    shutdown: &CancellationToken,
    connecting: impl Future<Output = T>,
) -> Option<(TcpListener, T)> {
    let routes = axum::Router::new().fallback(starting);
    let routes = Routes::from(routes).add_service(readiness.service()).prepare();
    // These connections are closed when the service itself starts; clients connect again.
    let stop = CancellationToken::new();
    let limits = config.connections.clone();
    let slots = Slots::new(limits.total, limits.per_address, limits.proxies.clone());
    let policy = config.policy(default_message_bytes, false);
    let port = Arc::new(Port::new(routes, policy, limits, slots, stop.clone(), stop.clone()));
    let connecting = async {
        let made = shutdown.run_until_cancelled(connecting).await;
        stop.cancel();
        made
    };
    let ((), made) = tokio::join!(port.accept(&listener), connecting);
    port.closed().await;
    Some((listener, made?))
}

/// The response to every call except health while a service starts; a browser gets a plain 503.
async fn starting(request: axum::extract::Request) -> axum::response::Response {
    let status = errors::status(Code::Unavailable, "STARTING", "the service is starting; try again");
    Protocol::of(&request.into_parts().0).refusal(status).map(axum::body::Body::new)
}

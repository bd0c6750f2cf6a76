//! The server behind every port.
//!
//! `accept` accepts connections, `connection` serves one and `activity` says whether it is idle, `request` checks
//! (`hosts`, `origins`) and observes each request and refuses it in the form of its `protocol`. The limits are those of
//! the HTTP and gRPC libraries; `settings` says which of them can be set.

mod accept;
mod activity;
mod connection;
mod hosts;
pub mod listen;
mod origins;
pub mod protocol;
mod request;
pub mod role_token;
pub(crate) mod settings;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use http::Request;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

use self::connection::Port;
use self::protocol::Protocol;
use crate::errors;
use crate::readiness::Readiness;
use crate::telemetry::metrics::Metrics;

pub use hosts::Hosts;
pub use origins::Origins;
pub use settings::{ConnectionLimits, DRAIN, ServerArgs, ServerConfig};

/// Streams that a connection may have open if nothing else is set. A driver has thousands of role calls in flight.
const STREAMS: u32 = 4_096;

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
    streams: u32,
}

impl Server {
    /// A server whose health is that of `readiness`.
    pub fn new(readiness: Readiness) -> Self {
        Self {
            routes: Routes::default(),
            metrics: Metrics::new(&readiness),
            readiness,
            config: ServerConfig::default(),
            streams: STREAMS,
        }
    }

    /// Sets how many streams a connection may have open, unless that is configured. Default 4,096.
    #[must_use]
    pub fn streams(mut self, streams: u32) -> Self {
        self.streams = streams;
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
        let Self { routes, readiness, config, mut metrics, streams } = self;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tree_agent_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = routes
            .add_service(readiness.service())
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        let open = TaskTracker::new();
        let counted = open.clone();
        let help = "Connections of clients that are open";
        metrics.gauge("tree_agent_connections", help, move || counted.len() as f64);
        let metrics = Arc::new(metrics).router();
        let (routes, apart) = match config.metrics {
            None => (Routes::from(metrics.merge(wrap(routes).into_axum_router())), None),
            Some(address) => (wrap(routes), Some((listen::bind(address).await?, Routes::from(metrics)))),
        };
        let cut = CancellationToken::new();
        let (drain, config) = (config.drain, Arc::new(config));
        let port = |routes: Routes, stop, open| {
            Arc::new(Port::new(routes.prepare(), config.clone(), streams, stop, cut.clone(), open))
        };
        // Metrics stay readable while calls drain.
        let _ends_with_us = cut.clone().drop_guard();
        if let Some((listener, routes)) = apart {
            let port = port(routes, cut.clone(), TaskTracker::new());
            tokio::spawn(async move { port.accept(&listener).await });
        }
        let port = port(routes, shutdown.clone(), open);
        let drained = async {
            port.accept(&listener).await;
            // New clients are refused at once, so that they try another replica.
            drop(listener);
            port.closed().await;
        };
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
    let config = Arc::new(config.clone());
    let port = Arc::new(Port::new(routes, config, STREAMS, stop.clone(), stop.clone(), TaskTracker::new()));
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

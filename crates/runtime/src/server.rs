//! One gRPC server: what every service's port has in common.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::IntoResponse;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Code;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tower::Service;

use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::request::RequestLayer;
use crate::{errors, former_path, listen};

/// How long open calls get to end when nothing else was configured.
pub const DRAIN: Duration = Duration::from_secs(10);
/// Room for what a client sends on one stream, and on a whole connection: a slow stream must not starve others.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// What a client's connection may do.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Streams that it may have open; a client waits with further ones. Default 4,096.
    pub streams: u32,
    /// Silence after which it is pinged. Default 30 s.
    pub keep_alive: Duration,
    /// How long the answer to a ping may take before the connection is cut, and with it every stream of a client that
    /// is gone or takes nothing any more. Default 20 s.
    pub keep_alive_timeout: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            streams: 4_096,
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
    /// The transport failed.
    #[error("the server stopped")]
    Transport(#[from] tonic::transport::Error),
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

/// A server in the making. It adds `grpc.health.v1`, reflection v1 and v1alpha, `GET /metrics`, one log line per
/// request, keep-alive and a bounded drain to the services that are added.
pub struct Server {
    routes: Routes,
    readiness: Readiness,
    drain: Duration,
    connections: Connections,
    metrics: Metrics,
    metrics_at: Option<SocketAddr>,
}

impl Server {
    /// A server whose health is that of `readiness`.
    pub fn new(readiness: Readiness) -> Self {
        Self {
            routes: Routes::default(),
            metrics: Metrics::new(&readiness),
            readiness,
            drain: DRAIN,
            connections: Connections::default(),
            metrics_at: None,
        }
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

    /// How long open calls get to end after shutdown, instead of [`DRAIN`].
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Other limits for connections than the defaults.
    #[must_use]
    pub fn connections(mut self, connections: Connections) -> Self {
        self.connections = connections;
        self
    }

    /// Adds the metrics of a part of the service.
    #[must_use]
    pub fn measure(mut self, add: impl FnOnce(&mut Metrics)) -> Self {
        add(&mut self.metrics);
        self
    }

    /// Serves metrics at an address of their own, not beside the calls: for a port that everybody reaches.
    #[must_use]
    pub fn metrics_at(mut self, address: Option<SocketAddr>) -> Self {
        self.metrics_at = address;
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
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tree_agent_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = self
            .routes
            .add_service(self.readiness.service())
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);
        let metrics = Arc::new(self.metrics).router();
        let (routes, apart) = match self.metrics_at {
            None => (Routes::from(metrics.merge(wrap(routes).into_axum_router())), None),
            Some(address) => (wrap(routes), Some((listen::bind(address).await?, metrics))),
        };
        let scraped = async {
            match apart {
                Some((listener, metrics)) => axum::serve(listener, metrics).await,
                None => std::future::pending().await,
            }
        };
        let cut = CancellationToken::new();
        let connection_cut = cut.clone();
        let incoming = TcpListenerStream::new(listener).map(move |stream| {
            let stream = stream?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(Connection { stream, cut: Box::pin(connection_cut.clone().cancelled_owned()) })
        });
        let stop = shutdown.clone();
        let server = tonic::transport::Server::builder()
            .accept_http1(true)
            .max_concurrent_streams(self.connections.streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keepalive_interval(Some(self.connections.keep_alive))
            .http2_keepalive_timeout(Some(self.connections.keep_alive_timeout))
            .layer(RequestLayer)
            .serve_with_incoming_shutdown(routes.prepare(), incoming, stop.cancelled_owned());
        let (readiness, drain) = (self.readiness, self.drain);
        let end = async move {
            shutdown.cancelled().await;
            readiness.drain().await;
            tokio::time::sleep(drain).await;
            tracing::warn!(
                after_ms = drain.as_millis() as u64,
                "calls are still open after the drain time; cutting them"
            );
            cut.cancel();
            // The server ends by itself once its connections are gone.
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            outcome = server => outcome.map_err(ServeError::from),
            never = end => match never {},
            failed = scraped => failed.map_err(ServeError::from),
        }
    }
}

/// Serves health (red, with the reasons that `connecting` sets in `readiness`) on `listener` while `connecting`
/// runs; every other call is `UNAVAILABLE`. Returns the listener and what `connecting` made, or `None` when
/// `shutdown` came first.
pub async fn while_starting<T>(
    listener: TcpListener,
    readiness: &Readiness,
    shutdown: &CancellationToken,
    connecting: impl Future<Output = T>,
) -> Result<Option<(TcpListener, T)>, ServeError> {
    let listener = listener.into_std()?;
    let early = TcpListener::from_std(listener.try_clone()?)?;
    let routes = axum::Router::new().fallback(starting);
    let health = Routes::from(routes).add_service(readiness.service());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let cut = stop.clone();
    // A connection that is made now is closed when the service itself begins: clients connect again.
    let incoming = TcpListenerStream::new(early).map(move |stream| {
        Ok::<_, io::Error>(Connection { stream: stream?, cut: Box::pin(cut.clone().cancelled_owned()) })
    });
    let server = tonic::transport::Server::builder().accept_http1(true).layer(RequestLayer);
    let server = server.serve_with_incoming_shutdown(health, incoming, stopped.cancelled_owned());
    let connecting = async {
        let made = tokio::select! {
            made = connecting => Some(made),
            () = shutdown.cancelled() => None,
        };
        stop.cancel();
        made
    };
    let (served, made) = tokio::join!(server, connecting);
    served?;
    Ok(match made {
        Some(made) => Some((TcpListener::from_std(listener)?, made)),
        None => None,
    })
}

/// The answer to every call but health while a service starts; a browser gets a plain 503.
async fn starting(headers: http::HeaderMap) -> axum::response::Response {
    let text = "the service is starting; try again";
    let content_type = headers.get(http::header::CONTENT_TYPE);
    if content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc")) {
        return errors::status(Code::Unavailable, "STARTING", text).into_http();
    }
    (http::StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// A TCP connection that ends hard when its token is cancelled.
struct Connection {
    stream: TcpStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut at the end of the drain time"))
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;
    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

//! Serves connections over HTTP/1.1 or HTTP/2. It closes a connection on which no request comes, and all of them when
//! the server stops; at the end of the drain time it cuts them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::accept::Acceptor;
use super::activity::{OpenRequest, idle};
use super::request::RequestService;
use super::settings::ServerConfig;

/// Flow-control windows of one stream and of a whole connection. Slow streams must not starve the others.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Maximum bytes of the head of a request. A longer one is answered with 431.
const HEAD_BYTES: u32 = 32 * 1024;
/// Bytes of an answer that wait in HTTP/2 until the socket takes them. What a client does not read stays in its body.
const SEND_BUFFER: usize = 64 * 1024;
/// Time for the closing handshake of a connection without open requests.
const LINGER: Duration = Duration::from_secs(2);

/// The connections of one port.
pub(super) struct Port {
    http: Builder<TokioExecutor>,
    service: RequestService<Routes>,
    config: Arc<ServerConfig>,
    /// Connections are closed when their requests have ended.
    stop: CancellationToken,
    /// Connections are closed at once.
    cut: CancellationToken,
    open: TaskTracker,
}

impl Port {
    /// `streams` is the limit of streams per connection unless it is set. Connections are counted in `open`.
    pub(super) fn new(
        routes: Routes,
        config: Arc<ServerConfig>,
        streams: u32,
        stop: CancellationToken,
        cut: CancellationToken,
        open: TaskTracker,
    ) -> Self {
        let limits = &config.connections;
        let mut http = Builder::new(TokioExecutor::new());
        // `idle` limits the time for heads, for both protocols.
        http.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES as usize);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams.unwrap_or(streams))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEAD_BYTES)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(limits.keep_alive)
            .keep_alive_timeout(limits.keep_alive_timeout);
        let service = RequestService::new(routes, config.clone());
        Self { http, service, config, stop, cut, open }
    }

    /// Accepts connections until the port stops.
    pub(super) async fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let mut acceptor = Acceptor::new(listener, self.config.connections.total);
        while let Some((stream, permit)) = self.stop.run_until_cancelled(acceptor.next()).await {
            let port = self.clone();
            self.open.spawn(async move {
                port.serve(stream).await;
                drop(permit);
            });
        }
    }

    /// Waits until every connection is closed. None may be accepted any more.
    pub(super) async fn closed(&self) {
        self.open.close();
        self.open.wait().await;
    }

    async fn serve(&self, stream: TcpStream) {
        let limits = &self.config.connections;
        // A socket whose client has gone cannot be set up. The first read says the same.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        // For HTTP/1.1 clients that read nothing. HTTP/2 notices by its pings, which are not answered.
        stream.set_write_timeout(Some(limits.idle));
        let open = watch::Sender::new(0);
        let (service, requests) = (self.service.clone(), open.clone());
        let service = service_fn(move |request| {
            let (service, open) = (service.clone(), OpenRequest::new(requests.clone()));
            Box::pin(async move { Ok::<_, Infallible>(service.answer(request, open).await) })
        });
        let io = TokioIo::new(Box::pin(stream));
        let mut connection = std::pin::pin!(self.http.serve_connection(io, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = self.cut.cancelled() => return,
            () = self.stop.cancelled() => None,
            () = idle(open.subscribe(), limits.first_request, limits.idle) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.cut.cancelled() => return,
                    // A request that arrived at the last moment is still answered.
                    () = idle(open.subscribe(), LINGER, LINGER) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!("a connection failed: {error}");
        }
    }
}

//! Serves one connection over HTTP/1.1 or HTTP/2. It closes the connection if no request comes, if the client reads
//! nothing, and when the server stops; at the end of the drain time it cuts it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::ConnectionLimits;
use super::accept::{Acceptor, Slot, Slots};
use super::bodies::head_bytes;
use super::locked;
use super::shared_limit::{Counter, Gate, Held};
use super::socket::{Blocked, Socket};
use super::unread::Connection;
use crate::request::{RequestPolicy, RequestService};

/// The default limit of open requests.
pub(super) const REQUESTS: usize = 32_768;
/// What an open request takes until its answer ends, besides its answer. One whose head or body takes more counts for
/// several.
const REQUEST_BYTES: usize = 3 * 1024;

/// Flow-control windows of one stream and of a whole connection. Slow streams must not starve the others.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Maximum bytes of the head of an HTTP/1.1 request. A head that is not complete counts in no budget.
const HEAD_BYTES: usize = 32 * 1024;
/// Time for the closing handshake of a connection that is closed because it is idle.
const LINGER: Duration = Duration::from_secs(2);

/// The connections of one port.
pub(super) struct Port {
    http: Builder<TokioExecutor>,
    routes: Routes,
    policy: Arc<RequestPolicy>,
    limits: ConnectionLimits,
    slots: Slots,
    /// Connections are closed when their requests have ended.
    stop: CancellationToken,
    /// Connections are closed at once.
    cut: CancellationToken,
    open: TaskTracker,
}

impl Port {
    pub(super) fn new(
        routes: Routes,
        policy: Arc<RequestPolicy>,
        limits: ConnectionLimits,
        slots: Slots,
        stop: CancellationToken,
        cut: CancellationToken,
    ) -> Self {
        let mut http = Builder::new(TokioExecutor::new());
        // `Activity` limits the time for heads, for both protocols.
        http.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(limits.keep_alive)
            .keep_alive_timeout(limits.keep_alive_timeout);
        Self { http, routes, policy, limits, slots, stop, cut, open: TaskTracker::new() }
    }

    /// Accepts connections until the port stops.
    pub(super) async fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let mut acceptor = Acceptor::new(listener, self.slots.clone());
        while let Some((stream, address, slot)) = self.stop.run_until_cancelled(acceptor.next()).await {
            let port = self.clone();
            self.open.spawn(async move { port.serve(stream, address, slot).await });
        }
    }

    /// Waits until every connection is closed. None may be accepted any more.
    pub(super) async fn closed(&self) {
        self.open.close();
        self.open.wait().await;
    }

    async fn serve(&self, stream: TcpStream, address: SocketAddr, _slot: Slot) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, "a connection cannot be used: {error}");
            return;
        }
        let mut stream = TimeoutStream::new(stream);
        // For HTTP/1.1 clients that read nothing. HTTP/2 notices by its pings, which are not answered.
        stream.set_write_timeout(Some(self.limits.idle));
        let (requests, unread) = (self.policy.requests.connect(), Connection::new(&self.policy.unread));
        let activity = Arc::new(Activity::new(requests.counter()));
        let service = RequestService::new(self.routes.clone(), self.policy.clone(), unread.reader());
        let counted = activity.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            // It counts from here on. Its task may have to wait for thousands of others.
            let (head, body) = request.into_parts();
            let open = counted.begin(1 + head_bytes(&head) / REQUEST_BYTES);
            let (service, request) = (service.clone(), Request::from_parts(head, body));
            Box::pin(service.answer(request, open))
        });
        let (stream, blocked) = Socket::new(Box::pin(stream), Gate::new(requests.counter()));
        let io = TokioIo::new(stream);
        let mut connection = std::pin::pin!(self.http.serve_connection(io, service));
        let idle = activity.idle(self.limits.first_request, self.limits.idle);
        let cut = async {
            tokio::select! {
                () = self.cut.cancelled() => {}
                () = requests.cut() => {}
                () = unread.cut() => {}
            }
        };
        tokio::pin!(cut);
        let outcome = tokio::select! {
            outcome = drive(connection.as_mut(), &unread, &blocked) => outcome,
            () = &mut cut => return,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    outcome = drive(connection, &unread, &blocked) => outcome,
                    () = cut => return,
                }
            }
            () = idle => {
                tracing::debug!(%address, "closing a connection without requests");
                connection.as_mut().graceful_shutdown();
                let silent = async {
                    tokio::time::sleep(LINGER).await;
                    // A request that arrived at the last moment is still answered.
                    activity.idle(Duration::ZERO, Duration::ZERO).await;
                };
                tokio::select! {
                    outcome = drive(connection, &unread, &blocked) => outcome,
                    () = cut => return,
                    () = silent => return,
                }
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%address, "a connection failed: {error}");
        }
    }
}

/// Serves until the connection ends, and notes which answers have been sent: when it waits for something else than its
/// socket, it has written everything that it had to write when it was woken.
async fn drive<F: Future>(mut connection: Pin<&mut F>, unread: &Connection, blocked: &Blocked) -> F::Output {
    std::future::poll_fn(|cx| {
        let heads = unread.heads();
        let outcome = connection.as_mut().poll(cx);
        if !blocked.is_blocked() {
            unread.sent(heads);
        }
        outcome
    })
    .await
}

/// The open requests of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    requests: Counter,
    state: Mutex<State>,
    /// Notified when the last open request has ended.
    emptied: Notify,
}

#[derive(Debug)]
struct State {
    open: usize,
    /// Whether there has been a request.
    used: bool,
    /// Since when no request is open.
    since: Instant,
}

/// Keeps a request open.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    activity: Arc<Activity>,
    held: Held,
}

impl OpenRequest {
    /// Whether nobody waits for the answer, because the connection is being cut or has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.held.is_over()
    }

    /// So many bytes of its body stay in memory until the answer ends.
    pub(crate) fn keeps(&mut self, bytes: usize) {
        self.held.grow(bytes / REQUEST_BYTES);
    }
}

impl Activity {
    /// A new connection, of which `requests` counts the requests.
    fn new(requests: Counter) -> Self {
        let state = State { open: 0, used: false, since: Instant::now() };
        Self { requests, state: Mutex::new(state), emptied: Notify::new() }
    }

    /// A request is open until the returned guard is dropped. It counts for so many.
    fn begin(self: &Arc<Self>, number: usize) -> OpenRequest {
        let mut state = locked(&self.state);
        state.open += 1;
        state.used = true;
        drop(state);
        OpenRequest { activity: self.clone(), held: self.requests.hold(number) }
    }

    /// Returns when the connection has had no open request for too long: `first` before its first request, then
    /// `further`.
    pub(super) async fn idle(&self, first: Duration, further: Duration) {
        loop {
            let deadline = {
                let state = locked(&self.state);
                (state.open == 0).then(|| state.since + if state.used { further } else { first })
            };
            match deadline {
                None => self.emptied.notified().await,
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::time::sleep_until(at).await,
            }
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = locked(&self.activity.state);
        state.open -= 1;
        if state.open == 0 {
            state.since = Instant::now();
            drop(state);
            self.activity.emptied.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::shared_limit::SharedLimit;

    const FIRST: Duration = Duration::from_secs(10);
    const FURTHER: Duration = Duration::from_secs(300);

    async fn idle_after(activity: &Activity) -> Duration {
        let begin = Instant::now();
        activity.idle(FIRST, FURTHER).await;
        begin.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_while_no_request_is_open() {
        let requests = SharedLimit::new(10, "LIMIT");
        let connection = requests.connect();
        let activity = Arc::new(Activity::new(connection.counter()));
        assert_eq!(idle_after(&activity).await.as_secs(), 10);
        let (first, second) = (activity.begin(1), activity.begin(1));
        assert_eq!(requests.held(), 2);
        let waiting = tokio::time::timeout(Duration::from_secs(10_000), activity.idle(FIRST, FURTHER));
        assert!(waiting.await.is_err(), "idle with open requests");
        drop(first);
        let mut second = second;
        second.keeps(3 * REQUEST_BYTES + 1);
        assert_eq!(requests.held(), 4);
        let waiting = tokio::time::timeout(Duration::from_secs(10_000), activity.idle(FIRST, FURTHER));
        assert!(waiting.await.is_err(), "idle with an open request");
        drop(second);
        assert_eq!((idle_after(&activity).await.as_secs(), requests.held()), (300, 0));
    }
}

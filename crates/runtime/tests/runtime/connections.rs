//! What a client may hold of a server: connections that say nothing, stay idle, are too many, or send too much.
//!
//! Where a test waits for a deadline it pauses the clock, which then moves on whenever everything waits. Until then
//! time is real: what was sent must have arrived.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::Service;
use tree_agent_runtime::server::{ConnectionLimits, ServeError, ServerConfig};
use tree_agent_runtime::{Readiness, Server, listen};

/// A service that reads a message as tonic's services do and answers with its length, or with the error. `Large`
/// answers with [`LARGE`] bytes.
#[derive(Clone)]
struct Reader;

impl NamedService for Reader {
    const NAME: &'static str = "test.Reader";
}

impl Service<Request<Body>> for Reader {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path().ends_with("/Large") {
            return Box::pin(async {
                let _ = request.into_body().collect().await;
                Ok(Response::new(Body::new(Full::new(Bytes::from(vec![7; LARGE])))))
            });
        }
        Box::pin(async move {
            let status = match request.into_body().collect().await {
                Ok(body) => Status::new(Code::Ok, body.to_bytes().len().to_string()),
                Err(status) => status,
            };
            Ok(status.into_http())
        })
    }
}

/// More than sockets hold.
const LARGE: usize = 32 * 1024 * 1024;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    async fn start(config: ServerConfig) -> Self {
        let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let server =
            Server::new(Readiness::new()).config(config).service(Reader).serve(listener, shutdown.clone());
        Self { address, shutdown, served: tokio::spawn(server) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection on which `bytes` were sent.
    async fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
    }
}

/// Whole seconds until the server closes `stream`, and what it said before.
async fn closed(mut stream: TcpStream) -> (u64, Vec<u8>) {
    let (begin, mut said) = (Instant::now(), Vec::new());
    // A reset is an end as well: what the client had sent was not read.
    let _ = stream.read_to_end(&mut said).await;
    (begin.elapsed().as_secs(), said)
}

/// Reads until the answer holds `text`.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut answer = String::new();
    while !answer.contains(text) {
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).await.unwrap();
        assert!(n > 0, "the connection ended after {answer}");
        answer.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    answer
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The preface of HTTP/2 with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A call over HTTP/1.1: its head, and what is sent of a body of `length` bytes.
fn call(method: &str, length: usize, sent: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /{method} HTTP/1.1\r\nhost: localhost\r\nte: trailers\r\n\
         content-type: application/grpc\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), sent].concat()
}

impl Running {
    /// Waits until the server's metrics have this line.
    async fn until(&self, line: &str) {
        let mut stream = self.connect().await;
        let seen = async {
            loop {
                stream.write_all(GET).await.unwrap();
                if read_until(&mut stream, "# EOF").await.contains(line) {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(60), seen).await.unwrap_or_else(|_| panic!("never seen: {line}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_first_request_is_closed_after_ten_seconds() {
    let server = Running::start(ServerConfig::default()).await;
    for (what, sent) in [
        ("silence", &b""[..]),
        ("half a preface", &PREFACE[..12]),
        ("half a head", b"GET / HTTP/1.1\r\nhost: local"),
        ("a preface alone", PREFACE),
    ] {
        let (seconds, _) = closed(server.send(sent).await).await;
        assert!((10..=12).contains(&seconds), "{what}: closed after {seconds} s");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_has_no_more_time() {
    let server = Running::start(ServerConfig::default()).await;
    let (mut read, mut write) = server.send(b"GET / HTTP/1.1\r\n").await.into_split();
    let dripping = tokio::spawn(async move {
        while write.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let (begin, mut said) = (Instant::now(), Vec::new());
    let _ = read.read_to_end(&mut said).await;
    assert!((10..=13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    dripping.abort();
    server.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_with_an_open_stream_is_not() {
    let server = Running::start(ServerConfig::default()).await;
    let mut used = server.send(GET).await;
    read_until(&mut used, "# EOF").await;
    let mut watches = server.send(&call("grpc.health.v1.Health/Watch", 5, &[0; 5])).await;
    // The chunk with the first status.
    read_until(&mut watches, "\x08\x01").await;
    tokio::time::pause();
    let (seconds, _) = closed(used).await;
    assert!((290..=302).contains(&seconds), "closed after {seconds} s");
    let more = timeout(Duration::from_secs(150), watches.readable()).await;
    assert!(more.is_err(), "the stream ended");
    drop(watches);
    server.stop().await;
}

#[tokio::test]
async fn clients_beyond_the_limit_wait_until_a_connection_ends() {
    let connections = ConnectionLimits { total: 2, ..ConnectionLimits::default() };
    let server = Running::start(ServerConfig { connections, ..ServerConfig::default() }).await;
    let (mut first, mut second) = (server.send(GET).await, server.send(GET).await);
    read_until(&mut first, "# EOF").await;
    read_until(&mut second, "tree_agent_connections 2.0\n").await;
    let mut third = server.send(GET).await;
    tokio::time::pause();
    let early = timeout(Duration::from_secs(100), third.readable()).await;
    assert!(early.is_err(), "a third connection was accepted");
    tokio::time::resume();
    drop(first);
    read_until(&mut third, "# EOF").await;
    drop((second, third));
    server.stop().await;
}

#[tokio::test]
async fn silent_connections_leave_their_places_to_others() {
    let connections = ConnectionLimits { total: 200, ..ConnectionLimits::default() };
    let server = Running::start(ServerConfig { connections, ..ServerConfig::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(server.connect().await);
    }
    tokio::time::pause();
    for stream in silent {
        closed(stream).await;
    }
    tokio::time::resume();
    server.until("tree_agent_connections 1.0\n").await;
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_ends_its_request() {
    let server = Running::start(ServerConfig::default()).await;
    let mut slow = server.send(&call("test.Reader/Read", 100, &prefix(95)[..3])).await;
    let begin = Instant::now();
    let answer = read_until(&mut slow, "\r\n\r\n").await;
    assert!(answer.contains("grpc-status: 4"), "{answer}");
    assert!((60..=62).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    drop(slow);
    server.stop().await;
}

/// HTTP/2 clients answer no pings then. For HTTP/1.1 the time for idle connections counts.
#[tokio::test]
async fn a_client_of_http_1_that_reads_nothing_is_closed() {
    let connections = ConnectionLimits { idle: Duration::from_secs(1), ..ConnectionLimits::default() };
    let server = Running::start(ServerConfig { connections, ..ServerConfig::default() }).await;
    let mut silent = server.send(&call("test.Reader/Large", 0, b"")).await;
    read_until(&mut silent, "\r\n\r\n").await;
    server.until("tree_agent_connections 2.0\n").await;
    server.until("tree_agent_connections 1.0\n").await;
    let (_, read) = closed(silent).await;
    assert!(read.len() < LARGE, "{} bytes", read.len());
    server.stop().await;
}

/// The prefix of a gRPC message.
fn prefix(bytes: usize) -> Vec<u8> {
    [&[0][..], &(bytes as u32).to_be_bytes()].concat()
}

#[tokio::test]
async fn a_message_longer_than_its_service_takes_is_refused_by_its_prefix() {
    let server = Running::start(ServerConfig::default()).await;
    let sent = call("grpc.health.v1.Health/Check", 5_000, &prefix(4_097));
    let answer = read_until(&mut server.send(&sent).await, "\r\n\r\n").await;
    assert!(answer.contains("grpc-status: 11") && answer.contains("4096"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_answered_with_431() {
    let server = Running::start(ServerConfig::default()).await;
    let pad = "x".repeat(40_000);
    let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-pad: {pad}\r\n\r\n");
    let (_, answer) = closed(server.send(head.as_bytes()).await).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // HTTP/2 encodes a repeated field in a few bytes.
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
    let status = async |fields: usize| {
        let mut request =
            Request::get(format!("http://{}/metrics", server.address)).body(Full::default()).unwrap();
        for _ in 0..fields {
            request.headers_mut().append("x-field", HeaderValue::from_static(""));
        }
        client.request(request).await.unwrap().status()
    };
    assert_eq!(status(500).await, StatusCode::OK);
    assert_eq!(status(1_000).await, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    drop(client);
    server.stop().await;
}

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
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::Service;
use tree_agent_runtime::server::{BodyLimits, ConnectionLimits, MESSAGE_BYTES, ServeError, ServerConfig};
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

const LARGE: usize = 1024 * 1024;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    async fn start(config: ServerConfig) -> Self {
        let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let server = Server::new(Readiness::new())
            .config(config)
            .message_bytes(|path| if path.ends_with("/Small") { 100 } else { MESSAGE_BYTES })
            .count_bodies()
            .service(Reader)
            .serve(listener, shutdown.clone());
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

#[tokio::test]
async fn a_body_that_does_not_arrive_ends_its_request() {
    let server = Running::start(ServerConfig::default()).await;
    let mut slow = server.send(&call("test.Reader/Read", 100, &prefix(95)[..3])).await;
    server.until(&format!("tree_agent_request_body_bytes {}.0\n", opened(100))).await;
    tokio::time::pause();
    let begin = Instant::now();
    let answer = read_until(&mut slow, "\r\n\r\n").await;
    assert!(answer.contains("grpc-status: 4"), "{answer}");
    assert!((50..=60).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    drop(slow);
    server.stop().await;
}

#[tokio::test]
async fn bodies_that_arrive_at_the_same_time_share_a_budget() {
    const MIB: usize = 1024 * 1024;
    let bodies = BodyLimits { bytes: 3 * MIB, ..BodyLimits::default() };
    let server = Running::start(ServerConfig { bodies, ..ServerConfig::default() }).await;
    // Announces a message of 2 MiB, sends only that, and stays.
    let call = call("test.Reader/Read", 5 + 2 * MIB, &prefix(2 * MIB));
    let held = server.send(&call).await;
    server.until(&format!("tree_agent_request_body_bytes {}.0\n", opened(5 + 2 * MIB) + 5 + 2 * MIB)).await;
    let mut second = server.send(&call).await;
    let answer = read_until(&mut second, "\r\n\r\n").await;
    assert!(answer.contains("grpc-status: 8") && answer.contains("TREE_AGENT_BODY_MIB"), "{answer}");
    drop((held, second));
    // What a client that leaves held is free again.
    server.until("tree_agent_request_body_bytes 0.0\n").await;
    server.until("tree_agent_request_bodies_refused_total 1.0\n").await;
    server.stop().await;
}

#[tokio::test]
async fn a_message_longer_than_its_method_takes_is_refused_by_its_prefix() {
    let server = Running::start(ServerConfig::default()).await;
    for (method, limit) in [
        ("test.Reader/Small", 100),
        ("test.Reader/Read", MESSAGE_BYTES),
        ("grpc.health.v1.Health/Check", 4_096),
        ("grpc.health.v1.Health/Watch", 4_096),
    ] {
        let mut refused = server.send(&call(method, limit + 6, &prefix(limit + 1))).await;
        let answer = read_until(&mut refused, "is%20too%20long").await;
        assert!(answer.contains(&format!("the%20limit%20is%20{limit}")), "{method}: {answer}");
    }
    server.stop().await;
}

/// Asks for a large answer on a connection of HTTP/2, and reads nothing of it.
async fn ask(
    client: &mut h2::client::SendRequest<Bytes>,
) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
    let request = Request::post("http://localhost/test.Reader/Large").body(()).unwrap();
    let ready = client.clone().ready().await.unwrap();
    *client = ready;
    client.send_request(request, true).unwrap()
}

#[tokio::test]
async fn answers_that_nobody_reads_share_a_budget() {
    let server = Running::start(ServerConfig { answer_bytes: 16 * LARGE, ..ServerConfig::default() }).await;
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(0).handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut unread = Vec::new();
    for _ in 0..40 {
        unread.push(ask(&mut client).await);
    }
    // Every time there are 17, the five oldest are dropped.
    server.until("tree_agent_answers_dropped_total 25.0\n").await;
    // A client that reads is still served, however often it asks.
    let (mut reader, connection) = h2::client::handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..20 {
        let (answer, _) = ask(&mut reader).await;
        let mut body = answer.await.unwrap().into_body();
        let mut read = 0;
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            read += part.len();
            body.flow_control().release_capacity(part.len()).unwrap();
        }
        assert_eq!(read, LARGE);
    }
    drop((unread, client));
    server.until("tree_agent_answer_bytes 0.0\n").await;
    server.stop().await;
}

/// A client that got a part of a dropped answer gets no status behind it: its stream is reset with the reason.
#[tokio::test]
async fn the_reader_of_a_dropped_answer_is_told_why() {
    let server = Running::start(ServerConfig { answer_bytes: 2 * LARGE, ..ServerConfig::default() }).await;
    let mut builder = h2::client::Builder::new();
    let stream = server.connect().await;
    let (mut client, connection) =
        builder.initial_connection_window_size(1 << 24).handshake::<_, bytes::Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let (answer, _) = ask(&mut client).await;
    let mut body = answer.await.unwrap().into_body();
    let others = [ask(&mut client).await, ask(&mut client).await];
    server.until("tree_agent_answers_dropped_total 2.0\n").await;
    let mut read = 0;
    let error = loop {
        match body.data().await.expect("the stream is reset") {
            Ok(part) => {
                read += part.len();
                body.flow_control().release_capacity(part.len()).unwrap();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM), "{error}");
    assert!(read < LARGE, "{read}");
    drop((others, client));
    server.stop().await;
}

/// What a [`call`] with a body of `length` bytes counts besides the first part of it: the buffer with which the gRPC
/// library reads it, its head, and a place for the part.
fn opened(length: usize) -> usize {
    let headers = "hostlocalhosttetrailerscontent-typeapplication/grpccontent-length".len();
    8 * 1024 + 64 + "POST/test.Reader/Read".len() + 4 * 208 + headers + length.to_string().len()
}

/// The prefix of a gRPC message.
fn prefix(bytes: usize) -> Vec<u8> {
    [&[0][..], &(bytes as u32).to_be_bytes()].concat()
}

#[tokio::test]
async fn a_probe_is_answered_however_many_strangers_hold_health_checks_open() {
    let server = Running::start(ServerConfig::default()).await;
    let stream = server.connect().await;
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..1_500 {
        let request = Request::post("http://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        client = client.ready().await.unwrap();
        let (answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data(prefix(1_000).into(), false).unwrap();
        open.push((answer, body));
    }
    // The oldest have been answered to make room.
    let (oldest, _) = open.remove(0);
    let refused = oldest.await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], "8");
    let mut probe = server.send(&call("grpc.health.v1.Health/Check", 5, &prefix(0))).await;
    read_until(&mut probe, "\x08\x01").await;
    // None of them counts for the calls of those who have a token.
    server.until("tree_agent_request_body_bytes 0.0\n").await;
    drop((open, client));
    server.stop().await;
}

/// A request of reflection with a long host.
fn question() -> Bytes {
    let host = vec![b'a'; 3_900];
    let message = [&[0x0a, 0x80 | (3_900 & 0x7f) as u8, (3_900 >> 7) as u8][..], &host, &[0x3a, 0]].concat();
    [prefix(message.len()), message].concat().into()
}

/// The server keeps little of what a client sends that reads no answers: all of it is taken from the connection.
#[tokio::test]
async fn reflection_is_not_kept_for_clients_that_read_nothing() {
    const STREAMS: usize = 32;
    let server = Running::start(ServerConfig::default()).await;
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(0).handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let request =
            Request::post("http://localhost/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
                .header("content-type", "application/grpc")
                .body(())
                .unwrap();
        client = client.ready().await.unwrap();
        let (answer, mut body) = client.send_request(request, false).unwrap();
        // Each stream has a window of 1 MiB, and all of them 4 MiB together.
        let mut unsent = Bytes::from(question().repeat(250));
        while !unsent.is_empty() {
            body.reserve_capacity(unsent.len());
            let room = std::future::poll_fn(|cx| body.poll_capacity(cx));
            let room = timeout(Duration::from_secs(60), room).await.expect("the server keeps what was sent");
            let part = unsent.split_to(room.unwrap().unwrap().min(unsent.len()));
            body.send_data(part, false).unwrap();
        }
        open.push((answer, body));
    }
    // Others are still answered.
    let mut probe = server.send(&call("grpc.health.v1.Health/Check", 5, &prefix(0))).await;
    read_until(&mut probe, "\x08\x01").await;
    drop((open, client));
    server.stop().await;
}

/// An answer of one part counts until its client has taken it, too: HTTP/2 holds the part until then.
#[tokio::test]
async fn an_answer_counts_until_its_last_part_is_taken() {
    let server = Running::start(ServerConfig::default()).await;
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(1).handshake(server.connect().await).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://localhost/metrics").body(()).unwrap();
    let ready: h2::client::SendRequest<Bytes> = client.clone().ready().await.unwrap();
    client = ready;
    let (answer, _) = client.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut read = body.data().await.unwrap().unwrap();
    server.until("tree_agent_unread_answers 1.0\n").await;
    while let Some(part) = {
        body.flow_control().release_capacity(read.len()).unwrap();
        body.data().await
    } {
        read = part.unwrap();
    }
    server.until("tree_agent_unread_answers 0.0\n").await;
    drop(client);
    server.stop().await;
}

/// A client that reads nothing of its answers, and whether its connection is open.
async fn client_that_reads_nothing(
    server: &Running,
) -> (h2::client::SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let mut builder = h2::client::Builder::new();
    let stream = server.connect().await;
    let (client, connection) = builder.initial_window_size(0).handshake(stream).await.unwrap();
    (client, tokio::spawn(connection))
}

#[tokio::test]
async fn the_connection_with_the_most_unread_answers_is_cut() {
    let server = Running::start(ServerConfig { unread_answers: 20, ..ServerConfig::default() }).await;
    let (mut few, few_open) = client_that_reads_nothing(&server).await;
    let (mut many, many_open) = client_that_reads_nothing(&server).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(ask(&mut few).await);
    }
    server.until("tree_agent_unread_answers 8.0\n").await;
    for _ in 0..12 {
        unread.push(ask(&mut many).await);
    }
    server.until("tree_agent_unread_answers 20.0\n").await;
    unread.push(ask(&mut few).await);
    // Once it is cut, nothing of it counts.
    let _ = many_open.await.unwrap();
    server.until("tree_agent_unread_answers 9.0\n").await;
    server.until("tree_agent_connections_cut_total 1.0\n").await;
    assert!(!few_open.is_finished());
    drop((unread, few, many));
    server.until("tree_agent_unread_answers 0.0\n").await;
    server.stop().await;
}

#[tokio::test]
async fn the_connection_with_the_most_open_requests_is_cut() {
    let server = Running::start(ServerConfig { open_requests: 20, ..ServerConfig::default() }).await;
    let (mut few, few_open) = client_that_reads_nothing(&server).await;
    let (mut many, many_open) = client_that_reads_nothing(&server).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(ask(&mut few).await);
    }
    for _ in 0..12 {
        open.push(ask(&mut many).await);
    }
    // This request is one too many.
    server.until("tree_agent_open_requests 9.0\n").await;
    let _ = many_open.await.unwrap();
    server.until("tree_agent_connections_cut_total 1.0\n").await;
    assert!(!few_open.is_finished());
    drop((open, few, many));
    server.until("tree_agent_open_requests 1.0\n").await;
    server.stop().await;
}

/// A stream may keep what it was asked for.
#[tokio::test]
async fn a_body_counts_among_the_open_requests_until_its_answer_ends() {
    let server = Running::start(ServerConfig { open_requests: 40, ..ServerConfig::default() }).await;
    let (mut client, connection) = client_that_reads_nothing(&server).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let request = Request::post("http://localhost/test.Reader/Large").body(()).unwrap();
        client = client.ready().await.unwrap();
        let (answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from(vec![0; 45 * 1024]), true).unwrap();
        open.push((answer, body));
    }
    // Each of them counts for itself and for 15 times 3 KB, besides the request for the metrics.
    server.until("tree_agent_open_requests 33.0\n").await;
    open.push(ask(&mut client).await);
    server.until("tree_agent_open_requests 34.0\n").await;
    let request = Request::post("http://localhost/test.Reader/Large").body(()).unwrap();
    client = client.ready().await.unwrap();
    let (_answer, mut body) = client.send_request(request, false).unwrap();
    body.send_data(Bytes::from(vec![0; 45 * 1024]), true).unwrap();
    let _ = connection.await.unwrap();
    server.until("tree_agent_connections_cut_total 1.0\n").await;
    server.until("tree_agent_open_requests 1.0\n").await;
    server.stop().await;
}

#[tokio::test]
async fn a_request_of_a_connection_that_is_cut_is_not_begun() {
    let server = Running::start(ServerConfig { open_requests: 4, ..ServerConfig::default() }).await;
    let pad = "x".repeat(30_000);
    let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-pad: {pad}\r\n\r\n");
    let mut stream = server.send(head.as_bytes()).await;
    let mut answer = Vec::new();
    // The connection may also be reset.
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(String::from_utf8(answer).unwrap(), "");
    server.until("tree_agent_connections_cut_total 1.0\n").await;
    server.stop().await;
}

#[tokio::test]
async fn connect_over_http_2_is_reset() {
    let server = Running::start(ServerConfig::default()).await;
    let (client, _open) = client_that_reads_nothing(&server).await;
    let mut client = client.ready().await.unwrap();
    let request = Request::connect("localhost:80").body(()).unwrap();
    let (answer, _body) = client.send_request(request, false).unwrap();
    assert_eq!(answer.await.unwrap_err().reason(), Some(h2::Reason::CONNECT_ERROR));
    server.stop().await;
}

//! Which hosts and which web pages a server answers, on every kind of port.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;
use tree_agent_runtime::server::{ServerConfig, while_starting};
use tree_agent_runtime::{Readiness, Server, listen};
use tree_agent_testkit::ports::Port;

/// The status line of the answer to a request with these header lines, over HTTP/1.1.
async fn status(address: SocketAddr, method: &str, path: &str, headers: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Runs `test` against a server: its calls' address, and that of its metrics.
async fn with_server(config: ServerConfig, test: impl AsyncFnOnce(SocketAddr, SocketAddr)) {
    let metrics = Port::claim().unwrap();
    let config = ServerConfig { metrics: Some(metrics.address()), ..config };
    let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
    let server = tokio::spawn(Server::new(Readiness::new()).config(config).serve(listener, shutdown.clone()));
    // Answers only once everything is bound.
    status(address, "GET", "/", &["host: localhost"]).await;
    test(address, metrics.address()).await;
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn foreign_names_are_refused_on_every_port() {
    let config = ServerConfig { hosts: "tree-agent.example".parse().unwrap(), ..ServerConfig::default() };
    with_server(config, async |calls, metrics| {
        for address in [calls, metrics] {
            for host in
                ["evil.example", "evil.example:7400", "localhost.evil.example", "127.0.0.1.nip.example"]
            {
                let line = status(address, "GET", "/metrics", &[&format!("host: {host}")]).await;
                assert_eq!(line, "HTTP/1.1 421 Misdirected Request", "{host} at {address}");
            }
            for host in ["tree-agent.example", "localhost:1", "ui.localhost", "127.0.0.1", "[::1]:7400"] {
                let line = status(address, "GET", "/metrics", &[&format!("host: {host}")]).await;
                assert_eq!(line, "HTTP/1.1 200 OK", "{host} at {address}");
            }
            let line = status(address, "GET", "http://evil.example/metrics", &["host: localhost"]).await;
            assert_eq!(line, "HTTP/1.1 421 Misdirected Request", "at {address}");
            for hosts in [&[][..], &["host: localhost", "host: localhost"], &["host: a b"]] {
                let line = status(address, "GET", "/metrics", hosts).await;
                assert_eq!(line, "HTTP/1.1 400 Bad Request", "{hosts:?} at {address}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn foreign_names_are_refused_while_a_service_starts() {
    let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
    let token = shutdown.clone();
    let server = tokio::spawn(async move {
        let never = std::future::pending::<()>();
        while_starting(listener, &ServerConfig::default(), &Readiness::new(), &token, never).await.is_some()
    });
    let line = status(address, "GET", "/", &["host: evil.example"]).await;
    assert_eq!(line, "HTTP/1.1 421 Misdirected Request");
    assert_eq!(status(address, "GET", "/", &["host: localhost"]).await, "HTTP/1.1 503 Service Unavailable");
    shutdown.cancel();
    assert!(!server.await.unwrap());
}

/// The answer to a request over HTTP/2 whose `:authority` is that of `uri`.
async fn http2(uri: &str, address: SocketAddr, host: Option<&str>) -> Response<Bytes> {
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build::<_, Full<Bytes>>(To(address));
    let mut request = Request::get(uri);
    if let Some(host) = host {
        request = request.header(header::HOST, host);
    }
    let response = client.request(request.body(Full::default()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// Connects to one address whatever the URI says.
#[derive(Clone)]
struct To(SocketAddr);

impl tower::Service<Uri> for To {
    type Response = hyper_util::rt::TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0;
        Box::pin(async move { Ok(hyper_util::rt::TokioIo::new(TcpStream::connect(address).await?)) })
    }
}

#[tokio::test]
async fn over_http2_authority_and_host_are_checked() {
    with_server(ServerConfig::default(), async |calls, metrics| {
        for address in [calls, metrics] {
            let answer = async |uri, host| http2(uri, address, host).await.status();
            assert_ne!(answer("http://localhost/", None).await, StatusCode::MISDIRECTED_REQUEST);
            assert_eq!(answer("http://evil.example/", None).await, StatusCode::MISDIRECTED_REQUEST);
            let disagrees = answer("http://localhost/", Some("evil.example")).await;
            assert_eq!(disagrees, StatusCode::MISDIRECTED_REQUEST);
            let disagrees = answer("http://localhost/", Some("127.0.0.1")).await;
            assert_eq!(disagrees, StatusCode::BAD_REQUEST);
        }
    })
    .await;
}

#[tokio::test]
async fn a_grpc_client_is_told_which_setting_names_the_host() {
    with_server(ServerConfig::default(), async |calls, _| {
        let endpoint = Endpoint::try_from(format!("http://{calls}")).unwrap();
        let endpoint = endpoint.origin(Uri::from_static("http://executor:7402"));
        let refused = HealthClient::new(endpoint.connect_lazy()).check(HealthCheckRequest::default()).await;
        let refused = refused.unwrap_err();
        let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
        assert_eq!((refused.code(), reason.as_deref()), (Code::PermissionDenied, Some("HOST_UNKNOWN")));
        assert!(refused.message().contains("TREE_AGENT_HOSTS"), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn requests_of_foreign_pages_are_refused_and_not_only_their_preflights() {
    with_server(ServerConfig::default(), async |calls, metrics| {
        let method = "/grpc.health.v1.Health/Check";
        for address in [calls, metrics] {
            for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
                let headers = ["host: localhost", &format!("origin: {origin}"), "content-type: text/plain"];
                for (verb, path) in [("POST", method), ("GET", "/metrics"), ("OPTIONS", method)] {
                    let line = status(address, verb, path, &headers).await;
                    assert_eq!(line, "HTTP/1.1 403 Forbidden", "{verb} from {origin} at {address}");
                }
            }
            let own = format!("http://{address}");
            for origin in ["http://localhost:5173", own.as_str()] {
                let headers = [&format!("host: {address}"), &format!("origin: {origin}")[..]];
                let line = status(metrics, "GET", "/metrics", &headers).await;
                assert_eq!(line, "HTTP/1.1 200 OK", "from {origin}");
            }
        }
    })
    .await;
}

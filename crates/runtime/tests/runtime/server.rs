//! A bare server over loopback: health, reflection, error details, draining, balancing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};
use tonic_types::StatusExt;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_runtime::channel::{self, Peers};
use tree_agent_runtime::metrics::PATH;
use tree_agent_runtime::server::{ConnectionLimits, ServerConfig, while_starting};
use tree_agent_runtime::{Readiness, Server, errors, listen};
use tree_agent_testkit::ports::Port;

async fn bind() -> (TcpListener, Uri) {
    let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    (listener, url)
}

async fn health(peers: &Peers, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.into() };
    HealthClient::new(peers.clone()).check(request).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn health_follows_readiness() {
    let (listener, url) = bind().await;
    let (readiness, shutdown) = (Readiness::new(), CancellationToken::new());
    readiness.require("store").await;
    let server = tokio::spawn(Server::new(readiness.clone()).serve(listener, shutdown.clone()));
    let peers = channel::single(url);
    assert_eq!(health(&peers, "").await, ServingStatus::NotServing);
    readiness.set("store", Ok(())).await;
    assert_eq!(health(&peers, "").await, ServingStatus::Serving);
    assert_eq!(health(&peers, "store").await, ServingStatus::Serving);
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

/// What `GET path` answers over HTTP/1.1, head and body.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn metrics_stand_beside_the_calls_or_at_an_address_of_their_own() {
    for of_their_own in [false, true] {
        let ((listener, _), shutdown) = (bind().await, CancellationToken::new());
        let address = listener.local_addr().unwrap();
        let free = Port::claim().unwrap();
        let metrics_at = of_their_own.then(|| free.address());
        let config = ServerConfig { metrics: metrics_at, ..ServerConfig::default() };
        let server = Server::new(Readiness::new()).config(config).measure(|metrics| {
            metrics.counter("tree_agent_things", "Things", || 3.0);
        });
        let server = tokio::spawn(server.serve(listener, shutdown.clone()));
        // Answers only once everything is bound.
        let beside = get(address, PATH).await;
        let text = match metrics_at {
            Some(apart) => {
                assert!(beside.starts_with("HTTP/1.1 200") && beside.contains("grpc-status: 12"), "{beside}");
                get(apart, PATH).await
            }
            None => beside,
        };
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
        for line in ["tree_agent_things_total 3.0\n", "tree_agent_ready 1.0\n", "# EOF\n"] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        shutdown.cancel();
        server.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn reflection_v1_and_v1alpha_list_the_api() {
    let (listener, url) = bind().await;
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(Server::new(Readiness::new()).serve(listener, shutdown.clone()));
    let peers = channel::single(url);

    let ask = v1::ServerReflectionRequest {
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(String::new())),
        ..Default::default()
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(peers.clone());
    let mut answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap().into_inner();
    let text = format!("{:?}", answers.next().await.unwrap().unwrap());
    assert!(text.contains("treeagent.v1.RunService") && text.contains("grpc.health.v1.Health"), "{text}");

    let ask = v1alpha::ServerReflectionRequest {
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
        ..Default::default()
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(peers);
    let mut answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap().into_inner();
    let text = format!("{:?}", answers.next().await.unwrap().unwrap());
    assert!(text.contains("treeagent.v1.ProjectService"), "{text}");
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn errors_of_the_library_carry_details_too() {
    let (listener, url) = bind().await;
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(Server::new(Readiness::new()).serve(listener, shutdown.clone()));
    let error = RunServiceClient::new(channel::single(url))
        .get_run(tree_agent_proto::v1::GetRunRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    let details = error.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), (errors::DOMAIN, "UNIMPLEMENTED"));
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_waits_with_streams_beyond_its_limit() {
    let (listener, url) = bind().await;
    let shutdown = CancellationToken::new();
    let connections = ConnectionLimits { streams: Some(2), ..ConnectionLimits::default() };
    let config = ServerConfig { drain: Duration::ZERO, connections, ..ServerConfig::default() };
    let server = Server::new(Readiness::new()).config(config);
    let server = tokio::spawn(server.serve(listener, shutdown.clone()));
    let client = HealthClient::new(channel::single(url));
    let watch = async || {
        let mut client = client.clone();
        let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        watch
    };
    let (first, _second) = (watch().await, watch().await);
    let mut third = Box::pin(watch());
    // The answer to a stream that may be opened comes within a millisecond or two.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "a third stream was opened");
    drop(first);
    tokio::time::timeout(Duration::from_secs(10), third).await.expect("the third stream has its turn");
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_that_stays_open_is_cut_at_the_end_of_the_drain_time() {
    let (listener, url) = bind().await;
    let shutdown = CancellationToken::new();
    let drain = Duration::from_millis(200);
    let server = tokio::spawn(Server::new(Readiness::new()).drain(drain).serve(listener, shutdown.clone()));
    let mut client = HealthClient::new(channel::single(url));
    let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let begin = Instant::now();
    shutdown.cancel();
    assert_eq!(watch.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    tokio::time::timeout(Duration::from_secs(5), server).await.expect("bounded").unwrap().unwrap();
    assert!(begin.elapsed() >= drain);
    assert!(watch.next().await.unwrap().is_err());
}

#[tokio::test]
async fn while_a_service_starts_its_health_is_red_and_calls_are_unavailable() {
    let (listener, url) = bind().await;
    let (readiness, shutdown) = (Readiness::new(), CancellationToken::new());
    readiness.require("store").await;
    let (connect, connected) = tokio::sync::oneshot::channel::<()>();
    let (ready, token) = (readiness.clone(), shutdown.clone());
    let server = tokio::spawn(async move {
        let (listener, _) =
            while_starting(listener, &ServerConfig::default(), &ready, &token, connected).await.unwrap();
        ready.set("store", Ok(())).await;
        Server::new(ready).serve(listener, token).await
    });
    let peers = channel::balanced(&[url]);
    assert_eq!(health(&peers, "").await, ServingStatus::NotServing);
    let error =
        RunServiceClient::new(peers.clone()).get_run(tree_agent_proto::v1::GetRunRequest::default()).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.code(), error.get_error_details().error_info().unwrap().reason.as_str()),
        (Code::Unavailable, "STARTING")
    );
    connect.send(()).unwrap();
    let serving = async {
        let request = HealthCheckRequest::default();
        while !HealthClient::new(peers.clone())
            .check(request.clone())
            .await
            .is_ok_and(|r| r.into_inner().status() == ServingStatus::Serving)
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("serves after it has started");
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_are_spread_over_replicas_and_a_host_name_is_looked_up() {
    let (one, first) = bind().await;
    let port = one.local_addr().unwrap().port();
    let (two, second) = bind().await;
    let shutdown = CancellationToken::new();
    let (red, green) = (Readiness::new(), Readiness::new());
    red.require("never").await;
    let a = tokio::spawn(Server::new(red).serve(one, shutdown.clone()));
    let b = tokio::spawn(Server::new(green).serve(two, shutdown.clone()));
    let peers = channel::balanced(&[first, second]);
    let mut seen = std::collections::HashSet::new();
    let both = async {
        while seen.len() < 2 {
            seen.insert(health(&peers, "").await as i32);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), both).await.expect("both replicas are used");
    let named = channel::balanced(&[format!("http://localhost:{port}").parse().unwrap()]);
    // localhost may resolve to ::1 as well, where nothing listens: calls that land there are repeated.
    let found = async {
        while HealthClient::new(named.clone()).check(HealthCheckRequest::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), found).await.expect("the name is looked up");
    shutdown.cancel();
    a.await.unwrap().unwrap();
    b.await.unwrap().unwrap();
}

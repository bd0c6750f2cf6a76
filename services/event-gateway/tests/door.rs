//! One port: gRPC, gRPC-web from HTTP/1.1, the web UI, health and reflection.

mod common;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use common::{Gateway, Mode, SOON};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;

async fn http(
    gateway: &Gateway,
    request: http::request::Builder,
    path: &str,
    body: Bytes,
) -> Response<Bytes> {
    let request: Request<Full<Bytes>> =
        request.uri(format!("http://{}{path}", gateway.address)).body(Full::new(body)).unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = tokio::time::timeout(SOON, client.request(request)).await.unwrap().unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

fn framed(message: &impl Message) -> Bytes {
    let mut buffer = BytesMut::new();
    buffer.put_u8(0);
    buffer.put_u32(message.encoded_len() as u32);
    message.encode(&mut buffer).unwrap();
    buffer.freeze()
}

/// The messages of a gRPC-web body, and its trailers.
fn unframed(mut body: Bytes) -> (Vec<Bytes>, String) {
    let (mut messages, mut trailers) = (Vec::new(), String::new());
    while body.has_remaining() {
        let kind = body.get_u8();
        let length = body.get_u32() as usize;
        let part = body.split_to(length);
        if kind & 0x80 == 0 {
            messages.push(part);
        } else {
            trailers.push_str(&String::from_utf8_lossy(&part));
        }
    }
    (messages, trailers)
}

async fn web(gateway: &Gateway, method: &str, message: &impl Message) -> (Vec<Bytes>, String) {
    let request = Request::post("/").header(header::CONTENT_TYPE, "application/grpc-web+proto");
    let request = request.header(header::ORIGIN, "http://localhost:5173");
    let response = http(gateway, request, &format!("/treeagent.v1.{method}"), framed(message)).await;
    assert_eq!(response.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://localhost:5173");
    assert_eq!(response.version(), http::Version::HTTP_11);
    if let Some(status) = response.headers().get("grpc-status") {
        return (Vec::new(), format!("grpc-status:{}", status.to_str().unwrap()));
    }
    unframed(response.into_body())
}

#[tokio::test]
async fn a_browser_creates_and_watches_a_run() {
    let gateway = Gateway::start(Config::default()).await;
    let create = CreateRunRequest { objective: "from a browser".into(), ..Default::default() };
    let (messages, trailers) = web(&gateway, "RunService/CreateRun", &create).await;
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
    let run = CreateRunResponse::decode(messages[0].clone()).unwrap().run.unwrap();
    let mut log = gateway.drive(&run).await;
    log.append(3, 10).await;
    log.finish().await;
    let watch = WatchRunRequest { run_id: run.run_id, ..Default::default() };
    let (messages, trailers) = web(&gateway, "RunService/WatchRun", &watch).await;
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
    assert_eq!(messages.len() as u64, log.head + 1, "every event, and caught_up");
    let (_, trailers) = web(&gateway, "RunService/GetRun", &GetRunRequest { run_id: "x".into() }).await;
    assert!(trailers.contains("grpc-status:3"), "{trailers}");
    gateway.stop().await;
}

#[tokio::test]
async fn other_sites_may_not_call() {
    let gateway = Gateway::start(Config::default()).await;
    let ask = |origin: &str| {
        Request::builder()
            .method(Method::OPTIONS)
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "content-type,x-grpc-web")
    };
    let path = "/treeagent.v1.RunService/CreateRun";
    let ours = http(&gateway, ask("http://127.0.0.1:5173"), path, Bytes::new()).await;
    assert_eq!(ours.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://127.0.0.1:5173");
    let theirs = http(&gateway, ask("https://example.org"), path, Bytes::new()).await;
    assert!(!theirs.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    gateway.stop().await;
}

#[tokio::test]
async fn pages_are_html_under_a_strict_policy() {
    let gateway = Gateway::start(Config::default()).await;
    for path in ["/", "/runs", "/runs/0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"] {
        let page = http(&gateway, Request::get("/"), path, Bytes::new()).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        assert!(page.headers()[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
        let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("script-src 'self';"), "{policy}");
        assert!(page.body().starts_with(b"<!doctype html>"), "{path}");
    }
    let missing = http(&gateway, Request::get("/"), "/assets/nothing.js", Bytes::new()).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let posted = http(&gateway, Request::post("/"), "/", Bytes::new()).await;
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    gateway.stop().await;
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let gateway = Gateway::start(Config::default()).await;
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let ask = ServerReflectionRequest { host: String::new(), message_request };
    let mut client = ServerReflectionClient::new(gateway.connect());
    let asked = futures::stream::iter([ask]);
    let mut answers = client.server_reflection_info(asked).await.unwrap().into_inner();
    let text = format!("{:?}", answers.message().await.unwrap().unwrap());
    for service in ["RunService", "DocumentService", "ProjectService"] {
        assert!(text.contains(&format!("treeagent.v1.{service}")), "{text}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn health_is_red_only_for_what_is_needed() {
    let gateway = Gateway::with(Mode::Down, Config::default()).await;
    let check = async |service: &str| {
        let request = HealthCheckRequest { service: service.into() };
        HealthClient::new(gateway.connect()).check(request).await.unwrap().into_inner().status()
    };
    let serving = async {
        while check("").await != ServingStatus::Serving {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, serving).await.expect("serves without a broker");
    assert_eq!(check("fanout").await, ServingStatus::NotServing);
    assert_eq!(check("store").await, ServingStatus::Serving);
    gateway.stop().await;
}

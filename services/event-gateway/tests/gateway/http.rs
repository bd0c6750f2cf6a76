//! One port: gRPC, gRPC-web from HTTP/1.1, the web UI, health and reflection.

use crate::common::{Gateway, Mode, SOON};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;

pub fn framed(message: &impl Message) -> Bytes {
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
    let response = gateway.send(request, &format!("/treeagent.v1.{method}"), framed(message)).await;
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
    let ours = gateway.send(ask("http://127.0.0.1:5173"), path, Bytes::new()).await;
    assert_eq!(ours.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://127.0.0.1:5173");
    let theirs = gateway.send(ask("https://example.org"), path, Bytes::new()).await;
    assert!(!theirs.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    gateway.stop().await;
}

#[tokio::test]
async fn pages_are_html_under_a_strict_policy() {
    let gateway = Gateway::start(Config::default()).await;
    for path in ["/", "/runs", "/runs/0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b", "/projects"] {
        let page = gateway.send(Request::get("/"), path, Bytes::new()).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        assert!(page.headers()[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
        let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("script-src 'self';"), "{policy}");
        assert!(page.body().starts_with(b"<!doctype html>"), "{path}");
        let head = gateway.send(Request::head("/"), path, Bytes::new()).await;
        assert_eq!((head.status(), head.body().len()), (StatusCode::OK, 0));
        assert_eq!(head.headers()[header::CONTENT_LENGTH], page.body().len().to_string());
    }
    let missing = gateway.send(Request::get("/"), "/assets/nothing.js", Bytes::new()).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let posted = gateway.send(Request::post("/"), "/", Bytes::new()).await;
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(posted.headers()[header::ALLOW], "GET, HEAD");
    let call = "/treeagent.v1.RunService/ListRuns";
    let grpc_web =
        |request: http::request::Builder| request.header(header::CONTENT_TYPE, "application/grpc-web");
    for request in [Request::get("/"), Request::put("/"), Request::delete("/"), grpc_web(Request::put("/"))] {
        let refused = gateway.send(request, call, Bytes::new()).await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[header::ALLOW], "POST");
    }
    gateway.stop().await;
}

/// The status line and the body of the answer to `GET path`, with the path as it is: no library normalises it.
async fn raw(gateway: &Gateway, path: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let request = [b"GET ", path, b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"].concat();
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("answers").unwrap();
    let line = answer.split(|&b| b == b'\r').next().unwrap_or_default();
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    (String::from_utf8_lossy(line).into_owned(), answer[body..].to_vec())
}

#[tokio::test]
async fn no_path_leads_out_of_the_ui() {
    let gateway = Gateway::start(Config::default()).await;
    // Symbolic links of the machine that paths could end in, however they get there.
    let targets = ["proc/self/exe", "proc/self/cwd/Cargo.toml", "dev/stdin", "etc/mtab", "etc/hostname"];
    let ups = [
        "../",
        "..//",
        "./../",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%2f",
        "..\\",
        "..%5c",
        "assets/../../",
        "/",
        "//",
    ];
    for target in targets {
        for up in ups {
            let path = format!("/{}{target}", up.repeat(12));
            let (line, body) = raw(&gateway, path.as_bytes()).await;
            assert_eq!(line, "HTTP/1.1 404 Not Found", "{path}");
            assert_eq!(body, b"there is no such file\n", "{path}");
        }
    }
    for path in
        [&b"/runs/../../../proc/self/exe"[..], b"/index.html%00", b"/index.html%00.js", b"/.git/config"]
    {
        let (line, _) = raw(&gateway, path).await;
        assert_eq!(line, "HTTP/1.1 404 Not Found", "{}", String::from_utf8_lossy(path));
    }
    // A NUL byte is no part of a request line.
    assert_eq!(raw(&gateway, b"/index.html\0").await.0, "HTTP/1.1 400 Bad Request");
    gateway.stop().await;
}

#[tokio::test]
async fn requests_of_other_sites_do_nothing() {
    let gateway = Gateway::start(Config::default()).await;
    let create = CreateRunRequest { objective: "from elsewhere".into(), ..Default::default() };
    for (origin, expected) in
        [("https://example.org", StatusCode::FORBIDDEN), ("http://localhost:1", StatusCode::OK)]
    {
        let request = Request::post("/").header(header::CONTENT_TYPE, "application/grpc-web+proto");
        let request = request.header(header::ORIGIN, origin);
        let answer = gateway.send(request, "/treeagent.v1.RunService/CreateRun", framed(&create)).await;
        assert_eq!(answer.status(), expected, "{origin}");
    }
    let runs = gateway.runs().list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
    assert_eq!(runs.len(), 1, "a run was created from elsewhere");
    gateway.stop().await;
}

#[tokio::test]
async fn a_foreign_name_that_resolves_to_this_machine_is_not_ours() {
    let gateway = Gateway::start(Config::default()).await;
    let request = Request::get("/").header(header::HOST, "evil.example:7400");
    assert_eq!(gateway.send(request, "/", Bytes::new()).await.status(), StatusCode::MISDIRECTED_REQUEST);
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

#[tokio::test]
async fn a_content_type_that_is_not_spoken_is_refused_with_those_that_are() {
    let gateway = Gateway::start(Config::default()).await;
    let path = "/treeagent.v1.RunService/ListRuns";
    for content_type in [
        "application/grpc+json",
        "application/grpc-web+json",
        "application/grpc-web+proto; charset=utf-8",
        "application/connect+json",
        // It needs HTTP/2.
        "application/grpc",
        "application/x-www-form-urlencoded",
        "text/plain",
        "",
    ] {
        let request = Request::post("/").header(header::CONTENT_TYPE, content_type);
        let refused = gateway.send(request, path, framed(&ListRunsRequest::default())).await;
        assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
        let text = String::from_utf8_lossy(refused.body()).into_owned();
        let what = format!("the content type {content_type:?} is not supported over HTTP/1.1; supported are");
        assert!(text.contains(&what), "{content_type}: {text}");
    }
    // A gRPC library reads the headers.
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let request = Request::post(format!("http://{}{path}", gateway.address))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header("grpc-encoding", "gzip")
        .body(Full::new(framed(&ListRunsRequest::default())))
        .unwrap();
    let refused = client.request(request).await.unwrap();
    let status = tonic::Status::from_header_map(refused.headers()).expect("a status");
    assert_eq!(status.code(), tonic::Code::Unimplemented);
    gateway.stop().await;
}

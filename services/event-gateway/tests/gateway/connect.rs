//! Unary calls of the Connect protocol: plain HTTP with JSON.

use crate::common::{Gateway, SOON};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::{GetRunRequest, GetRunResponse, WatchRunRequest};

async fn post(
    gateway: &Gateway,
    method: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    post_to(gateway, &format!("treeagent.v1.{method}"), content_type, body).await
}

async fn post_to(
    gateway: &Gateway,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let request = Request::post("/").header(header::CONTENT_TYPE, content_type);
    gateway.send(request, &format!("/{path}"), body).await
}

async fn call(gateway: &Gateway, method: &str, body: Value) -> (StatusCode, Value) {
    let response = post(gateway, method, "application/json", body.to_string()).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "{response:?}");
    assert!(!response.headers().keys().any(|name| name.as_str().starts_with("grpc-")), "{response:?}");
    (response.status(), serde_json::from_slice(response.body()).unwrap())
}

#[tokio::test]
async fn a_run_is_created_and_read_as_json() {
    let gateway = Gateway::start(Config::default()).await;
    let request =
        json!({ "objective": "why?", "labels": { "env": "prod" }, "budgets": { "maxTokens": "1000" } });
    let (status, created) = call(&gateway, "RunService/CreateRun", request).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    let run = &created["run"];
    assert_eq!((&run["objective"], &run["labels"]), (&json!("why?"), &json!({ "env": "prod" })));
    assert_eq!((&run["status"], &run["headSeq"]), (&json!("RUN_STATUS_QUEUED"), &json!("4")), "{run}");
    assert_eq!(run["budgets"]["maxTokens"], "1000");
    assert!(run["createdAt"].as_str().unwrap().ends_with('Z'), "{run}");
    let filter = json!({ "statuses": ["RUN_STATUS_QUEUED"], "labels": ["env=prod"], "createdAfter": "2020-01-01T00:00:00Z" });
    let (_, listed) = call(&gateway, "RunService/ListRuns", filter).await;
    assert_eq!(listed["runs"][0]["runId"], run["runId"]);
    // Without a body, and as protobuf.
    let empty = post(&gateway, "RunService/ListRuns", "application/json; charset=utf-8", "").await;
    assert_eq!(empty.status(), StatusCode::OK);
    let get = GetRunRequest { run_id: run["runId"].as_str().unwrap().into() };
    let answer = post(&gateway, "RunService/GetRun", "application/proto", get.encode_to_vec()).await;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/proto");
    let got = GetRunResponse::decode(answer.into_body()).unwrap();
    assert_eq!(got.run.unwrap().objective, "why?");
    gateway.stop().await;
}

/// JSON that escapes every letter is three times as long as its text.
#[tokio::test]
async fn three_full_prompts_fit_also_with_escapes() {
    let gateway = Gateway::start(Config::default()).await;
    let full = "\\u00e9".repeat(32 * 1024);
    let prompts = format!(r#"{{"document":"{full}","children":"{full}","picker":"{full}"}}"#);
    let body =
        format!(r#"{{"objective":"why?","strategy":"STRATEGY_SEARCH","search":{{"prompts":{prompts}}}}}"#);
    assert!(body.len() > 512 * 1024);
    for method in ["RunService/CreateRun", "RunService/EstimateRun"] {
        let answer = post(&gateway, method, "application/json", body.clone()).await;
        assert_eq!(answer.status(), StatusCode::OK, "{method}: {answer:?}");
    }
    let answer = post(&gateway, "RunService/GetRun", "application/json", body).await;
    assert_ne!(answer.status(), StatusCode::OK, "other calls carry no prompts");
    gateway.stop().await;
}

/// The run's first event carries its schema. Whoever may create the run must be able to read that.
#[tokio::test]
async fn a_schema_that_nests_too_deep_is_refused_and_others_are_read_back() {
    let gateway = Gateway::start(Config::default()).await;
    let nested = |levels: usize| {
        let schema = (1..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        json!({ "objective": "why?", "strategy": "STRATEGY_SEARCH", "search": { "frontmatterSchema": schema } })
    };
    for levels in [25, 31, 32, 33, 34, 60] {
        let (status, error) = call(&gateway, "RunService/CreateRun", nested(levels)).await;
        let code = (status, &error["code"]);
        assert_eq!(code, (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{levels}: {error}");
    }
    let (status, created) = call(&gateway, "RunService/CreateRun", nested(24)).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    let run = &created["run"]["runId"];
    let (_, page) = call(&gateway, "RunService/ListEvents", json!({ "runId": run, "pageSize": 1 })).await;
    let schema = &page["events"][0]["runCreated"]["search"]["frontmatterSchema"];
    assert_eq!(schema, &nested(24)["search"]["frontmatterSchema"], "{page}");
    let mut watched = gateway.runs().watch_run(watch(run)).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some(), "a decoder of a client reads it");
    gateway.stop().await;
}

fn watch(run: &Value) -> WatchRunRequest {
    WatchRunRequest { run_id: run.as_str().unwrap().into(), ..Default::default() }
}

#[tokio::test]
async fn errors_have_a_code_a_message_and_details() {
    let gateway = Gateway::start(Config::default()).await;
    let (status, error) = call(&gateway, "RunService/CreateRun", json!({})).await;
    assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")), "{error}");
    assert_eq!(error["message"], "objective: must not be empty");
    let details = error["details"].as_array().unwrap();
    let of = |name: &str| details.iter().find(|detail| detail["type"] == name).unwrap();
    assert_eq!(of("google.rpc.ErrorInfo")["debug"]["domain"], "treeagent.v1");
    assert_eq!(of("google.rpc.BadRequest")["debug"]["fieldViolations"][0]["field"], "objective");
    assert!(!of("google.rpc.ErrorInfo")["value"].as_str().unwrap().is_empty());
    for (method, body, status, code) in [
        ("RunService/GetRun", json!({ "runId": uuid::Uuid::nil() }), StatusCode::NOT_FOUND, "not_found"),
        ("RunService/GetRun", json!({ "runIdd": "x" }), StatusCode::BAD_REQUEST, "invalid_argument"),
        ("RunService/GetRun", json!([1]), StatusCode::BAD_REQUEST, "invalid_argument"),
        ("RunService/WatchRun", json!({}), StatusCode::NOT_IMPLEMENTED, "unimplemented"),
        ("RunService/Nope", json!({}), StatusCode::NOT_IMPLEMENTED, "unimplemented"),
        ("Nope/GetRun", json!({}), StatusCode::NOT_IMPLEMENTED, "unimplemented"),
        (
            "RunService/GetRun",
            json!({ "runId": "r".repeat(2 << 20) }),
            StatusCode::TOO_MANY_REQUESTS,
            "resource_exhausted",
        ),
    ] {
        let (got, error) = call(&gateway, method, body).await;
        assert_eq!((got, &error["code"]), (status, &json!(code)), "{method} {error}");
    }
    for (content_type, body) in [("application/json", &b"{"[..]), ("application/proto", b"\x0a\xff")] {
        let broken = post(&gateway, "RunService/GetRun", content_type, body).await;
        assert_eq!(broken.status(), StatusCode::BAD_REQUEST, "{content_type}");
        let error: Value = serde_json::from_slice(broken.body()).unwrap();
        assert_eq!(error["code"], "invalid_argument", "{error}");
        assert_eq!(error["details"][0]["debug"]["reason"], "MALFORMED_REQUEST", "{error}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn services_of_the_cluster_are_not_offered() {
    let gateway = Gateway::start(Config::default()).await;
    for path in [
        "treeagent.internal.v1.ModelService/CheckModel",
        "treeagent.internal.v1.PlannerService/Plan",
        "treeagent.v1.NoService/Call",
    ] {
        let refused = post_to(&gateway, path, "application/json", "{}").await;
        let error: Value = serde_json::from_slice(refused.body()).unwrap();
        assert_eq!(
            (refused.status(), &error["code"]),
            (StatusCode::NOT_IMPLEMENTED, &json!("unimplemented"))
        );
        assert!(error["message"].as_str().unwrap().contains(path), "{error}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn only_documents_take_megabytes() {
    let gateway = Gateway::start(Config::default()).await;
    let (status, project) = call(&gateway, "ProjectService/CreateProject", json!({ "name": "p" })).await;
    assert_eq!(status, StatusCode::OK, "{project}");
    let document =
        json!({ "projectId": project["project"]["projectId"], "path": "a.md", "body": "é".repeat(1 << 19) });
    let (status, created) = call(&gateway, "DocumentService/CreateDocument", document).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    let statuses = json!({ "statuses": vec!["RUN_STATUS_QUEUED"; 60_000] }).to_string();
    let packed = [&b"\x1a\x80\x89\x7a"[..], &[1; 2_000_000]].concat();
    let message = [&[0][..], &(packed.len() as u32).to_be_bytes(), &packed].concat();
    for (content_type, body) in [("application/json", statuses.into_bytes()), ("application/proto", packed)] {
        let refused = post(&gateway, "RunService/ListRuns", content_type, body).await;
        let error: Value = serde_json::from_slice(refused.body()).unwrap();
        assert_eq!(
            (refused.status(), &error["code"]),
            (StatusCode::TOO_MANY_REQUESTS, &json!("resource_exhausted")),
            "{error}"
        );
        assert_eq!(error["details"][0]["debug"]["reason"], "MESSAGE_TOO_LARGE", "{error}");
        assert!(error["message"].as_str().unwrap().contains("limit is 1048576"), "{error}");
    }
    let text = STANDARD.encode(&message).into_bytes();
    for (content_type, body) in
        [("application/grpc-web+proto", message), ("application/grpc-web-text+proto", text)]
    {
        let refused = post(&gateway, "RunService/ListRuns", content_type, body).await;
        let status = Status::from_header_map(refused.headers()).expect("a status in the headers");
        assert_eq!(status.code(), Code::OutOfRange, "{content_type}: {status:?}");
        assert!(status.message().contains("limit is: 1048576"), "{content_type}: {status:?}");
        assert_eq!(status.get_details_error_info().unwrap().reason, "OUT_OF_RANGE", "{content_type}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_server_says_what_it_is_and_what_a_run_may_use() {
    let gateway = Gateway::start(Config::default()).await;
    let (_, info) = call(&gateway, "ServerService/GetServerInfo", json!({})).await;
    assert_eq!(info["apiVersion"], "treeagent.v1");
    assert_eq!(info["strategies"], json!(["STRATEGY_TREE", "STRATEGY_HOMEWORK", "STRATEGY_SEARCH"]));
    assert_eq!((&info["limits"]["pageSizeMax"], &info["limits"]["labels"]), (&json!(1000), &json!(32)));
    assert_eq!((&info["defaultBudgets"]["maxDepth"], &info["eventSchemaVersion"]), (&json!(4), &json!(1)));
    assert!(info["schemaVersion"].as_u64().unwrap() >= 1, "{info}");
    assert_eq!(info.get("authentication"), None, "it is off: {info}");
    assert_eq!(info["limits"]["maxBudgets"]["maxNodes"], json!(100_000), "{info}");
    let budgets = json!({ "maxNodes": 10, "maxDepth": 1 });
    let (status, estimate) = call(&gateway, "RunService/EstimateRun", json!({ "budgets": budgets })).await;
    assert_eq!((status, &estimate["estimate"]["nodes"]), (StatusCode::OK, &json!("10")), "{estimate}");
    assert_eq!(estimate["estimate"]["unlimited"], json!(["maxTokens", "maxCostMicros", "maxToolCalls"]));
    assert_eq!(
        (&estimate["budgets"]["maxNodes"], &estimate["budgets"]["maxAttempts"]),
        (&json!(10), &json!(3))
    );
    let wrong = json!({ "budgets": { "maxDepth": 65 } });
    let (status, error) = call(&gateway, "RunService/EstimateRun", wrong).await;
    assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_argument")));
    gateway.stop().await;
}

/// A call over which something goes wrong before a service sees it, with headers of its own.
async fn refused(gateway: &Gateway, headers: &[(&str, &str)], body: &str) -> (StatusCode, Value) {
    let mut request = Request::post("/").header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let path = "/treeagent.v1.RunService/ListRuns";
    let (parts, body) = gateway.send(request, path, body.to_owned()).await.into_parts();
    assert_eq!(parts.headers[header::CONTENT_TYPE], "application/json", "{parts:?}");
    assert!(!parts.headers.keys().any(|name| name.as_str().starts_with("grpc-")), "{parts:?}");
    (parts.status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_refusal_takes_the_form_of_the_protocol() {
    let gateway = Gateway::start(Config::default()).await;
    for (header, status, code, reason) in [
        (("connect-timeout-ms", "0"), StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", "DEADLINE_EXCEEDED"),
        (("grpc-timeout", "0m"), StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", "DEADLINE_EXCEEDED"),
        (("connect-timeout-ms", "soon"), StatusCode::BAD_REQUEST, "invalid_argument", "MALFORMED_REQUEST"),
        (("origin", "http://evil.example"), StatusCode::FORBIDDEN, "permission_denied", "ORIGIN_NOT_ALLOWED"),
        (("host", "evil.example"), StatusCode::MISDIRECTED_REQUEST, "permission_denied", "HOST_UNKNOWN"),
    ] {
        let (got, error) = refused(&gateway, &[header], "{}").await;
        assert_eq!((got, &error["code"]), (status, &json!(code)), "{header:?}: {error}");
        assert_eq!(error["details"][0]["debug"]["reason"], reason, "{header:?}: {error}");
    }
    // What a header of gRPC says is not about this call.
    for header in [("connect-timeout-ms", "60000"), ("grpc-encoding", "gzip")] {
        assert_eq!(refused(&gateway, &[header], "{}").await.0, StatusCode::OK, "{header:?}");
    }
    gateway.stop().await;
}

/// HTTP/1.1 sends a body without a known length in chunks, each behind its length.
#[tokio::test]
async fn a_malformed_chunk_is_an_error_of_the_client() {
    let gateway = Gateway::start(Config::default()).await;
    for chunks in ["ZZZ\r\n{}\r\n0\r\n\r\n", "2\r\n{}garbage\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}"] {
        for (content_type, error) in [
            ("application/json", "MALFORMED_REQUEST"),
            ("application/proto", "MALFORMED_REQUEST"),
            // The library that reads gRPC-web calls it an internal error.
            ("application/grpc-web+proto", "grpc-status: 13"),
        ] {
            let mut stream = TcpStream::connect(gateway.address).await.unwrap();
            let request = format!(
                "POST /treeagent.v1.RunService/ListRuns HTTP/1.1\r\nhost: {}\r\ncontent-type: {content_type}\r\n\
                 transfer-encoding: chunked\r\nconnection: close\r\n\r\n{chunks}",
                gateway.address
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
            let status = if content_type.contains("grpc") { "200" } else { "400" };
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{chunks:?}: {answer}");
            assert!(answer.contains(error), "{chunks:?}: {answer}");
        }
    }
    gateway.stop().await;
}

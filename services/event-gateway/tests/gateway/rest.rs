//! The API as plain HTTP, with server-sent events.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tree_agent_event_gateway::{Config, WatchConfig};
use tree_agent_proto::Wire;
use tree_agent_proto::v1::ListEventsRequest;

use crate::common::{Gateway, SOON};

async fn ask(gateway: &Gateway, verb: Method, path: &str, body: &str) -> Response<Bytes> {
    let request = Request::builder().method(verb).header(header::CONTENT_TYPE, "application/json");
    gateway.send(request, path, body.to_owned()).await
}

async fn json_of(gateway: &Gateway, verb: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = ask(gateway, verb, path, &body).await;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json", "{path}: {answer:?}");
    (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap())
}

async fn get(gateway: &Gateway, path: &str) -> (u16, Value) {
    json_of(gateway, Method::GET, path, Value::Null).await
}

#[tokio::test]
async fn a_run_is_created_listed_steered_and_removed() {
    let gateway = Gateway::start(Config::default()).await;
    let asked = json!({ "objective": "why?", "labels": { "env": "prod" } });
    let (status, created) = json_of(&gateway, Method::POST, "/v1/runs", asked).await;
    assert_eq!(status, 200, "{created}");
    let id = created["run"]["runId"].as_str().unwrap();
    let (_, got) = get(&gateway, &format!("/v1/runs/{id}")).await;
    assert_eq!(got["run"]["objective"], "why?");
    let query = "statuses=RUN_STATUS_QUEUED&statuses=RUN_STATUS_RUNNING&labels=env%3Dprod&page_size=5\
        &createdAfter=2020-01-01T00:00:00Z&global=true";
    let (_, listed) = get(&gateway, &format!("/v1/runs?{query}")).await;
    assert_eq!(listed["runs"][0]["runId"], id, "{listed}");
    let (_, none) = get(&gateway, "/v1/runs?labels=env=test&objectiveContains=a+b%20c").await;
    assert_eq!(none, json!({}));
    let (_, graph) = get(&gateway, &format!("/v1/runs/{id}/graph?atSeq=3")).await;
    assert_eq!(graph["graph"]["seq"], "3");
    let (status, cancelled) =
        json_of(&gateway, Method::POST, &format!("/v1/runs/{id}:cancel"), Value::Null).await;
    assert_eq!((status, &cancelled["run"]["runId"]), (200, &json!(id)));
    let (status, refused) = json_of(&gateway, Method::DELETE, &format!("/v1/runs/{id}"), Value::Null).await;
    assert_eq!((status, &refused["code"]), (400, &json!("failed_precondition")), "it has not ended");

    let (_, made) = json_of(&gateway, Method::POST, "/v1/projects", json!({ "name": "notes" })).await;
    let project = made["project"]["projectId"].as_str().unwrap();
    let change = json!({ "project": { "description": "new" }, "updateMask": "description" });
    let (status, changed) =
        json_of(&gateway, Method::PATCH, &format!("/v1/projects/{project}"), change).await;
    assert_eq!((status, &changed["project"]["description"]), (200, &json!("new")), "{changed}");
    gateway.stop().await;
}

#[tokio::test]
async fn an_event_has_one_form_in_a_page_and_on_a_stream() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("why?").await.run_id;
    let request = ListEventsRequest { run_id: run.clone(), ..Default::default() };
    let events = gateway.runs().list_events(request).await.unwrap().into_inner().events;
    let events: Vec<_> =
        events.into_iter().map(|event| tree_agent_contract::Event::from_wire(event).unwrap()).collect();
    let expected = serde_json::to_value(&events).unwrap();
    let (_, page) = get(&gateway, &format!("/v1/runs/{run}/events?afterSeq=1&pageSize=2")).await;
    assert_eq!((&page["events"][0], &page["headSeq"]), (&expected[1], &json!("4")), "{page}");
    let mut stream =
        Stream::open(&gateway, &format!("/v1/runs/{run}/events?after_seq=1"), None).await.unwrap();
    for event in &expected.as_array().unwrap()[1..] {
        let sent = stream.next().await;
        assert_eq!((sent.id, sent.name, &sent.data), (event["seq"].to_string(), String::new(), event));
    }
    let caught_up = stream.next().await;
    assert_eq!(
        (&*caught_up.id, &*caught_up.name, &caught_up.data),
        ("4", "caught_up", &json!({ "seq": "4" }))
    );
    gateway.stop().await;
}

/// An event of a stream.
#[derive(Debug)]
struct Sent {
    id: String,
    name: String,
    data: Value,
}

/// A client of server-sent events.
struct Stream {
    body: tonic::body::Body,
    text: String,
}

impl Stream {
    /// Opens it; else what it was refused with.
    async fn open(gateway: &Gateway, path: &str, last: Option<&str>) -> Result<Self, (u16, Value)> {
        let mut request = Request::get(format!("http://{}{path}", gateway.address))
            .header(header::ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(request.body(Full::new(Bytes::new())).unwrap());
        let response = tokio::time::timeout(SOON, response).await.unwrap().unwrap();
        let (parts, body) = response.into_parts();
        if parts.status != StatusCode::OK {
            let error = body.collect().await.unwrap().to_bytes();
            return Err((parts.status.as_u16(), serde_json::from_slice(&error).unwrap()));
        }
        assert_eq!(parts.headers[header::CONTENT_TYPE], "text/event-stream");
        Ok(Self { body: tonic::body::Body::new(body), text: String::new() })
    }

    /// The next event; one without a name and data at the end.
    async fn next(&mut self) -> Sent {
        while !self.text.contains("\n\n") {
            match tokio::time::timeout(SOON, self.body.frame()).await.expect("something is sent") {
                Some(frame) => {
                    let data = frame.unwrap().into_data().unwrap_or_default();
                    self.text.push_str(std::str::from_utf8(&data).unwrap());
                }
                None => return Sent { id: String::new(), name: String::new(), data: Value::Null },
            }
        }
        let (event, rest) = self.text.split_once("\n\n").unwrap();
        let field = |name: &str| {
            let value = event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_default().to_owned()
        };
        let sent = Sent {
            id: field("id"),
            name: field("event"),
            data: serde_json::from_str(&field("data")).expect(event),
        };
        self.text = rest.to_owned();
        sent
    }
}

#[tokio::test]
async fn a_stream_goes_on_behind_its_last_event_and_ends_with_the_run() {
    let watch = WatchConfig { heartbeat: Duration::from_millis(50), ..WatchConfig::default() };
    let gateway = Gateway::start(Config { watch, ..Config::default() }).await;
    let run = gateway.create_run("why?").await;
    let mut log = gateway.drive(&run).await;
    let path = format!("/v1/runs/{}/events", run.run_id);
    // The header is about the same place as the query, and newer.
    let mut stream = Stream::open(&gateway, &format!("{path}?afterSeq=1"), Some("3")).await.unwrap();
    assert_eq!(stream.next().await.id, "4");
    assert_eq!(stream.next().await.name, "caught_up");
    let beat = stream.next().await;
    assert_eq!((&*beat.name, &*beat.id), ("heartbeat", "4"), "{beat:?}");
    log.append(600, 50).await;
    log.finish().await;
    let mut last = 4;
    let end = loop {
        let sent = stream.next().await;
        match &*sent.name {
            "" => {
                last += 1;
                assert_eq!(sent.id, last.to_string(), "each once and in order");
            }
            "heartbeat" => {}
            _ => break sent,
        }
    };
    assert_eq!((end.name.as_str(), last), ("end", log.head));
    assert_eq!(stream.next().await.data, Value::Null, "nothing follows");
    for (last, status) in [("999999", 400), ("-1", 400), ("x", 400)] {
        let refused = Stream::open(&gateway, &path, Some(last)).await.map(|_| ()).unwrap_err();
        assert_eq!(refused.0, status, "{last}: {}", refused.1);
        assert!(refused.1.to_string().contains("after"), "it names the field: {}", refused.1);
    }
    let missing = path.replace(&run.run_id[..4], "0000");
    assert_eq!(Stream::open(&gateway, &missing, None).await.map(|_| ()).unwrap_err().0, 404);
    gateway.stop().await;
}

/// The list of runs: who drops out is told by the hint where to go on.
#[tokio::test]
async fn a_list_of_runs_is_a_stream_too() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("why?").await.run_id;
    let mut stream = Stream::open(&gateway, "/v1/runs/events", None).await.unwrap();
    let added = stream.next().await;
    assert_eq!((&*added.name, &added.data["runId"]), ("added", &json!(run)));
    let caught_up = stream.next().await;
    assert_eq!(caught_up.name, "caught_up");
    gateway.create_run("and why?").await;
    let mut stream = Stream::open(&gateway, "/v1/runs/events", Some(&caught_up.id)).await.unwrap();
    let objectives = [stream.next().await, stream.next().await].map(|sent| sent.data["objective"].clone());
    assert!(objectives.contains(&json!("and why?")), "{objectives:?}");
    gateway.shutdown.cancel();
    let hint = loop {
        let sent = stream.next().await;
        if sent.name == "resume_hint" {
            break sent;
        }
    };
    assert!(hint.data["reason"] == "drain" && !hint.id.is_empty(), "{hint:?}");
    assert_eq!(stream.next().await.data, Value::Null, "a stream that is to be opened again has no end");
    gateway.stop().await;
}

#[tokio::test]
async fn a_refusal_names_the_field_and_what_it_takes() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("why?").await.run_id;
    let long = format!("{{\"objective\":\"{}\"}}", "x".repeat(1 << 20));
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    for (verb, path, body, status, said) in [
        ("GET", "/v1/nothing", "", 404, "/openapi.json"),
        ("GET", "/v1/runs/x:pause", "", 405, "POST"),
        ("GET", "/v1/runs/not-an-id", "", 400, "run_id"),
        ("GET", "/v1/runs/%ff", "", 400, "UTF-8"),
        ("GET", "/v1/runs?statuses=DONE", "", 400, "RUN_STATUS_COMPLETED"),
        ("GET", "/v1/runs?color=red", "", 400, "objectiveContains"),
        ("GET", "/v1/runs?pageSize=many", "", 400, "pageSize: is"),
        ("GET", "/v1/runs?global=perhaps", "", 400, "true or false"),
        ("GET", "/v1/runs", "{}", 400, "query"),
        ("GET", "/v1/documents:search?context=x", "", 400, "context.projectIds"),
        ("POST", "/v1/runs", "{", 400, "EOF"),
        ("POST", "/v1/runs", "[]", 400, "no object"),
        ("POST", "/v1/runs", &deep, 400, "recursion"),
        ("POST", "/v1/runs", &long, 429, "too long"),
        ("POST", "/v1/runs", r#"{"objective":"a","colour":1}"#, 400, "colour"),
        ("POST", "/v1/runs", r#"{"objective":"a","strategy":"FOREST"}"#, 400, "STRATEGY_SEARCH"),
        ("POST", "/v1/runs", r#"{"objective":"a","context":{"scope":"ALL"}}"#, 400, "context.scope"),
        ("POST", "/v1/runs", r#"{}"#, 400, "objective: must not be empty"),
    ] {
        let answer = ask(&gateway, verb.parse().unwrap(), path, body).await;
        let text = String::from_utf8(answer.body().to_vec()).unwrap();
        let body = &body[..body.len().min(60)];
        assert_eq!(answer.status().as_u16(), status, "{verb} {path} {body}: {text}");
        assert!(text.contains(said), "{verb} {path} {body}: {text}");
    }
    let of_connect =
        ask(&gateway, Method::POST, "/treeagent.v1.RunService/CreateRun", r#"{"strategy":"FOREST"}"#).await;
    assert!(String::from_utf8_lossy(of_connect.body()).contains("STRATEGY_SEARCH"), "{of_connect:?}");
    let form = Request::post("/").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let answer = gateway.send(form, "/v1/runs", "objective=a").await;
    assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // The path decides, whatever the body says.
    let other = json!({ "runId": "00000000-0000-0000-0000-000000000000", "reason": "r" });
    let (status, cancelled) = json_of(&gateway, Method::POST, &format!("/v1/runs/{run}:cancel"), other).await;
    assert_eq!((status, &cancelled["run"]["runId"]), (200, &json!(run)));
    gateway.stop().await;
}

/// A page of a foreign origin may not call, by any verb.
#[tokio::test]
async fn host_and_origin_are_checked() {
    let gateway = Gateway::start(Config::default()).await;
    for verb in [Method::GET, Method::POST, Method::OPTIONS] {
        let request = Request::builder().method(verb.clone()).header(header::ORIGIN, "https://evil.example");
        assert_eq!(gateway.send(request, "/v1/runs", "").await.status(), StatusCode::FORBIDDEN, "{verb}");
    }
    let request = Request::get("/").header(header::HOST, "evil.example");
    assert_eq!(gateway.send(request, "/v1/runs", "").await.status(), StatusCode::MISDIRECTED_REQUEST);
    let preflight = Request::options("/")
        .header(header::ORIGIN, "http://localhost:5173")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "DELETE");
    let answer = gateway.send(preflight, "/v1/runs/x", "").await;
    assert!(answer.headers()[header::ACCESS_CONTROL_ALLOW_METHODS].to_str().unwrap().contains("DELETE"));
    gateway.stop().await;
}

/// Every method of the API is described.
#[tokio::test]
async fn the_description_has_every_method_and_every_message() {
    let gateway = Gateway::start(Config::default()).await;
    let (_, api) = get(&gateway, "/openapi.json").await;
    let text = api.to_string();
    let paths =
        api["paths"].as_object().unwrap().values().flat_map(|verbs| verbs.as_object().unwrap().values());
    let named: Vec<_> = paths.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    for method in tree_agent_proto::rights::METHODS {
        let name = method.rsplit('/').next().unwrap();
        // It shares its path with ListEvents.
        assert!(named.contains(&name) || name == "WatchRun", "{method} is not described");
    }
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(api["components"]["schemas"].get(name).is_some(), "{name} is missing");
    }
    let events = &api["paths"]["/v1/runs/{run_id}/events"]["get"];
    assert!(events["responses"]["200"]["content"].get("text/event-stream").is_some(), "{events}");
    gateway.stop().await;
}

//! Lists in requests: each has a limit, whatever it is a list of.

use crate::common::Gateway;
use http::{Request, StatusCode, header};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use tree_agent_event_gateway::Config;

/// More than any list may hold, and few enough for a request of 256 KiB.
const MANY: usize = 6_000;

/// A value of a list. Different ones, so that none is a repetition.
fn value(field: &FieldDescriptor, n: usize) -> Option<Value> {
    match field.kind() {
        Kind::Enum(of) => of.values().nth(1).map(|value| value.name().into()),
        // Some lists are of ids.
        Kind::String => Some(format!("00000000-0000-4000-8000-{n:012x}").into()),
        _ => None,
    }
}

/// Requests with one long list each, and the name of its field. Messages within messages are looked into.
fn requests(of: &MessageDescriptor, depth: u32) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for field in of.fields() {
        let name = field.json_name().to_owned();
        if field.is_list() {
            let values: Option<Vec<Value>> = (0..MANY).map(|n| value(&field, n)).collect();
            all.extend(values.map(|values| (name.clone(), json!({ name.clone(): values }))));
        } else if let Kind::Message(inner) = field.kind()
            && depth > 0
            && !field.is_map()
            && inner.package_name() == "treeagent.v1"
        {
            let inside = requests(&inner, depth - 1).into_iter();
            all.extend(inside.map(|(list, value)| (list, Map::from_iter([(name.clone(), value)]).into())));
        }
    }
    all
}

#[tokio::test]
async fn no_list_of_a_request_is_without_a_limit() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("to be named").await.run_id;
    let pool = DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).unwrap();
    let services = pool.services().filter(|service| service.package_name() == "treeagent.v1");
    let methods: Vec<_> = services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let mut tried = Vec::new();
    for method in methods.iter().filter(|method| !method.is_server_streaming()) {
        let path = format!("{}/{}", method.parent_service().full_name(), method.name());
        for (list, mut request) in requests(&method.input(), 2) {
            // Where a run must be named, it is one that exists.
            if method.input().fields().any(|field| field.name() == "run_id") {
                request["runId"] = run.clone().into();
            }
            let post = Request::post("/").header(header::CONTENT_TYPE, "application/json");
            let response = gateway.send(post, &format!("/{path}"), request.to_string()).await;
            let (status, body) = (response.status(), response.into_body());
            let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {list}: {text}");
            tried.push(format!("{path} {list}"));
        }
    }
    for known in ["ListDocuments kinds", "ListRuns statuses", "ListProjects statuses", "ListEvents types"] {
        assert!(tried.iter().any(|one| one.ends_with(known)), "{known}: {tried:?}");
    }
    gateway.stop().await;
}

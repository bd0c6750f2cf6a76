//! Names, keys and versions of events.

use super::*;
use serde_json::Value;

use crate::{NodeStatus, Role, RunSpec};

#[test]
fn json_has_the_keys_of_the_contract() {
    let run = RunId(uuid::Uuid::from_u128(1));
    let root = NodeId::root(run);
    let event = Event {
        run_id: run,
        seq: 4,
        node_id: root,
        parent_node_id: None,
        timestamp: Timestamp(0),
        body: NodeStatusChanged {
            message: Some("leaf_decision:direct".into()),
            ..NodeStatusChanged::new(NodeStatus::Executing, Role::Executor)
        }
        .into(),
    };
    let json = serde_json::to_value(&event).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["nodeId", "parentNodeId", "payload", "runId", "seq", "timestamp", "type"]);
    assert_eq!(
        json["payload"],
        serde_json::json!({"nodeId": root, "status": "executing", "role": "executor", "message": "leaf_decision:direct"})
    );
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
}

#[test]
fn run_created_flattens_its_spec_and_reads_back() {
    let run = RunId(uuid::Uuid::from_u128(1));
    let body: EventBody =
        RunCreated { behaviour_version: 2, ..RunCreated::new(RunSpec::new("why?"), NodeId::root(run)) }
            .into();
    let text = serde_json::to_vec(&body).unwrap();
    assert_eq!(EventBody::from_json("tree.run_created", &text).unwrap(), body);
}

#[test]
fn an_event_of_an_unknown_type_is_kept_with_its_payload() {
    let json = serde_json::json!({
        "runId": "00000000-0000-0000-0000-000000000001", "seq": 7, "nodeId": "00000000-0000-0000-0000-000000000002",
        "parentNodeId": null, "timestamp": "2026-01-27T10:00:00.000000Z", "type": "tree.from_the_future",
        "payload": {"nodeId": "00000000-0000-0000-0000-000000000002", "list": [1, {"deep": null}], "big": u64::MAX},
    });
    let event: Event = serde_json::from_value(json.clone()).unwrap();
    assert!(
        matches!(&event.body, EventBody::Opaque(e) if e.event_type == "tree.from_the_future" && e.payload.len() == 2)
    );
    assert_eq!(event.body.event_type(), "tree.from_the_future");
    assert_eq!(serde_json::to_value(&event).unwrap(), json);
    assert_eq!(serde_json::from_str::<Value>(&event.payload_json()).unwrap(), json["payload"]);
}

#[test]
fn the_payload_of_an_unknown_type_is_still_an_object() {
    for payload in ["[]", "7", "", "{"] {
        let error = EventBody::from_json("tree.from_the_future", payload.as_bytes()).unwrap_err();
        assert!(
            matches!(error, EventError::Payload { event_type, .. } if event_type == "tree.from_the_future")
        );
    }
}

//! Names, keys and versions of events.

use super::*;

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
    // Logs that were written before there were versions are of the first.
    let body: EventBody = RunCreated::new(RunSpec::new("why?"), NodeId::root(run)).into();
    let text = serde_json::to_string(&body).unwrap();
    assert!(!text.contains("behaviourVersion"), "{text}");
    assert_eq!(EventBody::from_json("tree.run_created", text.as_bytes()).unwrap(), body);
}

#[test]
fn an_unknown_type_is_said() {
    assert!(
        matches!(EventBody::from_json("tree.nope", b"{}"), Err(EventError::UnknownType(t)) if t == "tree.nope")
    );
}

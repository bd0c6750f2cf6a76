//! Logs of newer programs.

use tree_agent_contract::event::EventBody;
use tree_agent_contract::{RunId, RunSpec, Strategy, Timestamp};
use tree_agent_engine::{Run, start};

#[test]
fn a_node_with_a_strategy_that_this_version_lacks_is_refused() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let mut events = start(run_id, RunSpec::new("o"), Timestamp(1)).events;
    let EventBody::RunCreated(created) = &mut events[0].body else { panic!("a log begins with its run") };
    created.spec.strategy = Strategy::Homework;
    let error = Run::replay(run_id, &events).unwrap_err();
    assert!(error.is_newer());
    assert_eq!(
        error.to_string(),
        "event 3 of run 00000000-0000-0000-0000-000000000001 begins a node with strategy homework, which this \
         version cannot drive"
    );
}

//! What a log says about guards, bands and what tools wrote.

use super::*;

#[test]
fn near_the_end_of_a_budget_a_node_does_its_task_itself() {
    let mut hand = Hand::new(Budgets { max_nodes: 5, max_depth: 3, ..Budgets::default() });
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let due = hand.due();
    assert!(due.iter().all(|call| call.key.kind == CallKind::Execute), "four of five nodes are there");
    assert_eq!(hand.run.graph().nodes()[1].decisions, ["guard:maxNodes"]);
    due.iter().for_each(|call| hand.executes(call));
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert!(!hand.ending().partial, "nothing is lost");

    let mut hand = Hand::new(Budgets { max_tokens: Some(10_000), max_depth: 3, ..Budgets::default() });
    let plan = hand.only();
    hand.uses(&plan, 8_500);
    hand.plans(&plan, 2, true);
    let due = hand.due();
    assert!(!due.is_empty() && due.iter().all(|call| call.key.kind == CallKind::Execute));
    assert_eq!(hand.run.graph().nodes()[1].decisions, ["guard:maxTokens"]);
}

#[test]
fn the_opening_of_each_band_is_said_with_the_progress() {
    let mut hand = Hand::new(flat());
    let plan = hand.only();
    let band = |index: u32| BandDraft {
        index,
        goal: "a part".into(),
        parallelizable: true,
        steps: vec![StepDraft::new(StepId::new(format!("s{index}")), format!("step {index}"))],
    };
    let bands = vec![band(0), band(1)];
    hand.answers_plan(&plan, PlannerMode::Plan, Some(PlanDraft { summary: "two bands".into(), bands }));
    for _ in 0..2 {
        let step = hand.only();
        hand.executes(&step);
    }
    let of_root = hand.log.iter().filter(|e| e.parent_node_id.is_none());
    let said = of_root.filter_map(|e| match &e.body {
        EventBody::NodeStatusChanged(e) => Some((e.status, e.message.as_deref(), e.progress)),
        _ => None,
    });
    let said: Vec<_> = said.collect();
    let second = said.iter().position(|(_, message, _)| *message == Some("band 2 of 2")).expect("it is said");
    assert_eq!(said[second], (NodeStatus::Delegating, Some("band 2 of 2"), Some(0.5)));
    assert_eq!(said[second + 1], (NodeStatus::Waiting, None, Some(0.5)));
    assert_eq!(said[second + 2], (NodeStatus::Aggregating, None, Some(1.0)));
}

#[test]
fn what_a_tool_wrote_belongs_to_the_result() {
    let mut hand = Hand::new(Budgets { max_depth: 0, ..Budgets::default() });
    let call = hand.only();
    hand.feed(Input::Update(call.key, kept::kept("t1", "documents/a.md")));
    hand.executes(&call);
    let root = &hand.run.graph().nodes()[0];
    let result = root.result.as_ref().expect("a result");
    let written = root.artifacts.iter().find(|one| one.label == "documents/a.md").expect("an artifact");
    assert!(result.artifact_ids.contains(&written.artifact_id), "{result:?}");
    assert!(result.document_ids.contains(&written.document_id.expect("a document")), "{result:?}");
}

//! Documents that tools write for a run.

use super::*;

pub(super) fn kept(call_id: &str, path: &str) -> RoleUpdate {
    let result = ToolCallResult {
        call_id: call_id.into(),
        tool_name: "look".into(),
        ok: true,
        summary: None,
        error: None,
        phase: None,
        completed_at: None,
        document_id: None,
    };
    let document = KeptDocument { path: path.into(), title: "A long answer".into(), body: "long".into() };
    RoleUpdate::ToolCallKept(Box::new(ToolCallKept { result, document }))
}

#[test]
fn what_a_tool_writes_is_an_artifact_of_its_node_and_is_written_once() {
    let mut hand = Hand::new(Budgets::default());
    let call = hand.only();
    let first = hand.run.handle(Input::Update(call.key, kept("t1", "answers/a.txt")), hand.now);
    let id = DocumentId::of_run(hand.run.graph().run_id(), "answers/a.txt");
    let types: Vec<_> = first.events.iter().map(|e| e.body.event_type()).collect();
    assert_eq!(types, ["tree.tool_call_result", "tree.artifact_created"]);
    let root = hand.run.graph().nodes()[0].clone();
    assert_eq!(root.artifacts[0].document_id, Some(id));
    let [DocumentOp::Create(document), DocumentOp::Link { parent, child, seq, .. }] = &first.documents[..]
    else {
        panic!("a document and its place: {:?}", first.documents)
    };
    assert_eq!((document.id, document.path.as_str(), document.body.as_str()), (id, "answers/a.txt", "long"));
    assert_eq!((Some(*parent), *child, *seq), (root.scratchpad_doc_id, id, first.events[1].seq));

    let again = hand.run.handle(Input::Update(call.key, kept("t2", "answers/a.txt")), hand.now);
    assert_eq!((again.events.len(), again.documents.len()), (1, 0));
    let EventBody::ToolCallResult(result) = &again.events[0].body else { panic!("the answer of the tool") };
    assert_eq!(result.document_id, Some(id));
}

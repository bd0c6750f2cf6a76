//! Documents that tools write for a run.

use super::*;

pub(super) fn result(call_id: &str) -> ToolCallResult {
    ToolCallResult {
        call_id: call_id.into(),
        tool_name: "look".into(),
        ok: true,
        summary: None,
        error: None,
        phase: None,
        completed_at: None,
        document_id: None,
        answer: None,
    }
}

pub(super) fn kept(call_id: &str, path: &str) -> RoleUpdate {
    let result = result(call_id);
    let kept = KeptDocument { path: path.into(), title: "A long answer".into(), body: "long".into() };
    let (document, answer) = match answers::is_answer(path) {
        true => (None, Some(kept)),
        false => (Some(kept), None),
    };
    RoleUpdate::ToolCallKept(Box::new(ToolCallKept { result, document, answer }))
}

pub(super) fn asked(call_id: &str, cached: bool) -> RoleUpdate {
    RoleUpdate::ToolCallRequested(ToolCallRequested {
        writes: false,
        call_id: call_id.into(),
        tool_name: "look".into(),
        args: serde_json::json!({"query": "pipes"}).as_object().cloned(),
        purpose: Some("to find out".into()),
        phase: None,
        started_at: None,
        cached,
    })
}

#[test]
fn an_answer_is_kept_once_and_is_no_artifact() {
    let mut hand = Hand::new(Budgets::default());
    let call = hand.only();
    let path = "tool-answers/a.json";
    let id = DocumentId::of_run(hand.run.graph().run_id(), path);
    let mut answer = |call_id: &str| {
        let decision = hand.run.handle(Input::Update(call.key, kept(call_id, path)), hand.now);
        let [event] = &decision.events[..] else { panic!("the answer alone: {:?}", decision.events) };
        let EventBody::ToolCallResult(result) = &event.body else { panic!("the answer of the tool") };
        (result.document_id, result.answer.map(|a| (a.document_id, a.bytes)), decision.documents)
    };
    let (written, kept, documents) = answer("t1");
    assert_eq!((written, kept), (None, Some((id, 4))));
    let [DocumentOp::Create(document), DocumentOp::Link { child, .. }] = &documents[..] else {
        panic!("a document and its place: {documents:?}")
    };
    assert_eq!((document.id, document.kind, *child), (id, DocumentKind::ToolAnswer, id));
    let (_, kept, documents) = answer("t2");
    assert_eq!((kept, documents.len()), (Some((id, 0)), 0));
    assert!(hand.run.graph().nodes()[0].artifacts.is_empty());
}

#[test]
fn a_known_answer_uses_no_budget_and_there_is_a_limit_of_its_own() {
    let mut hand = Hand::new(Budgets { max_tool_calls: Some(1), ..Budgets::default() });
    let call = hand.only();
    let ask = |hand: &mut Hand, i: u32, cached: bool| {
        hand.feed(Input::Update(call.key, asked(&format!("t{i}"), cached)));
    };
    for i in 0..answers::CACHED_CALLS {
        ask(&mut hand, i, true);
    }
    assert_eq!(hand.run.graph().nodes()[0].usage.get().tool_calls, 0);
    assert!(hand.run.is_in_flight(&call.key), "the call goes on");
    ask(&mut hand, answers::CACHED_CALLS, true);
    assert!(!hand.run.is_in_flight(&call.key), "nobody asks for the same for ever");
}

#[test]
fn a_call_that_is_made_again_uses_no_answer_of_before() {
    let mut hand = Hand::new(Budgets::default());
    let call = hand.only();
    assert_eq!(call.input.context().answers, Some(AnswerUse::Reuse));
    hand.feed(Input::Failed(call.key, RoleError::new(RoleErrorKind::Internal, "broken")));
    hand.later(60_000);
    let again = hand.only();
    assert_eq!((again.key.attempt, again.input.context().answers), (2, Some(AnswerUse::Keep)));
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

#[test]
fn the_next_attempt_is_told_what_was_done_and_what_nobody_knows() {
    let mut hand = Hand::new(Budgets::default());
    let call = hand.only();
    let ask = |hand: &mut Hand, id: &str, writes: bool| {
        let RoleUpdate::ToolCallRequested(asked) = asked(id, false) else { unreachable!() };
        let update = RoleUpdate::ToolCallRequested(ToolCallRequested { writes, ..asked });
        hand.feed(Input::Update(call.key, update));
    };
    ask(&mut hand, "t1", true);
    hand.feed(Input::Update(call.key, kept("t1", "notes/a.md")));
    ask(&mut hand, "t2", true);
    // The driver dies. Its successor has only the log.
    hand.run = Run::replay(hand.run.graph().run_id(), &hand.log).expect("it replays");
    hand.feed(Input::Claimed);
    let again = hand.only();
    let earlier = &again.input.context().earlier_calls;
    let told: Vec<_> = earlier.iter().map(|call| (call.tool_name.as_str(), call.writes, call.ok)).collect();
    assert_eq!(told, [("look", true, Some(true)), ("look", true, None)]);
    let EventBody::ToolCallResult(end) = &hand.log.last().expect("an event").body else {
        panic!("the end of t2")
    };
    assert!(end.error.as_deref().is_some_and(|error| error.contains("nobody knows")), "{end:?}");
    let RoleUpdate::ToolCallRequested(known) = asked("t1", true) else { unreachable!() };
    hand.feed(Input::Update(again.key, RoleUpdate::ToolCallRequested(known)));
    hand.answers_plan(&again, PlannerMode::Execute, None);
    assert!(hand.only().input.context().earlier_calls.is_empty(), "another call begins");
}

#[test]
fn prompts_are_kept_below_their_node_while_the_run_has_room() {
    let body = "x".repeat(limits::KEPT_PROMPT_BYTES);
    let room = answers::PROMPTS_FULL / body.len() as u64 + 1;
    let kept = || RoleUpdate::Usage { usage: used(1), prompt: Some(body.clone()) };
    for keep_prompts in [true, false] {
        let mut hand = Hand::of(RunSpec { keep_prompts, ..RunSpec::new("find out") });
        let call = hand.only();
        assert_eq!(call.input.context().keep_prompts, keep_prompts);
        let mut prompts = 0;
        for n in 1..=room + 1 {
            let decision = hand.run.handle(Input::Update(call.key, kept()), hand.now);
            let [event] = &decision.events[..] else { panic!("one call: {:?}", decision.events.len()) };
            let EventBody::UsageRecorded(usage) = &event.body else { panic!("{event:?}") };
            let Some(prompt) = usage.prompt else {
                assert!(decision.documents.is_empty() && (n > room || !keep_prompts));
                continue;
            };
            let [DocumentOp::Create(document), DocumentOp::Link { parent, child, .. }] =
                &decision.documents[..]
            else {
                panic!("a document and its place")
            };
            assert_eq!(
                (document.id, *child, document.kind),
                (prompt.document_id, document.id, DocumentKind::Prompt)
            );
            assert_eq!(
                (document.path.as_str(), document.title.as_str()),
                (&*format!("prompts/{:08}.md", event.seq), "test · m")
            );
            let root = &hand.run.graph().nodes()[0];
            assert_eq!(
                (document.props.tree_agent_node_id, Some(*parent)),
                (Some(root.id), root.scratchpad_doc_id)
            );
            prompts += 1;
        }
        assert_eq!(prompts, if keep_prompts { room } else { 0 });
        assert!(hand.run.graph().nodes()[0].artifacts.is_empty());
    }
}

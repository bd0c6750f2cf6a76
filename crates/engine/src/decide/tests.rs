use tree_agent_contract::role::{PlannerMode, PlannerOutput, ScratchpadDelta, ScratchpadDraft};
use tree_agent_contract::{RunId, RunSpec};

use super::*;
use crate::start::start;

/// The text that `decision` adds to documents.
fn written(decision: &Decision) -> String {
    let text = |op: &DocumentOp| match op {
        DocumentOp::Append { text, .. } => text.clone(),
        DocumentOp::Create(_) => String::new(),
    };
    decision.documents.iter().map(text).collect()
}

fn wrote(text: &str) -> RoleUpdate {
    RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: text.into() })
}

#[test]
fn pieces_of_one_call_stand_together_and_everything_else_on_lines_of_its_own() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let now = Timestamp(1_000);
    let mut run = Run::replay(run_id, &start(run_id, RunSpec::new("o"), now).events).unwrap();
    run.handle(Input::Claimed, now);
    let first = run.take_due(now, 1).remove(0).key;
    let mut pad = String::new();
    for piece in ["The ans", "wer\nis ", "", "near"] {
        let decision = run.handle(Input::Update(first, wrote(piece)), now);
        // One event for each change, and none for nothing.
        assert_eq!(decision.events.len(), decision.documents.len());
        assert_eq!(decision.events.is_empty(), piece.is_empty());
        pad += &written(&decision);
    }
    assert_eq!(pad, "The answer\nis near");
    // The call breaks off in the middle of a line; the next attempt begins a line.
    run.handle(Input::Failed(first, RoleError::new(RoleErrorKind::Internal, "broke off")), now);
    let later = run.next_wakeup().unwrap();
    let second = run.take_due(later, 1).remove(0).key;
    for piece in ["Once", " more"] {
        pad += &written(&run.handle(Input::Update(second, wrote(piece)), later));
    }
    let output = PlannerOutput {
        mode: PlannerMode::Execute,
        mode_reason: "small".into(),
        leaf_decision: None,
        plan: None,
        scratchpad: ScratchpadDraft { append_markdown: "A note".into(), tail_preview: String::new() },
    };
    pad += &written(&run.handle(Input::Output(second, CallOutput::Plan(output)), later));
    assert_eq!(pad, "The answer\nis near\nOnce more\nA note\n");
    assert_eq!(run.graph().nodes()[0].scratchpad_tail.as_deref(), Some(pad.as_str()));
}

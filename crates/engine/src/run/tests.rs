use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::{NodeStatus, Role, RunId, RunSpec};

use super::*;
use crate::call::CallOutput;
use crate::start::start;

/// The text that `decision` adds to documents.
fn written(decision: &Decision) -> String {
    let text = |op: &DocumentOp| match op {
        DocumentOp::Append { text, .. } => text.clone(),
        DocumentOp::Create(_) | DocumentOp::Replace { .. } | DocumentOp::Link { .. } => String::new(),
    };
    decision.documents.iter().map(text).collect()
}

fn wrote(text: &str) -> RoleUpdate {
    RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: text.into() })
}

#[test]
fn pieces_of_one_call_stand_together_and_everything_else_on_lines_of_its_own() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let mut now = Timestamp(1_000);
    let mut run = Run::replay(run_id, &start(run_id, RunSpec::new("o"), now).events).unwrap();
    run.handle(Input::Claimed, now);
    let first = run.take_due(now, 1).remove(0).key;
    let mut pad = String::new();
    for piece in ["The ans", "wer\nis ", "", "near"] {
        now = now.plus_millis(500);
        let decision = run.handle(Input::Update(first, wrote(piece)), now);
        // One event for each change, and none if nothing changed.
        assert_eq!(decision.events.len(), decision.documents.len());
        assert_eq!(decision.events.is_empty(), piece.is_empty());
        pad += &written(&decision);
    }
    assert_eq!(pad, "The answer\nis near");
    // The call breaks off in the middle of a line. The next attempt begins a new line.
    run.handle(Input::Failed(first, RoleError::new(RoleErrorKind::Internal, "broke off")), now);
    let mut later = run.next_wakeup().unwrap();
    let second = run.take_due(later, 1).remove(0).key;
    for piece in ["Once", " more"] {
        later = later.plus_millis(500);
        pad += &written(&run.handle(Input::Update(second, wrote(piece)), later));
    }
    let output = PlannerOutput {
        premises: None,
        homework: None,
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

#[test]
fn a_scratchpad_changes_four_times_a_second_at_the_most_and_nothing_is_lost() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let at = |ms: u64| Timestamp::from_millis(1_000_000).plus_millis(ms);
    let mut run = Run::replay(run_id, &start(run_id, RunSpec::new("o"), at(0)).events).unwrap();
    run.handle(Input::Claimed, at(0));
    let key = run.take_due(at(0), 1).remove(0).key;
    let mut pad = String::new();
    let mut changes = Vec::new();
    let mut note = |decision: Decision, ms: u64| {
        changes.extend(decision.documents.iter().map(|_| ms));
        pad += &written(&decision);
        pad.clone()
    };
    // The first ones are written at once, as from a stalled driver. Then they are gathered.
    for (n, ms) in [1, 2, 3, 4, 5, 600].into_iter().enumerate() {
        note(run.handle(Input::Update(key, wrote(&format!("{n} "))), at(ms)), ms);
    }
    let output = PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: "small".into(),
        leaf_decision: None,
        plan: None,
        scratchpad: ScratchpadDraft { append_markdown: "done".into(), tail_preview: String::new() },
    };
    let usage = UsageRecorded {
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 1,
        duration_ms: 1,
        purpose: String::new(),
        documents: Vec::new(),
        prompt: None,
    };
    // Whatever follows the text waits with it, and the call stays in flight until its end is in the log.
    let decision =
        run.handle(Input::Update(key, RoleUpdate::Usage { usage: usage.clone(), prompt: None }), at(610));
    assert!(decision.is_empty());
    for answer in [output.clone(), output] {
        let decision = run.handle(Input::Output(key, CallOutput::Plan(answer)), at(620));
        assert!(decision.is_empty() && run.is_in_flight(&key));
    }
    assert_eq!(run.next_wakeup(), Some(at(1_001)), "a second after the third change from the end");
    assert!(run.handle(Input::Tick, at(1_000)).is_empty());
    let decision = run.handle(Input::Tick, at(1_001));
    let types: Vec<&str> = decision.events.iter().map(|e| e.body.event_type()).collect();
    assert_eq!(types[..2], ["tree.scratchpad_updated", "tree.usage_recorded"]);
    note(decision, 1_001);
    let text = note(Decision::default(), 0);
    assert!(text.starts_with("0 1 2 3 4 5 "), "{text:?}");
    let pad = note(run.handle(Input::Tick, at(1_002)), 1_002);
    assert_eq!(pad, "0 1 2 3 4 5 \ndone\n");
    assert!(!run.is_in_flight(&key));
    assert!(changes.windows(5).all(|five| five[4] - five[0] >= 1_000), "{changes:?}");
    // The duplicated answer was dropped with its call and does not delay the next one.
    let next = run.take_due(at(1_003), 1).remove(0).key;
    let decision = run.handle(Input::Update(next, RoleUpdate::Usage { usage, prompt: None }), at(1_003));
    assert_eq!(decision.events.len(), 1);
}

#[test]
fn a_role_that_floods_its_scratchpad_fails_instead_of_filling_the_memory() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let now = Timestamp(1_000);
    let mut run = Run::replay(run_id, &start(run_id, RunSpec::new("o"), now).events).unwrap();
    run.handle(Input::Claimed, now);
    let key = run.take_due(now, 1).remove(0).key;
    let piece = "x".repeat(100_000);
    let mut sent = 0;
    while run.is_in_flight(&key) {
        run.handle(Input::Update(key, wrote(&piece)), now);
        sent += piece.len();
        assert!(sent < 8_000_000, "it is still listened to");
    }
    assert_eq!(run.graph().nodes()[0].status, NodeStatus::Waiting, "it is called again");
    assert!(run.in_flight.holding().next().is_none(), "nothing of it is kept");
}

#[test]
fn what_has_finished_and_waits_to_be_written_does_not_outlast_the_time_of_the_run() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let at = |ms: u64| Timestamp::from_millis(1_000_000).plus_millis(ms);
    let mut spec = RunSpec::new("o");
    (spec.budgets.max_wall_clock_ms, spec.budgets.call_timeout_ms) = (1_000, 1_000);
    let mut run = Run::replay(run_id, &start(run_id, spec, at(0)).events).unwrap();
    run.handle(Input::Claimed, at(0));
    let key = run.take_due(at(0), 1).remove(0).key;
    let usage = UsageRecorded {
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 1,
        duration_ms: 1,
        purpose: String::new(),
        documents: Vec::new(),
        prompt: None,
    };
    // Text that cannot be put together takes a quarter of a second each.
    for n in 0..40 {
        run.handle(Input::Update(key, wrote(&format!("{n} "))), at(100));
        run.handle(Input::Update(key, RoleUpdate::Usage { usage: usage.clone(), prompt: None }), at(100));
    }
    let output = PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: "small".into(),
        leaf_decision: None,
        plan: None,
        scratchpad: ScratchpadDraft::default(),
    };
    run.handle(Input::Output(key, CallOutput::Plan(output)), at(200));
    let mut now = at(200);
    while !run.is_final() {
        let next = run.next_wakeup().expect("something is to happen");
        assert!(next > now, "nothing happens at {now:?}, and the run wakes up again at once");
        now = next;
        run.handle(Input::Tick, now);
    }
    assert!(now <= at(2_000), "{now:?}");
}

/// The first events of a run, the first one changed.
fn begun(change: impl FnOnce(&mut RunCreated)) -> Result<Run, ReplayError> {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let mut events = start(run_id, RunSpec::new("o"), Timestamp(1)).events;
    let EventBody::RunCreated(created) = &mut events[0].body else { panic!("a log begins with its run") };
    change(created);
    Run::replay(run_id, &events)
}

#[test]
fn a_log_of_a_newer_program_is_refused_instead_of_misread() {
    assert!(begun(|_| {}).is_ok());
    for change in [
        (|created| created.schema_version += 1) as fn(&mut RunCreated),
        |created| created.schema_version = 0,
        |created| created.behaviour_version += 1,
        |created| created.behaviour_version = 0,
    ] {
        let error = begun(change).unwrap_err();
        assert!(matches!(error, ReplayError::Version { .. }), "{error}");
    }
}

#[test]
fn the_log_says_which_call_a_node_needs() {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    let mut run = Run::replay(run_id, &start(run_id, RunSpec::new("o"), Timestamp(1)).events).unwrap();
    run.handle(Input::Claimed, Timestamp(2));
    let mut says = |status, call, attempt| {
        let body = NodeStatusChanged { call, attempt, ..NodeStatusChanged::new(status, Role::Planner) };
        let (node_id, seq) = (run.graph().nodes()[0].id, run.graph().seq() + 1);
        let event =
            Event { run_id, seq, node_id, parent_node_id: None, timestamp: Timestamp(3), body: body.into() };
        run.apply(&event).unwrap();
        let due = run.clone().take_due(Timestamp(1_000_000_000), 1);
        due.first().map(|call| (call.key.kind, call.key.round, call.key.attempt))
    };
    use CallKind::{Aggregate, Execute};
    assert_eq!(says(NodeStatus::Executing, Some(Execute), None), Some((Execute, 1, 1)));
    // A retry, and a role at work again, are the same call.
    assert_eq!(says(NodeStatus::Waiting, None, Some(2)), Some((Execute, 1, 2)));
    assert_eq!(says(NodeStatus::Executing, None, Some(2)), Some((Execute, 1, 2)));
    assert_eq!(says(NodeStatus::Blocked, None, Some(2)), Some((Execute, 1, 2)));
    // A call that is named is a new one, whatever the status is.
    assert_eq!(says(NodeStatus::Executing, Some(Execute), None), Some((Execute, 2, 1)));
    assert_eq!(says(NodeStatus::Executing, Some(Aggregate), None), Some((Aggregate, 3, 1)));
    assert_eq!(says(NodeStatus::Waiting, None, None), None);
    assert_eq!(says(NodeStatus::Planning, None, None), None);
}

//! Forks: what a run knows that continues another one.

use tree_agent_contract::command::Action;
use tree_agent_engine::Audit;

use super::*;

/// The log of a fork at `at` of the run that `hand` has driven, one minute later.
pub(super) fn fork(hand: &Hand, at: usize) -> Vec<Event> {
    fork_with(hand, at, Vec::new(), false)
}

fn fork_with(hand: &Hand, at: usize, edits: Vec<Action>, goes_on: bool) -> Vec<Event> {
    forked_log(&hand.log[..at], hand.now.plus_millis(60_000), edits, goes_on)
}

/// The log of a fork that goes on from `shared`.
pub(super) fn fork_of(shared: &[Event], now: Timestamp, edits: Vec<Action>) -> Vec<Event> {
    let (_, goes_on) = replayed(shared).fork(&edits, now).expect("the edits fit");
    forked_log(shared, now, edits, goes_on)
}

fn forked_log(shared: &[Event], now: Timestamp, edits: Vec<Action>, goes_on: bool) -> Vec<Event> {
    let run_id = RunId(uuid::Uuid::from_u128(8));
    let mut log: Vec<Event> = shared.iter().map(|e| Event { run_id, ..e.clone() }).collect();
    let body = RunForked {
        source_run_id: shared[0].run_id,
        at_seq: shared.len() as u64,
        origin_run_id: Some(shared[0].run_id),
        author: "ann".into(),
        by_administrator: false,
        request_id: "r".into(),
        display_name: "again".into(),
        labels: [("try".to_owned(), "2".to_owned())].into(),
        edits,
        goes_on,
    };
    log.push(Event { seq: shared.len() as u64 + 1, timestamp: now, body: body.into(), ..log[0].clone() });
    log
}

fn replayed(log: &[Event]) -> Run {
    Run::replay(log[0].run_id, log).expect("a fork replays")
}

pub(super) fn violations(log: &[Event]) -> Vec<String> {
    let mut audit = Audit::new();
    log.iter().for_each(|event| audit.event(event));
    audit.finish().into_iter().map(|violation| violation.message).collect()
}

#[test]
fn a_fork_within_the_life_of_a_run_makes_the_calls_in_flight_again_and_counts_anew() {
    let budgets = Budgets { max_tokens: Some(100), max_wall_clock_ms: 30_000, ..Budgets::default() };
    let mut hand = Hand::new(budgets);
    let plan = hand.only();
    hand.uses(&plan, 70);
    hand.plans(&plan, 2, true);
    let in_flight: Vec<_> = hand.due().iter().map(|call| call.key).collect();
    let log = fork(&hand, hand.log.len());
    let mut run = replayed(&log);
    assert_eq!(run.spec().user_id, "ann");
    assert_eq!(run.spec().display_name, "again");
    assert_eq!(run.spec().labels["try"], "2");
    assert_eq!((run.graph().usage(), hand.run.graph().usage().tokens()), (Default::default(), 70));
    assert_eq!(run.graph().started_at(), Some(log.last().unwrap().timestamp));
    // The tokens and the time of the parent are no longer counted, so that both calls fit.
    let now = log.last().unwrap().timestamp.plus_millis(1);
    assert_eq!(run.take_due(now, usize::MAX).iter().map(|call| call.key).collect::<Vec<_>>(), in_flight);
    assert_eq!(run.graph().status(), RunStatus::Running);
    assert_eq!(violations(&log), Vec::<String>::new());
}

#[test]
fn a_budget_that_had_tripped_is_clear_in_a_fork() {
    let mut hand = Hand::new(Budgets { max_tokens: Some(100), ..Budgets::default() });
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    let calls = hand.due();
    hand.uses(&calls[0], 100);
    assert_eq!(hand.run.exhausted_budget(), Some("maxTokens"));
    let tripped = hand.log.iter().position(|e| matches!(e.body, EventBody::BudgetExhausted(_))).unwrap();
    assert_eq!(replayed(&fork(&hand, tripped + 1)).exhausted_budget(), None);
}

#[test]
fn a_fork_at_the_end_of_a_run_has_ended() {
    let mut hand = Hand::new(Budgets::default());
    let plan = hand.only();
    hand.answers_plan(&plan, PlannerMode::Execute, None);
    let call = hand.only();
    hand.executes(&call);
    assert!(hand.run.is_final());
    let log = fork(&hand, hand.log.len());
    let mut run = replayed(&log);
    let now = log.last().unwrap().timestamp;
    assert_eq!(run.graph().status(), RunStatus::Completed);
    assert_eq!((run.graph().started_at(), run.graph().ended_at()), (Some(now), Some(now)));
    assert!(run.take_due(now, usize::MAX).is_empty() && run.handle(Input::Claimed, now).is_empty());
    assert_eq!(violations(&log), Vec::<String>::new());
    // Nothing else may follow.
    let mut more = log.clone();
    let last = more.last().unwrap().clone();
    let body =
        RunStatusChanged { status: RunStatus::Running, reason: None, partial: false, goes_on_at: None }
            .into();
    more.push(Event { seq: last.seq + 1, body, ..last });
    assert_eq!(violations(&more), ["tree.run_status stands after the end of the run"]);
}

#[test]
fn documents_of_a_fork_are_named_after_the_run_that_began_its_log() {
    let hand = Hand::new(Budgets::default());
    let mut run = replayed(&fork(&hand, hand.log.len()));
    let now = hand.now.plus_millis(60_001);
    let calls = run.take_due(now, usize::MAX);
    assert_eq!(calls[0].input.context().origin_run_id, Some(hand.log[0].run_id));
    let decision = run.handle(Input::Update(calls[0].key, kept::kept("t1", "answers/a.txt")), now);
    let DocumentOp::Create(document) = &decision.documents[0] else { panic!("{:?}", decision.documents) };
    assert_eq!(document.id, DocumentId::of_run(hand.log[0].run_id, "answers/a.txt"));
    assert_eq!(document.run_id, Some(RunId(uuid::Uuid::from_u128(8))));
}

/// A fork with edits, as the log begins, and the run that its first driver has.
pub(super) fn taken_up(hand: &Hand, at: usize, edits: Vec<Action>) -> Hand {
    let now = hand.now.plus_millis(60_000);
    let log = fork_of(&hand.log[..at], now, edits);
    let mut fork = Hand { run: replayed(&log), log, now, texts: Vec::new() };
    fork.feed(Input::Claimed);
    fork
}

fn child(hand: &Hand, n: usize) -> NodeId {
    hand.run.graph().nodes()[n].id
}

/// A root with two steps, all of them completed.
fn completed() -> Hand {
    let mut hand = Hand::new(flat());
    let plan = hand.only();
    hand.plans(&plan, 2, true);
    hand.due().iter().for_each(|call| hand.executes(call));
    let aggregate = hand.only();
    hand.aggregates(&aggregate);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    hand
}

pub(super) fn retry(node_id: NodeId) -> Action {
    Action::Retry { node_id, guidance: String::new(), model: String::new(), budget: None }
}

#[test]
fn a_retried_step_of_an_ended_run_is_done_again_and_put_together_once() {
    let hand = completed();
    let step = child(&hand, 1);
    let mut fork =
        taken_up(&hand, hand.log.len(), vec![retry(step), Action::SetModel { model: "m2".into() }]);
    assert_eq!(fork.run.graph().status(), RunStatus::Running);
    assert_eq!(fork.run.spec().model, "m2");
    let call = fork.only();
    assert_eq!((call.key.node_id, call.key.kind), (step, CallKind::Execute));
    assert_eq!(context(&call).model, "m2");
    fork.executes(&call);
    let aggregate = fork.only();
    assert_eq!(aggregate.key.kind, CallKind::Aggregate);
    fork.aggregates(&aggregate);
    assert_eq!(fork.ending().status, RunStatus::Completed);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn an_edited_plan_reopens_a_node_that_has_ended_for_its_new_steps_only() {
    let hand = completed();
    let steps = (0..3).map(|n| StepDraft {
        step_index: n,
        reason: "needed".into(),
        ..StepDraft::new(StepId::new(format!("s{n}")), format!("step {n}"))
    });
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps: steps.collect() };
    let plan = PlanDraft { summary: "one more".into(), bands: vec![band] };
    let mut fork = taken_up(&hand, hand.log.len(), vec![Action::EditPlan { node_id: child(&hand, 0), plan }]);
    let call = fork.only();
    assert_eq!(fork.run.graph().node(call.key.node_id).unwrap().title, "step 2");
    fork.executes(&call);
    let aggregate = fork.only();
    let CallInput::Aggregate(input) = &aggregate.input else { panic!("{:?}", aggregate.key) };
    assert_eq!(input.children.len(), 3);
    fork.aggregates(&aggregate);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_driver_that_dies_between_two_edits_leaves_the_second_to_its_successor() {
    let hand = completed();
    let edits = vec![retry(child(&hand, 1)), retry(child(&hand, 2))];
    let fork = taken_up(&hand, hand.log.len(), edits);
    let reopened = |log: &[Event]| {
        let again = |e: &&Event| matches!(&e.body, EventBody::NodeReopened(e) if e.again);
        log.iter().filter(again).map(|e| e.node_id).collect::<Vec<_>>()
    };
    assert_eq!(reopened(&fork.log), [child(&hand, 1), child(&hand, 2)]);
    let second =
        fork.log.iter().rposition(|e| matches!(&e.body, EventBody::NodeReopened(e) if e.again)).unwrap();
    let mut log = fork.log[..second].to_vec();
    let decision = replayed(&log).handle(Input::Claimed, fork.now);
    log.extend(decision.events);
    assert_eq!(reopened(&log), [child(&hand, 1), child(&hand, 2)]);
    let mut successor = replayed(&log);
    assert!(successor.handle(Input::Claimed, fork.now).is_empty());
    assert_eq!(successor.take_due(fork.now, usize::MAX).len(), 2);
}

/// A run that has used up its tokens with the first of three steps, and has ended.
fn out_of_tokens() -> Hand {
    let mut hand = Hand::new(Budgets { max_tokens: Some(100), max_parallel_steps: 1, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let call = hand.only();
    hand.uses(&call, 100);
    hand.executes(&call);
    hand
}

#[test]
fn what_a_budget_cancelled_stays_so_in_a_fork_unless_the_budget_is_raised() {
    let hand = out_of_tokens();
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    let cancelled =
        |run: &Run| run.graph().nodes().iter().filter(|n| n.status == NodeStatus::Cancelled).count();
    assert_eq!(cancelled(&hand.run), 2);
    let guided = taken_up(&hand, hand.log.len(), vec![retry(child(&hand, 1))]);
    assert_eq!((cancelled(&guided.run), guided.run.exhausted_budget()), (2, None));
    let change = BudgetChange { max_tokens: Some(1_000), ..BudgetChange::default() };
    let mut raised = taken_up(&hand, hand.log.len(), vec![Action::SetBudget { node_id: None, change }]);
    assert_eq!(cancelled(&raised.run), 0);
    for _ in 0..2 {
        let call = raised.only();
        assert_eq!(call.key.kind, CallKind::Execute);
        raised.executes(&call);
    }
    let aggregate = raised.only();
    raised.aggregates(&aggregate);
    assert_eq!((raised.ending().status, raised.ending().partial), (RunStatus::Completed, false));
    assert_eq!(violations(&raised.log), Vec::<String>::new());
}

#[test]
fn wrong_edits_are_refused_with_their_place() {
    let hand = completed();
    let refused = |edits: &[Action]| {
        let refusal = hand.run.fork(edits, hand.now).unwrap_err();
        (refusal.kind, refusal.field)
    };
    let unknown = NodeId(uuid::Uuid::from_u128(99));
    let guide = Action::Guide { node_id: child(&hand, 1), text: "t".into(), subtree: false, restart: false };
    let model = Action::SetModel { model: "m".into() };
    let nothing = Action::SetBudget { node_id: None, change: BudgetChange::default() };
    assert_eq!(refused(&[model.clone(), retry(unknown)]), (RefusalKind::NotFound, "edits[1].node_id".into()));
    assert_eq!(refused(std::slice::from_ref(&guide)), (RefusalKind::Precondition, "edits[0].node_id".into()));
    assert_eq!(refused(&[nothing]), (RefusalKind::Invalid, "edits[0].budgets".into()));
    assert_eq!(
        refused(&[Action::Pause { node_id: None, now: false }]),
        (RefusalKind::Invalid, "edits[0]".into())
    );
    assert_eq!(refused(&vec![model.clone(); 65]), (RefusalKind::Invalid, "edits".into()));
    // After a retry the same guidance fits.
    let (preview, goes_on) = hand.run.fork(&[retry(child(&hand, 1)), guide], hand.now).expect("fits");
    assert!(goes_on);
    assert_eq!(preview.calls, [(CallKind::Execute, 1), (CallKind::Aggregate, 1)]);
    assert_eq!((preview.seq, preview.reused), (hand.log.len() as u64, 1));
    let (preview, goes_on) = hand.run.fork(&[model], hand.now).expect("fits");
    assert!(!goes_on && preview.calls.is_empty() && preview.notes.len() == 1, "{preview:?}");
    // Only a fork begins with another model.
    let mut live = Hand::new(flat());
    let command = Command::new(Action::SetModel { model: "m".into() });
    assert_eq!(live.run.command(&command, live.now).unwrap_err().kind, RefusalKind::Precondition);
}

#[test]
fn edits_that_a_fork_has_carried_out_are_not_carried_out_again_in_a_fork_of_it() {
    let hand = completed();
    let fork = taken_up(&hand, hand.log.len(), vec![retry(child(&hand, 1))]);
    let again = |log: &[Event]| {
        let again = |e: &&Event| matches!(&e.body, EventBody::NodeReopened(e) if e.again);
        log.iter().filter(again).count()
    };
    let second = fork_with(&fork, fork.log.len(), vec![retry(child(&hand, 2))], false);
    let run_id = RunId(uuid::Uuid::from_u128(9));
    let mut log: Vec<Event> = second.into_iter().map(|e| Event { run_id, ..e }).collect();
    let decision = replayed(&log).handle(Input::Claimed, fork.now);
    log.extend(decision.events);
    assert_eq!((again(&fork.log), again(&log)), (1, 2));
    // Those that it had not carried out are, before its own.
    let begun = fork.log.iter().position(|e| matches!(e.body, EventBody::RunForked(_))).unwrap();
    let second = fork_with(&fork, begun + 1, vec![retry(child(&hand, 2))], false);
    let mut log: Vec<Event> = second.into_iter().map(|e| Event { run_id, ..e }).collect();
    let decision = replayed(&log).handle(Input::Claimed, fork.now);
    log.extend(decision.events);
    assert_eq!(again(&log), 2);
    assert_eq!(violations(&log), Vec::<String>::new());
}

#[test]
fn a_fork_of_a_fork_that_has_not_raised_a_budget_yet_raises_it() {
    let hand = out_of_tokens();
    let change = BudgetChange { max_tokens: Some(1_000), ..BudgetChange::default() };
    let now = hand.now.plus_millis(60_000);
    let first = fork_of(&hand.log, now, vec![Action::SetBudget { node_id: None, change }]);
    let mut log = fork_of(&first, now.plus_millis(1), Vec::new());
    let decision = replayed(&log).handle(Input::Claimed, now.plus_millis(2));
    log.extend(decision.events);
    let mut run = replayed(&log);
    assert_eq!(run.graph().nodes().iter().filter(|n| n.status == NodeStatus::Cancelled).count(), 0);
    assert_eq!(run.take_due(now.plus_millis(2), usize::MAX).len(), 1);
    assert_eq!(violations(&log), Vec::<String>::new());
}

#[test]
fn a_fork_that_goes_on_for_edits_that_do_nothing_again_ends() {
    let hand = completed();
    let mut log = fork_with(&hand, hand.log.len(), Vec::new(), true);
    let mut run = replayed(&log);
    assert_eq!(run.graph().status(), RunStatus::Running);
    log.extend(run.handle(Input::Claimed, hand.now.plus_millis(60_001)).events);
    assert_eq!(run.graph().status(), RunStatus::Completed);
    assert_eq!(violations(&log), Vec::<String>::new());
}

#[test]
fn a_fork_of_a_part_of_an_ending_does_not_wait_for_the_children_that_it_cancelled() {
    let mut hand = Hand::new(Budgets { max_wall_clock_ms: 30_000, ..flat() });
    let plan = hand.only();
    hand.plans(&plan, 3, true);
    let _in_flight = hand.due();
    hand.later(31_000);
    // The driver wrote everything up to the end of the root, and died.
    let root = hand.log[0].node_id;
    let is_end =
        |e: &Event| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Cancelled);
    let cut = hand.log.iter().rposition(|e| e.node_id == root && is_end(e)).expect("it was cancelled");
    let fork = taken_up(&hand, cut, Vec::new());
    assert_eq!(fork.ending().status, RunStatus::Failed);
    assert_eq!(violations(&fork.log), Vec::<String>::new());
}

#[test]
fn a_fork_whose_first_driver_comes_after_its_time_has_all_of_its_edits() {
    let hand = completed();
    let change = BudgetChange { max_tokens: Some(1_000), ..BudgetChange::default() };
    let guide = Action::Guide { node_id: child(&hand, 1), text: "t".into(), subtree: false, restart: false };
    let edits = vec![retry(child(&hand, 1)), Action::SetBudget { node_id: None, change }, guide];
    let mut log = fork_of(&hand.log, hand.now.plus_millis(60_000), edits);
    let late = hand.now.plus_millis(60_000 + flat().max_wall_clock_ms);
    log.extend(replayed(&log).handle(Input::Claimed, late).events);
    let run = replayed(&log);
    assert_eq!(run.exhausted_budget(), Some("maxWallClockMs"));
    assert!(log.iter().any(|e| matches!(e.body, EventBody::GuidanceAdded(_))));
    assert_eq!(violations(&log), Vec::<String>::new());
}

#[test]
fn edits_that_a_run_has_left_undone_at_its_end_are_not_carried_out_in_a_fork_of_it() {
    let hand = completed();
    let edits = vec![retry(child(&hand, 1)), retry(child(&hand, 2))];
    let mut log = fork_of(&hand.log, hand.now.plus_millis(60_000), edits);
    // A driver that knew the run cancels it before anything else.
    let now = hand.now.plus_millis(60_001);
    log.extend(replayed(&log).handle(Input::Cancel { reason: "enough".into() }, now).events);
    assert!(replayed(&log).is_final());
    let mut again = fork_of(&log, now, vec![retry(child(&hand, 2))]);
    let begun = again.len();
    again.extend(replayed(&again).handle(Input::Claimed, now).events);
    let reopened = again[begun..].iter().filter(|e| matches!(&e.body, EventBody::NodeReopened(e) if e.again));
    assert_eq!(reopened.map(|e| e.node_id).collect::<Vec<_>>(), [child(&hand, 2)]);
    assert_eq!(violations(&again), Vec::<String>::new());
}

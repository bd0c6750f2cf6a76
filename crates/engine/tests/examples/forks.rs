//! Forks: what a run knows that continues another one.

use tree_agent_engine::Audit;

use super::*;

/// The log of a fork at `at` of the run that `hand` has driven, one minute later.
fn fork(hand: &Hand, at: usize) -> Vec<Event> {
    let run_id = RunId(uuid::Uuid::from_u128(8));
    let mut log: Vec<Event> = hand.log[..at].iter().map(|e| Event { run_id, ..e.clone() }).collect();
    let body = RunForked {
        source_run_id: hand.log[0].run_id,
        at_seq: at as u64,
        origin_run_id: Some(hand.log[0].run_id),
        author: "ann".into(),
        request_id: "r".into(),
        display_name: "again".into(),
        labels: [("try".to_owned(), "2".to_owned())].into(),
    };
    log.push(Event {
        seq: at as u64 + 1,
        timestamp: hand.now.plus_millis(60_000),
        body: body.into(),
        ..log[0].clone()
    });
    log
}

fn replayed(log: &[Event]) -> Run {
    Run::replay(log[0].run_id, log).expect("a fork replays")
}

fn violations(log: &[Event]) -> Vec<String> {
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
    let body = RunStatusChanged { status: RunStatus::Running, reason: None, partial: false }.into();
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

//! Sending commands, and answering them once.

use std::time::Duration;

use tree_agent_contract::command::Action;
use tree_agent_contract::{Command, Refusal, RefusalKind, Reply, ReviewRule, RunId, RunSpec, RunStatus};
use tree_agent_store::{Answer, AppendOutcome, NewRun, RunAppend, Sent, StoreError};

use crate::fixture::{Fixture, append, claim, new_run, run_id, run_row};

const LONG: Duration = Duration::from_secs(60);

fn pause(request_id: &str) -> Command {
    let action = Action::Pause { node_id: None, now: true };
    Command { request_id: request_id.into(), author: "ann".into(), ..Command::new(action) }
}

fn answer(id: i64, request_id: &str, reply: Reply) -> Answer {
    Answer { id, request_id: request_id.into(), reply }
}

fn refused() -> Reply {
    Reply::Refused(Refusal::of_field(RefusalKind::Precondition, "node_id", "it has ended\0"))
}

fn paused(run: RunId, epoch: u64, head: u64) -> RunAppend {
    let mut append = append(run, epoch, head, 1);
    append.projection.run = Some(run_row(RunStatus::Paused));
    append
}

pub async fn a_request_id_makes_a_command_idempotent(f: Fixture) {
    let held = f.claimed(1, "a").await;
    let other = f.claimed(2, "a").await;
    let run = held.run_id;
    // NUL characters are stored as others, and a repeat is recognised nevertheless.
    for command in [pause("r"), pause("r"), pause("nul\0")] {
        let expected = if command.request_id == "r" { 1 } else { 2 };
        assert_eq!(f.store.send_command(run, command.clone()).await.unwrap(), Sent::Pending(expected));
        assert_eq!(f.store.send_command(run, command).await.unwrap(), Sent::Pending(expected));
    }
    assert_eq!(f.store.send_command(other.run_id, pause("r")).await.unwrap(), Sent::Pending(1), "by run");
    assert_eq!(f.store.commands("a").await.unwrap().len(), 3);
    let by_somebody_else = Command { author: "bob".into(), ..pause("r") };
    let other = Command { action: Action::Pause { node_id: None, now: false }, ..pause("r") };
    for other in [by_somebody_else, other] {
        let error = f.store.send_command(run, other).await.unwrap_err();
        assert!(matches!(&error, StoreError::Conflict(text) if text.contains("\"r\"")), "{error:?}");
    }
    assert_eq!(f.store.reply(run, "r").await.unwrap(), None, "it has none yet");
    assert_eq!(f.store.reply(run, "unknown").await.unwrap(), None);
    assert_eq!(f.store.reply(run_id(9), "r").await.unwrap(), None);
}

pub async fn concurrent_requests_with_one_id_send_one_command(f: Fixture) {
    let run = f.claimed(1, "a").await.run_id;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let store = f.store.clone();
        tasks.push(tokio::spawn(async move { store.send_command(run, pause("r")).await.unwrap() }));
    }
    let mut ids = std::collections::BTreeSet::new();
    for task in tasks {
        let Sent::Pending(id) = task.await.unwrap() else { panic!("nobody answers") };
        ids.insert(id);
    }
    assert_eq!(ids.len(), 1);
    assert_eq!(f.store.commands("a").await.unwrap().len(), 1);
}

pub async fn a_reply_is_written_with_the_events_of_its_command(f: Fixture) {
    let held = f.claimed(1, "a").await;
    let run = held.run_id;
    f.store.send_command(run, pause("r")).await.unwrap();
    let done = Reply::Applied { seq: 3 };
    let mut fenced = append(run, held.epoch + 1, 2, 1);
    fenced.answers = vec![answer(1, "r", done.clone())];
    assert_eq!(f.store.append([fenced.clone()].into()).await.unwrap(), [AppendOutcome::Fenced]);
    assert_eq!(f.store.reply(run, "r").await.unwrap(), None);
    let applied = RunAppend { epoch: held.epoch, ..append(run, held.epoch, 2, 1) };
    let applied = RunAppend { answers: fenced.answers, ..applied };
    // Again as after a lost reply.
    for _ in 0..2 {
        assert_eq!(f.store.append([applied.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
        assert_eq!(f.store.reply(run, "r").await.unwrap(), Some(done.clone()));
    }
    assert_eq!(f.store.commands("a").await.unwrap(), []);
    // The request is answered from what was written, now and after the end of the run.
    assert_eq!(f.store.send_command(run, pause("r")).await.unwrap(), Sent::Answered(done.clone()));
    let mut end = append(run, held.epoch, 3, 1);
    end.projection.run = Some(run_row(RunStatus::Completed));
    f.store.append([end].into()).await.unwrap();
    assert_eq!(f.store.send_command(run, pause("r")).await.unwrap(), Sent::Answered(done));
    assert_eq!(f.store.send_command(run, pause("s")).await.unwrap(), Sent::Ended);
    let other = Command { author: "bob".into(), ..pause("r") };
    assert!(matches!(f.store.send_command(run, other).await, Err(StoreError::Conflict(_))));
}

pub async fn a_refusal_is_written_without_events_by_the_owner_alone(f: Fixture) {
    let held = f.claimed(1, "a").await;
    let run = held.run_id;
    for request in ["r", "s", ""] {
        f.store.send_command(run, pause(request)).await.unwrap();
    }
    let answers = vec![answer(1, "r", refused()), answer(3, "", refused())];
    assert!(!f.store.answer(run, held.epoch + 1, answers.clone()).await.unwrap(), "another epoch");
    assert!(!f.store.answer(run_id(9), held.epoch, answers.clone()).await.unwrap());
    assert_eq!(f.store.commands("a").await.unwrap().len(), 3);
    for _ in 0..2 {
        assert!(f.store.answer(run, held.epoch, answers.clone()).await.unwrap());
    }
    // A later answer to the same request changes nothing.
    let late = vec![answer(1, "r", Reply::Applied { seq: 9 })];
    assert!(f.store.answer(run, held.epoch, late).await.unwrap());
    let stored = f.store.reply(run, "r").await.unwrap();
    assert!(matches!(&stored, Some(Reply::Refused(refusal)) if refusal.field == "node_id"), "{stored:?}");
    assert_eq!(f.store.send_command(run, pause("r")).await.unwrap(), Sent::Answered(stored.unwrap()));
    let left: Vec<_> = f.store.commands("a").await.unwrap().into_iter().map(|left| left.id).collect();
    assert_eq!(left, [2]);
    assert_eq!(f.store.read(run, 0, 10).await.unwrap().len(), 2, "no event");
}

pub async fn the_end_of_a_run_refuses_what_waits(f: Fixture) {
    let (held, other) = (f.claimed(1, "a").await, f.claimed(2, "a").await);
    for run in [held.run_id, other.run_id] {
        for request in ["r", "s"] {
            f.store.send_command(run, pause(request)).await.unwrap();
        }
    }
    let mut end = append(held.run_id, held.epoch, 2, 1);
    end.projection.run = Some(run_row(RunStatus::Cancelled));
    end.answers = vec![answer(1, "r", Reply::Applied { seq: 3 })];
    f.store.append([end].into()).await.unwrap();
    assert_eq!(f.store.reply(held.run_id, "r").await.unwrap(), Some(Reply::Applied { seq: 3 }));
    let late = f.store.reply(held.run_id, "s").await.unwrap();
    let Some(Reply::Refused(refusal)) = late else { panic!("{late:?}") };
    assert_eq!(refusal.kind, RefusalKind::Precondition);
    assert_eq!(f.store.reply(other.run_id, "r").await.unwrap(), None);
}

pub async fn a_paused_run_is_claimed_only_for_a_command(f: Fixture) {
    let held = f.claimed(1, "a").await;
    let run = held.run_id;
    f.store.append([paused(run, held.epoch, 2)].into()).await.unwrap();
    f.store.release(&[(run, held.epoch)]).await.unwrap();
    assert_eq!(claim(&*f.store, "b", LONG, 8).await, []);
    let term = f.store.begin_term("b", LONG).await.unwrap().number;
    assert_eq!(f.store.claim("b", term, 8, 8, 8).await.unwrap(), []);
    f.store.send_command(run, pause("r")).await.unwrap();
    let held = f.store.claim("b", term, 0, 0, 8).await.unwrap()[0];
    // A driver that could not carry it out leaves the command behind. The run is claimed again for it.
    f.store.release(&[(run, held.epoch)]).await.unwrap();
    assert_eq!(f.store.claim("b", term, 0, 0, 8).await.unwrap(), [], "it was called once");
    let held = f.store.claim("b", term, 8, 8, 8).await.unwrap()[0];
    assert!(f.store.answer(run, held.epoch, vec![answer(1, "r", refused())]).await.unwrap());
    f.store.release(&[(run, held.epoch)]).await.unwrap();
    assert_eq!(f.store.claim("b", term, 8, 8, 8).await.unwrap(), []);
    // In quarantine it waits, as others do.
    f.store.send_command(run, pause("s")).await.unwrap();
    let held = f.store.claim("b", term, 8, 8, 8).await.unwrap()[0];
    f.store.quarantine(run, held.epoch, LONG).await.unwrap();
    assert_eq!(f.store.claim("b", term, 8, 8, 8).await.unwrap(), []);
}

pub async fn a_paused_run_that_waits_for_a_review_is_claimed_when_its_time_has_come(f: Fixture) {
    let review = Some(ReviewRule { goes_on_after_ms: Some(1_000), per_call: None });
    let new = new_run(1);
    let spec = RunSpec { review, ..new.spec.clone() };
    f.store.create_run(NewRun { spec, ..new }).await.unwrap();
    let term = f.store.begin_term("a", LONG).await.unwrap().number;
    let held = f.store.claim("a", term, 8, 8, 8).await.unwrap()[0];
    f.store.append([paused(held.run_id, held.epoch, 2)].into()).await.unwrap();
    // Its driver may not have said when that is.
    f.store.release(&[(held.run_id, held.epoch)]).await.unwrap();
    let held = f.store.claim("a", term, 8, 8, 8).await.unwrap()[0];
    f.store.quarantine(held.run_id, held.epoch, LONG).await.unwrap();
    assert_eq!(f.store.claim("a", term, 8, 8, 8).await.unwrap(), []);
    // A command comes first, as always.
    f.store.send_command(held.run_id, pause("r")).await.unwrap();
    let held = f.store.claim("a", term, 0, 0, 8).await.unwrap()[0];
    f.store.quarantine(held.run_id, held.epoch, Duration::from_millis(1)).await.unwrap();
    let again = async { while f.store.claim("a", term, 8, 8, 0).await.unwrap().is_empty() {} };
    tokio::time::timeout(LONG, again).await.expect("it is claimed again");
}

pub async fn a_paused_run_that_was_put_aside_is_claimed_when_its_time_has_come(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    let term = f.store.begin_term("a", LONG).await.unwrap().number;
    let held = f.store.claim("a", term, 8, 8, 8).await.unwrap()[0];
    f.store.append([paused(held.run_id, held.epoch, 2)].into()).await.unwrap();
    f.store.quarantine(held.run_id, held.epoch, Duration::from_millis(1)).await.unwrap();
    let mut again = Vec::new();
    let claimed = async {
        while again.is_empty() {
            again = f.store.claim("a", term, 8, 8, 0).await.unwrap();
        }
    };
    tokio::time::timeout(LONG, claimed).await.expect("it is claimed again");
    // A driver that could not look at it gives it back as it was.
    f.store.release(&[(held.run_id, again[0].epoch)]).await.unwrap();
    let again = f.store.claim("a", term, 8, 8, 0).await.unwrap();
    // What a person has paused since waits for a command.
    f.store.append([paused(held.run_id, again[0].epoch, 3)].into()).await.unwrap();
    f.store.release(&[(held.run_id, again[0].epoch)]).await.unwrap();
    assert_eq!(f.store.claim("a", term, 8, 8, 8).await.unwrap(), []);
}

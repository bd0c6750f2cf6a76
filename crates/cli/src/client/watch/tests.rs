//! The watcher over real connections that break in every way.

use tonic::Status;
use tree_agent_contract::RunStatus;
use tree_agent_runtime::channel::Connector;

use super::fake::{Call, Fake, Then, log, message, run_id};
use super::*;

/// Short enough for tests, long enough for a busy machine.
const QUICK: Policy = Policy {
    silence: Duration::from_millis(300),
    backoff: Duration::from_millis(5),
    give_up_after: Duration::from_secs(30),
    token_patience: Duration::from_millis(50),
};

/// The seqs that arrived, and how it ended.
async fn watched(url: &str, after_seq: u64, policy: Policy) -> (Vec<u64>, Result<End, CliError>, usize) {
    let client = Client::connect(url, &Connector::default()).await.unwrap();
    let mut updates = spawn(client, run_id(), Wanted::after(after_seq), policy);
    let (mut seqs, mut lost) = (Vec::new(), 0);
    loop {
        match updates.recv().await.expect("ends with Ended or an error") {
            Ok(Update::Event(event)) => seqs.push(event.seq),
            Ok(Update::Ended(end)) => return (seqs, Ok(end), lost),
            Ok(Update::Reconnecting { .. }) => lost += 1,
            Ok(_) => {}
            Err(error) => return (seqs, Err(error), lost),
        }
    }
}

fn asked(fake: &Fake) -> Vec<u64> {
    fake.0.lock().unwrap().asked.clone()
}

#[tokio::test]
async fn every_break_is_bridged_once_and_in_order() {
    let events = log(RunStatus::Completed, false);
    let part = |range: std::ops::Range<usize>| events[range].iter().map(message).collect::<Vec<_>>();
    let calls = vec![
        // Broken off with an error after two events.
        Call { send: part(0..2), then: Then::Fail(Status::unavailable("the gateway goes down")) },
        // Repeats what was seen, then falls silent.
        Call { send: part(0..3), then: Then::Silence },
        // Refused by an overloaded proxy, closed without a word, and a stream with a hole.
        Call { send: vec![], then: Then::Fail(Status::unavailable("try later")) },
        Call { send: part(3..4), then: Then::Close },
        Call { send: part(5..7), then: Then::Silence },
        // A resume hint.
        Call {
            send: [
                part(4..5),
                vec![Message::ResumeHint(pb::ResumeHint { after_seq: 5, reason: "drain".into() })],
            ]
            .concat(),
            then: Then::Silence,
        },
    ];
    let (fake, url) = Fake::serve(events, calls).await;
    let (seqs, end, lost) = watched(&url, 0, QUICK).await;
    assert_eq!(seqs, (1..=8).collect::<Vec<u64>>());
    assert_eq!(
        end.unwrap(),
        End { status: RunStatus::Completed, partial: false, reason: Some("as the script says".into()) }
    );
    assert_eq!(asked(&fake), [0, 2, 3, 3, 4, 4, 5]);
    assert_eq!(lost, 5, "a resume hint is no loss");
}

#[tokio::test]
async fn heartbeats_are_signs_of_life() {
    let events = log(RunStatus::Completed, false);
    let beats = (0..3).map(|_| Message::Heartbeat(pb::Heartbeat::default())).collect();
    let calls = vec![Call { send: beats, then: Then::Silence }];
    let (fake, url) = Fake::serve(events, calls).await;
    let (seqs, _, lost) = watched(&url, 0, QUICK).await;
    assert_eq!((seqs.len(), lost), (8, 1));
    assert_eq!(asked(&fake), [0, 0]);
}

#[tokio::test]
async fn a_run_that_had_ended_before_is_seen_to_have_ended() {
    let (_, url) = Fake::serve(log(RunStatus::Failed, false), vec![]).await;
    let (seqs, end, lost) = watched(&url, 8, QUICK).await;
    assert_eq!((seqs, lost), (vec![], 0));
    assert_eq!(end.unwrap().status, RunStatus::Failed);
}

#[tokio::test]
async fn a_refusal_is_final_and_absence_is_borne_for_so_long() {
    let calls =
        vec![Call { send: vec![], then: Then::Fail(Status::out_of_range("after_seq: is beyond the head")) }];
    let (_, url) = Fake::serve(log(RunStatus::Completed, false), calls).await;
    let (_, end, _) = watched(&url, 99, QUICK).await;
    assert!(matches!(end, Err(CliError::Refused(status)) if status.code() == tonic::Code::OutOfRange));

    let events = log(RunStatus::Completed, false);
    let first = Call { send: events[..2].iter().map(message).collect(), then: Then::Close };
    let silent = || Call { send: vec![], then: Then::Silence };
    let (_, url) = Fake::serve(events[..2].to_vec(), vec![first, silent(), silent(), silent()]).await;
    let policy =
        Policy { silence: Duration::from_millis(40), give_up_after: Duration::from_millis(60), ..QUICK };
    let (seqs, end, _) = watched(&url, 0, policy).await;
    assert_eq!(seqs, [1, 2]);
    assert!(matches!(end, Err(CliError::Lost { after_seq: 2, .. })), "{end:?}");
}

//! Conversations: written with their events, and read with those that they continue.

use tree_agent_contract::session::{Session, SessionMessage, Speaker};
use tree_agent_contract::{NodeId, RunId, SessionId};
use tree_agent_store::{AppendOutcome, Created};

use crate::fixture::{Fixture, T0, append, new_run, run_id};

fn session(n: u64, continues: Option<u64>) -> Session {
    let name = |n| SessionId::new(format!("s{n}"));
    let says = |speaker, text: String| SessionMessage { speaker, text };
    Session {
        id: name(n),
        node_id: NodeId::root(RunId(uuid::Uuid::from_u128(n.into()))),
        parent_id: continues.map(name),
        messages: vec![
            says(Speaker::User, format!("ask {n}")),
            says(Speaker::Assistant, format!("say {n} ü")),
        ],
        created_at: T0.plus_millis(n),
    }
}

pub async fn conversations_are_written_with_their_events_and_read_as_a_chain(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let mut first = append(run, claim.epoch, 2, 1);
    first.sessions = vec![session(1, None), session(2, Some(1)), session(4, None)];
    let mut second = append(run, claim.epoch, 3, 1);
    second.sessions = vec![session(3, Some(2))];
    for append in [first.clone(), second.clone(), second] {
        assert_eq!(
            f.store.append([append].into()).await.unwrap(),
            [AppendOutcome::Appended],
            "also repeated"
        );
    }
    let chain = f.store.session_chain(run, &SessionId::new("s3")).await.unwrap();
    assert_eq!(chain, [session(1, None), session(2, Some(1)), session(3, Some(2))], "the oldest first");
    assert_eq!(f.store.session_chain(run, &SessionId::new("s4")).await.unwrap(), [session(4, None)]);
    assert_eq!(f.store.session_chain(run, &SessionId::new("other")).await.unwrap(), []);
    assert_eq!(f.store.session_chain(run_id(9), &SessionId::new("s3")).await.unwrap(), [], "of another run");
    let page = f.store.run_sessions(run, Some(SessionId::new("s1")), 2).await.unwrap();
    assert_eq!(page, [session(2, Some(1)), session(3, Some(2))]);
    assert_eq!(f.store.run_sessions(run, None, 10).await.unwrap().len(), 4);
}

pub async fn a_run_is_created_with_its_conversations(f: Fixture) {
    let mut run = new_run(1);
    run.sessions = vec![session(1, None), session(2, Some(1))];
    for expected in [Created::New(run_id(1)), Created::Existing(run_id(1))] {
        assert_eq!(f.store.create_run(run.clone()).await.unwrap(), expected);
    }
    let chain = f.store.session_chain(run_id(1), &SessionId::new("s2")).await.unwrap();
    assert_eq!(chain, [session(1, None), session(2, Some(1))]);
}

pub async fn a_fenced_writer_writes_no_conversation(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let mut stale = append(claim.run_id, claim.epoch + 1, 2, 1);
    stale.sessions = vec![session(1, None)];
    assert_eq!(f.store.append([stale].into()).await.unwrap(), [AppendOutcome::Fenced]);
    assert_eq!(f.store.run_sessions(claim.run_id, None, 10).await.unwrap(), []);
}

pub async fn a_parent_that_is_missing_or_a_circle_ends_the_chain(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let mut odd = append(claim.run_id, claim.epoch, 2, 1);
    odd.sessions = vec![session(1, Some(9)), session(2, Some(3)), session(3, Some(2))];
    odd.sessions[0].messages[0].text = "a\0b".into();
    assert_eq!(f.store.append([odd].into()).await.unwrap(), [AppendOutcome::Appended]);
    let chain = f.store.session_chain(claim.run_id, &SessionId::new("s1")).await.unwrap();
    assert_eq!((chain.len(), chain[0].messages[0].text.as_str()), (1, "a\u{fffd}b"));
    assert_eq!(f.store.session_chain(claim.run_id, &SessionId::new("s2")).await.unwrap().len(), 64);
}

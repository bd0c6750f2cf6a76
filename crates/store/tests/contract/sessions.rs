//! Conversations: written with their events, and read with those that they continue.

use tree_agent_contract::session::{Session, SessionMessage, Speaker};
use tree_agent_contract::{NodeId, RunId, SessionId, Timestamp};
use tree_agent_store::{AppendOutcome, Claim, Created, Store};

use crate::fixture::{Fixture, T0, append, claim, new_run, run_id};
use crate::forks::new_fork;

/// The one run that is free.
async fn claim_free(store: &dyn Store, owner: &str) -> Claim {
    claim(store, owner, std::time::Duration::from_secs(60), 10).await[0]
}

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

pub async fn a_fork_has_the_conversations_of_the_events_that_it_shares(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let end = |at: Timestamp, n| Session { created_at: at.plus_millis(1), ..session(n, None) };
    // Of run 1, the first conversation belongs to what is forked, and the others do not.
    let mut first = append(run, claim.epoch, 2, 1);
    let forked_at = first.events[0].timestamp;
    first.sessions = vec![Session { created_at: forked_at, ..session(1, None) }];
    assert_eq!(f.store.append([first].into()).await.unwrap(), [AppendOutcome::Appended]);
    f.store.fork_run(new_fork(2, run, 3)).await.unwrap();
    let mut later = append(run, claim.epoch, 3, 1);
    later.sessions = vec![end(forked_at, 2), end(forked_at, 3), end(forked_at, 4)];
    assert_eq!(f.store.append([later].into()).await.unwrap(), [AppendOutcome::Appended]);
    // The fork has one of its own, of the same name as one of those, and is forked in turn.
    let own = Session { created_at: T0.plus_millis(1_002_001), ..session(2, Some(1)) };
    let taken = claim_free(&*f.store, "b").await;
    let mut grown = append(run_id(2), taken.epoch, 4, 1);
    grown.events[0].timestamp = own.created_at;
    grown.sessions = vec![own.clone()];
    assert_eq!(f.store.append([grown].into()).await.unwrap(), [AppendOutcome::Appended]);
    f.store.fork_run(new_fork(3, run_id(2), 5)).await.unwrap();
    let shared = Session { created_at: forked_at, ..session(1, None) };
    for fork in [run_id(2), run_id(3)] {
        let found = f.store.run_sessions(fork, None, 10).await.unwrap();
        assert_eq!(found, [shared.clone(), own.clone()], "{fork}");
        let page = f.store.run_sessions(fork, Some(SessionId::new("s1")), 1).await.unwrap();
        assert_eq!(page, std::slice::from_ref(&own));
        let stored = f.store.stored(fork).await.unwrap().sessions;
        assert_eq!(stored, [SessionId::new("s1"), SessionId::new("s2")], "{fork}");
        let chain = f.store.session_chain(fork, &SessionId::new("s2")).await.unwrap();
        assert_eq!(chain, [shared.clone(), own.clone()], "{fork}");
        assert_eq!(f.store.session_chain(fork, &SessionId::new("s3")).await.unwrap(), [], "of its parent");
    }
    assert_eq!(f.store.stored(run).await.unwrap().sessions.len(), 4);
}

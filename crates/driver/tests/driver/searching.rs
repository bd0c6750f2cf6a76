//! A driver on a guided search: its calls, its conversations, and a successor.

use std::collections::BTreeSet;

use crate::support::*;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::session::SessionFork;
use tree_agent_contract::*;
use tree_agent_engine::{CallKind, Graph};
use tree_agent_store::Store;

fn spec() -> RunSpec {
    let search = SearchConfig { max_depth: 3, concurrency: 2, synthesis: false, ..SearchConfig::default() };
    RunSpec { strategy: Strategy::Search, search: Some(Box::new(search)), ..RunSpec::new("topic") }
}

/// The log and its graph.
async fn searched(store: &dyn Store, run: RunId) -> (Vec<Event>, Graph) {
    let log = log(store, run).await;
    let mut graph = Graph::new(run);
    log.iter().for_each(|event| graph.apply(event).expect("it applies"));
    (log, graph)
}

#[tokio::test]
async fn a_conversation_continues_the_one_about_the_topic_above() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, None);
    let run = create_run_of(&*store, spec(), None).await;
    let driver = Running::start("a", &store, &fanout, &roles);
    let summary = ended(&*store, run).await;
    assert_eq!((summary.status, summary.partial), (RunStatus::Completed, false), "{summary:?}");
    driver.stop().await;
    let (log, graph) = searched(&*store, run).await;
    // The root, two topics, four below them, and eight that are listed only.
    assert_eq!(graph.nodes().len(), 15);
    let forks = roles.forks.lock().expect("no panic while locked").clone();
    assert_eq!(forks.len(), 6);
    for SessionFork { id, parent_id, messages, shortened } in forks {
        let node = graph.nodes().iter().find(|node| SessionId::of(node.id) == id).expect("a topic");
        let parent = node.parent_id.and_then(|id| graph.node(id)).filter(|parent| parent.depth > 0);
        assert_eq!(parent_id, parent.map(|parent| SessionId::of(parent.id)));
        let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
        let expected =
            parent.map_or(vec![], |p| vec![format!("write about {}", p.title), format!("# {}", p.title)]);
        assert_eq!(texts, expected, "what was said about the topic above");
        assert_eq!(shortened, 0);
        let stored = store.session_chain(run, &id).await.expect("readable");
        assert_eq!(stored.len() as u32, node.depth, "each conversation holds its own messages");
        assert!(stored.iter().all(|session| session.messages.len() == 2));
    }
    let forked: BTreeSet<&str> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SessionForked(e) => Some(e.session_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(forked.len(), 6);
}

#[tokio::test]
async fn a_successor_repeats_only_what_was_in_flight() {
    let (store, fanout) = world().await;
    let roles = TreeRoles::new(2, Some(CallKind::Pick));
    let run = create_run_of(&*store, spec(), None).await;
    let first = Running::start("a", &store, &fanout, &roles);
    roles.wait_for_held(1).await;
    first.kill().await;
    let second = Running::start("b", &store, &fanout, &roles);
    roles.wait_for_held(2).await;
    roles.open_gate();
    assert_eq!(ended(&*store, run).await.status, RunStatus::Completed);
    second.stop().await;
    let made = roles.made();
    assert!(made.iter().all(|((_, kind, _), n)| *n == 1 || *kind == CallKind::Pick), "{made:?}");
    assert!(completions(&log(&*store, run).await).values().all(|&n| n == 1));
}

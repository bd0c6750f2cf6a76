//! Searches whose planners and executors are killed again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, History, Options};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::search::SearchCounts;
use tree_agent_contract::{EventBody, NodeId};
use tree_agent_proto::v1 as pb;

/// Two topics in each list, so that no title has three words and none is linked to another one.
const MODEL: &str = "scripted:fanout=2,depth=6,latency_ms=60";
const LEVELS: u32 = 6;
/// Topics that are researched. Those of the last level are listed.
const TOPICS: usize = 2 + 4 + 8 + 16 + 32;
const KILLS: usize = 20;

/// The nodes whose research is in flight after the first `head` events.
fn researching(history: &History, head: u64) -> BTreeSet<NodeId> {
    let mut at_work = BTreeSet::new();
    for event in history.events().iter().take_while(|event| event.seq <= head) {
        match &event.body {
            EventBody::NodeStatusChanged(change) if change.call == Some(CallKind::Research) => {
                at_work.insert(event.node_id);
            }
            // The root has no result yet when its list is known.
            EventBody::NodeStatusChanged(_) | EventBody::NodeResult(_) | EventBody::NodeFailed(_) => {
                at_work.remove(&event.node_id);
            }
            _ => {}
        }
    }
    at_work
}

/// The researches that may have been made again: what was in flight when another driver took over, and what was when an
/// executor died, between these two heads of the log.
fn redone(history: &History, writers: &[u64], dead_executors: &[(u64, u64)]) -> usize {
    let taken_over = (1..).zip(writers.windows(2)).map(|(head, epochs)| match epochs[1] - epochs[0] {
        0 => 0,
        // A driver that died before it wrote anything has made the calls, too.
        drivers => researching(history, head).len() * drivers as usize,
    });
    let lost = dead_executors
        .iter()
        .map(|(before, after)| researching(history, *before).union(&researching(history, *after)).count());
    taken_over.chain(lost).sum()
}

/// The paths of all topics, and whether they were researched.
fn tree(history: &History) -> BTreeMap<String, bool> {
    let mut paths: BTreeMap<NodeId, String> = BTreeMap::new();
    let mut tree = BTreeMap::new();
    for event in history.events() {
        match &event.body {
            EventBody::NodeCreated(created) => {
                let above = created.parent_node_id.and_then(|id| paths.get(&id)).cloned().unwrap_or_default();
                let path = format!("{above}/{}", created.title);
                tree.insert(path.clone(), false);
                paths.insert(event.node_id, path);
            }
            EventBody::NodeResult(_) => drop(tree.insert(paths[&event.node_id].clone(), true)),
            _ => {}
        }
    }
    tree
}

/// What the root says that the search did.
fn counts(history: &History) -> SearchCounts {
    let root = history.events()[0].node_id;
    let payload = history.events().iter().find_map(|event| match &event.body {
        EventBody::NodeResult(result) if event.node_id == root => result.result.json_payload.clone(),
        _ => None,
    });
    serde_json::from_value(payload.expect("counts").into()).expect("counts")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_a_search_survives_twenty_kills_and_researches_nothing_twice() {
    let options = Options { replicas: 2, lease: Duration::from_secs(1), ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let search = pb::SearchConfig { max_depth: Some(LEVELS), concurrency: Some(4), ..Default::default() };
    let undisturbed = cluster.search(MODEL, search.clone()).await;
    let undisturbed = cluster.follow(&undisturbed).end().await;
    undisturbed.assert_whole();
    let expected = SearchCounts { expanded: TOPICS as u64, leaves: 0, skipped: 0 };
    assert_eq!(counts(&undisturbed), expected);
    let researches = |cluster: &Cluster| -> usize {
        cluster.executors.iter().map(|executor| executor.calls("ExecutorService/Research")).sum()
    };
    let before = researches(&cluster);

    // Anywhere in the log but in its last part, where nothing is at work any more.
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = undisturbed.events().len();
    let mut positions: Vec<usize> = (0..KILLS).map(|_| random.usize(4..whole * 9 / 10)).collect();
    positions.sort_unstable();

    let run = cluster.search(MODEL, search).await;
    let mut follower = cluster.follow(&run);
    // The heads of the log before and after the death of an executor.
    let mut dead_executors = Vec::new();
    for position in positions {
        follower.until("the next kill", |events| events.len() >= position).await;
        match cluster.lease_of(&run).await.filter(|_| random.bool()) {
            Some(driver) => {
                cluster.planners[driver].kill();
                cluster.planners[driver].start();
            }
            None => {
                let executor = random.usize(..cluster.executors.len());
                let before = cluster.run(&run).await.head_seq;
                cluster.executors[executor].kill();
                dead_executors.push((before, cluster.run(&run).await.head_seq));
                cluster.executors[executor].start();
            }
        }
    }
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(counts(&history), expected);
    assert_eq!(tree(&history), tree(&undisturbed), "the same tree");
    // An executor that was killed has not said that it served a call.
    let made = researches(&cluster) - before;
    let writers = cluster.writers_of(&run).await;
    let redone = redone(&history, &writers, &dead_executors);
    let executors = dead_executors.len();
    eprintln!("{} drivers and {executors} executors killed; {made} researches made", KILLS - executors);
    assert!(
        made <= 1 + TOPICS + redone,
        "made {made} researches; {TOPICS} topics and their root were needed, and {redone} were in flight"
    );
}

//! Homework whose planners and executors are killed again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tree_agent_cluster_tests::{Cluster, History, Options};
use tree_agent_contract::EventBody;
use tree_agent_proto::v1 as pb;

/// Four iterations of three tasks, which five branches share.
const MODEL: &str = "scripted:fanout=3,iterations=4,branches=5,latency_ms=60";
const ITERATIONS: u32 = 4;
const TASKS: usize = 12;
const KILLS: usize = 12;

/// The tasks: title, branch and iteration.
fn tasks(history: &History) -> Vec<(String, String, u32)> {
    let tasks = history.events().iter().filter_map(|event| match &event.body {
        EventBody::NodeCreated(e) => Some((e.title.clone(), e.branch_id.clone()?, e.iteration?)),
        _ => None,
    });
    tasks.collect()
}

/// The iterations that were rolled up, in order.
fn rollups(history: &History) -> Vec<u32> {
    let rollups = history.events().iter().filter_map(|event| match &event.body {
        EventBody::RollupUpdated(e) => Some(e.iteration),
        _ => None,
    });
    rollups.collect()
}

/// Each document of a run with the titles of those above it, and what the engine has written into it. What a killed
/// call had written before stays in a scratchpad, so only whole entries are compared.
async fn written(cluster: &Cluster, run: &str) -> BTreeMap<Vec<String>, Vec<String>> {
    let documents = cluster.documents(run).await;
    let by_id: BTreeMap<&str, &pb::DocumentSummary> =
        documents.iter().map(|document| (document.document_id.as_str(), document)).collect();
    let mut written = BTreeMap::new();
    for document in &documents {
        let above = |document: &&pb::DocumentSummary| by_id.get(document.parent_id.as_str()).copied();
        let mut path: Vec<String> = std::iter::successors(Some(document), above)
            .map(|document| format!("{} {}", document.doc_role, document.title))
            .collect();
        path.reverse();
        assert!(path[0].starts_with("workspace "), "{path:?} is below the workspace");
        let id = document.document_id.parse().expect("an id");
        let body = cluster.body(id).await;
        let entries = body.lines().filter(|line| line.starts_with('#') || line.starts_with("**Result:**"));
        let entries = entries.map(str::to_owned).collect();
        assert!(written.insert(path.clone(), entries).is_none(), "{path:?} twice");
    }
    written
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f02_homework_survives_kills_with_its_documents() {
    let options = Options { replicas: 2, lease: Duration::from_secs(1), ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let first = cluster.homework(MODEL).await;
    let undisturbed = cluster.follow(&first).end().await;
    undisturbed.assert_whole();
    assert_eq!(tasks(&undisturbed).len(), TASKS);
    assert_eq!(rollups(&undisturbed), (1..=ITERATIONS).collect::<Vec<_>>());

    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = undisturbed.events().len();
    let positions: BTreeSet<usize> = (0..KILLS).map(|_| random.usize(4..whole * 9 / 10)).collect();

    let run = cluster.homework(MODEL).await;
    let mut follower = cluster.follow(&run);
    for position in positions {
        follower.until("the next kill", |events| events.len() >= position).await;
        match cluster.lease_of(&run).await.filter(|_| random.bool()) {
            Some(driver) => {
                cluster.planners[driver].kill();
                cluster.planners[driver].start();
            }
            None => {
                let executor = random.usize(..cluster.executors.len());
                cluster.executors[executor].kill();
                cluster.executors[executor].start();
            }
        }
    }
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(tasks(&history), tasks(&undisturbed), "the same tasks, each once");
    assert_eq!(rollups(&history), rollups(&undisturbed), "each iteration is rolled up once");
    assert_eq!(written(&cluster, &run).await, written(&cluster, &first).await, "the same documents");
    let output =
        cluster.cli("verify --all", |command| command.env("TREE_AGENT_DATABASE_URL", &cluster.database_url));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

//! Guided searches on Postgres, through the command line.

use serde_json::Value;
use tree_agent_cluster_tests::{Cluster, Options};
use tree_agent_contract::RunStatus;
use tree_agent_proto::v1 as pb;

/// What `tree-agent` prints, as lines of JSON. It talks to the database of the cluster.
fn operated(cluster: &Cluster, args: &str) -> Vec<Value> {
    let output = cluster.cli(args, |command| {
        command.env("TREE_AGENT_DATABASE_URL", &cluster.database_url).args(["-o", "jsonl"])
    });
    let (said, printed) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(output.status.success(), "{args}: {said}");
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_verified_rebuilt_archived_restored_and_cancelled() {
    let cluster = Cluster::start(Options::default()).await;
    let search = pb::SearchConfig { max_depth: Some(3), ..Default::default() };
    let run = cluster.search("scripted:fanout=3,depth=3,artifacts=document", search.clone()).await;
    let history = cluster.follow(&run).end().await;
    history.assert_whole();
    let verified = || operated(&cluster, &format!("verify {run}")).remove(0);
    let sound = verified();
    assert_eq!((&sound["runId"], &sound["sound"]), (&run.as_str().into(), &true.into()), "{sound}");
    assert_eq!(operated(&cluster, &format!("rebuild {run}"))[0]["differences"], 0);

    let archives = tempfile::tempdir().expect("a folder");
    let folder = archives.path().display();
    operated(&cluster, &format!("log prune {folder} {run} --yes"));
    assert_eq!(verified()["archived"], true);
    operated(&cluster, &format!("log restore {folder} {run}"));
    assert_eq!(verified(), sound, "with its conversations");
    assert_eq!(cluster.follow(&run).end().await.events(), history.events());

    let slow = cluster.search("scripted:fanout=3,depth=3,latency_ms=600000", search).await;
    let cancelled = cluster.cli(&format!("cancel {slow} --reason enough"), |command| command);
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    assert_eq!(cluster.follow(&slow).end().await.ending().status, RunStatus::Cancelled);
    assert_eq!(operated(&cluster, &format!("verify {slow}"))[0]["sound"], true);
}

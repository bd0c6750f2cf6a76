//! `prompts` against a scripted server.

use tree_agent_contract::{NodeId, RunStatus, answers};

use crate::support::dev::{lines, run, stderr, stdout, succeeded};
use crate::support::fake::{Fake, log, run_id};

#[tokio::test(flavor = "multi_thread")]
async fn the_prompts_of_a_node_are_printed_and_the_end_of_the_room_for_them_is_said() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let printed = async |node: String, format: &'static str| {
        let (url, id) = (url.clone(), run_id().to_string());
        let ask = move || succeeded(run(&url, &["prompts", &id, &node, "-o", format]));
        tokio::task::spawn_blocking(ask).await.unwrap()
    };
    let root = NodeId::root(run_id());
    let output = printed(root.to_string()[..8].to_owned(), "table").await;
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("---- Synthesis\n\n# Because\n", ""));
    let output = printed(root.to_string(), "jsonl").await;
    assert_eq!(
        (&lines(&output)[0]["title"], &lines(&output)[0]["body"]),
        (&"Synthesis".into(), &"# Because\n".into())
    );

    let other = printed(NodeId::derive(&[b"other"]).to_string(), "table").await;
    assert!(stdout(&other).is_empty() && stderr(&other).contains("run --keep-prompts"), "{}", stderr(&other));
    for (bytes, is_full) in [(answers::PROMPTS_FULL, false), (answers::PROMPTS_FULL + 1, true)] {
        fake.0.lock().unwrap().prompt_bytes = bytes;
        let output = printed(root.to_string(), "table").await;
        assert_eq!(stderr(&output).contains("has kept 16 MB"), is_full, "{}", stderr(&output));
    }
}

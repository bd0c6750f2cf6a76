//! `diff` as a real process: against a server at work, and against one that answers in pages.

use crate::support::dev::{Dev, code, lines, run, stderr, stdout, succeeded};
use crate::support::fake::{Fake, log, run_id};
use serde_json::Value;
use tree_agent_contract::RunStatus;
use tree_agent_proto::v1 as pb;

#[test]
fn two_runs_over_different_documents_are_compared() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let objective = "What does a lease decide, and how long does it last?";
    for (project, says) in [("old", "five"), ("new", "nine")] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("# Leases\n\nA lease decides who writes. A lease lasts {says} seconds.\n");
        std::fs::write(folder.path().join("leases.md"), text).unwrap();
        succeeded(run(server, &["import", folder.path().to_str().unwrap(), "--project", project]));
        succeeded(run(server, &["run", objective, "-p", project, "-q"]));
    }
    let ids: Vec<String> = lines(&succeeded(run(server, &["runs", "-o", "jsonl"])))
        .iter()
        .map(|run| run["runId"].as_str().unwrap().to_owned())
        .collect();

    let shown = stdout(&succeeded(run(server, &["diff", "@2", "@latest"])));
    for part in [
        "outcome     ✓ completed",
        "cost        $0",
        "compared by steps and titles",
        "+",
        "nine",
        "-",
        "five",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(
        shown.contains(&format!("= {objective}")) || shown.contains(&format!("~ {objective}")),
        "{shown}"
    );
    assert!(!shown.contains('\x1b'), "no colour in a pipe");

    // The end of an id is enough, and JSON says all of it.
    let short = ids.iter().map(|id| &id[28..]).collect::<Vec<_>>();
    let diff: Value =
        serde_json::from_str(&stdout(&succeeded(run(server, &["diff", short[1], short[0], "-o", "json"]))))
            .unwrap();
    assert_eq!((&diff["a"]["runId"], &diff["b"]["runId"]), (&Value::from(&*ids[1]), &Value::from(&*ids[0])));
    assert_eq!(diff["matching"], "steps");
    let nodes = diff["nodes"].as_array().unwrap();
    assert_eq!(nodes[0]["a"]["title"], objective);
    let of_a = nodes.iter().filter(|node| node.get("a").is_some()).count() as u64;
    assert_eq!(diff["a"]["nodes"], of_a);
    assert!(!diff["synthesis"]["hunks"].as_array().unwrap().is_empty());

    // A run and itself; a run and its past.
    let same = stdout(&succeeded(run(server, &["diff", "@latest", "@latest"])));
    assert!(same.contains("the runs share nodes") && same.contains("Synthesis: the same"), "{same}");
    let past = stdout(&succeeded(run(server, &["diff", "@latest", "@latest", "--a-seq", "4", "--all"])));
    assert!(past.contains("→ completed"), "{past}");
    for (args, said) in [
        (vec!["diff", "@latest"], "required"),
        (vec!["diff", "@latest", "0000beef"], "0000beef"),
        (vec!["diff", "@latest", "@latest", "--b-seq", "99999"], "beyond the head"),
        (vec!["diff", "@latest", "@latest", "--b-seq", "0"], "0 is not in"),
    ] {
        let output = run(server, &args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    assert_eq!(dev.terminate(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_read() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let totals = || {
        Some(pb::RunTotals {
            run_id: run_id().to_string(),
            status: pb::RunStatus::Completed as i32,
            spending: Some(pb::Spending::default()),
            ..Default::default()
        })
    };
    let page = |title: &str, depth: u32, next_page_token: &str| {
        let side = pb::NodeTotals {
            node_id: run_id().to_string(),
            title: title.into(),
            status: pb::NodeStatus::Completed as i32,
            spending: Some(pb::Spending::default()),
            ..Default::default()
        };
        pb::DiffRunsResponse {
            a: totals(),
            b: totals(),
            matching: pb::NodeMatching::Steps as i32,
            counts: Some(pb::DiffCounts::default()),
            nodes: vec![pb::NodeDiff {
                comparison: pb::NodeComparison::OnlyB as i32,
                depth,
                b: Some(side),
                ..Default::default()
            }],
            synthesis: None,
            next_page_token: next_page_token.into(),
        }
    };
    fake.0.lock().unwrap().differences.extend([page("first", 0, "next"), page("second", 1, "")]);
    let id = run_id().to_string();
    let output = {
        let (url, id) = (url.clone(), id.clone());
        tokio::task::spawn_blocking(move || run(&url, &["diff", &id, &id, "--b-seq", "7"])).await.unwrap()
    };
    let shown = stdout(&succeeded(output));
    assert!(shown.contains("+ first  completed\n└─ + second  completed\n"), "{shown}");
    let asked = &fake.0.lock().unwrap().compared;
    assert_eq!(
        (asked.len(), asked[0].b_seq, &*asked[0].page_token, &*asked[1].page_token),
        (2, 7, "", "next")
    );
}

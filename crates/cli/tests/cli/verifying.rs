//! The verification of an answer with a real server.

use crate::support::dev::{Dev, lines, run, stderr, stdout, succeeded};

#[test]
fn an_answer_is_verified_if_it_is_wanted_and_what_is_doubted_is_said() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let model = "scripted:fanout=2,depth=1,artifacts=document,result_bytes=20,doubts=2";
    let events = |filter: &str| -> Vec<serde_json::Value> {
        let events = lines(&succeeded(run(server, &["events", "@latest", "-o", "jsonl"])));
        events.into_iter().filter(|event| event["type"] == filter).collect()
    };
    // The scripted model is no language model.
    succeeded(run(server, &["run", "plain", "--model", model, "-q"]));
    assert!(events("tree.answer_verified").is_empty());

    let output = succeeded(run(
        server,
        &["run", "verify", "--model", model, "--verify", "--max-replans-per-node", "1", "-q"],
    ));
    assert!(stderr(&output).contains("doubted: "), "{}", stderr(&output));
    // It asks for another plan until there can be none.
    let verified = events("tree.answer_verified");
    assert_eq!((verified.len(), events("tree.replan_requested").len()), (2, 1));
    assert_eq!(verified[0]["payload"]["verification"]["doubts"].as_array().unwrap().len(), 2);
    assert_eq!(verified[0]["payload"]["replanReason"], "the script doubts the answer");
    let output = succeeded(run(server, &["result", "@latest"]));
    assert!(stderr(&output).contains("not met: verify"), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("doubted: ").count(), 2, "{}", stderr(&output));
    let output = succeeded(run(server, &["result", "@latest", "-o", "json"]));
    let result: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(result["verification"]["summary"], "2 doubts");
    assert_eq!(result["partial"], false);

    // Homework is verified, too, and offline says that it cannot judge.
    let homework =
        ["run", "what is there?", "--strategy", "homework", "--model", "offline", "--verify", "-q"];
    succeeded(run(server, &homework));
    let verified = events("tree.answer_verified");
    assert_eq!(verified.len(), 1);
    let summary = verified[0]["payload"]["verification"]["summary"].as_str().unwrap();
    assert!(summary.starts_with("The offline model cannot judge"), "{summary}");

    succeeded(run(server, &["run", "again", "--model", model, "--verify", "--no-verify", "-q"]));
    assert!(events("tree.answer_verified").is_empty());
    assert_eq!(dev.terminate(), 0);
}

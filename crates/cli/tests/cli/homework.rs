//! Homework as its user meets it, against `dev` and in one process.

use crate::support::dev::{Dev, documents, lines, run, stdout, succeeded};
use serde_json::Value;

fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == name).collect()
}

#[test]
fn homework_over_documents_is_whole_verified_archived_and_brought_back() {
    let (data, work, archives) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, folder) = (data.path().to_str().unwrap(), archives.path().to_str().unwrap());
    let handbook = work.path().join("handbook");
    documents(&handbook);
    let homework = ["run", "--local", "--strategy", "homework", "--max-iterations", "4", "--data-dir", dir];
    let more = ["--dir", handbook.to_str().unwrap(), "How does the lease work?", "-o", "jsonl"];
    let events = lines(&succeeded(run("", &[&homework[..], &more].concat())));
    let (plans, rollups) = (of(&events, "tree.plan_created"), of(&events, "tree.rollup_updated"));
    assert!(!plans.is_empty());
    let iterations: Vec<&Value> = plans.iter().map(|event| &event["payload"]["iteration"]).collect();
    assert_eq!(iterations, (1..=plans.len()).collect::<Vec<_>>());
    assert_eq!(rollups.len(), plans.len(), "each iteration is rolled up");
    assert_eq!(of(&events, "tree.plan_document_updated").len(), plans.len() + 1);
    let last = events.last().unwrap();
    let payload = &last["payload"];
    // Nothing was lost, so the run is not said to be partial.
    assert_eq!((&payload["status"], payload.get("partial")), (&"completed".into(), None), "{last}");
    let id = events[0]["runId"].as_str().unwrap().to_owned();

    let verified =
        || lines(&succeeded(run("", &["verify", "--all", "--data-dir", dir, "-o", "jsonl"]))).remove(0);
    let sound = verified();
    assert_eq!((&sound["runId"], &sound["sound"]), (&id.as_str().into(), &true.into()));
    let rebuilt = lines(&succeeded(run("", &["rebuild", &id, "--data-dir", dir, "-o", "jsonl"])));
    assert_eq!(rebuilt[0]["differences"], 0);
    succeeded(run("", &["log", "prune", folder, "--older-than", "0s", "--yes", "--data-dir", dir]));
    succeeded(run("", &["log", "restore", folder, &id, "--data-dir", dir]));
    assert_eq!(verified(), sound);

    let dev = Dev::start(data.path());
    assert_eq!(lines(&succeeded(run(&dev.server, &["events", &id, "-o", "jsonl"]))), events);
    let told = stdout(&succeeded(run(&dev.server, &["watch", &id])));
    for words in ["Iteration 1: ", "(iteration 1): ", "Rolled up iteration 1: ", "Plan: "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let listed = lines(&succeeded(run(&dev.server, &["runs", "--strategy", "homework", "-o", "jsonl"])));
    assert_eq!(listed[0]["runId"], id.as_str());
}

#[test]
fn branches_go_on_over_iterations_and_repeated_tasks_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let model = "scripted:fanout=2,iterations=3,repeats=1";
    let homework = ["run", "why?", "--strategy", "homework", "--model", model, "-o", "jsonl"];
    let events = lines(&succeeded(run(&dev.server, &homework)));
    let id = events[0]["runId"].as_str().unwrap();
    let tasks: Vec<(u64, String)> = of(&events, "tree.node_created")
        .iter()
        .filter_map(|event| {
            let payload = &event["payload"];
            Some((payload["iteration"].as_u64()?, payload["branchId"].as_str()?.to_owned()))
        })
        .collect();
    let named = |tasks: &[(u64, &str)]| tasks.iter().map(|(i, b)| (*i, (*b).to_owned())).collect::<Vec<_>>();
    assert_eq!(tasks, named(&[(1, "b0"), (1, "b1"), (2, "b1"), (3, "b1")]));
    let refused = of(&events, "tree.task_refused");
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(refused[0]["payload"]["branchId"], "b0");
    let tree = stdout(&succeeded(run(&dev.server, &["graph", id])));
    assert!(tree.contains("i3 i3.b1") || tree.contains("i3 "), "{tree}");
    let estimate =
        ["run", "why?", "--strategy", "homework", "--max-iterations", "2", "--estimate", "-o", "jsonl"];
    let estimate = lines(&succeeded(run(&dev.server, &estimate))).remove(0);
    let text = estimate.to_string();
    assert!(text.contains("\"planCalls\":3") && text.contains("\"nodes\":9"), "{text}");
}

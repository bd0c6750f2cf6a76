//! Contexts on the command line: read-only runs, copies with another context, and what lists and watchers say of them.

use crate::support::dev::{Dev, code, documents, lines, run, stderr, stdout, succeeded};
use serde_json::{Value, json};

/// The payload of the first event of a run.
fn created(server: &str, id: &str) -> Value {
    let events = ["events", id, "--type", "tree.run_created", "-o", "jsonl"];
    lines(&succeeded(run(server, &events))).remove(0)["payload"].clone()
}

#[test]
fn a_copy_has_another_context_and_names_the_run_that_it_copies() {
    let data = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    documents(folder.path());
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    for project in ["leases", "fences"] {
        succeeded(run(server, &["import", folder.path().to_str().unwrap(), "--project", project]));
    }
    let objective = "How does the lease work?";
    let asked =
        ["run", objective, "-p", "leases", "--read-only", "--max-nodes", "40", "--label", "team=x", "-q"];
    succeeded(run(server, &asked));
    let first = lines(&succeeded(run(server, &["runs", "-o", "jsonl"]))).remove(0);
    let id = first["runId"].as_str().unwrap().to_owned();
    assert_eq!(first["spec"]["readOnly"], true);

    let copied = ["copy", "@latest", "-p", "fences", "-p", "leases", "--detach", "-o", "jsonl"];
    let copy = lines(&succeeded(run(server, &copied))).remove(0);
    let copy_id = copy["runId"].as_str().unwrap();
    let (of_first, of_copy) = (created(server, &id), created(server, copy_id));
    assert_eq!((&of_copy["copyOf"], &of_copy["context"]["scope"]), (&json!(id), &json!("multi_project")));
    for same in ["objective", "strategy", "model", "budgets", "labels", "readOnly"] {
        assert_eq!(of_copy[same], of_first[same], "{same}");
    }
    // Watching says what it is, and lists show its context and the copies of a run.
    let watched = succeeded(run(server, &["watch", copy_id]));
    let said = stderr(&watched);
    assert!(said.contains("leases") && said.contains("fences") && said.contains("(read-only)"), "{said}");
    assert!(said.contains(&format!("a copy of run {id}")), "{said}");
    let listed = lines(&succeeded(run(server, &["runs", "--copies-of", &id, "-o", "jsonl"])));
    assert_eq!(listed.iter().map(|r| r["runId"].as_str().unwrap()).collect::<Vec<_>>(), [copy_id]);
    let shown = stdout(&succeeded(run(server, &["runs"])));
    assert!(shown.contains("CONTEXT") && shown.contains("leases (read-only)"), "{shown}");

    let careful = succeeded(run(server, &["copy", &id, "--global", "--read-only", "off", "-o", "jsonl"]));
    assert_eq!(lines(&careful)[0]["payload"]["readOnly"], json!(true));
    let events = lines(&succeeded(run(server, &["copy", &id, "--global", "--write", "-o", "jsonl"])));
    let payload = &events[0]["payload"];
    assert_eq!((&payload["context"]["scope"], &payload["readOnly"]), (&json!("global"), &Value::Null));
    assert_eq!(events.last().unwrap()["payload"]["status"], "completed");
    for (args, said) in [
        (vec!["copy", "0000beef"], "0000beef"),
        (vec!["copy", &*id, "-p", "nowhere"], "nowhere"),
        (vec!["copy", &*id, "-p", "leases", "--global"], "cannot be used with"),
    ] {
        let output = run(server, &args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    assert_eq!(dev.terminate(), 0);
}

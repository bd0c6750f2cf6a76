//! The client commands as real processes against a scripted server: output shapes and exit codes.

#[path = "support/fake.rs"]
mod fake;

use std::process::{Command, Output};

use fake::{Call, Fake, Then, document_id, log, message, run_id};
use serde_json::Value;
use tonic::Status;
use tree_agent_contract::RunStatus;
use tree_agent_testkit::ports::Port;

/// Runs the program to its end.
async fn tree_agent(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    command.args(args).env("TREE_AGENT_SERVER", url).env_remove("TREE_AGENT_LOG");
    tokio::task::spawn_blocking(move || command.output().expect("the program starts")).await.unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", stderr(output)))
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_the_contract_and_resumes() {
    let events = log(RunStatus::Completed, false);
    let calls = vec![Call {
        send: events[..3].iter().map(message).collect(),
        then: Then::Fail(Status::unavailable("bye")),
    }];
    let (_, url) = Fake::serve(events.clone(), calls).await;
    let run = run_id().to_string();
    let output = tree_agent(&url, &["watch", &run, "-o", "jsonl"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let printed = lines(&output);
    let expected: Vec<Value> = events.iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    assert_eq!(printed, expected);
    let mut keys: Vec<&String> = printed[1].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["nodeId", "parentNodeId", "payload", "runId", "seq", "timestamp", "type"]);
    assert!(stderr(&output).contains("connection lost"));

    let output = tree_agent(&url, &["watch", &run, "--after-seq", "6", "-o", "jsonl"]).await;
    assert_eq!(lines(&output), expected[6..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_shows_lines_and_the_synthesis_in_a_pipe() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, true), vec![]).await;
    fake.0.lock().unwrap().create_failures.push(Status::unavailable("the answer was lost"));
    let output = tree_agent(&url, &["run", "why?", "--max-depth", "2"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("▶ why?  [E] executing\n"), "{text}");
    assert!(text.contains("\n# Because\n"), "{text}");
    assert!(text.contains(&format!("run {} completed", run_id())), "{text}");
    assert!(!text.contains('\x1b'), "no colour in a pipe");
    assert!(stderr(&output).contains("the result is partial: as the script says"));
    let created = &fake.0.lock().unwrap().created;
    assert_eq!(created.len(), 2, "asked again after the answer was lost");
    assert_eq!(created[0], created[1], "with the same request id");
    assert!(!created[0].request_id.is_empty());
    assert_eq!(created[0].budgets.as_ref().unwrap().max_depth, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_writes_the_synthesis_to_a_file_and_jsonl_stays_pure() {
    let events = log(RunStatus::Completed, false);
    let (_, url) = Fake::serve(events.clone(), vec![]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("synthesis.md");
    let output = tree_agent(&url, &["run", "why?", "-o", "jsonl", "--out", file.to_str().unwrap()]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(lines(&output).len(), events.len());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "# Because\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_how_the_run_ended() {
    for (status, expected) in [(RunStatus::Failed, 3), (RunStatus::Cancelled, 4)] {
        let (_, url) = Fake::serve(log(status, false), vec![]).await;
        for args in [vec!["watch", &run_id().to_string()], vec!["run", "why?"]] {
            let output = tree_agent(&url, &args).await;
            assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("as the script says"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_printed_and_nothing_is_begun() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let flags =
        ["--estimate", "--max-depth", "1", "--max-nodes", "5", "--max-tool-calls", "9", "--max-cost", "$0.5"];
    let output = tree_agent(&url, &[&["run", "why?"], &flags[..]].concat()).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("nodes       5, down to level 1"), "{text}");
    assert!(text.contains("no limit; set --max-tokens") && text.contains("tool calls  9"), "{text}");
    let json =
        [&["run", "why?", "-o", "jsonl", "--model", "openai:gpt-4o", "--max-tokens", "70"], &flags[..]];
    let output = tree_agent(&url, &json.concat()).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let [line] = &lines(&output)[..] else { panic!("one object: {}", stdout(&output)) };
    let estimate = line;
    assert_eq!(
        (&estimate["nodes"], &estimate["tokens"], &estimate["toolCalls"]),
        (&5.into(), &70.into(), &9.into())
    );
    assert_eq!(estimate["costMicros"], 500_000);
    assert!(
        estimate["perCall"]["plan"]["costMicros"].as_u64().unwrap() > 0,
        "its price is known: {estimate}"
    );
    assert_eq!(estimate["unlimited"], serde_json::json!([]));
    assert!(fake.0.lock().unwrap().created.is_empty(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_a_usage_error_that_names_the_field() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let other = "0190b6f1-8d3e-7cc4-a1c7-000000000000";
    for (args, expected) in [
        (vec!["run", " "], "objective: must not be empty"),
        (vec!["run", "why?", "--max-depth", "99"], "budgets.max_depth: is 99"),
        (vec!["run", "why?", "--max-nodes", "-1"], "--max-nodes"),
        (vec!["run", "why?", "--max-tokens", "0"], "budgets.max_tokens: is 0"),
        (vec!["run", "why?", "--max-tool-calls", "0"], "budgets.max_tool_calls: is 0"),
        (vec!["run", "why?", "--max-cost-micros", "0"], "budgets.max_cost_micros: is 0"),
        (vec!["run", "why?", "--max-cost", "0"], "0.000001"),
        (vec!["run", "why?", "--max-cost", "much"], "is not a number of US dollars"),
        (vec!["run", "why?", "--max-cost", "1", "--max-cost-micros", "1"], "--max-cost"),
        (vec!["run", "why?", "--out", "/nonexistent/folder/file"], "--out"),
        (vec!["run", "why?", "--dir", "/nonexistent"], "does not exist"),
        (vec!["watch", "nope"], "is not a run id"),
        (vec!["watch", other], "does not exist"),
        (vec!["doc", other], "does not exist"),
        (vec!["events", other, "--type", "tree.nope"], "tree.nope"),
        (vec!["import", "/nonexistent", "--project", "p"], "does not exist"),
        (vec!["import", "/dev/null", "--project", "p"], "is not a folder"),
        (vec!["runs", "--status", "done"], "is none of"),
        (vec!["frobnicate"], "frobnicate"),
        (vec!["runs", "--server", "https://x"], "--server"),
    ] {
        let output = tree_agent(&url, &args).await;
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    assert!(fake.0.lock().unwrap().created.is_empty(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_said_with_the_remedy() {
    let nobody = Port::claim().unwrap();
    let output = tree_agent(&format!("http://{}", nobody.address()), &["runs"]).await;
    assert_eq!(code(&output), 5);
    let text = stderr(&output);
    assert!(text.contains(&nobody.address().to_string()) && text.contains("tree-agent dev"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reading_commands_print_their_shapes() {
    let events = log(RunStatus::Completed, false);
    let (_, url) = Fake::serve(events.clone(), vec![]).await;
    let run = run_id().to_string();

    let output = tree_agent(&url, &["events", &run, "-o", "jsonl"]).await;
    let seqs: Vec<u64> = lines(&output).iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=8).collect::<Vec<_>>(), "all pages");
    let output = tree_agent(&url, &["events", &run, "--type", "tree.run_status", "-o", "jsonl"]).await;
    assert_eq!(lines(&output).len(), 2);

    let output = tree_agent(&url, &["graph", &run, "--format", "json"]).await;
    let graph = &lines(&output)[0];
    assert_eq!(
        (&graph["runId"], &graph["seq"], &graph["status"]),
        (&run.clone().into(), &8.into(), &"completed".into())
    );
    for key in ["id", "parentId", "title", "status", "role", "depth", "bandIndex", "stepIndex"] {
        assert!(graph["nodes"][0].get(key).is_some(), "{key}: {graph}");
    }
    let output = tree_agent(&url, &["graph", &run, "--at", "4", "-o", "jsonl"]).await;
    assert_eq!(lines(&output)[0]["nodes"][0]["status"], "executing");
    let text = stdout(&tree_agent(&url, &["graph", &run]).await);
    assert!(text.contains("✓ E why?  completed"), "{text}");
    assert!(stdout(&tree_agent(&url, &["graph", &run, "--format", "dot"]).await).starts_with("digraph"));
    assert!(
        stdout(&tree_agent(&url, &["graph", &run, "--format", "mermaid"]).await).starts_with("flowchart")
    );
    assert_eq!(code(&tree_agent(&url, &["graph", &run, "--format", "dot", "-o", "jsonl"]).await), 2);

    let output = tree_agent(&url, &["doc", &document_id().to_string()]).await;
    assert_eq!(stdout(&output), "# Because\n");
    let output = tree_agent(&url, &["doc", &document_id().to_string(), "-o", "jsonl"]).await;
    assert_eq!(lines(&output)[0]["body"], "# Because\n");

    let output = tree_agent(&url, &["runs", "-o", "jsonl"]).await;
    assert_eq!(lines(&output)[0]["runId"], run);
    let output = tree_agent(&url, &["cancel", &run, "-o", "jsonl"]).await;
    assert_eq!((code(&output), &lines(&output)[0]["status"]), (0, &"completed".into()));
    let output = tree_agent(&url, &["run", "why?", "--detach"]).await;
    assert_eq!(stdout(&output).trim(), run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_followed_through_breaks_and_hints() {
    let (_, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let id = document_id().to_string();
    let output = tree_agent(&url, &["doc", &id, "--follow"]).await;
    assert_eq!((code(&output), &*stdout(&output)), (0, "# Because\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("connection lost"), "{}", stderr(&output));
    let output = tree_agent(&url, &["doc", &id, "--follow", "--after-bytes", "4", "-o", "jsonl"]).await;
    let pieces = lines(&output);
    assert_eq!((&pieces[0]["offset"], &pieces[0]["text"]), (&4.into(), &"cause\n".into()));
    let other = "0190b6f1-8d3e-7cc4-a1c7-000000000000";
    assert_eq!(code(&tree_agent(&url, &["doc", other, "--follow"]).await), 2);
    assert_eq!(code(&tree_agent(&url, &["doc", &id, "--after-bytes", "4"]).await), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_need_no_server() {
    for shell in ["bash", "zsh", "fish"] {
        let output = tree_agent("http://127.0.0.1:1", &["completions", shell]).await;
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("tree-agent"));
    }
}

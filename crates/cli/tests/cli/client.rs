//! The client commands as real processes against a scripted server: output shapes and exit codes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use crate::support::fake::{Call, Fake, HOSTILE_NAME, Then, document_id, log, message, run_id};
use serde_json::Value;
use tonic::Status;
use tree_agent_contract::event::{EventBody, Opaque};
use tree_agent_contract::{NodeId, RunStatus};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_testkit::ports::Port;

/// Runs the program to its end.
async fn tree_agent(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    command.args(args).env("TREE_AGENT_SERVER", url).env_remove("TREE_AGENT_LOG");
    tokio::task::spawn_blocking(move || command.output().expect("the program starts")).await.unwrap()
}

/// Runs the program to its end with `input` on stdin.
async fn tree_agent_reading(url: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    command.args(args).env("TREE_AGENT_SERVER", url).env_remove("TREE_AGENT_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap()
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
async fn in_a_pipe_the_answer_alone_goes_to_stdout() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, true), vec![]).await;
    fake.0.lock().unwrap().create_failures.push(Status::unavailable("the answer was lost"));
    let output =
        tree_agent(&url, &["run", "why?", "--max-depth", "2", "--name", "Leases", "-l", "team=search"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "# Because\n");
    let text = stderr(&output);
    assert!(text.contains("✓ why?  completed\n") && !text.contains("executing"), "{text}");
    assert!(text.contains(&format!("run {} completed", run_id())), "{text}");
    assert!(!text.contains('\x1b'), "no colour in a pipe");
    assert!(text.contains("the result is partial: as the script says"), "{text}");
    let created = &fake.0.lock().unwrap().created;
    assert_eq!(created.len(), 2, "asked again after the answer was lost");
    assert_eq!(created[0], created[1], "with the same request id");
    assert!(!created[0].request_id.is_empty());
    assert_eq!(created[0].budgets.as_ref().unwrap().max_depth, Some(2));
    assert_eq!((&*created[0].display_name, &*created[0].labels["team"]), ("Leases", "search"));
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_leaves_the_answer_and_what_must_be_known() {
    let (_, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let output = tree_agent(&url, &["run", "why?", "--quiet"]).await;
    assert_eq!((code(&output), &*stdout(&output), &*stderr(&output)), (0, "# Because\n", ""));
    let (_, url) = Fake::serve(log(RunStatus::Completed, true), vec![]).await;
    let output = tree_agent(&url, &["run", "why?", "-q"]).await;
    assert_eq!(stderr(&output), "note: the result is partial: as the script says\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objective_comes_from_stdin_or_a_file() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from a file\n").unwrap();
    let output = tree_agent(&url, &["run", "--file", file.path().to_str().unwrap(), "--detach"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = tree_agent_reading(&url, &["run", "-", "--detach"], "from\nstdin\n").await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = tree_agent_reading(&url, &["run", "-"], " \n").await;
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("stdin: it is empty"), "{}", stderr(&output));
    let created: Vec<_> = fake.0.lock().unwrap().created.iter().map(|c| c.objective.clone()).collect();
    assert_eq!(created, ["from a file", "from\nstdin"]);
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
async fn an_estimate_asks_the_server_and_nothing_is_begun() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let flags = ["run", "why?", "--estimate", "--max-depth", "1", "--max-time", "10m", "--model", "fast"];
    let output = tree_agent(&url, &flags).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("model       openai:gpt-4o"), "what the server would use: {text}");
    assert!(text.contains("nodes       5, down to level 1"), "{text}");
    assert!(text.contains("no limit; set --max-tokens") && text.contains("tool calls  9"), "{text}");
    let output = tree_agent(&url, &[&flags[..], &["-o", "jsonl"]].concat()).await;
    let [estimate] = &lines(&output)[..] else { panic!("one object: {}", stdout(&output)) };
    assert_eq!((&estimate["nodes"], &estimate["toolCalls"]), (&5.into(), &9.into()));
    assert_eq!(estimate["perCall"]["plan"]["costMicros"], 70);
    let asked = fake.0.lock().unwrap().estimated.clone();
    let budgets = asked[0].budgets.unwrap();
    assert_eq!(
        (&*asked[0].model, budgets.max_depth, budgets.max_wall_clock_ms),
        ("fast", Some(1), Some(600_000))
    );
    assert_eq!((budgets.max_nodes, budgets.call_timeout_ms), (None, None), "the server fills them in");
    assert!(fake.0.lock().unwrap().created.is_empty(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_sends_its_own_limits_and_texts() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "About {{title}}.").unwrap();
    let flags =
        ["why?", "--strategy", "search", "--max-depth", "2", "--max-nodes", "30", "--concurrency", "7"];
    let prompt = ["--children-prompt", file.path().to_str().unwrap()];
    let output = tree_agent(&url, &[&["run", "--detach"], &flags[..], &prompt].concat()).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = tree_agent(&url, &[&["run", "--estimate"], &flags[..]].concat()).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let known = fake.0.lock().unwrap();
    let (created, estimated) = (&known.created[0], &known.estimated[0]);
    assert_eq!((created.strategy(), estimated.strategy()), (pb::Strategy::Search, pb::Strategy::Search));
    let budgets = created.budgets.unwrap();
    assert_eq!((budgets.max_nodes, budgets.max_depth), (Some(30), None), "the depth is the search's");
    let search = created.search.clone().unwrap();
    assert_eq!((search.max_depth, search.concurrency), (Some(2), Some(7)));
    assert_eq!(search.prompts.unwrap().children.as_deref(), Some("About {{title}}."));
    assert_eq!(estimated.search.as_ref().unwrap().max_depth, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_help_lists_models_profiles_and_scripted_keys() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let output = tree_agent(&url, &["run", "--model", "help"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for expected in ["offline (default)", "openai:small", "set OPENAI_API_KEY", "fanout", "1 to 100 [3]"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&tree_agent(&url, &["run", "--model", "help", "-o", "json"]).await))
            .unwrap();
    assert_eq!(
        (&json["models"][2]["usable"], &json["scriptedKeys"][0]["key"]),
        (&false.into(), &"fanout".into())
    );
    assert!(fake.0.lock().unwrap().created.is_empty(), "nothing was begun");
    // In one process: the scripted model is off unless it is switched on.
    let local = ["run", "--local", "--model", "help"];
    let text = stdout(&tree_agent("http://127.0.0.1:1", &local).await);
    assert!(text.contains("offline (default)") && !text.contains("scripted"), "{text}");
    let text = stdout(&tree_agent("http://127.0.0.1:1", &[&local[..], &["--scripted", "on"]].concat()).await);
    assert!(text.contains("fanout"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_estimate_needs_no_server() {
    let local =
        ["run", "--local", "--estimate", "--model", "openai:gpt-4o", "--max-tokens", "70", "-o", "json"];
    let output = tree_agent("http://127.0.0.1:1", &local).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let estimate: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&estimate["model"], &estimate["tokens"]), (&"openai:gpt-4o".into(), &70.into()));
    let cost = estimate["perCall"]["plan"]["costMicros"].as_u64();
    assert!(cost.unwrap() > 0, "its price is known: {estimate}");
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
        (vec!["run", "why?", "--max-cost", "0"], "0.000001"),
        (vec!["run", "why?", "--max-cost", "much"], "is not a number of US dollars"),
        (vec!["run", "why?", "--out", "/nonexistent/folder/file"], "--out"),
        (vec!["run", "why?", "--dir", "/nonexistent"], "does not exist"),
        (vec!["run", "why?", "--max-time", "10"], "such as 90s"),
        (vec!["run", "why?", "--strategy", "random"], "[possible values: tree, homework, search]"),
        (
            vec!["run", "why?", "--max-iterations", "3"],
            "--max-iterations is for homework: add --strategy homework",
        ),
        (
            vec!["run", "why?", "--strategy", "homework", "--max-iterations", "101"],
            "budgets.max_iterations: is 101",
        ),
        (
            vec!["run", "why?", "--strategy", "homework", "--max-replans-per-node", "1"],
            "--max-replans-per-node means nothing to the strategy homework",
        ),
        (
            vec!["run", "why?", "--strategy", "homework", "--max-depth", "2"],
            "--max-depth means nothing to the strategy homework",
        ),
        (
            vec!["run", "why?", "--strategy", "search", "--max-iterations", "2"],
            "--max-iterations means nothing to the strategy search",
        ),
        (vec!["run", "why?", "--picker", "llm"], "--picker is for searches: add --strategy search"),
        (
            vec!["run", "why?", "--strategy", "search", "--picker", "random"],
            "[possible values: llm, breadth-first",
        ),
        (vec!["run", "why?", "--strategy", "search", "--max-depth", "65"], "--max-depth: is 65"),
        (
            vec!["run", "why?", "--strategy", "search", "--max-replans-per-node", "1"],
            "--max-replans-per-node means",
        ),
        (
            vec!["run", "why?", "--strategy", "search", "--picker-prompt", "/nonexistent"],
            "--picker-prompt /nonexistent",
        ),
        (vec!["run", "why?", "--resume"], "--local"),
        (vec!["run", "why?", "--label", "team"], "expected KEY=VALUE"),
        (vec!["run", "why?", "--label", "Team=x"], "cannot be a label's key"),
        (vec!["run"], "OBJECTIVE"),
        (vec!["run", "--file", "/nonexistent"], "/nonexistent"),
        (vec!["watch", "nope"], "is not a run id"),
        (vec!["watch", other], "does not exist"),
        (vec!["doc", other], "does not exist"),
        (vec!["events", other, "--type", "tree.nope"], "tree.nope"),
        (vec!["import", "/nonexistent", "--project", "p"], "does not exist"),
        (vec!["import", "/dev/null", "--project", "p"], "is not a folder"),
        (vec!["runs", "--status", "done"], "[possible values: queued"),
        (vec!["runs", "--since", "yesterday"], "2026-11-23T14:00:00Z"),
        (vec!["runs", "--watch", "-o", "json"], "-o jsonl"),
        (vec!["runs", "--label", "Not a key"], "cannot be a label's key"),
        (vec!["frobnicate"], "frobnicate"),
        (vec!["runs", "--server", "ftp://x"], "--server"),
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
    let id = &NodeId::root(run_id()).to_string()[..4];
    assert!(text.contains(&format!("✓ E {id} why?  completed")), "{text}");
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

#[tokio::test(flavor = "multi_thread")]
async fn the_server_completes_runs_nodes_and_projects() {
    let (_fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let (run, node) = (run_id().to_string(), NodeId::root(run_id()).to_string());
    let completes = async |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
        command.args(["--", "tree-agent"]).args(words).env("COMPLETE", "fish").env_remove("TREE_AGENT_LOG");
        let done = tokio::task::spawn_blocking(move || command.output().expect("the program starts"));
        let offered = stdout(&done.await.unwrap());
        let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        offered.lines().map(word).collect::<Vec<_>>()
    };
    let server = ["--server", url.as_str()];
    for (words, offered) in [
        (&["watch", "0190"][..], &run),
        (&["graph", "--at", "3", "0190"], &run),
        (&["guide", &run, &node[..8]], &node),
        (&["fork", &run, "--retry", &node[..8]], &node),
        (&["fork", &run, "--guide", &node[..8]], &node),
        (&["run", "why", "--project", "handb"], &"handbook-of-leases".to_owned()),
    ] {
        assert_eq!(completes(&[&server, words].concat()).await, [offered.as_str()], "{words:?}");
    }
    // A shell would run a part of this name, where it is not quoted.
    assert_eq!(HOSTILE_NAME, "it's $(touch run)");
    let none: [String; 0] = [];
    assert_eq!(completes(&[&server[..], &["run", "why", "--project", "it"]].concat()).await, none);
    assert_eq!(completes(&["--server", "http://127.0.0.1:1", "watch", "0190"]).await, none);
}

/// An escape sequence, a control sequence introducer of one byte, a bell, an override of the direction of writing, and
/// a colour sequence that hides what follows.
const HOSTILE: &str = "a\x1b[2Jb\u{9b}31mc\x07d\u{202e}e\x1b[8m";

/// Characters that are not for terminals.
fn unsafe_characters(text: &str) -> Vec<char> {
    let is_unsafe = |c: &char| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c);
    text.chars().filter(is_unsafe).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_server_says_steers_the_terminal() {
    let mut events = log(RunStatus::Failed, false);
    for event in &mut events {
        match &mut event.body {
            EventBody::NodeCreated(node) => node.title = HOSTILE.into(),
            EventBody::RunStatusChanged(change) => change.reason = Some(HOSTILE.into()),
            _ => {}
        }
    }
    let (fake, url) = Fake::serve(events, vec![]).await;
    fake.0.lock().unwrap().others = vec![HOSTILE.into()];
    fake.0.lock().unwrap().default_model = HOSTILE.into();
    fake.0.lock().unwrap().estimate_model = HOSTILE.into();
    fake.0.lock().unwrap().create_failures.push(Status::invalid_argument(HOSTILE));
    let run = run_id().to_string();
    for args in [
        &["run", "why?"][..],
        &["watch", &run],
        &["graph", &run],
        &["graph", &run, "--format", "dot"],
        &["graph", &run, "--format", "mermaid"],
        &["graph", &run, "-o", "json"],
        &["events", &run],
        &["events", &run, "-o", "jsonl"],
        &["watch", &run, "-o", "jsonl"],
        &["runs"],
        &["runs", "-o", "json"],
        &["status"],
        &["run", "why?", "--estimate"],
        &["watch", "4b"],
        &["watch", "1d2e4b", "--type", "tree.run_status"],
    ] {
        let output = tree_agent(&url, args).await;
        let text = stdout(&output) + &stderr(&output);
        assert!(unsafe_characters(&text).is_empty(), "{args:?}: {text:?}");
    }
    // Neither does an argument that is wrong.
    let output = tree_agent(&url, &["result", HOSTILE]).await;
    assert_eq!((code(&output), unsafe_characters(&stderr(&output))), (2, vec![]), "{output:?}");
    assert!(stderr(&output).contains("ab31mcde"), "{output:?}");
    // A document is the user's: a pipe gets it as it is. The answer of a run is not: its headings and quotes come from
    // many hands.
    fake.0.lock().unwrap().body = format!("# {HOSTILE}\r\n\nno line end");
    let output = tree_agent(&url, &["doc", &document_id().to_string()]).await;
    assert_eq!(stdout(&output), format!("# {HOSTILE}\r\n\nno line end"));
    for (args, expected) in [(&["result", &run][..], 3), (&["run", "why?"], 3)] {
        let output = tree_agent(&url, args).await;
        let text = stdout(&output);
        assert_eq!((code(&output), unsafe_characters(&text)), (expected, vec![]), "{args:?}: {text:?}");
        assert!(text.starts_with("# ") && text.ends_with("\n\nno line end"), "{args:?}: {text:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_named_by_a_part_of_its_id_or_by_its_age() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().others = vec!["who?".into(), "where?".into()];
    let run = run_id().to_string();
    for name in ["@latest", "@1", "1d2e4b", "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e", "2E4B"] {
        let output = tree_agent(&url, &["graph", name, "-o", "jsonl"]).await;
        assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
        assert_eq!(lines(&output)[0]["runId"], run, "{name}");
    }
    let other = stderr(&tree_agent(&url, &["cancel", "@2", "--no-wait"]).await);
    assert_eq!(other, "", "{other}");
    let ambiguous = tree_agent(&url, &["graph", "90b6f1-8d3e-7cc4-a1c7-3f7f6c1d"]).await;
    assert_eq!(code(&ambiguous), 2, "nothing begins or ends with it");
    let ambiguous = tree_agent(&url, &["graph", "0190"]).await;
    assert_eq!(code(&ambiguous), 2);
    let said = stderr(&ambiguous);
    assert!(said.contains("several run ids") && said.contains(&run) && said.contains("who?"), "{said}");
    let none = stderr(&tree_agent(&url, &["graph", "@9"]).await);
    assert!(none.contains("@9 does not exist: there are only 3 runs"), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_a_table_json_or_lines() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().others = vec!["who?".into()];
    let run = run_id().to_string();
    let table = stdout(&tree_agent(&url, &["runs"]).await);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..6], ["ID", "STATUS", "CREATED", "DURATION", "NODES", "COST"]);
    assert_eq!(rows[1][..3], [&*run, "✓", "completed"]);
    assert!(
        table.contains("1m02s") && table.contains("handbook-of-leases") && table.contains("d ago"),
        "{table}"
    );
    let json: Value =
        serde_json::from_str(&stdout(&tree_agent(&url, &["runs", "-o", "json"]).await)).unwrap();
    assert_eq!((json.as_array().unwrap().len(), &json[0]["runId"]), (2, &run.as_str().into()));
    assert_eq!(lines(&tree_agent(&url, &["runs", "-o", "jsonl"]).await).len(), 2);

    let filtered = ["runs", "--objective", "nothing of it", "--status", "failed", "--label", "team=x"];
    let output = tree_agent(&url, &filtered).await;
    assert_eq!(stdout(&output), "");
    let said = stderr(&output);
    assert!(
        said.contains("no run matches --status failed --label team=x --objective \"nothing of it\""),
        "{said}"
    );
    let output = tree_agent(&url, &[&filtered[..], &["-o", "json"]].concat()).await;
    assert_eq!(stdout(&output), "[]\n");
    let asked = fake.0.lock().unwrap().listed.last().cloned().unwrap();
    assert_eq!(
        (asked.objective_contains.as_str(), asked.labels),
        ("nothing of it", vec!["team=x".to_owned()])
    );

    let output = tree_agent(&url, &["projects", "-o", "json"]).await;
    let projects: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(projects[0]["name"], "handbook-of-leases");
    let output = tree_agent(&url, &["projects", "--name", "nope"]).await;
    assert!(stderr(&output).contains("no project has a name that contains \"nope\""), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_deleted_and_the_server_says_what_it_is() {
    let (fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().others = vec!["who?".into()];
    let output = tree_agent(&url, &["delete", "@2"]).await;
    assert!(code(&output) == 2 && stderr(&output).contains("1 run would be deleted"), "{}", stderr(&output));
    assert!(fake.0.lock().unwrap().deleted.is_empty());
    let output = tree_agent(&url, &["delete", "@2", "@1", "--yes", "-o", "jsonl"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let deleted = fake.0.lock().unwrap().deleted.clone();
    assert_eq!(deleted, ["0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d014b".to_owned(), run_id().to_string()]);
    let status = stdout(&tree_agent(&url, &["status"]).await);
    assert!(status.contains("0.2.0") && status.contains("maxWallClock 1h00m"), "{status}");
    let status: Value =
        serde_json::from_str(&stdout(&tree_agent(&url, &["status", "-o", "json"]).await)).unwrap();
    assert_eq!((&status["defaultModel"], &status["strategies"][0]), (&"offline".into(), &"tree".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_list_are_lines_in_a_pipe() {
    let (_fake, url) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    command.args(["runs", "--watch", "-o", "jsonl"]).env("TREE_AGENT_SERVER", &url).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = tokio::task::spawn_blocking(move || {
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines: Vec<Value> =
            out.lines().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines
    })
    .await
    .unwrap();
    assert_eq!((&lines[0]["change"], &lines[1]["change"]), (&"added".into(), &"changed".into()));
    assert_eq!(lines[0]["run"]["runId"], run_id().to_string());
}

/// A newer server sends what this program does not know, in both forms: with its payload, and as a field that is
/// unknown.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_newer_version_are_printed_and_passed_over() {
    let mut events = log(RunStatus::Completed, false);
    let payload = serde_json::json!({"words": "\u{1b}[31mred"});
    events[3].body = Opaque::new("tree.from_the_future", payload.as_object().unwrap().clone()).into();
    let mut messages: Vec<_> = events.iter().map(message).collect();
    if let Message::Event(event) = &mut messages[3] {
        event.body = None;
    }
    let calls = vec![Call { send: messages, then: Then::Close }];
    let (_, url) = Fake::serve(events, calls).await;
    let run = run_id().to_string();
    let output = tree_agent(&url, &["watch", &run, "-o", "jsonl"]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let seqs: Vec<u64> = lines(&output).iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=8).collect::<Vec<_>>());
    assert_eq!(lines(&output)[3]["type"], "tree.from_the_future");
    let output = tree_agent(&url, &["watch", &run]).await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = tree_agent(&url, &["events", &run, "-o", "jsonl"]).await;
    assert_eq!(lines(&output)[3]["payload"]["words"], payload["words"]);
    let text = stdout(&tree_agent(&url, &["events", &run]).await);
    assert!(text.contains("tree.from_the_future") && !text.contains('\u{1b}'), "{text}");
}

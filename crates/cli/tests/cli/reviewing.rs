//! A run that waits for a person: on a terminal, and beside one.

use std::time::{Duration, Instant};

use pty_process::blocking::Command;

use crate::support::dev::{Dev, code, documents, lines, run, stderr, stdout, succeeded};
use crate::support::terminal::Terminal;

const MODEL: &str = "scripted:fanout=2,depth=1,artifacts=document,result_bytes=20";

#[test]
fn a_terminal_is_asked_and_its_answers_lead_to_the_answer() {
    let (data, docs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    documents(docs.path());
    let command = Command::new(env!("CARGO_BIN_EXE_tree-agent"))
        .args(["run", "How long does a lease last?", "--local", "--review", "--model", "offline", "--dir"])
        .arg(docs.path())
        .arg("--data-dir")
        .arg(data.path())
        .env_remove("TREE_AGENT_LOG");
    let terminal = Terminal::start(command, 40, 140);
    terminal.wait_for_text("Enter starts it");
    terminal.press("two\r");
    terminal.wait_for_text("\"two\" is no number");
    terminal.press("9\r");
    terminal.wait_for_text("the assumptions have the numbers 1 to 1");
    terminal.press("1\r");
    terminal.wait_for_text("assumption 1 is struck");
    terminal.press("\r");
    let (code, end) = terminal.end();
    assert_eq!(code, Some(0), "{}", end.text);
    assert!(end.text.contains("A lease lasts five seconds"), "{}", end.text);
}

#[test]
fn a_run_waits_until_somebody_starts_it() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let usage = |args: &[&str], why: &str| {
        let output = run(server, args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    };
    usage(
        &["run", "why?", "--review=1ms"],
        "review.goes_on_after_ms: is 1; must be between 1000 and 2592000000",
    );
    usage(&["run", "why?", "--local", "--review"], "--review=10m");
    let id = stdout(&succeeded(run(server, &["run", "why?", "--review", "--model", MODEL, "--detach"])));
    let id = id.trim();
    let until = Instant::now() + Duration::from_secs(60);
    let shown = loop {
        let output = run(server, &["review", id]);
        if code(&output) == 0 {
            break stdout(&output);
        }
        assert!(Instant::now() < until, "it does not wait for a review: {}", stderr(&output));
    };
    assert!(shown.contains("Planned: 2 steps") && shown.contains("0 tokens"), "{shown}");
    usage(&["review", id, "--strike", "1"], "the plan names no assumption");
    succeeded(run(server, &["review", id, "--start"]));
    succeeded(run(server, &["watch", id, "-q"]));
    let events = lines(&succeeded(run(server, &["events", id, "-o", "jsonl"])));
    let count = |wanted: &str| events.iter().filter(|event| event["type"] == wanted).count();
    assert_eq!((count("tree.review_requested"), count("tree.node_resumed")), (1, 1));
    usage(&["review", id], "does not wait for a review: it is completed; somebody (event ");
    assert_eq!(dev.terminate(), 0);
}

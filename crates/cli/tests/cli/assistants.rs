//! `mcp`: assistants on standard input and output, several on one folder.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::dev::Dev;
use serde_json::{Value, json};

/// An assistant with a server of its own.
struct Assistant {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Assistant {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
        command.args(["mcp", "--model", "offline", "--embeddings", "none", "--data-dir"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let (input, output) = (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
        let mut assistant = Self { server, input, output };
        let begin = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        assert_eq!(assistant.ask("initialize", begin)["serverInfo"]["name"], "tree-agent");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(assistant.input, "{ready}").unwrap();
        assistant
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        writeln!(self.input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
            .unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).expect("only the protocol is on standard output");
        answer["result"].take()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls until the tool answers: a server that is gone is told once.
    fn insist(&mut self, tool: &str, arguments: &Value) -> Value {
        (0..20)
            .map(|_| self.call(tool, arguments.clone()))
            .find(|said| said["isError"] == false)
            .expect("an answer")
    }

    /// The run that answers a question.
    fn run(&mut self) -> String {
        let started = self.insist("start_research", &json!({ "objective": "why?" }));
        let run = started["structuredContent"]["run"].as_str().unwrap().to_owned();
        while self.insist("wait_research", &json!({ "run": run }))["structuredContent"]["status"]
            != "completed"
        {}
        run
    }

    fn kill(mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn assistants_share_a_folder_and_the_next_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Assistant::start(folder.path()), Assistant::start(folder.path()));
    let run = first.run();
    let read = json!({ "run": run });
    assert_eq!(second.call("research_result", read.clone())["structuredContent"]["status"], "completed");
    first.kill();
    let again = second.insist("research_result", &read);
    assert_eq!(again["structuredContent"]["run"], run, "nothing is lost");
    let another = second.run();
    let mut third = Assistant::start(folder.path());
    assert_eq!(
        third.insist("research_result", &json!({ "run": another }))["structuredContent"]["run"],
        another
    );
    // It ends with its assistant.
    drop(second.input);
    assert!(second.server.wait().unwrap().success());
    assert_eq!(third.insist("research_result", &read)["structuredContent"]["run"], run);
    third.kill();
}

#[test]
fn an_assistant_uses_the_server_that_has_the_folder_open() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path());
    let mut assistant = Assistant::start(folder.path());
    let run = assistant.run();
    let listed = crate::support::dev::run(&dev.server, &["runs", "-o", "jsonl"]);
    assert!(crate::support::dev::stdout(&listed).contains(&run));
    assistant.kill();
}

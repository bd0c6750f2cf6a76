//! A `dev` that asks for tokens, and the command line against it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tree_agent_testkit::issuer::{AUDIENCE, Algorithm, ISSUER, Issuer, publish};

const HOUR: Duration = Duration::from_secs(3_600);
/// Long enough for a stream to be opened with it on a busy machine; its end is waited for.
const SHORT: Duration = Duration::from_secs(3);

/// The program, without settings from outside.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TREE_AGENT_") {
            command.env_remove(name);
        }
    }
    command
}

struct World {
    issuer: Issuer,
    folder: TempDir,
    server: String,
    dev: Child,
}

impl World {
    /// Starts `dev`, which logs everything.
    fn start() -> Self {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), Issuer::new("one", Algorithm::ES256));
        publish(&folder.path().join("jwks.json"), &[&issuer]);
        let mut dev = dev(folder.path())
            .env("TREE_AGENT_LOG", "trace")
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .expect("the program starts");
        let mut first = String::new();
        BufReader::new(dev.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ready: Value = serde_json::from_str(&first).unwrap_or_else(|e| panic!("{first:?}: {e}"));
        Self { issuer, folder, server: ready["server"].as_str().unwrap().to_owned(), dev }
    }

    /// A command whose token file holds `token`.
    fn command(&self, token: &str, args: &[&str]) -> Command {
        let file = self.folder.path().join("token");
        std::fs::write(&file, token).unwrap();
        let mut command = program();
        command.args(args).args(["--server", &self.server, "--token-file"]).arg(file);
        command
    }

    fn run(&self, token: &str, args: &[&str]) -> Output {
        self.command(token, args).output().expect("the program starts")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.dev.kill();
        let _ = self.dev.wait();
    }
}

fn dev(folder: &Path) -> Command {
    let mut command = program();
    command
        .args(["dev", "--listen", "127.0.0.1:0", "-o", "jsonl", "--data-dir"])
        .arg(folder.join("data"))
        .env("TREE_AGENT_AUTH_JWKS", folder.join("jwks.json"))
        .env("TREE_AGENT_AUTH_ISSUER", ISSUER)
        .env("TREE_AGENT_AUTH_AUDIENCE", AUDIENCE);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one JSON object that was printed.
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn users_show_their_tokens_and_refusals_have_a_code_of_their_own() {
    let world = World::start();
    let good = world.issuer.token("ann", HOUR);
    let documents = world.folder.path().join("documents");
    std::fs::create_dir(&documents).unwrap();
    std::fs::write(documents.join("lease.md"), "# Leases\n\nA lease lasts five seconds.\n").unwrap();
    let dir = documents.to_str().unwrap();
    // The roles find the document through the gateway, with a token that only this process knows.
    let out = world.folder.path().join("answer.md");
    let output = world
        .run(&good, &["run", "How long does a lease last?", "--dir", dir, "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = std::fs::read_to_string(&out).unwrap();
    assert!(answer.contains("A lease lasts five seconds"), "{answer}");
    let run = json(&world.run(&good, &["runs", "-o", "jsonl"]));
    assert_eq!(run["spec"]["userId"], "ann", "{run}");

    let without = program().args(["runs", "--server", &world.server]).output().unwrap();
    assert_eq!(without.status.code(), Some(7), "{}", stderr(&without));
    assert!(stderr(&without).contains("this gateway asks for a token"), "{}", stderr(&without));
    assert!(stderr(&without).contains("--token-file FILE"), "{}", stderr(&without));
    let stranger = Issuer::new("one", Algorithm::ES256).token("eve", HOUR);
    let refused = world.run(&stranger, &["runs"]);
    assert_eq!(refused.status.code(), Some(7));
    assert!(stderr(&refused).contains("the token is not accepted"), "{}", stderr(&refused));
    assert!(!stderr(&refused).contains(&stranger[..20]), "{}", stderr(&refused));
    let variable =
        program().args(["runs", "--server", &world.server]).env("TREE_AGENT_TOKEN", &good).output().unwrap();
    assert_eq!(variable.status.code(), Some(0), "{}", stderr(&variable));

    let log = std::fs::read_to_string(world.folder.path().join("log")).unwrap();
    assert!(log.contains("RunService/ListRuns"), "everything is logged");
    for token in [&good, &stranger] {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        assert!(!log.contains(signed) && !log.contains(signature), "a token is in the log");
    }
}

#[test]
fn a_watch_goes_on_when_its_file_has_a_new_token_and_ends_when_it_has_none() {
    let world = World::start();
    let good = world.issuer.token("ann", HOUR);
    let model = "scripted:fanout=3,depth=1,latency_ms=2500";
    let create = ["run", "Watched for long", "--model", model, "--detach", "-o", "jsonl"];
    let run = json(&world.run(&good, &create));
    let id = run["runId"].as_str().unwrap();

    let short = world.issuer.token("ann", SHORT);
    let watching = world
        .command(&short, &["watch", id, "-o", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has the stream when it has printed something; what it prints then waits in the pipe.
    let mut watching = watching;
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    std::fs::write(world.folder.path().join("token"), &good).unwrap();
    let mut seqs = vec![seq(&first)];
    seqs.extend(lines.map(|line| seq(&line.unwrap())));
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "every event once, in order");

    // Of a run that takes longer than the token lasts, and nobody renews that.
    let run = json(&world.run(&good, &create));
    let short = world.issuer.token("ann", SHORT);
    let output = world.run(&short, &["watch", run["runId"].as_str().unwrap(), "-o", "jsonl"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("the token has expired"), "{}", stderr(&output));
    assert!(stderr(&output).contains("watch it again with `tree-agent watch RUN`"), "{}", stderr(&output));
}

fn seq(line: &str) -> u64 {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
    event["seq"].as_u64().unwrap_or_else(|| panic!("no seq: {line}"))
}

#[test]
fn a_dev_without_an_audience_says_so_before_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    publish(&folder.path().join("jwks.json"), &[&Issuer::new("one", Algorithm::EdDSA)]);
    let output = dev(folder.path()).env_remove("TREE_AGENT_AUTH_AUDIENCE").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("TREE_AGENT_AUTH_AUDIENCE: is not set"), "{}", stderr(&output));
}

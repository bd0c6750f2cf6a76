//! What users receive: the same document everywhere, an API with reflection, and helpful errors.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt;
use tree_agent_cluster_tests::{Cluster, Options};
use tree_agent_proto::v1 as pb;

/// The root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn succeeded(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_writes_the_same_document_as_one_process() {
    let cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = repository().join("crates/model/tests/corpus");
    for (n, objective) in [
        "How does the harbour prepare for storms, and who decides?",
        "When may a pilot refuse? What does a crane cost? How is water delivered?",
    ]
    .into_iter()
    .enumerate()
    {
        let write = |place: &str, more: &str| {
            let file = folder.path().join(format!("{place}-{n}.md"));
            let output = cluster.cli("run -o jsonl", |command| {
                command.args(more.split_whitespace()).arg("--dir").arg(&corpus).arg("--out").arg(&file);
                command.env("TREE_AGENT_DATA_DIR", folder.path().join("data")).arg(objective)
            });
            succeeded(&output);
            std::fs::read_to_string(file).expect("a synthesis was written")
        };
        let (cluster, embedded) = (write("cluster", ""), write("embedded", "--local"));
        assert!(cluster.len() > 300 && cluster.contains(".md"), "a synthesis with sources: {cluster}");
        assert_eq!(cluster, embedded, "{objective}");
    }
}

/// `buf curl` without a schema: it uses the server's reflection.
fn buf_curl(cluster: &Cluster, protocol: &str, method: &str, request: &Value) -> Vec<Value> {
    let buf = repository().join("node_modules/.bin/buf");
    assert!(buf.is_file(), "buf is not installed; run scripts/setup");
    let url = format!("{}/treeagent.v1.{method}", cluster.gateways[0].url());
    let mut command = Command::new(buf);
    command.args(["curl", "--protocol", protocol]);
    if protocol == "grpc" {
        command.arg("--http2-prior-knowledge");
    }
    let output = command.args(["-d", &request.to_string(), &url]).output().expect("buf starts");
    succeeded(&output);
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    values.map(|value| value.expect("buf prints JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn buf_curl_creates_a_run_and_watches_it_to_its_end() {
    let cluster = Cluster::start(Options::default()).await;
    for protocol in ["grpc", "grpcweb"] {
        let request = json!({"objective": "why?", "model": "scripted:fanout=2,depth=1,latency_ms=50"});
        let created = buf_curl(&cluster, protocol, "RunService/CreateRun", &request);
        let run = created[0]["run"]["runId"].as_str().expect("an id").to_owned();
        let messages = buf_curl(&cluster, protocol, "RunService/WatchRun", &json!({ "runId": run }));
        let events: Vec<&Value> = messages.iter().filter_map(|message| message.get("event")).collect();
        for (seq, event) in (1..).zip(&events) {
            // Protobuf's JSON writes 64-bit numbers as text.
            assert_eq!(event["seq"], json!(seq.to_string()), "{protocol}");
        }
        let last = events.last().expect("events");
        assert_eq!(last["runStatus"]["status"], "RUN_STATUS_COMPLETED", "{protocol}: {last}");
        assert!(messages.iter().any(|message| message.get("caughtUp").is_some()), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_names_its_field_and_changes_nothing() {
    const NOBODY: &str = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
    let cluster = Cluster::start(Options::default()).await;
    let mut runs = cluster.runs();
    let request = |objective: &str, nodes| pb::CreateRunRequest {
        objective: objective.into(),
        budgets: Some(pb::Budgets { max_nodes: nodes, ..Default::default() }),
        ..Default::default()
    };
    for (request, field) in [
        (request("", None), "objective"),
        (request(&"x".repeat(16 * 1024 + 1), None), "objective"),
        (request("why?", Some(0)), "budgets.max_nodes"),
        (request("why?", Some(u32::MAX)), "budgets.max_nodes"),
    ] {
        let status = runs.create_run(request).await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let details = status.get_error_details();
        let violations = &details.bad_request().expect("the field is named").field_violations;
        assert_eq!(violations[0].field, field);
    }
    let listed = runs.list_runs(pb::ListRunsRequest::default()).await.expect("a list").into_inner();
    assert!(listed.runs.is_empty(), "a refused run was written");

    let run = cluster.create("scripted:fanout=1,depth=1").await;
    let end = cluster.follow(&run).end().await.events().len() as u64;
    for (run_id, after_seq, code) in [
        (NOBODY, 0, Code::NotFound),
        ("nonsense", 0, Code::InvalidArgument),
        (run.as_str(), end + 1, Code::OutOfRange),
    ] {
        let request = pb::WatchRunRequest { run_id: run_id.into(), after_seq, ..Default::default() };
        let status = runs.watch_run(request).await.expect_err("refused");
        assert_eq!(status.code(), code, "{status}");
    }

    // The command line prints the error and exits with the code for bad usage.
    for (args, words) in [
        (format!("watch {NOBODY}"), NOBODY),
        ("run --max-nodes 0 why".to_owned(), "max_nodes"),
        ("import no/such/folder --project x".to_owned(), "no/such/folder"),
        ("run --project nobody why".to_owned(), "nobody"),
    ] {
        let output = cluster.cli(&args, |command| command);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args}: {stderr}");
        assert!(stderr.contains(words), "{args}: {stderr}");
    }
}

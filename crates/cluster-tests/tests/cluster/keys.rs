//! A run whose model cannot be used is refused before anything is written, with the field and the remedy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_cluster_tests::{Cluster, Options, Signal};
use tree_agent_proto::v1 as pb;

/// Must not appear anywhere.
const KEY: &str = "sk-test-0123456789abcdefghij";

/// A provider that answers every request with `status`, quoting the key as some do, and counts them.
async fn provider(status: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut bytes = [0; 1024];
                match stream.read(&mut bytes).await {
                    Ok(n) if n > 0 => request.extend_from_slice(&bytes[..n]),
                    _ => break,
                }
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let body = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}\"}}}}");
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (url, asked)
}

async fn ask(cluster: &Cluster, model: &str) -> Result<pb::Run, Status> {
    let objective = "What does a cluster do?".to_owned();
    let request = pb::CreateRunRequest { objective, model: model.into(), ..Default::default() };
    cluster.runs().create_run(request).await.map(|answer| answer.into_inner().run.expect("a run"))
}

#[track_caller]
fn assert_refused(refused: Result<pb::Run, Status>, code: Code, reason: &str, says: &[&str]) {
    let status = refused.expect_err("the run is refused");
    let details = status.get_error_details();
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(details.error_info().expect("ErrorInfo").reason, reason);
    assert_eq!(details.bad_request().expect("BadRequest").field_violations[0].field, "model");
    for part in says {
        assert!(status.message().contains(part), "{part:?} is missing in {:?}", status.message());
    }
    assert!(!format!("{status:?}").contains("0123456789"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_once_stays_accepted() {
    let cluster = Cluster::start(Options::default()).await;
    let project = "018f3f3e-0000-7000-8000-000000000001";
    let sql = cluster.sql().await;
    let insert = format!(
        "INSERT INTO onto_projects (id, name, name_folded, created_at) VALUES ('{project}', 'P', 'p', now())"
    );
    sql.batch_execute(&insert).await.expect("a project");
    let create = async |request_id: &str| {
        let context = pb::RunContext { scope: pb::Scope::Project.into(), project_ids: vec![project.into()] };
        let request = pb::CreateRunRequest {
            objective: "why".into(),
            request_id: request_id.into(),
            context: Some(context),
            ..Default::default()
        };
        cluster.runs().create_run(request).await.map(|answer| answer.into_inner().run.expect("a run").run_id)
    };
    let first = create("once").await.expect("a run is created");
    let history = cluster.follow(&first).end().await;
    history.assert_whole();
    sql.batch_execute("DELETE FROM onto_sources; DELETE FROM onto_projects").await.expect("the project goes");
    assert_eq!(create("once").await.expect("the same run"), first);
    assert_eq!(create("again").await.expect_err("its project is gone").code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_model_cannot_be_used_is_refused_before_anything_is_written() {
    let (good, _) = provider("200 OK").await;
    let (refusing, refused) = provider("401 Unauthorized").await;
    let mut settings = Vec::new();
    for service in ["planner", "executor", "aggregator"] {
        let url = if service == "executor" { &refusing } else { &good };
        settings.push((service, "ANTHROPIC_BASE_URL", url.clone()));
        settings.push((service, "ANTHROPIC_API_KEY", KEY.to_owned()));
        settings.push((service, "TREE_AGENT_MODELS", "anthropic:*".to_owned()));
        // These variables may be set where the test runs.
        settings.push((service, "OPENAI_API_KEY", String::new()));
        settings.push((service, "GEMINI_API_KEY", String::new()));
    }
    let cluster = Cluster::start(Options { settings, ..Options::default() }).await;

    let says = ["openai:gpt-4o is not offered here", "TREE_AGENT_MODELS"];
    assert_refused(ask(&cluster, "openai:gpt-4o").await, Code::InvalidArgument, "INVALID_FIELD", &says);
    let precondition = Code::FailedPrecondition;
    for _ in 0..3 {
        let says = ["ANTHROPIC_API_KEY was refused", "says the executor"];
        assert_refused(ask(&cluster, "anthropic:claude").await, precondition, "MODEL_KEY_REFUSED", &says);
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1, "the provider is not asked again and again");
    let says = ["TREE_AGENT_MODEL_FAST"];
    assert_refused(ask(&cluster, "balanced").await, precondition, "MODEL_NOT_SET", &says);
    for unknown in ["mistral:large", "openai:", "gpt-4o"] {
        assert_refused(ask(&cluster, unknown).await, Code::InvalidArgument, "INVALID_FIELD", &["openai"]);
    }
    let output = cluster.cli("run why --model gemini:gemini-2.5-flash", |command| command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("TREE_AGENT_MODELS"), "{said}");

    let listed = cluster.runs().list_runs(pb::ListRunsRequest::default()).await.expect("a list");
    assert!(listed.into_inner().runs.is_empty(), "a refused run was written");
    let row = cluster.sql().await.query_one("SELECT count(*) FROM tree_agent_events", &[]).await;
    assert_eq!(row.expect("a row").get::<_, i64>(0), 0);
    for process in cluster.processes() {
        assert!(!process.tail().contains("0123456789"), "{} shows the key", process.name());
    }

    // A service that cannot be asked is skipped and does not delay the run for long.
    cluster.executors[0].signal(Signal::Stop);
    let begun = Instant::now();
    ask(&cluster, "anthropic:another").await.expect("the executor may be back when it is needed");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    cluster.executors[0].signal(Signal::Continue);
}

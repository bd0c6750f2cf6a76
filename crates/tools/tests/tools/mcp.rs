//! Tools of MCP servers: how they join the others, and what a server that misbehaves does to its callers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tree_agent_contract::{RunContext, RunId, Scope, ToolRules};
use tree_agent_security::Roots;
use tree_agent_testkit::tls::Authority;
use tree_agent_tools::*;

use crate::server::{SERVES, TestServer, command};

/// Generous: for what happens at once when nothing is broken.
const SOON: Duration = Duration::from_secs(60);

/// A tool set whose server `t` is a child process; `more` is added to its table.
async fn child(more: &str) -> ToolSet {
    set(&format!(
        "[servers.t]\ncommand = {:?}\nenv = {{ {SERVES} = \"1\", NAMED = \"x\" }}\n{more}",
        command()
    ))
    .await
}

async fn set(config: &str) -> ToolSet {
    trusting(Roots::default(), config).await
}

/// The same; its servers over https:// must be those that `roots` vouch for.
async fn trusting(roots: Roots, config: &str) -> ToolSet {
    let config = McpConfig::parse(config, |name| (name == "PASSED").then(|| "y".to_owned())).unwrap();
    let config = config.trusting(roots);
    let registry =
        ToolRegistry::new(Arc::new(MemoryDocuments::default())).with_servers(McpServers::start(config));
    let caller = Caller::new(RunId(uuid::Uuid::from_u128(3)), RunContext::default());
    let tools = registry.tool_set(caller);
    tokio::time::timeout(SOON, tools.ready()).await.expect("the server starts");
    tools
}

async fn call(tools: &ToolSet, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
    let args: Map<String, Value> = args.as_object().cloned().unwrap();
    tokio::time::timeout(SOON, tools.call(name, &args)).await.expect("every call ends")
}

async fn text(tools: &ToolSet, name: &str, args: Value) -> String {
    call(tools, name, args).await.unwrap().value["text"].as_str().unwrap().to_owned()
}

async fn names(tools: &ToolSet) -> Vec<String> {
    tools.specs().await.unwrap().iter().map(|spec| spec.name().to_owned()).collect()
}

#[tokio::test]
async fn tools_of_a_child_process_join_the_built_in_ones() {
    let tools = child("pass_env = [\"PASSED\"]").await;
    let all = names(&tools).await;
    assert!(all.contains(&READ_DOCUMENT.to_owned()) && all.contains(&"t__echo".to_owned()), "{all:?}");
    assert!(!all.contains(&"t__broken".to_owned()), "a schema that is none: {all:?}");
    assert!(
        all.iter()
            .all(|n| n.len() <= 64 && n.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)))
    );
    let spec = tools.specs().await.unwrap().into_iter().find(|spec| spec.name() == "t__echo").unwrap();
    assert_eq!((spec.description(), &spec.schema()["required"][0]), ("Says the text again.", &json!("text")));
    assert_eq!(
        text(&tools, "t__echo", json!({"text": "hällo\n$(rm -rf /); `x`"})).await,
        "hällo\n$(rm -rf /); `x`"
    );
    let dotted = all.iter().find(|n| n.starts_with("t__dotted_name_")).unwrap();
    assert_eq!(text(&tools, dotted, json!({})).await, "dotted");
    // Of our environment it has only what its configuration names, and what every program needs.
    let variables = text(&tools, "t__variables", json!({})).await;
    let variables: Vec<&str> = variables.split(',').collect();
    for name in &variables {
        let known = [SERVES, "NAMED", "PASSED", "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"];
        assert!(known.contains(name) || name.starts_with("LC_"), "{name} was passed on");
    }
    assert!(variables.contains(&"NAMED") && variables.contains(&"PASSED"), "{variables:?}");
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "there was something to be kept from it");
}

#[tokio::test]
async fn arguments_are_checked_before_the_server_sees_them() {
    let tools = child("").await;
    for (tool, args, field) in [
        ("t__echo", json!({}), "text"),
        ("t__echo", json!({"text": 5}), "text"),
        ("t__big", json!({"n": -1}), "n"),
        ("t__pid", json!({"x": 1}), "x"),
    ] {
        match call(&tools, tool, args.clone()).await {
            Err(ToolError::Argument { field: named, .. }) => assert_eq!(named, field, "{tool} {args}"),
            other => panic!("{tool} {args}: {other:?}"),
        }
    }
    match call(&tools, "t__missing", json!({})).await {
        Err(ToolError::UnknownTool { available, .. }) => {
            assert!(available.contains("t__echo"), "{available}")
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(call(&tools, "echo", json!({"text": "x"})).await, Err(ToolError::UnknownTool { .. })));
}

#[tokio::test]
async fn a_tool_that_fails_says_why() {
    let tools = child("").await;
    let failed = call(&tools, "t__fail", json!({})).await.unwrap_err();
    assert!(matches!(&failed, ToolError::Failed { message, .. } if message == "no such thing"), "{failed:?}");
    let refused = call(&tools, "t__refuse", json!({})).await.unwrap_err();
    assert!(
        matches!(&refused, ToolError::Failed { message, .. } if message.contains("refused")),
        "{refused:?}"
    );
    assert!(!failed.retryable() && !refused.retryable());
}

#[tokio::test]
async fn a_server_that_dies_fails_its_calls_and_is_started_again() {
    let tools = child("").await;
    let first = text(&tools, "t__pid", json!({})).await;
    for _ in 0..3 {
        let slow = call(&tools, "t__slow", json!({"n": 30_000}));
        let (dead, other) = tokio::join!(call(&tools, "t__die", json!({})), slow);
        for error in [dead.unwrap_err(), other.unwrap_err()] {
            assert!(matches!(error, ToolError::Server { .. }) && error.retryable(), "{error:?}");
        }
        // Its tools are still offered, and the next call finds a new process.
        assert!(names(&tools).await.contains(&"t__echo".to_owned()));
        assert_eq!(text(&tools, "t__echo", json!({"text": "again"})).await, "again");
    }
    assert_ne!(text(&tools, "t__pid", json!({})).await, first);
}

#[tokio::test]
async fn garbage_on_stdout_is_passed_over() {
    let tools = child("").await;
    assert_eq!(text(&tools, "t__garbage", json!({})).await, "after the garbage");
    assert_eq!(text(&tools, "t__echo", json!({"text": "well"})).await, "well");
}

#[tokio::test]
async fn a_slow_call_ends_in_time_and_harms_no_other() {
    let tools = child("timeout_seconds = 1").await;
    let began = Instant::now();
    let slow = call(&tools, "t__slow", json!({"n": 3_600_000}));
    let (slow, quick) = tokio::join!(slow, text(&tools, "t__echo", json!({"text": "quick"})));
    assert_eq!(quick, "quick");
    let error = slow.unwrap_err();
    assert!(matches!(error, ToolError::Timeout { seconds: 1, .. }) && error.retryable(), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(text(&tools, "t__echo", json!({"text": "alive"})).await, "alive");
}

#[tokio::test]
async fn a_server_that_freezes_is_replaced() {
    let tools = child("timeout_seconds = 1").await;
    let first = text(&tools, "t__pid", json!({})).await;
    let error = call(&tools, "t__freeze", json!({})).await.unwrap_err();
    assert!(matches!(error, ToolError::Timeout { .. }), "{error:?}");
    let began = Instant::now();
    let second = loop {
        match call(&tools, "t__pid", json!({})).await {
            Ok(output) => break output.value["text"].as_str().unwrap().to_owned(),
            Err(error) => assert!(error.retryable() && began.elapsed() < SOON, "{error:?}"),
        }
    };
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_long_answer_is_cut_and_kept_whole() {
    let tools = child("output_bytes = 1000").await;
    assert_eq!(text(&tools, "t__big", json!({"n": 1000})).await.len(), 1000);
    let output = call(&tools, "t__big", json!({"n": 50_000})).await.unwrap();
    let shown = output.value["text"].as_str().unwrap().to_owned();
    assert_eq!((shown.len(), &output.value["cut"]["bytes"]), (1000, &json!(50_000)));
    let id = output.value["cut"]["documentId"].clone();
    assert!(output.summary.contains(id.as_str().unwrap()), "{}", output.summary);
    let offset = output.value["cut"]["offset"].clone();
    let rest = call(&tools, READ_DOCUMENT, json!({"document_id": id, "offset": offset})).await.unwrap();
    assert_eq!(shown + rest.value["body"].as_str().unwrap(), "0123456789".repeat(5_000));
}

#[tokio::test]
async fn a_server_that_cannot_start_holds_nobody_up() {
    let tools = set("[servers.gone]\ncommand = [\"/no/such/program\"]\n[servers.mute]\ncommand = [\"sleep\", \"600\"]\nstart_timeout_seconds = 1").await;
    assert!(names(&tools).await.iter().all(|name| !name.contains("__")));
    assert!(call(&tools, LIST_DOCUMENTS, json!({})).await.is_ok());
    let missing = tools.servers_without_tools();
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["gone", "mute"], "{missing:?}");
    assert!(missing[0].1.contains("/no/such/program"), "{missing:?}");
}

#[tokio::test]
async fn a_server_is_offered_only_where_it_is_configured_for() {
    let documents = Arc::new(MemoryDocuments::default());
    let (mine, other) = (documents.add_project("mine"), documents.add_project("other"));
    let text = format!(
        "[servers.t]\ncommand = {:?}\nenv = {{ {SERVES} = \"1\" }}\nscopes = [\"project\"]\nprojects = [\"{mine}\"]\ntools = [\"echo\", \"no_such\"]",
        command()
    );
    let config = McpConfig::parse(&text, |_| None).unwrap();
    let registry = ToolRegistry::new(documents).with_servers(McpServers::start(config));
    let of = |context: RunContext| registry.tool_set(Caller::new(RunId(uuid::Uuid::from_u128(3)), context));
    let tools = of(RunContext::project(mine));
    tokio::time::timeout(SOON, tools.ready()).await.unwrap();
    let foreign: Vec<String> = names(&tools).await.into_iter().filter(|name| name.contains("__")).collect();
    assert_eq!(foreign, ["t__echo"]);
    for context in [
        RunContext::default(),
        RunContext::project(other),
        RunContext { scope: Scope::MultiProject, project_ids: vec![mine, other] },
    ] {
        let error = call(&of(context), "t__echo", json!({"text": "x"})).await.unwrap_err();
        assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    }
}

/// Rules name tools of servers as they name built-in ones. Only a server knows which of its tools only read.
#[tokio::test]
async fn projects_and_read_only_runs_filter_the_tools_of_servers() {
    let documents = Arc::new(MemoryDocuments::default());
    let project = documents.add_project("mine");
    let text = format!(
        "[servers.t]\ncommand = {:?}\nenv = {{ {SERVES} = \"1\" }}\ntools = [\"echo\", \"big\"]",
        command()
    );
    let servers = McpServers::start(McpConfig::parse(&text, |_| None).unwrap());
    let registry = ToolRegistry::new(documents.clone()).with_servers(servers);
    let caller = Caller::new(RunId(uuid::Uuid::from_u128(3)), RunContext::project(project));
    let tools = registry.tool_set(caller.clone());
    tokio::time::timeout(SOON, tools.ready()).await.unwrap();
    let foreign = async |tools: &ToolSet| {
        names(tools).await.into_iter().filter(|name| name.contains("__")).collect::<Vec<_>>()
    };
    assert_eq!(foreign(&tools).await, ["t__echo", "t__big"]);
    let only_reads = registry.tool_set(Caller { read_only: true, ..caller });
    assert_eq!(foreign(&only_reads).await, ["t__echo"]);
    let error = call(&only_reads, "t__big", json!({"n": 10})).await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    documents.set_rules(project, ToolRules { denied_tools: vec!["t__echo".into()], ..Default::default() });
    assert_eq!(foreign(&tools).await, ["t__big"]);
    let error = call(&tools, "t__echo", json!({"text": "x"})).await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
}

/// Nobody knows which project a tool of a server is about, so each of them has its word.
#[tokio::test]
async fn in_global_context_every_project_has_its_word_about_tools_of_servers() {
    let documents = Arc::new(MemoryDocuments::default());
    let (one, two) = (documents.add_project("one"), documents.add_project("two"));
    let text = format!(
        "[servers.t]\ncommand = {:?}\nenv = {{ {SERVES} = \"1\" }}\ntools = [\"echo\", \"big\"]",
        command()
    );
    let servers = McpServers::start(McpConfig::parse(&text, |_| None).unwrap());
    let registry = ToolRegistry::new(documents.clone()).with_servers(servers);
    let tools = registry.tool_set(Caller::new(RunId(uuid::Uuid::from_u128(3)), RunContext::default()));
    tokio::time::timeout(SOON, tools.ready()).await.unwrap();
    assert_eq!(registry.writing_tools(), ["t__big"]);
    let offered = async || names(&tools).await;
    assert!(offered().await.contains(&"t__big".to_owned()));
    documents.set_rules(two, ToolRules { read_only: true, ..Default::default() });
    let names = offered().await;
    assert!(names.contains(&"t__echo".to_owned()) && !names.contains(&"t__big".to_owned()), "{names:?}");
    assert!(names.contains(&CREATE_DOCUMENT.to_owned()), "built-in tools follow the project of the call");
    documents.set_rules(one, ToolRules { denied_tools: vec!["t__echo".into()], ..Default::default() });
    let error = call(&tools, "t__echo", json!({"text": "x"})).await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
}

/// Serves `server` over plain HTTP on loopback.
async fn over_http(server: TestServer) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().nest_service("/mcp", service);
    (address, tokio::spawn(async move { axum::serve(listener, app).await }))
}

#[tokio::test]
async fn a_server_over_tls_is_one_that_the_operators_authorities_vouch_for() {
    let (plain, _serving) = over_http(TestServer::default()).await;
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let front = authority.issue(&["localhost"]).terminate_tls_for(plain).await;
    let config =
        format!("[servers.web]\nurl = \"https://localhost:{}/mcp\"\nstart_timeout_seconds = 5", front.port());
    let roots = Roots::file(&authority.write(folder.path())).unwrap();
    let tools = trusting(roots, &config).await;
    assert_eq!(text(&tools, "web__echo", json!({"text": "over TLS"})).await, "over TLS");
    let strange = Roots::file(&Authority::new().write(folder.path())).unwrap();
    for roots in [Roots::default(), strange] {
        let tools = trusting(roots, &config).await;
        assert!(names(&tools).await.iter().all(|name| !name.contains("__")));
    }
}

#[tokio::test]
async fn tools_over_streamable_http_and_calls_in_parallel() {
    let server = TestServer::default();
    let (address, serving) = over_http(server.clone()).await;
    let tools = set(&format!(
        "[servers.web]\nurl = \"http://{address}/mcp?key=SECRET\"\nmax_calls = 4\ntimeout_seconds = 20"
    ))
    .await;
    assert_eq!(text(&tools, "web__echo", json!({"text": "over HTTP"})).await, "over HTTP");
    let calls = (0..12).map(|i| {
        let tools = tools.clone();
        async move {
            if i % 2 == 0 {
                call(&tools, "web__slow", json!({"n": 100})).await.unwrap();
            } else {
                assert_eq!(text(&tools, "web__echo", json!({"text": i.to_string()})).await, i.to_string());
            }
        }
    });
    let calls: Vec<_> = calls.map(tokio::spawn).collect();
    for call in calls {
        call.await.unwrap();
    }
    let most = server.most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most} at once");
    // The server goes away: calls fail, and say so in time.
    serving.abort();
    let error = loop {
        match call(&tools, "web__echo", json!({"text": "gone"})).await {
            // A connection that was open lives on for a moment.
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => break error,
        }
    };
    assert!(error.retryable(), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("/mcp?…") && !said.contains("SECRET"), "{said}");
}

//! An executor that works with a tool of an MCP server from npm: one whole `Execute` call, over gRPC to the executor
//! and over stdio to the reference server for files, which `scripts/setup` installs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::ResultKind;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, ArtifactDraft, ExecuteInput, ExecutorOutput, PickInput, PickOutput,
    PlanInput, PlannerOutput, ResearchInput, ResearchOutput, ResultDraft, RoleError, RoleErrorKind,
    RoleUpdate, ScratchpadDraft, VerifierOutput, VerifyInput,
};
use tree_agent_model::{Models, RoleIo, RoleModel, RoleServer};
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_tools::{McpConfig, McpServers, MemoryDocuments, ToolError, ToolRegistry};

use crate::serving::{connect, read, request};

/// Reads the file that its step names, as a model with tools would, and tries one that it must not have.
struct Reader {
    folder: PathBuf,
}

fn path(path: &Path) -> Map<String, Value> {
    json!({ "path": path }).as_object().cloned().unwrap()
}

#[async_trait]
impl RoleModel for Reader {
    async fn plan(&self, _: &PlanInput, _: &RoleIo) -> Result<PlannerOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "plans nothing"))
    }

    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        let offered: Vec<String> =
            io.tools().specs().await.unwrap().iter().map(|spec| spec.name().to_owned()).collect();
        assert!(offered.contains(&"files__read_text_file".to_owned()), "{offered:?}");
        assert!(!offered.contains(&"files__write_file".to_owned()), "not in its list: {offered:?}");
        let file = self.folder.join(&input.call.title);
        let answer = io.call_tool("files__read_text_file", path(&file), "read the step's file").await;
        let answer = answer.map_err(|e| RoleError::new(RoleErrorKind::Internal, e.to_string()))?;
        let outside =
            io.call_tool("files__read_text_file", path(Path::new("/etc/hostname")), "look outside").await;
        assert!(matches!(outside, Err(ToolError::Failed { .. })), "{outside:?}");
        let text = answer["text"].as_str().unwrap_or_default();
        Ok(ExecutorOutput {
            actions: Vec::new(),
            artifacts: vec![ArtifactDraft::document("file", input.call.title.clone(), text.to_owned())],
            result: ResultDraft::new(ResultKind::Document, format!("{} lines", text.lines().count()), "file"),
            scratchpad: ScratchpadDraft { append_markdown: "read\n".into(), tail_preview: "read\n".into() },
        })
    }

    async fn aggregate(&self, _: &AggregateInput, _: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "aggregates nothing"))
    }

    async fn research(&self, _: &ResearchInput, _: &RoleIo) -> Result<ResearchOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "researches nothing"))
    }

    async fn pick(&self, _: &PickInput, _: &RoleIo) -> Result<PickOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "picks nothing"))
    }
    async fn verify(&self, _: &VerifyInput, _: &RoleIo) -> Result<VerifierOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "verifies nothing"))
    }
}

#[tokio::test]
async fn an_executor_reads_a_file_through_the_reference_server_from_npm() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node_modules/.bin/mcp-server-filesystem");
    assert!(program.exists(), "{} is missing: run scripts/setup", program.display());
    let folder = tempfile::tempdir().unwrap();
    // The server names files by their real path.
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("notes.md"), "# Notes\n\nA lease ends.\n").unwrap();
    let config = format!(
        "[servers.files]\ncommand = [{program:?}, {root:?}]\ntools = [\"read_text_file\", \"list_directory\"]\nstart_timeout_seconds = 60"
    );
    let servers = McpServers::start(McpConfig::parse(&config, |_| None).unwrap());
    let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default())).with_servers(servers);
    let role = RoleServer::new(Models::with_default(Arc::new(Reader { folder: root })), tools);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (token, stop) = (RoleToken::random(), CancellationToken::new());
    tokio::spawn(tree_agent_executor::serve_role(role, token.clone(), Duration::ZERO, listener, stop));
    let mut client = connect(&url, &token).await;
    let stream = client.execute(request("", |call| call.title = "notes.md".into())).await.unwrap();
    let (updates, output) = read(stream.into_inner()).await;
    let output = output.unwrap();
    assert_eq!(output.artifacts[0].document_markdown.as_deref().unwrap().trim(), "# Notes\n\nA lease ends.");
    let told: Vec<String> = updates
        .iter()
        .filter_map(|update| match update {
            RoleUpdate::ToolCallRequested(call) => Some(format!("{} {}?", call.call_id, call.tool_name)),
            RoleUpdate::ToolCallResult(result) => Some(format!("{} {}", result.call_id, result.ok)),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["t1 files__read_text_file?", "t1 true", "t2 files__read_text_file?", "t2 false"]);
}

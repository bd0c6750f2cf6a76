//! An MCP server that behaves well or badly, as its tools are called: in this process over HTTP, or as a child process,
//! which is this very test program told by a variable to serve. The test harness then writes lines of its own to
//! stdout before the first message, which clients must bear anyway.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServiceExt};
use serde_json::json;

/// Set in the environment of a test program that is to serve.
pub(crate) const SERVES: &str = "TREE_AGENT_TEST_SERVES";

/// The arguments of the test program that make it run [`serve`] only.
pub(crate) fn command() -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    vec![program, "--exact".into(), "server::serve".into(), "--nocapture".into()]
}

#[test]
fn serve() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let service = TestServer::default().serve(rmcp::transport::stdio()).await.unwrap();
        let _ = service.waiting().await;
    });
    std::process::exit(0);
}

#[derive(Clone, Default)]
pub(crate) struct TestServer {
    /// Calls under way at once, at the most so far.
    pub(crate) most: Arc<AtomicUsize>,
    now: Arc<AtomicUsize>,
}

fn object(value: serde_json::Value) -> JsonObject {
    value.as_object().cloned().unwrap()
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = || {
            object(
                json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}),
            )
        };
        let none = || object(json!({"type": "object", "additionalProperties": false}));
        let text = object(
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
        );
        let mut tools = vec![
            Tool::new("echo", "Says the text again.", text)
                .with_annotations(ToolAnnotations::default().read_only(true)),
            Tool::new("big", "Answers n bytes.", number()),
            Tool::new("slow", "Answers after n ms.", number()),
            Tool::new("dotted.name", "Has a name that providers do not take.", none()),
            Tool::new(
                "broken",
                "Has a schema that is none.",
                object(json!({"type": "object", "properties": 5})),
            ),
        ];
        for name in ["die", "garbage", "freeze", "fail", "refuse", "variables", "pid"] {
            tools.push(Tool::new(name, "What it is called.", none()));
        }
        Ok(ListToolsResult { tools, ..Default::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let answer = act(&request).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer.map(Into::into)
    }
}

async fn act(request: &CallToolRequestParams) -> Result<CallToolResult, ErrorData> {
    let args = request.arguments.clone().unwrap_or_default();
    let n = args.get("n").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let text = match &*request.name {
        "echo" => args["text"].as_str().unwrap().to_owned(),
        "big" => "0123456789".repeat(n as usize / 10),
        "slow" => {
            tokio::time::sleep(Duration::from_millis(n)).await;
            "late".to_owned()
        }
        "dotted.name" => "dotted".to_owned(),
        "pid" => std::process::id().to_string(),
        "variables" => {
            let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            names.sort();
            names.join(",")
        }
        "die" => std::process::exit(7),
        "freeze" => loop {
            // The only thread of the server stops.
            std::thread::park();
        },
        "garbage" => {
            let mut out = std::io::stdout().lock();
            for _ in 0..1_000 {
                out.write_all(b"{\"jsonrpc\": \"2.0\", cut\n\xff\xfe nonsense\n\n[]\n{}\n").unwrap();
            }
            out.flush().unwrap();
            "after the garbage".to_owned()
        }
        "fail" => return Ok(CallToolResult::error(vec![ContentBlock::text("no such thing")])),
        _ => return Err(ErrorData::invalid_params("refused", None)),
    };
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

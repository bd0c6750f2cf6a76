//! One server: starts it, keeps it running and calls its tools.
//!
//! A task supervises it: connect, list the tools, wait until the connection ends, restart with growing backoff. Calls
//! wait for a connection within their own time limit, so that a restart disturbs them as little as possible. A call
//! that was in flight when the server died fails, because nobody knows what it did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, PaginatedRequestParams, PingRequest, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tokio::process::Child;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tree_agent_runtime::retry::backoff;
use tree_agent_security::Roots;

use super::answer;
use super::config::ServerConfig;
use super::connect::{Connection, brief, connect};
use super::names;
use crate::error::ToolError;
use crate::registry::{ToolOutput, ToolSpec};
use crate::schema::Schema;
use crate::source::Caller;
use tree_agent_contract::text::prefix;

/// Maximum of tools of one server.
const TOOLS: usize = 128;
/// Pages of a list of tools that are read.
const PAGES: usize = 64;
/// Maximum of bytes of a tool's schema, which is part of every prompt.
const SCHEMA_BYTES: usize = 32 * 1024;
/// Maximum of bytes of a tool's description, for the same reason.
const DESCRIPTION_BYTES: usize = 2 * 1024;
/// Maximum of bytes of a tool's error message.
const FAILURE_BYTES: usize = 2 * 1024;
/// Time in which a server must answer a ping after a call to it ran out of time.
const PING: Duration = Duration::from_secs(5);
/// A server that ran at least this long is restarted without backoff.
const STEADY: Duration = Duration::from_secs(30);

/// A tool of a server.
#[derive(Debug)]
pub(crate) struct McpTool {
    pub(crate) spec: Arc<ToolSpec>,
    /// The server's own name for it.
    own_name: String,
    /// The server does not say that it only reads (`readOnlyHint`).
    pub(crate) writes: bool,
}

/// A supervised server.
pub(crate) struct Server {
    pub(super) config: ServerConfig,
    state: watch::Sender<State>,
    /// The tools that the server listed last. They are kept while it is down.
    tools: Mutex<Arc<[Arc<McpTool>]>>,
    calls: Semaphore,
    /// A call ran out of time or broke, so the server must be checked.
    suspect: Notify,
    roots: Roots,
}

#[derive(Clone)]
enum State {
    Starting,
    Up(Peer<RoleClient>),
    Down(String),
}

impl Server {
    /// Starts and supervises the server until `done`.
    pub(super) fn start(config: ServerConfig, roots: Roots, done: CancellationToken) -> Arc<Self> {
        let server = Arc::new(Self {
            state: watch::Sender::new(State::Starting),
            tools: Mutex::new(Arc::from([])),
            calls: Semaphore::new(config.max_calls),
            suspect: Notify::new(),
            config,
            roots,
        });
        let supervised = server.clone();
        tokio::spawn(async move { done.run_until_cancelled(supervised.supervise()).await });
        server
    }

    /// Waits until the first start has succeeded or failed.
    pub(super) async fn settled(&self) {
        // This cannot fail, because we hold the sender.
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// The tools that the server listed last.
    pub(super) fn tools(&self) -> Arc<[Arc<McpTool>]> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why there are no tools of the server; none if there are some.
    pub(super) fn toolless(&self) -> Option<String> {
        if !self.tools().is_empty() {
            return None;
        }
        Some(match &*self.state.borrow() {
            State::Starting => "it is starting".to_owned(),
            State::Up(_) => "it lists none".to_owned(),
            State::Down(why) => why.clone(),
        })
    }

    /// Names the time in which answers of the server are taken for the same: nobody tells whether what it looks at has
    /// changed. None if they are not used again.
    pub(crate) fn period(&self) -> Option<String> {
        let seconds = self.config.reuse.as_secs();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Some(format!("{} of {seconds} s", now.checked_div(seconds)?))
    }

    /// Calls `tool` with arguments that match its schema.
    pub(crate) async fn call(
        &self,
        caller: &Caller,
        tool: &McpTool,
        args: Map<String, Value>,
    ) -> Result<ToolOutput, ToolError> {
        let name = tool.spec.name();
        let params = CallToolRequestParams::new(tool.own_name.clone()).with_arguments(args);
        let answer = match timeout(self.config.timeout, self.ask(params)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.suspect.notify_one();
                let seconds = self.config.timeout.as_secs();
                return Err(ToolError::Timeout { tool: name.to_owned(), seconds });
            }
        };
        let failed = |message: String| {
            let message = prefix(&message, FAILURE_BYTES).to_owned();
            ToolError::Failed { tool: name.to_owned(), message }
        };
        let result = match answer.map_err(|error| self.broken(error, failed))? {
            CallToolResponse::Complete(result) => result,
            _ => {
                return Err(failed("it wants something that is not supported here (input or a task)".into()));
            }
        };
        let is_error = result.is_error == Some(true);
        let text = answer::text(result);
        if is_error {
            return Err(failed(text));
        }
        Ok(answer::bounded(caller.origin_run_id, name, text, self.config.output_bytes))
    }

    async fn ask(&self, params: CallToolRequestParams) -> Result<CallToolResponse, Broken> {
        let _turn = self.calls.acquire().await;
        let peer = self.connected().await?;
        // Dropping it tells the server that nobody waits for the answer any more.
        peer.call_tool_once(params).await.map_err(Broken::Service)
    }

    /// The connection, once there is one. Callers wait while the server restarts, but not for a server that has never
    /// answered.
    async fn connected(&self) -> Result<Peer<RoleClient>, Broken> {
        let mut state = self.state.subscribe();
        let known = !self.tools().is_empty();
        let settled = |state: &State| match state {
            State::Up(peer) => !peer.is_transport_closed(),
            State::Down(_) => !known,
            State::Starting => false,
        };
        match &*state.wait_for(settled).await.map_err(|_| Broken::Down("it was stopped".into()))? {
            State::Up(peer) => Ok(peer.clone()),
            State::Down(why) => Err(Broken::Down(why.clone())),
            State::Starting => Err(Broken::Down("it is starting".into())),
        }
    }

    fn broken(&self, error: Broken, failed: impl Fn(String) -> ToolError) -> ToolError {
        let message = match error {
            Broken::Service(ServiceError::McpError(error)) => {
                return failed(format!("{} (code {})", error.message, error.code.0));
            }
            Broken::Service(error) => {
                self.suspect.notify_one();
                format!("{}; it is being started again", brief(&error))
            }
            Broken::Down(why) => why,
        };
        ToolError::Server { server: self.config.name.clone(), message }
    }

    async fn supervise(&self) {
        let name = &self.config.name;
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let ended = match self.run().await {
                Ok(ended) => ended,
                Err(error) => error,
            };
            failures = if began.elapsed() >= STEADY { 1 } else { failures + 1 };
            let pause = backoff(failures);
            tracing::warn!(
                server = name,
                retry_in_ms = pause.as_millis() as u64,
                "MCP server is down: {ended}"
            );
            self.state.send_replace(State::Down(ended));
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs the server from its start to its end and returns why it ended. A process that does not exit by itself is
    /// killed when it is dropped.
    async fn run(&self) -> Result<String, String> {
        let changed = Arc::new(Notify::new());
        let start = async {
            let connection =
                connect(&self.config.name, &self.config.transport, &self.roots, changed.clone()).await?;
            let tools = self.list(connection.service.peer()).await?;
            Ok::<_, String>((connection, tools))
        };
        let seconds = self.config.start_timeout.as_secs();
        let (Connection { service, mut child }, tools) =
            timeout(self.config.start_timeout, start)
                .await
                .map_err(|_| format!("it did not start and list its tools within {seconds} s"))??;
        tracing::info!(server = self.config.name, tools = tools.len(), "MCP server is up");
        self.set_tools(tools);
        let peer = service.peer().clone();
        self.state.send_replace(State::Up(peer.clone()));
        let end = service.cancellation_token();
        let mut closed = std::pin::pin!(service.waiting());
        let why = loop {
            tokio::select! {
                _ = &mut closed => break disconnect_reason(child.as_mut()).await,
                () = exited(child.as_mut()) => break disconnect_reason(child.as_mut()).await,
                () = self.suspect.notified() => {
                    let ping = ClientRequest::PingRequest(PingRequest::default());
                    let options = PeerRequestOptions::with_timeout(PING);
                    let answer = async { peer.send_request_with_option(ping, options).await?.await_response().await };
                    // An error from the server also shows that it is alive.
                    if let Ok(Ok(_) | Err(ServiceError::McpError(_))) = timeout(PING, answer).await {
                        continue;
                    }
                    end.cancel();
                    return Ok("it does not answer".to_owned());
                }
                () = changed.notified() => match timeout(self.config.start_timeout, self.list(&peer)).await {
                    Ok(Ok(tools)) => self.set_tools(tools),
                    Ok(Err(error)) => tracing::warn!(server = self.config.name, "tools cannot be listed: {error}"),
                    Err(_) => tracing::warn!(server = self.config.name, "tools cannot be listed in time"),
                },
            }
        };
        end.cancel();
        Ok(why)
    }

    fn set_tools(&self, tools: Vec<Arc<McpTool>>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools.into();
    }

    /// The tools of the server that can be offered.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<Vec<Arc<McpTool>>, String> {
        let (mut tools, mut names, mut cursor) = (Vec::new(), BTreeSet::new(), None);
        // A server could list tools without end.
        for _ in 0..PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let page = peer.list_tools(Some(page)).await.map_err(|error| brief(&error))?;
            for tool in page.tools {
                let own_name = tool.name.to_string();
                if self.config.tools.as_ref().is_some_and(|wanted| !wanted.contains(&own_name)) {
                    continue;
                }
                match self.tool(tool) {
                    Ok(tool) if names.insert(tool.spec.name().to_owned()) => tools.push(Arc::new(tool)),
                    Ok(_) => tracing::warn!(server = self.config.name, "tool {own_name:?} is listed twice"),
                    Err(why) => {
                        tracing::warn!(server = self.config.name, "tool {own_name:?} is not offered: {why}");
                    }
                }
            }
            // A cursor that does not move ends the list.
            cursor = page.next_cursor.filter(|next| cursor.as_ref() != Some(next));
            if cursor.is_none() {
                break;
            }
            if tools.len() >= TOOLS {
                tracing::warn!(
                    server = self.config.name,
                    "lists more than {TOOLS} tools; the rest is left out"
                );
                break;
            }
        }
        tools.truncate(TOOLS);
        if let Some(wanted) = &self.config.tools {
            let listed: BTreeSet<&str> = tools.iter().map(|tool| tool.own_name.as_str()).collect();
            for missing in wanted.iter().filter(|name| !listed.contains(name.as_str())) {
                tracing::warn!(
                    server = self.config.name,
                    "has no tool {missing:?}, which its configuration names"
                );
            }
        }
        Ok(tools)
    }

    fn tool(&self, tool: Tool) -> Result<McpTool, String> {
        let schema = Value::Object((*tool.input_schema).clone());
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES {
            return Err(format!("its schema has {bytes} bytes; at most {SCHEMA_BYTES} are taken"));
        }
        let mut description = tool.description.unwrap_or_default().into_owned();
        description.truncate(prefix(&description, DESCRIPTION_BYTES).len());
        let name = names::qualified(&self.config.name, &tool.name);
        let schema = Schema::new(schema).map_err(|why| format!("its schema cannot be used: {why}"))?;
        let spec = Arc::new(ToolSpec::new(name, description, schema));
        let only_reads = tool.annotations.and_then(|annotations| annotations.read_only_hint);
        Ok(McpTool { spec, own_name: tool.name.into_owned(), writes: only_reads != Some(true) })
    }
}

/// Why a call got no result.
enum Broken {
    Service(ServiceError),
    Down(String),
}

/// Waits until the child process has exited; without one, for ever.
async fn exited(child: Option<&mut Child>) {
    match child {
        Some(child) => drop(child.wait().await),
        None => std::future::pending().await,
    }
}

/// Why a connection ended.
async fn disconnect_reason(child: Option<&mut Child>) -> String {
    let Some(child) = child else { return "the connection ended".to_owned() };
    match timeout(Duration::from_millis(500), child.wait()).await {
        Ok(Ok(status)) => format!("its process ended ({status})"),
        _ => "its process closed its output".to_owned(),
    }
}

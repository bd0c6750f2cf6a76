//! Assistants use tree-agent by eight tools of the [Model Context Protocol](https://modelcontextprotocol.io).
//!
//! A [`Server`] translates each call of a tool to calls of the public API, with the token of whoever calls, so rights
//! and limits are those of the API. It keeps nothing: a run is known by its id, whichever server is asked. No call
//! takes longer than [`LONGEST_WAIT`], because clients throw away what comes after a minute.
//!
//! `tools` says what there is, `calls` what each does, `said` what an assistant reads, and `review` how a person is
//! asked where the client can do that.

mod calls;
mod review;
mod said;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::StdError;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

/// The longest that a tool takes.
pub const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// The largest request, in bytes.
const REQUEST_BYTES: usize = 1 << 20;

/// Where calls of the API go.
pub type Api = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// The tools, over an API.
#[derive(Clone)]
pub struct Server {
    api: Api,
}

impl Server {
    /// Tools that call `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// Serves an assistant that has started this process, on standard input and output, until it closes them.
    ///
    /// # Errors
    /// If the assistant does not speak the protocol.
    pub async fn serve_stdio(self) -> Result<(), StdError> {
        let service = self.serve(rmcp::transport::stdio()).await?;
        service.waiting().await?;
        Ok(())
    }

    /// The tools as an HTTP service (Streamable HTTP), without sessions. Whoever serves it checks hosts and origins.
    pub fn http(self) -> StreamableHttpService<Self, NeverSessionManager> {
        let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
        config.legacy_session_mode = false;
        config.json_response = true;
        config.max_request_body_bytes = REQUEST_BYTES;
        StreamableHttpService::new(move || Ok(self.clone()), Arc::default(), config)
    }

    /// The API with the token of whoever calls.
    fn api(&self, context: &RequestContext<RoleServer>) -> Api {
        let token =
            context.extensions.get::<Parts>().and_then(|parts| parts.headers.get(AUTHORIZATION)).cloned();
        let Some(token) = token else { return self.api.clone() };
        let api = self.api.clone().map_request(move |mut request: http::Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
            request
        });
        Api::new(api)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("tree-agent", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(tools::INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let cancelled = context.ct.clone();
        let call = calls::call(self.api(&context), request, &context);
        cancelled.run_until_cancelled(call).await.unwrap_or_else(|| {
            Err(ErrorData::internal_error("the call was cancelled; what it has started goes on", None))
        })
    }
}

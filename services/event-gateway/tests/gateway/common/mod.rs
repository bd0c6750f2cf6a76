//! A gateway over loopback on a real store, with a fan-out that can be made to misbehave.

pub mod driver;
mod fanout;
mod log;
pub mod plain;
mod store;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_types::StatusExt;
use tree_agent_event_gateway::{Config, serve};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_runtime::channel::{self, Peers};
use tree_agent_runtime::listen;
use tree_agent_runtime::server::ServeError;
use tree_agent_store::Store;

pub use fanout::{Mode, TestFanout};
pub use log::Log;
pub use store::store;

/// Generous: for conditions that become true at once when nothing is broken.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Gateway {
    pub store: Arc<dyn Store>,
    pub fanout: Arc<TestFanout>,
    pub address: std::net::SocketAddr,
    pub shutdown: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Gateway {
    pub async fn start(config: Config) -> Self {
        Self::with(Mode::Faithful, config).await
    }

    pub async fn with(mode: Mode, config: Config) -> Self {
        Self::over(store().await, TestFanout::new(mode), config).await
    }

    pub async fn over(store: Arc<dyn Store>, fanout: Arc<TestFanout>, config: Config) -> Self {
        let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving = serve(config, store.clone(), fanout.clone(), listener, shutdown.clone());
        Self { store, fanout, address, shutdown, task: tokio::spawn(serving) }
    }

    /// A connection of its own.
    pub fn connect(&self) -> Peers {
        channel::single(format!("http://{}", self.address).parse().unwrap())
    }

    pub fn runs(&self) -> RunServiceClient<Peers> {
        RunServiceClient::new(self.connect()).max_encoding_message_size(usize::MAX)
    }

    pub fn documents(&self) -> DocumentServiceClient<Peers> {
        DocumentServiceClient::new(self.connect()).max_encoding_message_size(usize::MAX)
    }

    pub fn projects(&self) -> ProjectServiceClient<Peers> {
        ProjectServiceClient::new(self.connect())
    }

    /// A request over HTTP/1.1, on a connection of its own.
    pub async fn send(
        &self,
        request: http::request::Builder,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Response<Bytes> {
        let request = request.uri(format!("http://{}{path}", self.address));
        let request = request.body(Full::new(body.into())).unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = tokio::time::timeout(SOON, client.request(request)).await.unwrap().unwrap();
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
    }

    pub async fn create_run(&self, objective: &str) -> pb::Run {
        let request = pb::CreateRunRequest { objective: objective.into(), ..Default::default() };
        self.runs().create_run(request).await.unwrap().into_inner().run.unwrap()
    }

    pub async fn create_project(&self, name: &str) -> pb::Project {
        let request = pb::CreateProjectRequest { name: name.into(), ..Default::default() };
        self.projects().create_project(request).await.unwrap().into_inner().project.unwrap()
    }

    /// Takes the run as its driver would.
    pub async fn drive(&self, run: &pb::Run) -> Log {
        Log::claim(self.store.clone(), self.fanout.clone(), run.run_id.parse().unwrap()).await
    }

    /// Ends the gateway and waits until it has drained.
    pub async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(SOON, self.task).await.expect("drains").unwrap().unwrap();
    }
}

/// The first field that an error names.
pub fn field(status: &Status) -> String {
    let details = status.get_error_details();
    assert!(
        details.error_info().is_some_and(|info| info.domain == "treeagent.v1"),
        "no ErrorInfo: {status:?}"
    );
    let violation = details.bad_request().and_then(|b| b.field_violations.first().map(|v| v.field.clone()));
    violation.unwrap_or_default()
}

//! The executor role: leaf work with tools.
//!
//! The service is stateless and knows nothing of the database: a call streams updates and ends with one output or a
//! typed error, and dropping the stream cancels the work.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tree_agent_contract::role::{ExecuteInput, RoleError};
use tree_agent_model::{CallStream, RoleConfig, RoleServer};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::executor_service_server::{ExecutorService, ExecutorServiceServer};
use tree_agent_runtime::server::ServeError;
use tree_agent_runtime::{Readiness, Server, limited};

/// The port when none is configured.
pub const DEFAULT_PORT: u16 = 7402;

/// What the service needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its model and where its tools find documents.
    pub role: RoleConfig,
    /// How long calls in flight get to end after shutdown.
    pub drain: Duration,
}

/// Why the service could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured model does not exist.
    #[error("the default model cannot be used")]
    Model(#[from] RoleError),
    /// The server failed.
    #[error("the executor cannot serve")]
    Serve(#[from] ServeError),
}

/// Serves on `listener` until `shutdown` is cancelled and calls in flight have ended or the drain time is over.
pub async fn serve(config: Config, listener: TcpListener, shutdown: CancellationToken) -> Result<(), Error> {
    serve_role(config.role.server()?, config.drain, listener, shutdown).await
}

/// Like [`serve`], with models and tools of the caller's choice.
pub async fn serve_role(
    role: RoleServer,
    drain: Duration,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let models = role.model_service();
    let executor = limited!(ExecutorServiceServer::new(Executor { role }));
    Ok(Server::new(Readiness::new())
        .service(executor)
        .service(models)
        .drain(drain)
        .serve(listener, shutdown)
        .await?)
}

struct Executor {
    role: RoleServer,
}

#[tonic::async_trait]
impl ExecutorService for Executor {
    type ExecuteStream = CallStream<ExecuteInput>;

    async fn execute(
        &self,
        request: Request<pb::ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        self.role.call(request)
    }
}

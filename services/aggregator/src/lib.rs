//! The aggregator role: makes one result of what the children of a node returned.
//!
//! The service is stateless and knows nothing of the database: a call streams updates and ends with one output or a
//! typed error, and dropping the stream cancels the work.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tree_agent_contract::role::{AggregateInput, RoleError};
use tree_agent_model::{CallStream, RoleConfig, RoleServer};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::aggregator_service_server::{AggregatorService, AggregatorServiceServer};
use tree_agent_runtime::server::ServeError;
use tree_agent_runtime::{Readiness, Server, limited};

/// The port when none is configured.
pub const DEFAULT_PORT: u16 = 7403;

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
    #[error("the aggregator cannot serve")]
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
    let aggregator = limited!(AggregatorServiceServer::new(Aggregator { role }));
    Ok(Server::new(Readiness::new())
        .service(aggregator)
        .service(models)
        .drain(drain)
        .serve(listener, shutdown)
        .await?)
}

struct Aggregator {
    role: RoleServer,
}

#[tonic::async_trait]
impl AggregatorService for Aggregator {
    type AggregateStream = CallStream<AggregateInput>;

    async fn aggregate(
        &self,
        request: Request<pb::AggregateRequest>,
    ) -> Result<Response<Self::AggregateStream>, Status> {
        self.role.call(request)
    }
}

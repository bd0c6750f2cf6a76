//! The aggregator role: makes one result of what the children of a node returned.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tree_agent_model::RoleServer;
use tree_agent_proto::internal::v1::aggregator_service_server::AggregatorServiceServer;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_runtime::{Readiness, Server, limited};

pub use tree_agent_model::{ServiceConfig as Config, ServiceError as Error};

/// The port when none is configured.
pub const DEFAULT_PORT: u16 = 7403;

/// Serves on `listener` until `shutdown` is cancelled and calls in flight have ended or the drain time is over.
pub async fn serve(config: Config, listener: TcpListener, shutdown: CancellationToken) -> Result<(), Error> {
    config.serve(server, listener, shutdown).await
}

/// Like [`serve`], with models and tools of the caller's choice; whoever calls must show `token`.
pub async fn serve_role(
    role: RoleServer,
    token: RoleToken,
    drain: Duration,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    Ok(role.serve(server(role.clone()), token, drain, listener, shutdown).await?)
}

fn server(role: RoleServer) -> Server {
    Server::new(Readiness::new()).service(limited!(AggregatorServiceServer::new(role)))
}

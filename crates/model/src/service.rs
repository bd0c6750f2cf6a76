//! The role services: a role over gRPC and nothing else.
//!
//! They are stateless and know nothing of the database. A call streams updates and ends with one output or a typed
//! error, and dropping the stream cancels the work.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tree_agent_contract::role::{
    AggregateInput, ExecuteInput, PickInput, PlanInput, ResearchInput, RoleError, VerifyInput,
};
use tree_agent_proto::internal::v1 as pb;
use tree_agent_proto::internal::v1::aggregator_service_server::AggregatorService;
use tree_agent_proto::internal::v1::executor_service_server::ExecutorService;
use tree_agent_proto::internal::v1::planner_service_server::PlannerService;
use tree_agent_runtime::Server;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_runtime::server::{ServeError, ServerConfig};

use crate::config::RoleConfig;
use crate::serve::{CallStream, RoleServer};

macro_rules! role_service {
    ($service:ident { $($method:ident, $stream:ident, $input:ident, $request:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for RoleServer {$(
            type $stream = CallStream<$input>;

            async fn $method(
                &self,
                request: Request<pb::$request>,
            ) -> Result<Response<Self::$stream>, Status> {
                self.call(request)
            }
        )*}
    };
}
role_service!(PlannerService {
    plan, PlanStream, PlanInput, PlanRequest;
    pick, PickStream, PickInput, PickRequest;
});
role_service!(ExecutorService {
    execute, ExecuteStream, ExecuteInput, ExecuteRequest;
    research, ResearchStream, ResearchInput, ResearchRequest;
});
role_service!(AggregatorService {
    aggregate, AggregateStream, AggregateInput, AggregateRequest;
    verify, VerifyStream, VerifyInput, VerifyRequest;
});

/// What a role service needs to know.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// Its model and where its tools find documents.
    pub role: RoleConfig,
    /// What callers must show.
    pub role_token: RoleToken,
    /// Its port.
    pub server: ServerConfig,
}

/// Why a role service could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The configured model does not exist.
    #[error("the default model cannot be used")]
    Model(#[from] RoleError),
    /// The server failed.
    #[error("the role cannot be served")]
    Serve(#[from] ServeError),
}

impl ServiceConfig {
    /// Serves the role on `listener` until `shutdown` is cancelled and calls in flight have ended or the drain time is
    /// over. `role` puts it on a server: `|role| server.service(limited!(ExecutorServiceServer::new(role)))`.
    pub async fn serve(
        self,
        role: impl FnOnce(RoleServer) -> Server,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), ServiceError> {
        let (server, drain) = (self.role.server()?, self.server.drain);
        let routes = role(server.clone()).config(self.server);
        Ok(server.serve(routes, self.role_token, drain, listener, shutdown).await?)
    }
}

impl RoleServer {
    /// Serves `server`, which holds the role, with the check of models and the metrics of calls beside it. Callers
    /// must show `token`, except to health.
    pub async fn serve(
        &self,
        server: Server,
        token: RoleToken,
        drain: Duration,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), ServeError> {
        let server = server.service(self.model_service()).measure(|metrics| self.measure(metrics));
        server.drain(drain).serve_wrapped(listener, shutdown, |routes| token.guard(routes)).await
    }
}

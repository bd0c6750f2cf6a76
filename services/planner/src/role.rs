//! The planner role: execute or decompose.

use tonic::{Request, Response, Status};
use tree_agent_contract::role::PlanInput;
use tree_agent_model::{CallStream, RoleServer};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::planner_service_server::{PlannerService, PlannerServiceServer};
use tree_agent_runtime::limited;

/// The planner role as a gRPC service, ready to be added to a server.
pub fn service(role: RoleServer) -> PlannerServiceServer<Planner> {
    limited!(PlannerServiceServer::new(Planner { role }))
}

/// The planner role: stateless, and ignorant of the driver that runs beside it.
pub struct Planner {
    role: RoleServer,
}

#[tonic::async_trait]
impl PlannerService for Planner {
    type PlanStream = CallStream<PlanInput>;

    async fn plan(&self, request: Request<pb::PlanRequest>) -> Result<Response<Self::PlanStream>, Status> {
        self.role.call(request)
    }
}

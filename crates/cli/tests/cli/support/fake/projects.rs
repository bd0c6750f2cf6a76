//! The projects of the fake server.

use tonic::{Request, Response, Status};
use tree_agent_contract::Timestamp;
use tree_agent_proto::v1::project_service_server::ProjectService;
use tree_agent_proto::{Wire, v1 as pb};

use super::{Fake, project_id};

/// The name of a project that a shell would run, where it is not quoted.
pub(crate) const HOSTILE_NAME: &str = "it's $(touch run)";

fn project() -> pb::Project {
    pb::Project {
        project_id: project_id().to_string(),
        name: "handbook-of-leases".into(),
        document_count: 3,
        created_at: Some(Timestamp::from_millis(0).to_wire()),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl ProjectService for Fake {
    async fn list_projects(
        &self,
        request: Request<pb::ListProjectsRequest>,
    ) -> Result<Response<pb::ListProjectsResponse>, Status> {
        let name = request.into_inner().name_contains;
        let hostile = pb::Project { name: HOSTILE_NAME.into(), ..project() };
        let projects =
            [project(), hostile].into_iter().filter(|project| project.name.contains(&name)).collect();
        Ok(Response::new(pb::ListProjectsResponse { projects, next_page_token: String::new() }))
    }

    async fn get_project(
        &self,
        _: Request<pb::GetProjectRequest>,
    ) -> Result<Response<pb::GetProjectResponse>, Status> {
        let stuck = self.0.lock().unwrap().stuck_project.clone();
        if let Some(called) = stuck {
            let _ = called.send(());
            std::future::pending::<()>().await;
        }
        Ok(Response::new(pb::GetProjectResponse { project: Some(project()) }))
    }

    async fn list_members(
        &self,
        _: Request<pb::ListMembersRequest>,
    ) -> Result<Response<pb::ListMembersResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn set_member(
        &self,
        _: Request<pb::SetMemberRequest>,
    ) -> Result<Response<pb::SetMemberResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn remove_member(
        &self,
        _: Request<pb::RemoveMemberRequest>,
    ) -> Result<Response<pb::RemoveMemberResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn create_project(
        &self,
        _: Request<pb::CreateProjectRequest>,
    ) -> Result<Response<pb::CreateProjectResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn update_project(
        &self,
        _: Request<pb::UpdateProjectRequest>,
    ) -> Result<Response<pb::UpdateProjectResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn delete_project(
        &self,
        _: Request<pb::DeleteProjectRequest>,
    ) -> Result<Response<pb::DeleteProjectResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}

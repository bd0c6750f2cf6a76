//! `ProjectService`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::{ProjectId, limits};
use tree_agent_proto::v1::get_project_request::Key;
use tree_agent_proto::v1::project_service_server::ProjectService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{NewProject, Project, StoreError, storable};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors;
use crate::gateway::{Gateway, id, now};
use crate::pages::{self, Pages};

/// The service.
pub(crate) struct Projects(pub(crate) Arc<Gateway>);

impl Projects {
    async fn project(&self, id: ProjectId) -> Result<Project, Status> {
        self.0.store.project(id).await.map_err(|e| errors::store(&e))
    }

    /// The project with exactly this name, letter case aside.
    async fn named(&self, name: &str) -> Result<Project, Status> {
        let wanted = name.trim().to_lowercase();
        let mut after = String::new();
        loop {
            let page = self.0.store.list_projects(name.trim(), &after, limits::PAGE_MAX).await;
            let page = page.map_err(|e| errors::store(&e))?;
            if let Some(found) = page.items.iter().find(|p| p.name.to_lowercase() == wanted) {
                return Ok(found.clone());
            }
            match page.items.last() {
                Some(last) if page.more => after.clone_from(&last.name),
                _ => return Err(errors::not_found("name", format!("no project is named {name:?}"))),
            }
        }
    }
}

#[tonic::async_trait]
impl ProjectService for Projects {
    async fn create_project(
        &self,
        request: Request<pb::CreateProjectRequest>,
    ) -> Result<Response<pb::CreateProjectResponse>, Status> {
        let user_id = Caller::of(request.extensions()).user_id;
        let request = request.into_inner();
        let name = request.name.trim();
        let mut checks = Checks::default();
        checks.name("name", name, limits::TITLE_BYTES);
        checks.at_most("description", &request.description, limits::TEXT_BYTES);
        checks.at_most("request_id", &request.request_id, limits::REQUEST_ID_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        let project = Project {
            id: ProjectId::from(Uuid::now_v7()),
            name: name.to_owned(),
            // A repeated request is compared with what was stored.
            description: storable(&request.description).into_owned(),
            document_count: 0,
            created_at: now(),
        };
        let wanted = NewProject { project: project.clone(), user_id, request_id: request.request_id };
        let written = self.0.store.create_project(wanted).await.map_err(|error| match error {
            StoreError::Conflict(message) => errors::already_exists("name", message),
            other => errors::store(&other),
        })?;
        if (&written.name, &written.description) != (&project.name, &project.description) {
            let text = format!("was used before, for the project {:?}", written.name);
            return Err(errors::already_exists("request_id", text));
        }
        Ok(Response::new(pb::CreateProjectResponse { project: Some(to_wire(&written)) }))
    }

    async fn get_project(
        &self,
        request: Request<pb::GetProjectRequest>,
    ) -> Result<Response<pb::GetProjectResponse>, Status> {
        let project = match request.into_inner().key {
            Some(Key::ProjectId(text)) => {
                self.project(id(ProjectId::parse_field("project_id", &text))?).await?
            }
            Some(Key::Name(name)) => self.named(&name).await?,
            None => return Err(invalid_field("key", "is required; give project_id or name")),
        };
        Ok(Response::new(pb::GetProjectResponse { project: Some(to_wire(&project)) }))
    }

    async fn list_projects(
        &self,
        request: Request<pb::ListProjectsRequest>,
    ) -> Result<Response<pb::ListProjectsResponse>, Status> {
        let request = request.into_inner();
        let pages = Pages::of("projects", &[&request.name_contains]);
        let limit = pages::size(request.page_size);
        let after = pages.cursor(&request.page_token, |cursor| Some(cursor.to_owned()))?.unwrap_or_default();
        let page = self.0.store.list_projects(&request.name_contains, &after, limit).await;
        let page = page.map_err(|e| errors::store(&e))?;
        let next_page_token = match page.items.last() {
            Some(last) if page.more => pages.token(&last.name),
            _ => String::new(),
        };
        Ok(Response::new(pb::ListProjectsResponse {
            projects: page.items.iter().map(to_wire).collect(),
            next_page_token,
        }))
    }
}

fn to_wire(project: &Project) -> pb::Project {
    pb::Project {
        project_id: project.id.to_wire(),
        name: project.name.clone(),
        description: project.description.clone(),
        document_count: project.document_count,
        created_at: Some(project.created_at.to_wire()),
    }
}

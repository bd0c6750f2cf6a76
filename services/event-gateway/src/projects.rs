//! `ProjectService`.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::{ProjectId, Scope, limits};
use tree_agent_proto::v1::get_project_request::Key;
use tree_agent_proto::v1::project_service_server::ProjectService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{NewProject, Page, Project, StoreError, storable};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors;
use crate::gateway::{Gateway, id, now};
use crate::pages::{self, Pages};
use crate::view::View;

/// The service.
pub(crate) struct Projects(pub(crate) Arc<Gateway>);

impl Projects {
    /// A page of the projects `ids`, of which there are few.
    async fn among(
        &self,
        ids: &[ProjectId],
        name_contains: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page<Project>, Status> {
        let (wanted, after) = (name_contains.to_lowercase(), after.to_lowercase());
        let mut found = Vec::new();
        for id in ids {
            match self.0.store.project(*id).await {
                Ok(project) => found.push((project.name.to_lowercase(), project)),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(errors::store(&error)),
            }
        }
        found.retain(|(name, _)| name.contains(&wanted) && *name > after);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let more = found.len() > limit;
        Ok(Page { items: found.into_iter().take(limit).map(|(_, project)| project).collect(), more })
    }

    /// The project with exactly this name, letter case aside, if `view` shows it.
    async fn named(&self, view: &View, name: &str) -> Result<Project, Status> {
        let wanted = name.trim().to_lowercase();
        let mut after = String::new();
        loop {
            let page = self.0.store.list_projects(name.trim(), &after, limits::PAGE_MAX).await;
            let page = page.map_err(|e| errors::store(&e))?;
            let mut visible = page.items.iter().filter(|p| view.check_project(p.id).is_ok());
            if let Some(found) = visible.find(|p| p.name.to_lowercase() == wanted) {
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
        let view = self.0.view(request.extensions()).await?;
        let project = match request.into_inner().key {
            Some(Key::ProjectId(text)) => {
                let id = id(ProjectId::parse_field("project_id", &text))?;
                view.project(&*self.0.store, id).await.map_err(|e| errors::store(&e))?
            }
            Some(Key::Name(name)) => self.named(&view, &name).await?,
            None => return Err(invalid_field("key", "is required; give project_id or name")),
        };
        Ok(Response::new(pb::GetProjectResponse { project: Some(to_wire(&project)) }))
    }

    async fn list_projects(
        &self,
        request: Request<pb::ListProjectsRequest>,
    ) -> Result<Response<pb::ListProjectsResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let request = request.into_inner();
        let pages = Pages::of("projects", &[&request.name_contains]);
        let limit = pages::size(request.page_size);
        let after = pages.cursor(&request.page_token, |cursor| Some(cursor.to_owned()))?.unwrap_or_default();
        let page = match view.context().filter(|context| context.scope != Scope::Global) {
            Some(context) => self.among(&context.project_ids, &request.name_contains, &after, limit).await?,
            None => {
                let page = self.0.store.list_projects(&request.name_contains, &after, limit).await;
                page.map_err(|e| errors::store(&e))?
            }
        };
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

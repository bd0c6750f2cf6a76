//! `ProjectService`.

use std::sync::Arc;

use tonic::{Code, Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::text::{nfc, nfd};
use tree_agent_contract::{ProjectId, ProjectStatus, Scope, limits};
use tree_agent_proto::v1::get_project_request::Key;
use tree_agent_proto::v1::project_service_server::ProjectService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{invalid, invalid_field};
use tree_agent_store::{NewProject, Page, Project, ProjectDeletion, ProjectQuery, StoreError, storable};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors;
use crate::fields::{distinct, id, now};
use crate::gateway::Gateway;
use crate::pages::{self, Pages};
use crate::project_changes;
use crate::view::View;

/// The service.
pub(crate) struct Projects(pub(crate) Arc<Gateway>);

impl Projects {
    /// A page of the projects `ids`, of which there are few.
    async fn among(&self, ids: &[ProjectId], query: &ProjectQuery) -> Result<Page<Project>, Status> {
        let (wanted, after) = (query.name_contains.to_lowercase(), query.after_name.to_lowercase());
        let mut found = Vec::new();
        for id in ids {
            match self.0.store.project(*id).await {
                Ok(project) => found.push((project.name.to_lowercase(), project)),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(errors::store(error)),
            }
        }
        found.retain(|(name, project)| {
            let has_status = query.statuses.is_empty() || query.statuses.contains(&project.status);
            name.contains(&wanted) && *name > after && has_status
        });
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let more = found.len() > query.limit;
        Ok(Page { items: found.into_iter().take(query.limit).map(|(_, project)| project).collect(), more })
    }

    /// The project with exactly this name, letter case aside, if `view` shows it.
    async fn named(&self, view: &View, name: &str) -> Result<Project, Status> {
        match self.exactly_named(view, &nfc(name.trim())).await {
            // Projects of before 0.3 may have a name in the other form.
            Err(status) if status.code() == Code::NotFound => {
                self.exactly_named(view, &nfd(name.trim())).await
            }
            found => found,
        }
    }

    async fn exactly_named(&self, view: &View, name: &str) -> Result<Project, Status> {
        let wanted = name.to_lowercase();
        let mut query = ProjectQuery {
            name_contains: name.to_owned(),
            limit: limits::PAGE_MAX,
            ..ProjectQuery::default()
        };
        loop {
            let page = self.0.store.list_projects(query.clone()).await.map_err(errors::store)?;
            let mut visible = page.items.iter().filter(|p| view.check_project(p.id).is_ok());
            if let Some(found) = visible.find(|p| p.name.to_lowercase() == wanted) {
                return Ok(found.clone());
            }
            match page.items.last() {
                Some(last) if page.more => query.after_name.clone_from(&last.name),
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
        let name = nfc(request.name.trim());
        let mut checks = Checks::default();
        checks.name("name", &name, limits::TITLE_BYTES);
        checks.at_most("description", &request.description, limits::TEXT_BYTES);
        checks.at_most("request_id", &request.request_id, limits::REQUEST_ID_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        let project = Project {
            // A repeated request is compared with what was stored.
            description: storable(&request.description).into_owned(),
            ..Project::new(ProjectId::from(Uuid::now_v7()), &name, now())
        };
        let wanted = NewProject { project: project.clone(), user_id, request_id: request.request_id };
        let written = self.0.store.create_project(wanted).await.map_err(errors::conflict("name"))?;
        // What a project was created with is not known any more once it has changed.
        let unchanged = written.updated_at == written.created_at;
        if unchanged && (&written.name, &written.description) != (&project.name, &project.description) {
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
                view.project(&*self.0.store, id).await.map_err(errors::store)?
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
        let of_list = pb::ListProjectsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let pages = Pages::of_request("projects", &of_list);
        let mut checks = Checks::default();
        let statuses = distinct::<ProjectStatus>(&mut checks, "statuses", request.statuses);
        checks.finish().map_err(|e| invalid(&e))?;
        let after = pages.cursor(&request.page_token, |cursor| Some(cursor.to_owned()))?;
        let query = ProjectQuery {
            name_contains: nfc(&request.name_contains),
            statuses,
            after_name: after.unwrap_or_default(),
            limit: pages::size(request.page_size),
        };
        let page = match view.context().filter(|context| context.scope != Scope::Global) {
            Some(context) => self.among(&context.project_ids, &query).await?,
            None => self.0.store.list_projects(query).await.map_err(errors::store)?,
        };
        let (projects, next_page_token) = pages.answer(&page, to_wire, |project| project.name.clone());
        Ok(Response::new(pb::ListProjectsResponse { projects, next_page_token }))
    }

    async fn update_project(
        &self,
        request: Request<pb::UpdateProjectRequest>,
    ) -> Result<Response<pb::UpdateProjectResponse>, Status> {
        let pb::UpdateProjectRequest { project, update_mask } = request.into_inner();
        let project = project.ok_or_else(|| invalid_field("project", "is required"))?;
        let id = id(ProjectId::parse_field("project.project_id", &project.project_id))?;
        let change = project_changes::change(project, update_mask, now()).map_err(|e| invalid(&e))?;
        let changed =
            self.0.store.update_project(id, change).await.map_err(errors::conflict("project.name"))?;
        Ok(Response::new(pb::UpdateProjectResponse { project: Some(to_wire(&changed)) }))
    }

    async fn delete_project(
        &self,
        request: Request<pb::DeleteProjectRequest>,
    ) -> Result<Response<pb::DeleteProjectResponse>, Status> {
        let request = request.into_inner();
        let id = id(ProjectId::parse_field("project_id", &request.project_id))?;
        let deleted = self.0.store.delete_project(id, request.force).await;
        match deleted.map_err(errors::store)? {
            ProjectDeletion::Deleted => Ok(Response::new(pb::DeleteProjectResponse {})),
            ProjectDeletion::InUse(runs) => Err(errors::in_use(id, &runs)),
        }
    }
}

fn to_wire(project: &Project) -> pb::Project {
    pb::Project {
        project_id: project.id.to_wire(),
        name: project.name.clone(),
        description: project.description.clone(),
        document_count: project.document_count,
        created_at: Some(project.created_at.to_wire()),
        status: project.status.to_wire(),
        tools: Some(project.tools.to_wire()),
        updated_at: Some(project.updated_at.to_wire()),
        revision: project.revision,
    }
}

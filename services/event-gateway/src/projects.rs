//! `ProjectService`.

use std::sync::Arc;

use tonic::{Code, Request, Response, Status};
use tree_agent_contract::error::Checks;
use tree_agent_contract::text::nfc;
use tree_agent_contract::{FieldError, MemberRole, ProjectId, ProjectStatus, limits};
use tree_agent_proto::v1::get_project_request::Key;
use tree_agent_proto::v1::project_service_server::ProjectService;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{field, invalid, invalid_field};
use tree_agent_store::{Member, MemberChange, NewProject, Project, ProjectDeletion, ProjectQuery, storable};
use uuid::Uuid;

use crate::errors;
use crate::fields::{distinct, from_wire, id, now, taken};
use crate::gateway::Gateway;
use crate::names::named;
use crate::pages::{self, Pages};
use crate::project_changes;
use crate::view::View;

/// The service.
pub(crate) struct Projects(pub(crate) Arc<Gateway>);

#[tonic::async_trait]
impl ProjectService for Projects {
    async fn create_project(
        &self,
        request: Request<pb::CreateProjectRequest>,
    ) -> Result<Response<pb::CreateProjectResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
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
        let user_id = view.user().to_owned();
        let wanted = NewProject { project: project.clone(), user_id, request_id: request.request_id };
        let written = self.0.store.create_project(wanted).await.map_err(errors::conflict("name"))?;
        let is_new = written.id == project.id;
        if !is_new && view.role_in(written.id).is_none() {
            let text = "was used before, for a project that you are no member of any more";
            return Err(errors::already_exists("request_id", text));
        }
        // What a project was created with is not known any more once it has changed.
        let unchanged = written.updated_at == written.created_at;
        if unchanged && (&written.name, &written.description) != (&project.name, &project.description) {
            let text = format!("was used before, for the project {:?}", written.name);
            return Err(errors::already_exists("request_id", text));
        }
        let role = view.role_in(written.id).filter(|_| !is_new).unwrap_or(MemberRole::Owner);
        let project = pb::Project { caller_role: role.to_wire(), ..to_wire(&view, &written) };
        Ok(Response::new(pb::CreateProjectResponse { project: Some(project) }))
    }

    async fn get_project(
        &self,
        request: Request<pb::GetProjectRequest>,
    ) -> Result<Response<pb::GetProjectResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let project = match request.into_inner().key {
            Some(Key::ProjectId(mut text)) => {
                self.0.by_name(&view, "project_id", &mut text).await?;
                let id = id(ProjectId::parse_field("project_id", &text))?;
                view.project(&*self.0.store, "project_id", id).await?
            }
            Some(Key::Name(name)) => named(&*self.0.store, &view, "name", &name).await?,
            None => return Err(invalid_field("key", "is required; give project_id or name")),
        };
        Ok(Response::new(pb::GetProjectResponse { project: Some(to_wire(&view, &project)) }))
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
            among: view.projects_seen(),
            after_name: after.unwrap_or_default(),
            limit: pages::size(request.page_size),
        };
        let page = self.0.store.list_projects(query).await.map_err(errors::store)?;
        let (projects, next_page_token) =
            pages.answer(&page, |project| to_wire(&view, project), |project| project.name.clone());
        Ok(Response::new(pb::ListProjectsResponse { projects, next_page_token }))
    }

    async fn update_project(
        &self,
        request: Request<pb::UpdateProjectRequest>,
    ) -> Result<Response<pb::UpdateProjectResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let pb::UpdateProjectRequest { project, update_mask } = request.into_inner();
        let mut project = project.ok_or_else(|| invalid_field("project", "is required"))?;
        self.0.by_name(&view, "project.project_id", &mut project.project_id).await?;
        let id = id(ProjectId::parse_field("project.project_id", &project.project_id))?;
        view.check_project("project.project_id", id)?;
        let change = project_changes::change(project, update_mask, now()).map_err(|e| invalid(&e))?;
        let changed =
            self.0.store.update_project(id, change).await.map_err(errors::conflict("project.name"))?;
        Ok(Response::new(pb::UpdateProjectResponse { project: Some(to_wire(&view, &changed)) }))
    }

    async fn delete_project(
        &self,
        request: Request<pb::DeleteProjectRequest>,
    ) -> Result<Response<pb::DeleteProjectResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let id = id(ProjectId::parse_field("project_id", &request.project_id))?;
        view.check_project("project_id", id)?;
        let deleted = self.0.store.delete_project(id, request.force).await;
        match deleted.map_err(errors::store)? {
            ProjectDeletion::Deleted => Ok(Response::new(pb::DeleteProjectResponse {})),
            ProjectDeletion::InUse(runs) => {
                let listed = self.0.store.listed_runs(&runs).await.map_err(errors::store)?;
                let seen = listed.iter().map(|run| &run.summary).filter(|run| view.may_read(run));
                Err(errors::in_use(id, &seen.map(|run| run.run_id).collect::<Vec<_>>()))
            }
        }
    }

    async fn list_members(
        &self,
        request: Request<pb::ListMembersRequest>,
    ) -> Result<Response<pb::ListMembersResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let id = id(ProjectId::parse_field("project_id", &request.project_id))?;
        let pages = Pages::of("members", &[&request.project_id]);
        let after = pages.cursor(&request.page_token, |cursor| Some(cursor.to_owned()))?.unwrap_or_default();
        view.uncounted(&*self.0.store, "project_id", id).await?;
        let page = self.0.store.members(id, &after, pages::size(request.page_size)).await;
        let page = page.map_err(errors::store)?;
        let (members, next_page_token) = pages.answer(&page, member_to_wire, |member| member.user_id.clone());
        Ok(Response::new(pb::ListMembersResponse { members, next_page_token }))
    }

    async fn set_member(
        &self,
        request: Request<pb::SetMemberRequest>,
    ) -> Result<Response<pb::SetMemberResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let id = id(ProjectId::parse_field("project_id", &request.project_id))?;
        let mut checks = Checks::default();
        let user_id = nfc(&request.user_id);
        checks.name("user_id", &user_id, limits::LABEL_BYTES);
        let role = taken(&mut checks, from_wire::<MemberRole>("role", request.role));
        checks.finish().map_err(|e| invalid(&e))?;
        view.check_project("project_id", id)?;
        let member = Member { user_id, role: role.unwrap_or(MemberRole::Reader), created_at: now() };
        let set = self.0.store.set_member(id, member.clone(), !view.is_administrator()).await;
        changed(set.map_err(errors::store)?)?;
        // Whoever was one already is one since then.
        let member = pb::Member { created_at: None, ..member_to_wire(&member) };
        Ok(Response::new(pb::SetMemberResponse { member: Some(member) }))
    }

    async fn remove_member(
        &self,
        request: Request<pb::RemoveMemberRequest>,
    ) -> Result<Response<pb::RemoveMemberResponse>, Status> {
        let view = self.0.view(request.extensions()).await?;
        let mut request = request.into_inner();
        self.0.by_name(&view, "project_id", &mut request.project_id).await?;
        let id = id(ProjectId::parse_field("project_id", &request.project_id))?;
        let user_id = nfc(&request.user_id);
        let mut checks = Checks::default();
        checks.name("user_id", &user_id, limits::LABEL_BYTES);
        checks.finish().map_err(|e| invalid(&e))?;
        view.check_project("project_id", id)?;
        let removed = self.0.store.remove_member(id, &user_id, !view.is_administrator()).await;
        changed(removed.map_err(errors::store)?)?;
        Ok(Response::new(pb::RemoveMemberResponse {}))
    }
}

/// Why a change of the members was not made.
fn changed(change: MemberChange) -> Result<(), Status> {
    match change {
        MemberChange::Done => Ok(()),
        MemberChange::LastOwner => {
            let text = "is the last owner of the project; make somebody else an owner first";
            let error = FieldError::new("user_id", text);
            Err(field(Code::FailedPrecondition, "LAST_OWNER", &error))
        }
        MemberChange::Full => {
            let text =
                format!("the project has {} members, and no more are allowed", limits::PROJECT_MEMBERS);
            let error = FieldError::new("project_id", text);
            Err(field(Code::FailedPrecondition, "TOO_MANY_MEMBERS", &error))
        }
    }
}

fn member_to_wire(member: &Member) -> pb::Member {
    pb::Member {
        user_id: member.user_id.clone(),
        role: member.role.to_wire(),
        created_at: Some(member.created_at.to_wire()),
    }
}

/// A project as its caller sees it.
fn to_wire(view: &View, project: &Project) -> pb::Project {
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
        caller_role: view.role_in(project.id).unwrap_or(MemberRole::Reader).to_wire(),
    }
}

//! Projects by their names. Where a request has the id of a project, its name will do.

use tonic::{Code, Status};
use tree_agent_contract::text::{nfc, nfd};
use tree_agent_contract::{ProjectId, limits};
use tree_agent_proto::v1 as pb;
use tree_agent_store::{Project, ProjectQuery, Store};

use crate::errors;
use crate::gateway::Gateway;
use crate::view::View;

impl Gateway {
    /// Puts the id of a project where `field` has its name. What is an id, or nothing, stays.
    ///
    /// # Errors
    /// `NOT_FOUND` if the caller sees no project of this name.
    pub(crate) async fn by_name(&self, view: &View, field: &str, text: &mut String) -> Result<(), Status> {
        let is_name = !text.trim().is_empty()
            && text.len() <= limits::TITLE_BYTES
            && ProjectId::parse_field(field, text).is_err();
        if is_name {
            *text = named(&*self.store, view, field, text).await?.id.to_string();
        }
        Ok(())
    }

    /// The same for a list of ids.
    pub(crate) async fn all_by_name(
        &self,
        view: &View,
        field: &str,
        ids: &mut [String],
    ) -> Result<(), Status> {
        for (i, id) in ids.iter_mut().enumerate().take(limits::CONTEXT_PROJECTS) {
            self.by_name(view, &format!("{field}[{i}]"), id).await?;
        }
        Ok(())
    }

    /// The same for a context. One that names projects and no scope is about these.
    pub(crate) async fn context_by_name(
        &self,
        view: &View,
        context: Option<&mut pb::RunContext>,
    ) -> Result<(), Status> {
        let Some(context) = context else { return Ok(()) };
        self.all_by_name(view, "context.project_ids", &mut context.project_ids).await?;
        if context.scope() == pb::Scope::Unspecified {
            let scope = match context.project_ids.len() {
                0 => pb::Scope::Global,
                1 => pb::Scope::Project,
                _ => pb::Scope::MultiProject,
            };
            context.set_scope(scope);
        }
        Ok(())
    }
}

/// The project with exactly this name, letter case aside, if `view` shows it.
pub(crate) async fn named(
    store: &dyn Store,
    view: &View,
    field: &str,
    name: &str,
) -> Result<Project, Status> {
    let name = name.trim();
    match exactly_named(store, view, field, &nfc(name)).await {
        // Projects of before 0.3 may have a name in the other form.
        Err(status) if status.code() == Code::NotFound => exactly_named(store, view, field, &nfd(name)).await,
        found => found,
    }
}

async fn exactly_named(store: &dyn Store, view: &View, field: &str, name: &str) -> Result<Project, Status> {
    let wanted = name.to_lowercase();
    let mut query = ProjectQuery {
        name_contains: name.to_owned(),
        among: view.projects_seen(),
        limit: limits::PAGE_MAX,
        ..ProjectQuery::default()
    };
    loop {
        let page = store.list_projects(query.clone()).await.map_err(errors::store)?;
        if let Some(found) = page.items.iter().find(|p| p.name.to_lowercase() == wanted) {
            return Ok(found.clone());
        }
        match page.items.last() {
            Some(last) if page.more => query.after_name.clone_from(&last.name),
            _ => return Err(errors::not_found(field, format!("no project is named {name:?}"))),
        }
    }
}

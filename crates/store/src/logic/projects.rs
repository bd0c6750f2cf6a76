//! Projects.

use async_trait::async_trait;
use tree_agent_contract::{MemberRole, ProjectId, ProjectStatus};

use super::rows::{page, project, run_ids};
use super::sql::{Backend, Db, Filter, Param};
use super::{members, vectors};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{
    NewProject, Page, Project, ProjectChange, ProjectDeletion, ProjectQuery, Projects, USERS_NAMED,
};
use crate::schema::Dialect;
use crate::text::{clean, fold};
use crate::types::{List, Time, json};

/// The number of a project's documents.
const COUNT: &str =
    "(SELECT count(*) FROM onto_sources d WHERE d.project_id = p.id AND d.type_key = 'document.source')";

/// The columns of projects. `documents` gives the number of a project's documents.
fn select(documents: &str) -> String {
    format!(
        "SELECT p.id, p.name, p.description, p.created_at, {documents}, p.status, p.tool_rules, \
         COALESCE(p.updated_at, p.created_at), p.revision FROM onto_projects p"
    )
}

#[async_trait]
impl<S: Backend> Projects for S {
    async fn create_project(&self, new: NewProject) -> Result<Project, StoreError> {
        self.transaction(move |db| Box::pin(create(db, new))).await
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.with(move |db| Box::pin(one(db, id, COUNT))).await
    }

    async fn uncounted_project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.with(move |db| Box::pin(one(db, id, "CAST(0 AS bigint)"))).await
    }

    async fn list_projects(&self, query: ProjectQuery) -> Result<Page<Project>, StoreError> {
        self.with(move |db| Box::pin(list(db, query))).await
    }

    async fn update_project(&self, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError> {
        self.transaction(move |db| Box::pin(update(db, id, change))).await
    }

    async fn delete_project(&self, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError> {
        self.transaction(move |db| Box::pin(delete(db, id, force))).await
    }
}

async fn create<D: Db>(db: &mut D, new: NewProject) -> Result<Project, StoreError> {
    let NewProject { project: wanted, user_id, request_id } = new;
    let (user_id, request_id) = (clean(&user_id), clean(&request_id));
    let (name, folded, description) = (clean(&wanted.name), fold(&wanted.name), clean(&wanted.description));
    let sql = "INSERT INTO onto_projects (id, name, name_folded, description, created_at, user_id, request_id) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id";
    let at = Time(wanted.created_at);
    let params: [&dyn Param; 7] = [&wanted.id.0, &name, &folded, &description, &at, &user_id, &request_id];
    if db.row(sql, &params).await?.is_some() && !user_id.is_empty() {
        members::put(db, wanted.id, &user_id, MemberRole::Owner, wanted.created_at).await?;
    }
    let sql = format!(
        "{} WHERE p.id = $1 OR (p.request_id <> '' AND p.user_id = $2 AND p.request_id = $3) \
         ORDER BY (p.id = $1) DESC LIMIT 1",
        select(COUNT)
    );
    let row = db.row(&sql, &[&wanted.id.0, &user_id, &request_id]).await?;
    row.map_or_else(|| Err(StoreError::name_taken(&wanted.name)), |row| project(&row))
}

async fn one<D: Db>(db: &mut D, id: ProjectId, documents: &str) -> Result<Project, StoreError> {
    let row = db.row(&format!("{} WHERE p.id = $1", select(documents)), &[&id.0]).await?;
    row.map_or_else(|| Err(StoreError::not_found("project", id)), |row| project(&row))
}

async fn list<D: Db>(db: &mut D, query: ProjectQuery) -> Result<Page<Project>, StoreError> {
    let mut filter = Filter::default();
    let contains = filter.param(fold(&query.name_contains));
    filter.add(match D::DIALECT {
        Dialect::Postgres => format!("position({contains} IN p.name_folded) > 0"),
        Dialect::Embedded => format!("instr(p.name_folded, {contains}) > 0"),
    });
    let after = filter.param(fold(&query.after_name));
    filter.add(format!("p.name_folded > {after}"));
    if !query.statuses.is_empty() {
        let names = filter.param(List(query.statuses.iter().map(|status| status.as_str()).collect()));
        filter.add(D::DIALECT.any_text("p.status", &names));
    }
    if let Some(among) = &query.among {
        let ids = filter.param(List(among.iter().map(|id| id.0).collect::<Vec<_>>()));
        filter.add(D::DIALECT.any_id("p.id", &ids));
    }
    let limit = filter.param(query.limit as i64 + 1);
    let sql = format!("{} WHERE {} ORDER BY p.name_folded LIMIT {limit}", select(COUNT), filter.sql());
    let rows = db.rows(&sql, &filter.params()).await?;
    Ok(page(rows.iter().map(project).collect::<Result<_, _>>()?, query.limit))
}

async fn update<D: Db>(db: &mut D, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError> {
    let (name, description) = (change.name.as_deref(), change.description.as_deref());
    let rules = D::DIALECT.pick("tool_rules || $6", "json_patch(tool_rules, $6)");
    let sql = format!(
        "UPDATE onto_projects SET name = COALESCE($2, name), name_folded = COALESCE($3, name_folded), \
         description = COALESCE($4, description), status = COALESCE($5, status), \
         tool_rules = {rules}, updated_at = $7 WHERE id = $1"
    );
    let (cleaned, folded, description) = (name.map(clean), name.map(fold), description.map(clean));
    let (status, at) = (change.status.map(ProjectStatus::as_str), Time(change.at));
    let tools = json(&change.tools)?;
    db.run(&sql, &[&id.0, &cleaned, &folded, &description, &status, &tools, &at]).await.map_err(|error| {
        match error {
            StoreError::Conflict(_) => StoreError::name_taken(name.unwrap_or_default()),
            other => other,
        }
    })?;
    one(db, id, COUNT).await
}

async fn delete<D: Db>(db: &mut D, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError> {
    one(db, id, COUNT).await?;
    let named = D::DIALECT.pick(
        "project_ids @> $1",
        "EXISTS (SELECT 1 FROM json_each(project_ids) p WHERE p.value = json_extract($1, '$[0]'))",
    );
    let sql = format!(
        "SELECT id FROM tree_agent_runs WHERE {LIVE} AND deleted_at IS NULL AND {named} \
         ORDER BY created_at, id LIMIT {USERS_NAMED}"
    );
    if !force {
        let users = run_ids(&db.rows(&sql, &[&List(vec![id.0])]).await?)?;
        if !users.is_empty() {
            return Ok(ProjectDeletion::InUse(users));
        }
    }
    for sql in [
        "DELETE FROM onto_sources WHERE project_id = $1",
        "DELETE FROM onto_project_members WHERE project_id = $1",
    ] {
        db.run(sql, &[&id.0]).await?;
    }
    vectors::forget_all(db).await?;
    let gone = db.row("DELETE FROM onto_projects WHERE id = $1 RETURNING id", &[&id.0]).await?;
    gone.map(|_| ProjectDeletion::Deleted).ok_or_else(|| StoreError::not_found("project", id))
}

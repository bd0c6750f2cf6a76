//! Projects on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::{ProjectId, ProjectStatus, RunId};
use uuid::Uuid;

use super::PostgresStore;
use super::columns::json;
use super::types::{Json, Time};
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{
    NewProject, Page, Project, ProjectChange, ProjectDeletion, ProjectQuery, Projects, USERS_NAMED,
    parse_rules, parse_status,
};
use crate::text::{clean, fold};

const SELECT: &str = "SELECT p.id, p.name, p.description, p.created_at, (SELECT count(*) FROM onto_sources d \
                      WHERE d.project_id = p.id AND d.type_key = 'document.source'), p.status, p.tool_rules, \
                      COALESCE(p.updated_at, p.created_at), p.revision FROM onto_projects p";

#[async_trait]
impl Projects for PostgresStore {
    async fn create_project(&self, new: NewProject) -> Result<Project, StoreError> {
        let NewProject { project: wanted, user_id, request_id } = new;
        let (user_id, request_id) = (clean(&user_id), clean(&request_id));
        let mut connection = self.connection().await?;
        connection
            .query(
                "INSERT INTO onto_projects (id, name, name_folded, description, created_at, user_id, request_id) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
                &[
                    &wanted.id.0,
                    &clean(&wanted.name),
                    &fold(&wanted.name),
                    &clean(&wanted.description),
                    &Time(wanted.created_at),
                    &user_id,
                    &request_id,
                ],
            )
            .await?;
        let sql = format!(
            "{SELECT} WHERE p.id = $1 OR (p.request_id <> '' AND p.user_id = $2 AND p.request_id = $3) ORDER BY (p.id = $1) DESC LIMIT 1"
        );
        let row = connection.query_opt(&sql, &[&wanted.id.0, &user_id, &request_id]).await?;
        row.as_ref().map_or_else(|| Err(StoreError::name_taken(&wanted.name)), project)
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        let mut connection = self.connection().await?;
        let row = connection.query_opt(&format!("{SELECT} WHERE p.id = $1"), &[&id.0]).await?;
        row.as_ref().map_or_else(|| Err(StoreError::not_found("project", id)), project)
    }

    async fn list_projects(&self, query: ProjectQuery) -> Result<Page<Project>, StoreError> {
        let statuses: Vec<&str> = query.statuses.iter().map(|status| status.as_str()).collect();
        let mut connection = self.connection().await?;
        let rows = connection
            .query(
                &format!(
                    "{SELECT} WHERE position($1 IN p.name_folded) > 0 AND p.name_folded > $2 \
                     AND (cardinality($4::text[]) = 0 OR p.status = ANY ($4)) ORDER BY p.name_folded LIMIT $3"
                ),
                &[
                    &fold(&query.name_contains),
                    &fold(&query.after_name),
                    &(query.limit as i64 + 1),
                    &statuses,
                ],
            )
            .await?;
        let items = rows.iter().take(query.limit).map(project).collect::<Result<_, _>>()?;
        Ok(Page { more: rows.len() > query.limit, items })
    }

    async fn update_project(&self, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError> {
        let (name, description) = (change.name.as_deref(), change.description.as_deref());
        let sql = "UPDATE onto_projects SET name = COALESCE($2, name), name_folded = COALESCE($3, name_folded), \
                   description = COALESCE($4, description), status = COALESCE($5, status), \
                   tool_rules = tool_rules || $6, updated_at = $7 WHERE id = $1 RETURNING id";
        let mut connection = self.connection().await?;
        let changed = connection
            .query_opt(
                sql,
                &[
                    &id.0,
                    &name.map(clean),
                    &name.map(fold),
                    &description.map(clean),
                    &change.status.map(ProjectStatus::as_str),
                    &json(&change.tools)?,
                    &Time(change.at),
                ],
            )
            .await
            .map_err(|error| match error {
                StoreError::Conflict(_) => StoreError::name_taken(name.unwrap_or_default()),
                other => other,
            })?;
        changed.ok_or_else(|| StoreError::not_found("project", id))?;
        let row = connection.query_opt(&format!("{SELECT} WHERE p.id = $1"), &[&id.0]).await?;
        row.as_ref().map_or_else(|| Err(StoreError::not_found("project", id)), project)
    }

    async fn delete_project(&self, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError> {
        // One statement: either all of it is removed, or nothing.
        let sql = format!(
            "WITH used AS (SELECT id FROM tree_agent_runs WHERE NOT $2::bool AND {LIVE} AND deleted_at IS NULL \
             AND project_ids @> ARRAY[$1::uuid] ORDER BY created_at, id LIMIT {USERS_NAMED}), \
             wanted AS (SELECT id FROM onto_projects WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM used)), \
             documents AS (DELETE FROM onto_sources WHERE project_id IN (SELECT id FROM wanted)), \
             members AS (DELETE FROM onto_project_members WHERE project_id IN (SELECT id FROM wanted)), \
             gone AS (DELETE FROM onto_projects WHERE id IN (SELECT id FROM wanted) RETURNING id) \
             SELECT EXISTS (SELECT 1 FROM onto_projects WHERE id = $1), EXISTS (SELECT 1 FROM gone), \
             ARRAY(SELECT id FROM used)"
        );
        let mut connection = self.connection().await?;
        let rows = connection.query(&sql, &[&id.0, &force]).await?;
        let row = rows.first().ok_or_else(|| StoreError::not_found("project", id))?;
        let (was_there, gone): (bool, bool) = (row.get(0), row.get(1));
        let users: Vec<Uuid> = row.get(2);
        match (was_there, gone) {
            (_, true) => Ok(ProjectDeletion::Deleted),
            (true, false) if !users.is_empty() => {
                Ok(ProjectDeletion::InUse(users.into_iter().map(RunId).collect()))
            }
            _ => Err(StoreError::not_found("project", id)),
        }
    }
}

fn project(row: &Row) -> Result<Project, StoreError> {
    let id = ProjectId(row.get(0));
    let rules: Json = row.get(6);
    Ok(Project {
        id,
        name: row.get(1),
        description: row.get(2),
        created_at: row.get::<_, Time>(3).0,
        document_count: row.get::<_, i64>(4) as u64,
        status: parse_status(id, row.get(5))?,
        tools: parse_rules(id, &rules.0)?,
        updated_at: row.get::<_, Time>(7).0,
        revision: row.get::<_, i64>(8) as u64,
    })
}

//! Projects on Postgres.

use async_trait::async_trait;
use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::ProjectId;

use super::PostgresStore;
use super::types::Time;
use crate::error::StoreError;
use crate::ports::{NewProject, Page, Project, Projects};
use crate::text::{clean, fold};

const SELECT: &str = "SELECT p.id, p.name, p.description, p.created_at, (SELECT count(*) FROM onto_sources d \
                      WHERE d.project_id = p.id AND d.type_key = 'document.source') FROM onto_projects p";

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
        row.as_ref().map(project).ok_or_else(|| StoreError::name_taken(&wanted.name))
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        let mut connection = self.connection().await?;
        let row = connection.query_opt(&format!("{SELECT} WHERE p.id = $1"), &[&id.0]).await?;
        row.as_ref().map(project).ok_or_else(|| StoreError::not_found("project", id))
    }

    async fn list_projects(
        &self,
        name_contains: &str,
        after_name: &str,
        limit: usize,
    ) -> Result<Page<Project>, StoreError> {
        let mut connection = self.connection().await?;
        let rows = connection
            .query(
                &format!(
                    "{SELECT} WHERE position($1 IN p.name_folded) > 0 AND p.name_folded > $2 \
                     ORDER BY p.name_folded LIMIT $3"
                ),
                &[&fold(name_contains), &fold(after_name), &(limit as i64 + 1)],
            )
            .await?;
        Ok(Page { more: rows.len() > limit, items: rows.iter().take(limit).map(project).collect() })
    }
}

fn project(row: &Row) -> Project {
    Project {
        id: ProjectId(row.get(0)),
        name: row.get(1),
        description: row.get(2),
        created_at: row.get::<_, Time>(3).0,
        document_count: row.get::<_, i64>(4) as u64,
    }
}

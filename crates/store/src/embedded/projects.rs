//! Projects in SQLite.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};
use tree_agent_contract::{ProjectId, Timestamp};

use super::EmbeddedStore;
use super::append::execute;
use super::connection::map_error;
use crate::error::StoreError;
use crate::ports::{NewProject, Page, Project, Projects};
use crate::text::{clean, fold};

const SELECT: &str = "SELECT p.id, p.name, p.description, p.created_at, (SELECT count(*) FROM onto_sources d \
                      WHERE d.project_id = p.id AND d.type_key = 'document.source') FROM onto_projects p";

#[async_trait]
impl Projects for EmbeddedStore {
    async fn create_project(&self, new: NewProject) -> Result<Project, StoreError> {
        let NewProject { project: wanted, user_id, request_id } = new;
        self.write(move |tx| {
            let (user_id, request_id) = (clean(&user_id), clean(&request_id));
            execute(
                tx,
                "INSERT INTO onto_projects (id, name, name_folded, description, created_at, user_id, request_id) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
                params![
                    wanted.id.0,
                    clean(&wanted.name),
                    fold(&wanted.name),
                    clean(&wanted.description),
                    wanted.created_at.micros(),
                    user_id,
                    request_id,
                ],
            )?;
            let sql =
                format!("{SELECT} WHERE p.id = ?1 OR (p.request_id <> '' AND p.user_id = ?2 AND p.request_id = ?3) ORDER BY (p.id = ?1) DESC LIMIT 1");
            tx.query_row(&sql, params![wanted.id.0, user_id, request_id], project)
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::name_taken(&wanted.name))
        })
        .await
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.query(move |db| {
            db.query_row(&format!("{SELECT} WHERE p.id = ?1"), [id.0], project)
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::not_found("project", id))
        })
        .await
    }

    async fn list_projects(
        &self,
        name_contains: &str,
        after_name: &str,
        limit: usize,
    ) -> Result<Page<Project>, StoreError> {
        let (contains, after) = (fold(name_contains), fold(after_name));
        self.query(move |db| {
            let mut statement = db
                .prepare_cached(&format!(
                    "{SELECT} WHERE instr(p.name_folded, ?1) > 0 AND p.name_folded > ?2 \
                     ORDER BY p.name_folded LIMIT ?3"
                ))
                .map_err(map_error)?;
            let rows = statement.query_map(params![contains, after, limit as i64 + 1], project);
            let mut items: Vec<Project> =
                rows.and_then(|rows| rows.collect::<Result<_, _>>()).map_err(map_error)?;
            let more = items.len() > limit;
            items.truncate(limit);
            Ok(Page { items, more })
        })
        .await
    }
}

fn project(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project {
        id: ProjectId(row.get(0)?),
        name: row.get(1)?,
        description: row.get(2)?,
        created_at: Timestamp(row.get(3)?),
        document_count: row.get::<_, i64>(4)? as u64,
    })
}

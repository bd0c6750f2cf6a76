//! Projects in SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tree_agent_contract::{ProjectId, ProjectStatus, RunId, Timestamp};

use super::EmbeddedStore;
use super::append::execute;
use super::connection::map_error;
use crate::LIVE;
use crate::error::StoreError;
use crate::ports::{
    NewProject, Page, Project, ProjectChange, ProjectDeletion, ProjectQuery, Projects, USERS_NAMED,
    parse_rules, parse_status,
};
use crate::text::{clean, fold, json_text};

const SELECT: &str = "SELECT p.id, p.name, p.description, p.created_at, (SELECT count(*) FROM onto_sources d \
                      WHERE d.project_id = p.id AND d.type_key = 'document.source'), p.status, p.tool_rules, \
                      COALESCE(p.updated_at, p.created_at), p.revision FROM onto_projects p";

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
            tx.query_row(&sql, params![wanted.id.0, user_id, request_id], |row| Ok(project(row)))
                .optional()
                .map_err(map_error)?
                .ok_or_else(|| StoreError::name_taken(&wanted.name))?
        })
        .await
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        self.query(move |db| one(db, id)).await
    }

    async fn list_projects(&self, query: ProjectQuery) -> Result<Page<Project>, StoreError> {
        let (contains, after) = (fold(&query.name_contains), fold(&query.after_name));
        let statuses = json_text(&query.statuses)?;
        self.query(move |db| {
            let mut statement = db
                .prepare_cached(&format!(
                    "{SELECT} WHERE instr(p.name_folded, ?1) > 0 AND p.name_folded > ?2 \
                     AND (?4 = '[]' OR p.status IN (SELECT value FROM json_each(?4))) ORDER BY p.name_folded LIMIT ?3"
                ))
                .map_err(map_error)?;
            let params = params![contains, after, query.limit as i64 + 1, statuses];
            let rows = statement.query_map(params, |row| Ok(project(row)));
            let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(map_error)?;
            let mut items: Vec<Project> = rows.into_iter().collect::<Result<_, _>>()?;
            let more = items.len() > query.limit;
            items.truncate(query.limit);
            Ok(Page { items, more })
        })
        .await
    }

    async fn update_project(&self, id: ProjectId, change: ProjectChange) -> Result<Project, StoreError> {
        let rules = json_text(&change.tools)?;
        self.write(move |tx| {
            let (name, description) = (change.name.as_deref(), change.description.as_deref());
            execute(
                tx,
                "UPDATE onto_projects SET name = COALESCE(?2, name), name_folded = COALESCE(?3, name_folded), \
                 description = COALESCE(?4, description), status = COALESCE(?5, status), \
                 tool_rules = json_patch(tool_rules, ?6), updated_at = ?7 WHERE id = ?1",
                params![
                    id.0,
                    name.map(clean),
                    name.map(fold),
                    description.map(clean),
                    change.status.map(ProjectStatus::as_str),
                    rules,
                    change.at.micros(),
                ],
            )
            .map_err(|error| match error {
                StoreError::Conflict(_) => StoreError::name_taken(name.unwrap_or_default()),
                other => other,
            })?;
            one(tx, id)
        })
        .await
    }

    async fn delete_project(&self, id: ProjectId, force: bool) -> Result<ProjectDeletion, StoreError> {
        self.write(move |tx| {
            one(tx, id)?;
            let sql = format!(
                "SELECT id FROM tree_agent_runs WHERE {LIVE} AND deleted_at IS NULL AND NOT ?2 \
                 AND EXISTS (SELECT 1 FROM json_each(project_ids) WHERE value = ?1) \
                 ORDER BY created_at, id LIMIT {USERS_NAMED}"
            );
            let mut statement = tx.prepare_cached(&sql).map_err(map_error)?;
            let users = statement.query_map(params![id.to_string(), force], |row| Ok(RunId(row.get(0)?)));
            let users: Vec<RunId> = users.and_then(Iterator::collect).map_err(map_error)?;
            if !users.is_empty() {
                return Ok(ProjectDeletion::InUse(users));
            }
            for sql in [
                "DELETE FROM onto_documents_search WHERE rowid IN (SELECT row FROM onto_sources WHERE project_id = ?1)",
                "DELETE FROM onto_sources WHERE project_id = ?1",
                "DELETE FROM onto_project_members WHERE project_id = ?1",
                "DELETE FROM onto_projects WHERE id = ?1",
            ] {
                execute(tx, sql, params![id.0])?;
            }
            Ok(ProjectDeletion::Deleted)
        })
        .await
    }
}

fn one(db: &Connection, id: ProjectId) -> Result<Project, StoreError> {
    db.query_row(&format!("{SELECT} WHERE p.id = ?1"), [id.0], |row| Ok(project(row)))
        .optional()
        .map_err(map_error)?
        .ok_or_else(|| StoreError::not_found("project", id))?
}

fn project(row: &Row<'_>) -> Result<Project, StoreError> {
    let id = ProjectId(row.get(0).map_err(map_error)?);
    let status: String = row.get(5).map_err(map_error)?;
    let rules: String = row.get(6).map_err(map_error)?;
    Ok(Project {
        id,
        name: row.get(1).map_err(map_error)?,
        description: row.get(2).map_err(map_error)?,
        created_at: Timestamp(row.get(3).map_err(map_error)?),
        document_count: row.get::<_, i64>(4).map_err(map_error)? as u64,
        status: parse_status(id, &status)?,
        tools: parse_rules(id, rules.as_bytes())?,
        updated_at: Timestamp(row.get(7).map_err(map_error)?),
        revision: row.get::<_, i64>(8).map_err(map_error)? as u64,
    })
}

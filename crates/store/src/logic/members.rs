//! Members of projects.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tree_agent_contract::{MemberRole, ProjectId, Timestamp, limits};
use uuid::Uuid;

use super::rows::{limit, page};
use super::sql::{Backend, Db, Record};
use crate::error::StoreError;
use crate::ports::{Member, MemberChange, Members, Page};
use crate::text::clean;
use crate::types::Time;

#[async_trait]
impl<S: Backend> Members for S {
    async fn memberships(&self, user_id: &str) -> Result<BTreeMap<ProjectId, MemberRole>, StoreError> {
        let user = clean(user_id).into_owned();
        self.with(move |db| Box::pin(memberships(db, user))).await
    }

    async fn members(
        &self,
        project: ProjectId,
        after: &str,
        limit: usize,
    ) -> Result<Page<Member>, StoreError> {
        let after = clean(after).into_owned();
        self.with(move |db| Box::pin(members(db, project, after, limit))).await
    }

    async fn set_member(
        &self,
        project: ProjectId,
        member: Member,
        keep_owner: bool,
    ) -> Result<MemberChange, StoreError> {
        self.transaction(move |db| Box::pin(set(db, project, member, keep_owner))).await
    }

    async fn remove_member(
        &self,
        project: ProjectId,
        user_id: &str,
        keep_owner: bool,
    ) -> Result<MemberChange, StoreError> {
        let user = clean(user_id).into_owned();
        self.transaction(move |db| Box::pin(remove(db, project, user, keep_owner))).await
    }
}

async fn memberships<D: Db>(db: &mut D, user: String) -> Result<BTreeMap<ProjectId, MemberRole>, StoreError> {
    let rows =
        db.rows("SELECT project_id, role FROM onto_project_members WHERE user_id = $1", &[&user]).await?;
    rows.iter().map(|row| Ok((ProjectId(row.get::<Uuid>(0)?), role(row, 1)?))).collect()
}

async fn members<D: Db>(
    db: &mut D,
    project: ProjectId,
    after: String,
    max: usize,
) -> Result<Page<Member>, StoreError> {
    let order = D::DIALECT.pick("user_id COLLATE \"C\"", "user_id");
    let sql = format!(
        "SELECT user_id, role, created_at FROM onto_project_members WHERE project_id = $1 AND {order} > $2 \
         ORDER BY {order} LIMIT $3"
    );
    let rows = db.rows(&sql, &[&project.0, &after, &limit(max + 1)]).await?;
    let member =
        |row: &D::Row| Ok(Member { user_id: row.get(0)?, role: role(row, 1)?, created_at: row.time(2)? });
    Ok(page(rows.iter().map(member).collect::<Result<_, StoreError>>()?, max))
}

/// Makes the user a member of a project that is about to be written, or was before.
pub(super) async fn put<D: Db>(
    db: &mut D,
    project: ProjectId,
    user: &str,
    role: MemberRole,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO onto_project_members (project_id, user_id, role, created_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (project_id, user_id) DO UPDATE SET role = EXCLUDED.role";
    db.run(sql, &[&project.0, &user, &role.as_str(), &Time(at)]).await
}

async fn set<D: Db>(
    db: &mut D,
    project: ProjectId,
    member: Member,
    keep_owner: bool,
) -> Result<MemberChange, StoreError> {
    let user = clean(&member.user_id).into_owned();
    let others = others(db, project, &user).await?;
    if keep_owner && member.role != MemberRole::Owner && others.user_is_last_owner {
        return Ok(MemberChange::LastOwner);
    }
    if others.members >= limits::PROJECT_MEMBERS as u64 {
        return Ok(MemberChange::Full);
    }
    put(db, project, &user, member.role, member.created_at).await?;
    Ok(MemberChange::Done)
}

async fn remove<D: Db>(
    db: &mut D,
    project: ProjectId,
    user: String,
    keep_owner: bool,
) -> Result<MemberChange, StoreError> {
    let others = others(db, project, &user).await?;
    if keep_owner && others.user_is_last_owner {
        return Ok(MemberChange::LastOwner);
    }
    let sql = "DELETE FROM onto_project_members WHERE project_id = $1 AND user_id = $2";
    db.run(sql, &[&project.0, &user]).await?;
    Ok(MemberChange::Done)
}

/// The members of a project beside a user.
struct Others {
    members: u64,
    /// The user is an owner, and none of them is.
    user_is_last_owner: bool,
}

/// Locks the members of a project until the end of the transaction: two owners must not remove each other at once.
async fn others<D: Db>(db: &mut D, project: ProjectId, user: &str) -> Result<Others, StoreError> {
    let lock = D::DIALECT.pick("FOR UPDATE", "");
    let found = db.row(&format!("SELECT 1 FROM onto_projects WHERE id = $1 {lock}"), &[&project.0]).await?;
    found.ok_or_else(|| StoreError::not_found("project", project))?;
    let sql = "SELECT count(CASE WHEN user_id <> $2 THEN 1 END), \
                      count(CASE WHEN user_id <> $2 AND role = 'owner' THEN 1 END) = 0 \
                      AND count(CASE WHEN user_id = $2 AND role = 'owner' THEN 1 END) > 0 \
               FROM onto_project_members WHERE project_id = $1";
    let row = db.row(sql, &[&project.0, &user]).await?;
    let row = row.ok_or_else(|| StoreError::not_found("project", project))?;
    Ok(Others { members: row.number(0)?, user_is_last_owner: row.get(1)? })
}

fn role(row: &impl Record, i: usize) -> Result<MemberRole, StoreError> {
    let name: String = row.get(i)?;
    name.parse()
        .map_err(|error: String| StoreError::broken("the role of a member cannot be read".to_owned(), error))
}

//! Members of projects.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tree_agent_contract::{MemberRole, ProjectId, Timestamp};

use super::Page;
use crate::error::StoreError;

/// Who may do what with a project. A project without members belongs to administrators.
#[async_trait]
pub trait Members: Send + Sync {
    /// The projects that the user is a member of.
    async fn memberships(&self, user_id: &str) -> Result<BTreeMap<ProjectId, MemberRole>, StoreError>;

    /// A page of the members of a project by their ids, those after `after`. Empty for an unknown project.
    async fn members(
        &self,
        project: ProjectId,
        after: &str,
        limit: usize,
    ) -> Result<Page<Member>, StoreError>;

    /// Makes the user a member with this role, or gives the member this role. With `keep_owner` the last owner stays
    /// one. [`StoreError::NotFound`] for an unknown project.
    async fn set_member(
        &self,
        project: ProjectId,
        member: Member,
        keep_owner: bool,
    ) -> Result<MemberChange, StoreError>;

    /// The user is no member any more. With `keep_owner` the last owner stays. [`StoreError::NotFound`] for an unknown
    /// project.
    async fn remove_member(
        &self,
        project: ProjectId,
        user_id: &str,
        keep_owner: bool,
    ) -> Result<MemberChange, StoreError>;
}

/// A member of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The user, as tokens name them.
    pub user_id: String,
    /// What they may do.
    pub role: MemberRole,
    /// Since when they are a member.
    pub created_at: Timestamp,
}

/// What became of a change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// It is done, or was so before.
    Done,
    /// Nothing changed: it would leave the project without an owner.
    LastOwner,
    /// Nothing changed: the project has [`PROJECT_MEMBERS`](tree_agent_contract::limits::PROJECT_MEMBERS).
    Full,
}

//! Members of projects: `projects members`, `share` and `unshare`.

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tree_agent_contract::{MemberRole, Timestamp, limits};
use tree_agent_proto::{Wire, v1 as pb};

use crate::commands::follow::now;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Rows;
use crate::view::paint::{Paint, ago};
use crate::view::printable::one_line;
use crate::view::table::Cell;

/// List the members of a project
#[derive(Debug, Args)]
pub(super) struct Members {
    /// The project (name or id)
    #[arg(value_name = "PROJECT", add = complete::projects())]
    project: String,
}

/// Make users members of a project, or give members another role
///
/// A reader reads the project, and so do the runs of a reader. An editor also writes and deletes documents. An owner
/// also changes and deletes the project, and says who its members are.
#[derive(Debug, Args)]
pub(super) struct Share {
    /// The project (name or id)
    #[arg(value_name = "PROJECT", add = complete::projects())]
    project: String,
    /// The users, as their tokens name them (the claim sub)
    #[arg(value_name = "USER", required = true)]
    users: Vec<String>,
    /// What they may do: reader, editor or owner
    #[arg(long, value_name = "ROLE", default_value = "reader")]
    role: MemberRole,
}

/// End memberships of a project
///
/// Streams of the users end within a minute, and the tools of their runs stop reading the project.
#[derive(Debug, Args)]
pub(super) struct Unshare {
    /// The project (name or id)
    #[arg(value_name = "PROJECT", add = complete::projects())]
    project: String,
    /// The users, as `projects members` lists them
    #[arg(value_name = "USER", required = true)]
    users: Vec<String>,
}

/// A member as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberJson {
    user_id: String,
    role: MemberRole,
    created_at: Option<Timestamp>,
}

impl MemberJson {
    fn from_wire(member: pb::Member) -> Result<Self, CliError> {
        Ok(Self {
            user_id: member.user_id,
            role: Wire::from_wire(member.role)?,
            created_at: Wire::from_wire(member.created_at)?,
        })
    }
}

impl Members {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let project_id = client.existing_project(&self.project).await?.project_id;
        let mut rows = Rows::new(&context.out, &["USER", "ROLE", "SINCE"]);
        let mut page_token = String::new();
        loop {
            let project_id = project_id.clone();
            let message =
                pb::ListMembersRequest { project_id, page_size: limits::PAGE_MAX as u32, page_token };
            let page = client.ask(message).await?;
            for member in page.members {
                rows.push(&MemberJson::from_wire(member)?, |member| {
                    let since = member.created_at.map(|at| ago(at, now())).unwrap_or_default();
                    let (user, role) = (Cell::plain(&member.user_id), Cell::plain(member.role.as_str()));
                    vec![user, role, Cell::new(since, Paint::Dim)]
                })?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if rows.finish()? == 0 {
            context.out.note("the project has no members; administrators alone may use it");
        }
        Ok(Exit::Success)
    }
}

impl Share {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let project = client.existing_project(&self.project).await?;
        let mut list = context.out.list();
        for user in &self.users {
            let message = pb::SetMemberRequest {
                project_id: project.project_id.clone(),
                user_id: user.clone(),
                role: self.role.to_wire(),
            };
            let member = MemberJson::from_wire(client.ask(message).await?.member.unwrap_or_default())?;
            list.push(&member, || {
                let (user, name) = (one_line(&member.user_id), one_line(&project.name));
                format!("{user} is {} of {name}", member.role)
            })?;
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}

impl Unshare {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let project = client.existing_project(&self.project).await?;
        let mut list = context.out.list();
        for user in &self.users {
            let (project_id, user_id) = (project.project_id.clone(), user.clone());
            client.ask(pb::RemoveMemberRequest { project_id, user_id }).await?;
            list.push(&json!({"userId": user, "removed": true}), || {
                format!("{} is no member of {}", one_line(user), one_line(&project.name))
            })?;
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}

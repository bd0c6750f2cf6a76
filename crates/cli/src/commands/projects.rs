//! `projects`: the projects of a server.

mod change;
mod members;

use clap::{Args, Subcommand};
use serde::Serialize;
use tree_agent_contract::{MemberRole, ProjectId, ProjectStatus, Timestamp, ToolRules, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::follow::now;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Rows;
use crate::view::paint::{Paint, ago};
use crate::view::table::Cell;
use crate::view::usage::grouped;

/// List the projects of a server by name, change, share, archive or delete them
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Projects {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only names that contain this text, letter case aside
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    name: String,
    /// At most this many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only projects of this status, active or archived [default: both]
    #[arg(long, value_name = "STATUS")]
    status: Option<ProjectStatus>,
}

/// What is done to projects.
#[derive(Debug, Subcommand)]
enum Action {
    Update(change::Update),
    /// Archive projects: they take no new runs and documents, and can still be read
    Archive(change::Which),
    /// Make archived projects active again
    Unarchive(change::Which),
    Delete(change::Delete),
    Members(members::Members),
    Share(members::Share),
    Unshare(members::Unshare),
}

/// The columns of the table.
const HEADERS: &[&str] = &["NAME", "DOCUMENTS", "STATUS", "TOOLS", "CREATED", "ID"];

/// A project as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProjectJson {
    id: ProjectId,
    name: String,
    description: String,
    document_count: u64,
    created_at: Option<Timestamp>,
    status: ProjectStatus,
    tools: ToolRules,
    updated_at: Option<Timestamp>,
    /// What the caller may do with it; none from servers that know no members.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_role: Option<MemberRole>,
}

impl Projects {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        match &self.action {
            None => self.list(context).await,
            Some(Action::Update(update)) => update.run(context).await,
            Some(Action::Archive(which)) => which.set(context, ProjectStatus::Archived).await,
            Some(Action::Unarchive(which)) => which.set(context, ProjectStatus::Active).await,
            Some(Action::Delete(delete)) => delete.run(context).await,
            Some(Action::Members(members)) => members.run(context).await,
            Some(Action::Share(share)) => share.run(context).await,
            Some(Action::Unshare(unshare)) => unshare.run(context).await,
        }
    }

    async fn list(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut page_token = String::new();
        let mut rows = Rows::new(&context.out, HEADERS);
        while left > 0 {
            let message = pb::ListProjectsRequest {
                page_size: left.min(limits::PAGE_MAX) as u32,
                page_token,
                name_contains: self.name.clone(),
                statuses: self.status.map(|status| status.to_wire()).into_iter().collect(),
            };
            let page = client.ask(message).await?;
            for project in page.projects.into_iter().take(left) {
                left -= 1;
                rows.push(&ProjectJson::from_wire(project)?, ProjectJson::cells)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let found = rows.finish()?;
        if found == 0 {
            context.out.note(match self.status {
                None if self.name.is_empty() => {
                    "there are no projects yet; make one with `tree-agent import DIR --project NAME`"
                        .to_owned()
                }
                None => format!("no project has a name that contains {:?}", self.name),
                Some(status) if self.name.is_empty() => format!("no project is {status}"),
                Some(status) => {
                    format!("no project that is {status} has a name that contains {:?}", self.name)
                }
            });
        }
        Ok(Exit::Success)
    }
}

impl ProjectJson {
    fn from_wire(project: pb::Project) -> Result<Self, CliError> {
        // Servers that know no status send none.
        let status = match project.status {
            0 => ProjectStatus::Active,
            status => Wire::from_wire(status)?,
        };
        Ok(Self {
            status,
            tools: Wire::from_wire(project.tools.unwrap_or_default())?,
            updated_at: Wire::from_wire(project.updated_at)?,
            caller_role: MemberRole::from_wire(project.caller_role).ok(),
            id: Wire::from_wire(project.project_id)?,
            name: project.name,
            description: project.description,
            document_count: project.document_count,
            created_at: Wire::from_wire(project.created_at)?,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::plain(&self.name),
            Cell::plain(grouped(self.document_count)),
            Cell::new(
                self.status.as_str(),
                if self.status == ProjectStatus::Active { Paint::Plain } else { Paint::Dim },
            ),
            Cell::plain(self.rules()),
            Cell::new(self.created_at.map(|at| ago(at, now())).unwrap_or_default(), Paint::Dim),
            Cell::new(self.id.to_string(), Paint::Dim),
        ]
    }

    /// The rules for tools in a few words.
    fn rules(&self) -> String {
        let ToolRules { allowed_tools, denied_tools, read_only, replace_imported } = &self.tools;
        let mut words = Vec::new();
        if !allowed_tools.is_empty() {
            words.push(format!("only {}", allowed_tools.join(", ")));
        }
        if !denied_tools.is_empty() {
            words.push(format!("not {}", denied_tools.join(", ")));
        }
        if *read_only {
            words.push("read-only".to_owned());
        }
        if *replace_imported {
            words.push("may replace imports".to_owned());
        }
        if words.is_empty() { "all".to_owned() } else { words.join("; ") }
    }
}

//! `projects`: the projects of a server.

use clap::Args;
use serde::Serialize;
use tree_agent_contract::{ProjectId, Timestamp, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::follow::now;
use crate::Context;
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Rows;
use crate::view::paint::{Paint, ago};
use crate::view::table::Cell;
use crate::view::usage::grouped;

/// List the projects of a server, by name
#[derive(Debug, Args)]
pub(crate) struct Projects {
    /// Only names that contain this text, letter case aside
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// At most so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// The columns of the table.
const HEADERS: &[&str] = &["NAME", "DOCUMENTS", "CREATED", "ID"];

/// A project as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProjectJson {
    id: ProjectId,
    name: String,
    description: String,
    document_count: u64,
    created_at: Option<Timestamp>,
}

impl Projects {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut page_token = String::new();
        let mut rows = Rows::new(&context.out, HEADERS);
        while left > 0 {
            let message = pb::ListProjectsRequest {
                page_size: left.min(limits::PAGE_MAX) as u32,
                page_token,
                name_contains: self.name.clone(),
            };
            let page = client
                .call(|| {
                    let (mut projects, message) = (client.projects(), message.clone());
                    async move { projects.list_projects(request(message)).await }
                })
                .await?;
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
            context.out.note(if self.name.is_empty() {
                "there are no projects yet; make one with `tree-agent import DIR --project NAME`".to_owned()
            } else {
                format!("no project has a name that contains {:?}", self.name)
            });
        }
        Ok(Exit::Success)
    }
}

impl ProjectJson {
    fn from_wire(project: pb::Project) -> Result<Self, CliError> {
        Ok(Self {
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
            Cell::new(self.created_at.map(|at| ago(at, now())).unwrap_or_default(), Paint::Dim),
            Cell::new(self.id.to_string(), Paint::Dim),
        ]
    }
}

//! `projects`: the projects of a server.

use clap::Args;
use serde::Serialize;
use tree_agent_contract::{ProjectId, Timestamp, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::Context;
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::{Paint, count, one_line};

/// List projects, by name
#[derive(Debug, Args)]
pub(crate) struct Projects {
    /// Only names that contain this text, letter case aside
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// At most so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// A project as `-o jsonl` prints it.
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
        let mut any = false;
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
                any = true;
                left -= 1;
                print(context, project)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if !any && !context.out.is_jsonl() {
            context.out.note("no projects; make one with `tree-agent import DIR --project NAME`");
        }
        Ok(Exit::Success)
    }
}

fn print(context: &Context, project: pb::Project) -> Result<(), CliError> {
    let project = ProjectJson {
        id: Wire::from_wire(project.project_id)?,
        name: project.name,
        description: project.description,
        document_count: project.document_count,
        created_at: Wire::from_wire(project.created_at)?,
    };
    if context.out.is_jsonl() {
        return context.out.json(&project);
    }
    let documents = count(project.document_count as usize, "document");
    let id = context.out.palette().paint(Paint::Dim, &project.id.to_string());
    context.out.line(format!("{id}  {}  {documents}", one_line(&project.name)))
}

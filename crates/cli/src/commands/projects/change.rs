//! Changes of projects: `projects update`, `archive`, `unarchive` and `delete`.

use clap::Args;
use prost_types::FieldMask;
use serde_json::json;
use tree_agent_contract::ProjectStatus;
use tree_agent_model::Switch;
use tree_agent_proto::{Wire, v1 as pb};

use super::ProjectJson;
use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::printable::one_line;

/// Change the name, the description or the rules of a project
///
/// Runs that are at work follow the new rules from their next tool call on. With several projects a run gets the tools
/// that all of them offer.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Update {
    /// The project (name or id)
    #[arg(value_name = "PROJECT", add = complete::projects())]
    project: String,
    /// A new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Offer only these tools, separated by commas; "" for all
    #[arg(long, value_name = "TOOLS")]
    allow_tools: Option<String>,
    /// Do not offer these tools, separated by commas; "" for none
    #[arg(long, value_name = "TOOLS")]
    deny_tools: Option<String>,
    /// Offer no tool that writes
    #[arg(long, value_name = "on|off")]
    read_only: Option<Switch>,
    /// Let tools replace documents that people imported
    #[arg(long, value_name = "on|off")]
    replace_imported: Option<Switch>,
}

const EXAMPLES: &str = "\
Examples:
  tree-agent projects update handbook --deny-tools create_document,files__write_file
  tree-agent projects update handbook --read-only on --allow-tools \"\"";

/// Delete projects with their documents, for good
///
/// A project that live runs use is kept, unless --force is given. Runs keep their own documents.
#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    which: Which,
    /// Also delete projects that live runs use; the runs continue without them
    #[arg(long)]
    force: bool,
}

/// Several projects.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The projects (names or ids)
    #[arg(value_name = "PROJECT", required = true, add = complete::projects())]
    projects: Vec<String>,
}

impl Update {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let list = |text: &Option<String>| -> Vec<String> {
            let names = text.as_deref().unwrap_or_default().split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let is_on = |switch: Option<Switch>| switch == Some(Switch::On);
        let given = [
            (self.name.is_some(), "name"),
            (self.description.is_some(), "description"),
            (self.allow_tools.is_some(), "tools.allowed_tools"),
            (self.deny_tools.is_some(), "tools.denied_tools"),
            (self.read_only.is_some(), "tools.read_only"),
            (self.replace_imported.is_some(), "tools.replace_imported"),
        ];
        let paths: Vec<&str> =
            given.iter().filter(|(is_given, _)| *is_given).map(|(_, path)| *path).collect();
        if paths.is_empty() {
            return Err(CliError::Usage("there is nothing to change; --help lists what can be".to_owned()));
        }
        let client = context.connect().await?;
        let project = pb::Project {
            project_id: client.existing_project(&self.project).await?.project_id,
            name: self.name.clone().unwrap_or_default(),
            description: self.description.clone().unwrap_or_default(),
            tools: Some(pb::ToolRules {
                allowed_tools: list(&self.allow_tools),
                denied_tools: list(&self.deny_tools),
                read_only: is_on(self.read_only),
                replace_imported: is_on(self.replace_imported),
            }),
            ..Default::default()
        };
        let changed = update(&client, project, &paths).await?;
        context.out.done(&changed, || {
            format!("project {} changed; tools: {}", one_line(&changed.name), one_line(&changed.rules()))
        })?;
        Ok(Exit::Success)
    }
}

impl Delete {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut list = context.out.list();
        for project in self.which.find(&client).await? {
            let message =
                pb::DeleteProjectRequest { project_id: project.project_id.clone(), force: self.force };
            client.ask(message).await?;
            list.push(&json!({"projectId": project.project_id, "deleted": true}), || {
                format!("project {} deleted", one_line(&project.name))
            })?;
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}

impl Which {
    /// The projects, all found before anything is done to the first.
    async fn find(&self, client: &Client) -> Result<Vec<pb::Project>, CliError> {
        let mut found = Vec::with_capacity(self.projects.len());
        for key in &self.projects {
            found.push(client.existing_project(key).await?);
        }
        Ok(found)
    }

    /// Changes their status.
    pub(super) async fn set(&self, context: &Context, status: ProjectStatus) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut list = context.out.list();
        for project in self.find(&client).await? {
            let project = pb::Project {
                project_id: project.project_id,
                status: status.to_wire(),
                ..Default::default()
            };
            let changed = update(&client, project, &["status"]).await?;
            list.push(&changed, || format!("project {} is {status}", one_line(&changed.name)))?;
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}

async fn update(client: &Client, project: pb::Project, paths: &[&str]) -> Result<ProjectJson, CliError> {
    let paths = paths.iter().map(|&path| path.to_owned()).collect();
    let message = pb::UpdateProjectRequest { project: Some(project), update_mask: Some(FieldMask { paths }) };
    ProjectJson::from_wire(client.ask(message).await?.project.unwrap_or_default())
}

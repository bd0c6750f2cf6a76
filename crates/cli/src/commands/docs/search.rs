//! `docs search`: full-text search over the documents of projects.

use clap::Args;
use serde::Serialize;
use tree_agent_proto::v1 as pb;

use super::SummaryJson;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::printable::one_line;

/// Search the documents of projects, best first
#[derive(Debug, Args)]
pub(super) struct Search {
    /// The words
    #[arg(required = true)]
    words: Vec<String>,
    /// Only documents of this project: its name or id [default: all projects]
    #[arg(long, value_name = "PROJECT", add = complete::projects())]
    project: Vec<String>,
    /// Only paths that begin with this
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
    /// At most this many, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// A document that was found, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HitJson {
    #[serde(flatten)]
    document: SummaryJson,
    snippet: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    score: f64,
}

impl Search {
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut project_ids = Vec::new();
        for project in &self.project {
            project_ids.push(client.existing_project(project).await?.project_id);
        }
        let scope = match project_ids.len() {
            0 => pb::Scope::Global,
            1 => pb::Scope::Project,
            _ => pb::Scope::MultiProject,
        };
        let message = pb::SearchDocumentsRequest {
            query: self.words.join(" "),
            context: Some(pb::RunContext { scope: scope as i32, project_ids }),
            path_prefix: self.path.clone(),
            limit: self.limit,
        };
        let found = client.ask(message.clone()).await?;
        let out = &context.out;
        let mut list = out.list();
        let (shown, total) = (found.hits.len() as u64, found.total_size);
        for hit in found.hits {
            let document = SummaryJson::from_wire(hit.document.unwrap_or_default())?;
            let pb::SearchHit { snippet, offset, score, .. } = hit;
            let hit = HitJson { document, snippet, offset, score };
            list.push(&hit, || {
                let (name, snippet) = (hit.document.name(), one_line(&hit.snippet));
                format!("{name}  {}\n    {snippet}", hit.document.id)
            })?;
        }
        list.finish()?;
        if total == 0 && !message.query.contains(char::is_alphanumeric) {
            out.note("the query has no letter and no digit, so nothing is searched for");
        } else if total == 0 {
            out.note("no document holds these words");
        } else if shown < total {
            out.note(format!("{shown} of {total} documents; --limit shows more"));
        }
        Ok(Exit::Success)
    }
}

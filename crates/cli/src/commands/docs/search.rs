//! `docs search`: search over the documents of projects.

use clap::Args;
use serde::Serialize;
use tree_agent_proto::v1 as pb;

use super::SummaryJson;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::printable::one_line;

/// Search the documents of projects: passages, best first
#[derive(Debug, Args)]
pub(super) struct Search {
    /// A question, or words
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

/// A passage that was found, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HitJson {
    #[serde(flatten)]
    document: SummaryJson,
    headings: Vec<String>,
    head: String,
    offset: u64,
    passage: String,
    lexical_rank: u32,
    vector_rank: u32,
    similarity: Option<f64>,
    score: f64,
}

impl HitJson {
    /// The place of the passage, and its first lines.
    fn shown(&self) -> String {
        const LINES: usize = 6;
        let place =
            std::iter::once(self.document.name()).chain(self.headings.iter().map(|text| one_line(text)));
        let mut shown = format!("{}  {}", place.collect::<Vec<_>>().join(" › "), self.document.id);
        let lines: Vec<&str> =
            self.head.lines().chain(self.passage.lines()).filter(|line| !line.trim().is_empty()).collect();
        for line in lines.iter().take(LINES) {
            shown.push_str(&format!("\n    {}", one_line(line)));
        }
        if lines.len() > LINES {
            shown.push_str("\n    …");
        }
        shown
    }
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
            whole_within_seconds: None,
        };
        let found = client.ask(message.clone()).await?;
        let out = &context.out;
        let mut list = out.list();
        let (shown, total) = (found.hits.len() as u64, found.total_size);
        for hit in found.hits {
            let hit = HitJson {
                document: SummaryJson::from_wire(hit.document.unwrap_or_default())?,
                headings: hit.headings,
                head: hit.head,
                offset: hit.offset,
                passage: hit.passage,
                lexical_rank: hit.lexical_rank,
                vector_rank: hit.vector_rank,
                similarity: hit.similarity,
                score: hit.score,
            };
            list.push(&hit, || hit.shown())?;
        }
        list.finish()?;
        if total == 0 && !message.query.contains(char::is_alphanumeric) {
            out.note("the query has no letter and no digit, so nothing is searched for");
        } else if total == 0 {
            let nearest = if shown > 0 { "; these are the nearest by meaning" } else { "" };
            out.note(format!("no passage holds these words{nearest}"));
        } else if shown < total {
            out.note(format!("{shown} of {total} passages; --limit shows more"));
        }
        if let Some(embedded) = found.embedded.filter(|embedded| *embedded < found.passages) {
            out.note(format!("{embedded} of {} passages can be found by meaning so far", found.passages));
        }
        Ok(Exit::Success)
    }
}

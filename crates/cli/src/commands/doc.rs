//! `doc`: one document.

mod follow;

use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use tree_agent_contract::text::nfc;
use tree_agent_contract::{DocumentId, RunId, Timestamp};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::docs::SummaryJson;
use super::follow::Reconnect;
use crate::client::{Client, present};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::printable::one_line;

/// Print a document: a source, a scratchpad or what a node wrote
///
/// A pipe gets the document byte for byte. A terminal gets it without control characters.
#[derive(Debug, Args)]
pub(crate) struct Doc {
    /// The document: its id, or PROJECT:PATH for one of a project
    #[arg(value_name = "ID|PROJECT:PATH")]
    document: DocumentRef,
    /// As this run has it: a fork has the documents of the run that it forks as they were, and goes on with its own
    #[arg(long, value_name = "RUN", add = complete::runs())]
    run: Option<RunRef>,
    /// As it was after this event of its run
    #[arg(long, value_name = "SEQ", conflicts_with = "follow")]
    at: Option<u64>,
    /// Also print what is added, until its run has ended
    #[arg(long)]
    follow: bool,
    /// Start after so many bytes, such as where an earlier --follow ended
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "follow")]
    after_bytes: u64,
    #[command(flatten)]
    reconnect: Reconnect,
}

/// A document as `-o jsonl` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DocumentJson {
    #[serde(flatten)]
    summary: SummaryJson,
    created_at: Option<Timestamp>,
    body: String,
}

impl Doc {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let id = self.document.find(&client).await?;
        let run = match &self.run {
            Some(run) => Some(client.find_run(run).await?),
            None => None,
        };
        if self.follow {
            let from = follow::From { document: id, run, byte: self.after_bytes };
            return follow::follow(context, client, from, self.reconnect.policy()).await;
        }
        let (summary, document) = fetch(&client, id, run, self.at).await?;
        if !context.out.is_json() {
            context.out.whole_document(&document.body)?;
            if let Some(import) = summary.import.filter(|import| !import.left_out.is_empty()) {
                context.out.note(format!("not read of the file: {}", one_line(&import.left_out)));
            }
            return Ok(Exit::Success);
        }
        context.out.json(&DocumentJson::of(summary, document)?)?;
        Ok(Exit::Success)
    }
}

impl DocumentJson {
    pub(super) fn of(summary: pb::DocumentSummary, document: pb::Document) -> Result<Self, CliError> {
        let (summary, created_at) = (SummaryJson::from_wire(summary)?, Wire::from_wire(document.created_at)?);
        Ok(Self { summary, created_at, body: document.body })
    }
}

/// How a user names a document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DocumentRef {
    Id(DocumentId),
    /// The project's name or id and the path in it, with a colon in between.
    Path(String),
}

impl FromStr for DocumentRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse(), text.split_once(':')) {
            (Ok(id), _) => Ok(Self::Id(id)),
            (_, Some((project, path))) if !project.is_empty() && !path.is_empty() => {
                Ok(Self::Path(text.to_owned()))
            }
            _ => Err("expected the id of a document, or PROJECT:PATH".to_owned()),
        }
    }
}

impl DocumentRef {
    /// The id of the document. That of a project's document follows from its path.
    async fn find(&self, client: &Client) -> Result<DocumentId, CliError> {
        let text = match self {
            Self::Id(id) => return Ok(*id),
            Self::Path(text) => text,
        };
        let divided = |at: usize| (&text[..at], &text[at + 1..]);
        // Names of projects may hold colons, too: the shortest that exists is meant.
        let mut colons = text.match_indices(':').map(|(at, _)| at);
        let first = divided(colons.next().unwrap_or_default());
        let mut found = client.project(first.0).await?.map(|project| (project, first.1));
        while let (None, Some(at)) = (&found, colons.next()) {
            found = client.project(divided(at).0).await?.map(|project| (project, divided(at).1));
        }
        let (project, path) = match found {
            Some(found) => found,
            None => (client.existing_project(first.0).await?, first.1),
        };
        Ok(DocumentId::source(Wire::from_wire(project.project_id)?, &nfc(path)))
    }
}

/// The document with `id` as the run has it, or the one that created it, after an event of the run, its summary taken
/// out.
pub(crate) async fn fetch(
    client: &Client,
    id: DocumentId,
    run: Option<RunId>,
    at_seq: Option<u64>,
) -> Result<(pb::DocumentSummary, pb::Document), CliError> {
    let run_id = run.map_or_else(String::new, |run| run.to_wire());
    let message = pb::GetDocumentRequest { document_id: id.to_wire(), at_seq, run_id };
    let mut document = present(client.ask(message).await?.document, "document")?;
    let summary = present(document.summary.take(), "summary of the document")?;
    Ok((summary, document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_named_by_its_id_or_by_its_path_in_a_project() {
        let id = DocumentId(uuid::Uuid::from_u128(7));
        assert_eq!(id.to_string().parse(), Ok(DocumentRef::Id(id)));
        assert_eq!("Docs:a/b.md".parse(), Ok(DocumentRef::Path("Docs:a/b.md".into())));
        for odd in ["", "Docs", ":a.md", "Docs:"] {
            assert!(odd.parse::<DocumentRef>().is_err(), "{odd:?}");
        }
    }
}

//! `doc`: one document.

mod follow;

use clap::Args;
use serde::Serialize;
use tree_agent_contract::{DocumentId, DocumentKind, NodeId, ProjectId, RunId, Timestamp};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::Context;
use crate::client::{Client, request};
use crate::commands::watch::Reconnect;
use crate::error::CliError;
use crate::exit::Exit;

/// Print a document: a source, a scratchpad or what a node wrote
///
/// A pipe gets the document byte for byte. A terminal gets it without control characters.
#[derive(Debug, Args)]
pub(crate) struct Doc {
    /// The document's id
    #[arg(value_name = "ID")]
    id: DocumentId,
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
struct DocumentJson {
    id: DocumentId,
    kind: DocumentKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<ProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    path: String,
    title: String,
    bytes: u64,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    body: String,
}

impl Doc {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if self.follow {
            return follow::follow(context, self.id, self.after_bytes, self.reconnect.policy()).await;
        }
        let client = context.connect().await?;
        let (summary, document) = fetch(&client, self.id).await?;
        if !context.out.is_json() {
            context.out.whole_document(&document.body)?;
            return Ok(Exit::Success);
        }
        context.out.json(&DocumentJson {
            id: self.id,
            kind: Wire::from_wire(summary.kind)?,
            project_id: Wire::from_wire(summary.project_id)?,
            run_id: Wire::from_wire(summary.run_id)?,
            node_id: Wire::from_wire(summary.node_id)?,
            path: summary.path,
            title: summary.title,
            bytes: summary.bytes,
            created_at: Wire::from_wire(document.created_at)?,
            updated_at: Wire::from_wire(summary.updated_at)?,
            body: document.body,
        })?;
        Ok(Exit::Success)
    }
}

/// The document with `id`, its summary taken out.
pub(crate) async fn fetch(
    client: &Client,
    id: DocumentId,
) -> Result<(pb::DocumentSummary, pb::Document), CliError> {
    let answer = client
        .call(|| {
            let mut documents = client.documents();
            let message = pb::GetDocumentRequest { document_id: id.to_wire() };
            async move { documents.get_document(request(message)).await }
        })
        .await?;
    let mut document =
        answer.document.ok_or_else(|| CliError::Other("the server's answer holds no document".into()))?;
    let summary = document
        .summary
        .take()
        .ok_or_else(|| CliError::Other("the server's answer holds no summary of the document".into()))?;
    Ok((summary, document))
}

//! The answer of a tool as text. A too long answer is kept as a document.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::json;
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, RunId};

use crate::kept::kept;
use crate::registry::ToolOutput;

/// The text of an answer. Other content is named, not repeated.
pub(super) fn text(result: CallToolResult) -> String {
    let mut parts = Vec::new();
    for block in result.content {
        parts.push(match block {
            ContentBlock::Text(text) => text.text,
            ContentBlock::Image(image) => left_out("image", &image.mime_type, image.data.len()),
            ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, audio.data.len()),
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
                ResourceContents::BlobResourceContents { uri, blob, .. } => {
                    left_out("blob", &uri, blob.len())
                }
                _ => "[a resource of an unknown kind, left out]".to_owned(),
            },
            ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
            _ => "[content of an unknown kind, left out]".to_owned(),
        });
    }
    match result.structured_content {
        // Servers repeat it as text for clients that only support text.
        Some(value) if parts.is_empty() => value.to_string(),
        _ => parts.join("\n"),
    }
}

fn left_out(what: &str, kind: &str, bytes: usize) -> String {
    format!("[{what} {kind}, {bytes} bytes in base64, left out]")
}

/// An answer of at most `limit` bytes. A longer one is kept whole as a document of the run.
pub(super) fn bounded(run: RunId, tool: &str, text: String, limit: usize) -> ToolOutput {
    let bytes = text.len();
    if bytes <= limit {
        return ToolOutput::new(json!({ "text": text }), format!("{bytes} bytes of text"));
    }
    let shown = prefix(&text, limit).to_owned();
    let mut body = text;
    body.truncate(prefix(&body, DOCUMENT_BYTES).len());
    let lost = match body.len() < bytes {
        true => format!("; the document holds the first {}", body.len()),
        false => String::new(),
    };
    let kept = kept(&format!("tool-output/{tool}"), "txt", format!("Answer of {tool}"), body);
    let id = DocumentId::of_run(run, &kept.path);
    let note = format!(
        "The text is cut after {} of {bytes} bytes{lost}. Read on with read_document and this offset.",
        shown.len()
    );
    let rest = json!({ "documentId": id, "offset": shown.len(), "bytes": bytes, "note": note });
    // The remark stands first, so that whoever has room for less than the text still learns where the rest is.
    let value = json!({ "cut": rest, "text": shown });
    let summary = format!("{bytes} bytes of text, kept as document {id}");
    ToolOutput { kept: Some(kept), ..ToolOutput::new(value, summary) }
}

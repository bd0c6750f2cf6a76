//! Citations of a script: true and false ones by turns.

use serde_json::Map;
use tree_agent_contract::role::{AggregateInput, ArtifactDraft};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{Citation, DocumentId};

use crate::io::RoleIo;

/// Lets a document make `count` claims about the first document of the context, or about the one that `about` names.
/// Every second one has a quote that does not stand there. Without such a document all name one that does not exist.
pub(super) async fn cite(
    artifacts: &mut [ArtifactDraft],
    count: u32,
    about: Option<DocumentId>,
    io: &RoleIo,
) {
    let id = match about {
        Some(id) => Some(id),
        None => first(io).await,
    };
    let body = match id {
        Some(id) => io.tools().source(id).await.map(|document| document.body).unwrap_or_default(),
        None => String::new(),
    };
    let line = body.lines().map(str::trim).find(|line| line.len() > 20).unwrap_or_default();
    for artifact in artifacts {
        let Some(text) = &mut artifact.document_markdown else { continue };
        for n in 1..=count {
            let claim = format!("Claim {n} of {}.", artifact.title.as_deref().unwrap_or_default());
            text.push_str(&format!("\n\n{claim}"));
            let quote = match n % 2 {
                1 => prefix(line, 200).to_owned(),
                _ => format!("not {n}: {}", prefix(line, 200)),
            };
            let quote = if quote.is_empty() { "no such text".to_owned() } else { quote };
            artifact.citations.push(Citation::unchecked(
                claim,
                quote,
                id.unwrap_or_else(|| DocumentId::derive(&[b"none"])),
            ));
        }
    }
}

/// What an aggregator cites: the first document that a child returned.
pub(super) fn of_children(input: &AggregateInput) -> Option<DocumentId> {
    input.children.iter().flat_map(|child| &child.artifacts).find_map(|artifact| artifact.document_id)
}

/// The first document of the context: the first id in the list of them.
async fn first(io: &RoleIo) -> Option<DocumentId> {
    let listing = io.call_tool("list_documents", Map::new(), "to cite one").await.ok()?.to_string();
    let is_id = |part: &&str| part.len() == 36 && part.matches('-').count() == 4;
    let ids = listing.split(|c: char| !c.is_ascii_hexdigit() && c != '-').filter(is_id);
    let known = ids.filter_map(|part| part.parse().ok());
    // Ids of projects stand there, too.
    for id in known {
        if io.tools().source(id).await.is_ok() {
            return Some(id);
        }
    }
    None
}

//! What a new run takes over from a folder: the research that is finished there.

use std::path::PathBuf;

use tree_agent_contract::role::{ResearchOutput, ScratchpadDraft};
use tree_agent_contract::search::ChildEntry;
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_contract::text::{count, one_line, truncate};

use crate::error::{MirrorError, Problem};
use crate::layout::{DOCUMENT_MD, join};
use crate::read::{Folder, FolderNode};

/// Bytes of a summary that is taken from a document.
const SUMMARY_BYTES: usize = 1_000;

/// The finished research of a folder. To the run it is as if each had just been answered, without a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// The first level.
    pub first_level: ResearchOutput,
    /// The finished topics, as indices of [`Folder::nodes`], parents before their children. Everything else that the
    /// first level and they list is open.
    pub finished: Vec<usize>,
    /// What is on the disk and is not taken over.
    pub notices: Vec<Problem>,
}

/// What a new run takes over from `folder`; nothing from one without a first level. `known` is the title that the
/// last run gave the node at a path, which tells which of two titles was edited. `fault` says why a document
/// cannot be one of the new run: its frontmatter breaks the schema.
///
/// # Errors
/// If a document cannot be read any more.
pub fn adoption(
    folder: &Folder,
    known: impl Fn(&str) -> Option<String>,
    fault: impl Fn(&str) -> Option<String>,
) -> Result<Option<Adoption>, MirrorError> {
    let Some(first) = folder.children.as_ref().filter(|children| !children.is_empty()) else {
        return Ok(None);
    };
    let children = entries(folder, first, &known);
    let mut finished = Vec::new();
    let mut notices = Vec::new();
    let mut due: std::collections::VecDeque<usize> = first.iter().copied().collect();
    while let Some(index) = due.pop_front() {
        let node = &folder.nodes[index];
        let document = if node.is_complete() { folder.document(node)? } else { None };
        match (&node.children, document.as_deref().and_then(&fault)) {
            (_, Some(fault)) => {
                let message =
                    format!("{fault}; its topic is researched again; what is below is not taken over");
                notices.push(Problem::new(join(&node.path, DOCUMENT_MD), message));
            }
            (Some(below), None) if node.is_complete() => {
                finished.push(index);
                due.extend(below);
            }
            (Some(below), None) if !below.is_empty() => {
                let message = "has topics below it and no document, so it is researched again; what is below is not \
                               taken over";
                notices.push(Problem::new(PathBuf::from(&node.path), message));
            }
            _ => {}
        }
    }
    let summary = format!("The first level of an earlier search: {}.", count(children.len(), "topic"));
    let first_level = ResearchOutput {
        document_markdown: None,
        scratchpad: ScratchpadDraft::of(format!("{summary}\n")),
        summary,
        children,
        dropped: 0,
        messages: Vec::new(),
    };
    Ok(Some(Adoption { first_level, finished, notices }))
}

/// The research of the finished topic `node`, as its folder holds it. Its conversation is not on the disk: those who
/// continue it are told the document and the topics below.
///
/// # Errors
/// If the document cannot be read any more.
pub fn adopted(
    folder: &Folder,
    node: &FolderNode,
    known: impl Fn(&str) -> Option<String>,
) -> Result<ResearchOutput, MirrorError> {
    let document = folder.document(node)?.unwrap_or_default();
    let title = node.title(known(&node.path).as_deref());
    let children = entries(folder, node.children.as_deref().unwrap_or_default(), &known);
    let listed: String = children.iter().map(|child| format!("- {}\n", child.title)).collect();
    let listed = if listed.is_empty() { "None.".to_owned() } else { listed };
    let messages = vec![
        SessionMessage::new(Speaker::User, &format!("The document about {title}, please.")),
        SessionMessage::new(Speaker::Assistant, &document),
        SessionMessage::new(Speaker::User, "The topics below it, please."),
        SessionMessage::new(Speaker::Assistant, &listed),
    ];
    let summary = summary(&document);
    Ok(ResearchOutput {
        scratchpad: ScratchpadDraft::of(format!("Taken over from an earlier search: {summary}\n")),
        document_markdown: Some(document),
        summary,
        children,
        dropped: 0,
        messages,
    })
}

fn entries(folder: &Folder, children: &[usize], known: &impl Fn(&str) -> Option<String>) -> Vec<ChildEntry> {
    let nodes = children.iter().map(|&index| &folder.nodes[index]);
    let entry = |node: &FolderNode| ChildEntry {
        title: node.title(known(&node.path).as_deref()).to_owned(),
        slug: node.slug.clone(),
        // Scores are not on the disk.
        score: None,
    };
    nodes.map(entry).collect()
}

/// The first paragraph of `document` below its frontmatter and headings.
fn summary(document: &str) -> String {
    let body = tree_agent_frontmatter::body(document);
    let paragraphs = body.split("\n\n").map(str::trim);
    let first = paragraphs.into_iter().find(|p| !p.is_empty() && !p.starts_with(['#', '*', '-']));
    let text = one_line(first.unwrap_or(body));
    let text = if text.is_empty() { one_line(document) } else { text };
    truncate(&text, SUMMARY_BYTES).into_owned()
}

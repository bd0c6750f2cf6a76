//! What tools have answered in a run: the documents that came of it, and what was found in short.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;
use tree_agent_contract::answers::{ANSWERS_BYTES, FINDINGS};
use tree_agent_contract::event::{ToolCallRequested, ToolCallResult};
use tree_agent_contract::{DocumentId, Finding};

/// Nodes whose findings are kept, the latest. Calls are told those of few siblings.
const NODES: usize = 1_024;

/// What tools have answered.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Answers {
    /// Documents that tools wrote, and kept answers.
    documents: BTreeSet<DocumentId>,
    /// Bytes of the kept answers.
    bytes: u64,
    /// The latest findings of nodes, by index.
    findings: BTreeMap<usize, Findings>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Findings {
    /// Calls without an answer: the id and what is asked.
    asked: VecDeque<(String, Finding)>,
    found: VecDeque<Finding>,
}

impl Answers {
    /// The node at `at` asks a tool.
    pub(crate) fn asked(&mut self, at: usize, e: &ToolCallRequested) {
        if !self.findings.contains_key(&at) && self.findings.len() == NODES {
            self.findings.pop_first();
        }
        let asked = &mut self.findings.entry(at).or_default().asked;
        if asked.len() == FINDINGS {
            asked.pop_front();
        }
        asked.push_back((e.call_id.clone(), Finding::of(&e.tool_name, e.args.as_ref(), "")));
    }

    /// A tool has answered the node at `at`.
    pub(crate) fn answered(&mut self, at: usize, e: &ToolCallResult) {
        self.documents.extend(e.document_id);
        if let Some(answer) = e.answer {
            self.documents.insert(answer.document_id);
            self.bytes = self.bytes.saturating_add(answer.bytes);
        }
        let Some(Findings { asked, found }) = self.findings.get_mut(&at) else { return };
        let Some(place) = asked.iter().position(|(id, _)| *id == e.call_id) else { return };
        let asked = asked.remove(place).map(|(_, finding)| finding);
        let summary = e.summary.as_deref().filter(|summary| e.ok && !summary.is_empty());
        if let (Some(asked), Some(summary)) = (asked, summary) {
            let finding = Finding { found: Finding::of("", None, summary).found, ..asked };
            found.retain(|known| (&known.tool, &known.about) != (&finding.tool, &finding.about));
            if found.len() == FINDINGS {
                found.pop_front();
            }
            found.push_back(finding);
        }
    }

    /// True if a tool has written this document of the run, or it is a kept answer.
    pub(crate) fn has(&self, id: DocumentId) -> bool {
        self.documents.contains(&id)
    }

    /// True if there is room for an answer of this many bytes.
    pub(crate) fn have_room(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes as u64) <= ANSWERS_BYTES
    }

    /// The latest findings of the node at `at`.
    pub(crate) fn findings(&self, at: usize) -> Vec<Finding> {
        self.findings.get(&at).map(|node| node.found.iter().cloned().collect()).unwrap_or_default()
    }
}

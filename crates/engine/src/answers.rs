//! What tools and models have answered in a run: the documents that came of it, and what was found in short.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;
use tree_agent_contract::answers::{ANSWERS_BYTES, FINDINGS};
use tree_agent_contract::event::ToolCallResult;
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
    /// Bytes of the kept prompts.
    pub(crate) prompt_bytes: u64,
    /// The latest findings of nodes, by index.
    findings: BTreeMap<usize, VecDeque<Finding>>,
}

impl Answers {
    /// A tool has answered the node at `at`, which asked `about` something.
    pub(crate) fn answered(&mut self, at: usize, e: &ToolCallResult, about: Option<String>) {
        self.documents.extend(e.document_id);
        if let Some(answer) = e.answer {
            self.documents.insert(answer.document_id);
            self.bytes = self.bytes.saturating_add(answer.bytes);
        }
        let summary = e.summary.as_deref().filter(|summary| e.ok && !summary.is_empty());
        let (Some(about), Some(summary)) = (about, summary) else { return };
        if !self.findings.contains_key(&at) && self.findings.len() == NODES {
            self.findings.pop_first();
        }
        let finding = Finding::of(&e.tool_name, about, summary);
        let found = self.findings.entry(at).or_default();
        found.retain(|known| (&known.tool, &known.about) != (&finding.tool, &finding.about));
        if found.len() == FINDINGS {
            found.pop_front();
        }
        found.push_back(finding);
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
        self.findings.get(&at).map(|found| found.iter().cloned().collect()).unwrap_or_default()
    }
}

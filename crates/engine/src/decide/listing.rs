//! What a node returns if nobody can put its parts together: a plain list of them, so that no finished work is hidden.

use std::fmt::Write as _;

use tree_agent_contract::event::NodeAggregated;
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{ArtifactDraft, ResultDraft, RoleError};
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{NodeStatus, ResultKind, SuccessAssessment, limits};

use super::Decider;

/// The label of the list.
const LABEL: &str = "results";
/// Bytes of a list. What is longer is not read.
const BYTES: usize = 256 * 1024;

impl Decider<'_> {
    /// The aggregator of the node at `at` cannot run: the node returns a list of `parts`, which are nodes below it, and
    /// completes in part.
    pub(crate) fn return_listing(&mut self, at: usize, parts: Vec<usize>, error: &RoleError) {
        let (artifacts, result) = self.listing(at, parts, error);
        let evidence = result.success_assessment.as_ref().and_then(|met| met.notes.clone());
        self.return_result(at, artifacts, result);
        self.complete(at, evidence);
    }

    /// As [`return_listing`](Self::return_listing), for a node that returns more.
    pub(crate) fn listing(
        &mut self,
        at: usize,
        parts: Vec<usize>,
        error: &RoleError,
    ) -> (Vec<ArtifactDraft>, ResultDraft) {
        let notes = format!("aggregation failed: {error}");
        let language = self.state.spec().language.clone();
        let why = Sentence::PartsListed.of(&language, &[&error.to_string()]);
        let (mut summary, mut list) = (why.clone(), String::new());
        let total = parts.len();
        for (n, &part) in parts.iter().enumerate() {
            if list.len() > BYTES {
                let left = (total - n).to_string();
                let _ = writeln!(list, "*{}*", Sentence::PartsLeftOut.of(&language, &[&left]));
                break;
            }
            let node = self.state.node(part);
            if let (NodeStatus::Completed, Some(result)) = (node.status, &node.result) {
                let _ = write!(summary, "\n- {}: {}", node.title, result.summary);
            }
            self.list_part(&mut list, part);
        }
        let success_assessment = Some(SuccessAssessment {
            met: false,
            notes: Some(prefix(&notes, limits::TEXT_BYTES).to_owned()),
        });
        let title = self.state.node(at).title.clone();
        self.status(at, NodeStatus::Aggregating, Some("guard:aggregationFailed".into()));
        self.emit(
            at,
            NodeAggregated {
                child_ids: parts.iter().map(|&part| self.state.node(part).id).collect(),
                summary: prefix(&why, limits::TEXT_BYTES).to_owned(),
                success_assessment: success_assessment.clone(),
            },
        );
        let body = format!("# {}\n\n*{}*\n\n{list}", one_line(&title), one_line(&why));
        let summary = prefix(&summary, limits::TEXT_BYTES);
        let result =
            ResultDraft { success_assessment, ..ResultDraft::new(ResultKind::Document, summary, LABEL) };
        (vec![ArtifactDraft::document(LABEL, title, body)], result)
    }

    /// Adds the title, the summary and the result of one part to a list. The engine knows how each document begins.
    fn list_part(&self, list: &mut String, part: usize) {
        let node = self.state.node(part);
        let _ = writeln!(list, "## {}\n", one_line(&node.title));
        let Some(result) = node.result.as_deref().filter(|_| node.status == NodeStatus::Completed) else {
            let why = node.error.as_deref().or(node.message.as_deref());
            let why = why.map(|why| format!(": {}", one_line(why))).unwrap_or_default();
            let _ = writeln!(list, "*{}{why}*\n", node.status);
            return;
        };
        let _ = writeln!(list, "{}\n", result.summary.trim());
        let shown =
            self.state.control(part).shown.iter().filter(|shown| result.artifact_ids.contains(&shown.id));
        for snippet in shown.filter_map(|shown| shown.snippet.as_deref()) {
            for line in snippet.trim().lines() {
                let _ = writeln!(list, "{}", format!("> {line}").trim_end());
            }
            let _ = match snippet.len() + 4 > limits::SNIPPET_BYTES {
                true => writeln!(list, "> …\n"),
                false => writeln!(list),
            };
        }
        for id in &result.document_ids {
            let command = format!("`tree-agent doc {id}`");
            let _ =
                writeln!(list, "{}\n", Sentence::WholeDocument.of(&self.state.spec().language, &[&command]));
        }
    }
}

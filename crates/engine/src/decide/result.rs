//! Turns a role's drafts into artifacts, documents, the result envelope and the hint to the parent.

use serde_json::{Map, Value};
use tree_agent_contract::answers::PROMPTS_FULL;
use tree_agent_contract::document::{Document, DocumentKind};
use tree_agent_contract::event::*;
use tree_agent_contract::limits;
use tree_agent_contract::role::{ArtifactDraft, DraftType, KeptDocument, ResultDraft, ToolCallKept};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{
    ArtifactId, ArtifactType, CitationCounts, DocumentId, HintType, KeptText, NodeStatus, Outcome,
    ResultKind, Strategy, TreeAgentResult,
};

use super::{Decider, Next};
use crate::amounts::Amounts;
use crate::{budgets, documents};

impl Decider<'_> {
    /// Emits the artifacts, the result and the parent's hint of a node.
    pub(crate) fn return_result(&mut self, at: usize, artifacts: Vec<ArtifactDraft>, draft: ResultDraft) {
        let hint_type = draft.parent_hint.hint_type;
        let (artifact_ids, document_ids) = self.keep_result(at, artifacts, draft);
        self.hint(at, hint_type, artifact_ids, document_ids);
    }

    /// Ends a node with the result that it has in the log, as partial because of `guard`.
    pub(crate) fn return_kept(&mut self, at: usize, guard: &str) {
        let Some(result) = self.state.node(at).result.as_deref().cloned() else { return };
        let evidence = self.evidence(at);
        self.give_up(at);
        self.status(at, NodeStatus::Aggregating, Some(guard.to_owned()));
        self.hint_at(at, result);
        self.complete(at, evidence);
    }

    /// What the node at `at` says of how well its result meets its criteria.
    pub(crate) fn evidence(&self, at: usize) -> Option<String> {
        let result = self.state.node(at).result.as_deref()?;
        result.success_assessment.as_ref()?.notes.clone()
    }

    /// The node, which was reopened, returns again what it returned before.
    pub(crate) fn repeat_result(&mut self, at: usize) {
        let Some(result) = self.state.node(at).result.as_deref().cloned() else { return };
        self.emit(at, NodeResult { result: result.clone() });
        self.hint_at(at, result);
    }

    /// Tells the parent to read all of a result.
    fn hint_at(&mut self, at: usize, TreeAgentResult { artifact_ids, document_ids, .. }: TreeAgentResult) {
        let hint_type = if document_ids.is_empty() { HintType::ReadJson } else { HintType::ReadDocuments };
        self.hint(at, hint_type, artifact_ids, document_ids);
    }

    /// Tells the parent what to read.
    fn hint(
        &mut self,
        at: usize,
        hint_type: HintType,
        artifact_ids: Vec<ArtifactId>,
        document_ids: Vec<DocumentId>,
    ) {
        if let Some(parent_node_id) = self.state.node(at).parent_id {
            self.emit(at, ParentHint { parent_node_id, hint_type, artifact_ids, document_ids });
        }
    }

    /// Emits the artifacts and the result of a node, which may go on. Returns what its parent should read.
    pub(crate) fn keep_result(
        &mut self,
        at: usize,
        artifacts: Vec<ArtifactDraft>,
        draft: ResultDraft,
    ) -> (Vec<ArtifactId>, Vec<DocumentId>) {
        let (node, place) = (self.state.node(at), self.place_of(at));
        let node_id = node.id;
        let (scratchpad_doc_id, scratchpad_tail) = (node.scratchpad_doc_id, node.scratchpad_tail.clone());
        let number = self.state.control(at).results;
        let is_draft = |label: &str| artifacts.iter().any(|draft| draft.label == label);
        // What tools wrote for this result belongs to it.
        let written = node.artifacts.iter().filter(|one| {
            !is_draft(&one.label) && one.artifact_id == ArtifactId::of(node_id, number, &one.label)
        });
        let written: Vec<_> =
            written.map(|one| (one.artifact_id, one.document_id, one.label.clone())).collect();
        let primary = draft
            .primary_artifact_label
            .clone()
            .or_else(|| artifacts.iter().find(|a| a.is_primary).map(|a| a.label.clone()))
            .or_else(|| artifacts.first().map(|a| a.label.clone()))
            .or_else(|| written.first().map(|(_, _, label)| label.clone()));

        let mut result = TreeAgentResult {
            kind: draft.kind,
            summary: draft.summary,
            success_assessment: draft.success_assessment,
            key_findings: draft.key_findings,
            gaps: draft.gaps,
            primary_artifact_id: primary.as_ref().map(|label| ArtifactId::of(node_id, number, label)),
            artifact_ids: Vec::with_capacity(artifacts.len()),
            document_ids: Vec::new(),
            json_payload: None,
            scratchpad_doc_id,
            scratchpad_tail,
        };
        let mut hinted = (Vec::new(), Vec::new());
        for artifact in artifacts {
            let id = ArtifactId::of(node_id, number, &artifact.label);
            let snippet = artifact
                .document_markdown
                .as_deref()
                .filter(|_| artifact.r#type == DraftType::Document)
                .map(|body| prefix(body, limits::SNIPPET_BYTES).to_owned());
            let is_primary = primary.as_deref() == Some(artifact.label.as_str());
            let mut document = None;
            let (artifact_type, document_id) = match artifact.r#type {
                DraftType::Document => (ArtifactType::Document, Some(DocumentId::of_artifact(id))),
                DraftType::Json => (ArtifactType::Json, None),
            };
            if let Some(document_id) = document_id {
                result.document_ids.push(document_id);
                let title = artifact.title.clone().unwrap_or_default();
                let body = artifact.document_markdown.unwrap_or_default();
                document = Some(self.artifact_document(at, document_id, title, body));
            } else if result.json_payload.is_none() || is_primary {
                result.json_payload = artifact.json_payload.clone();
            }
            if draft.parent_hint.artifact_labels.contains(&artifact.label) {
                hinted.0.push(id);
                hinted.1.extend(document_id);
            }
            result.artifact_ids.push(id);
            self.emit(
                at,
                ArtifactCreated {
                    artifact_id: id,
                    artifact_type,
                    document_id,
                    label: Some(artifact.label),
                    title: artifact.title,
                    json_payload: artifact.json_payload.filter(|_| artifact_type == ArtifactType::Json),
                    is_primary,
                    snippet,
                },
            );
            if let Some(document) = document {
                self.create_document(document, place);
            }
            let disagrees = !artifact.disagreements.is_empty();
            if !artifact.citations.is_empty() || artifact.uncited.is_some() || disagrees {
                let counts = CitationCounts::of(&artifact.citations, artifact.uncited.unwrap_or(0));
                let (citations, disagreements) = (artifact.citations, artifact.disagreements);
                self.emit(at, ArtifactCited { artifact_id: id, citations, counts, disagreements });
            }
        }
        for (id, document_id, _) in written {
            result.artifact_ids.push(id);
            result.document_ids.extend(document_id);
            hinted.0.push(id);
            hinted.1.extend(document_id);
        }
        if result.kind == ResultKind::Json && !result.document_ids.is_empty() {
            result.kind = ResultKind::Hybrid;
        }
        self.emit(at, NodeResult { result });
        hinted
    }

    /// A tool of the node at `at` has answered, and something of it becomes a document of the run: what the tool wrote
    /// is an artifact of the node, and the answer itself serves further calls. A document that the run has already is
    /// written once.
    pub(super) fn keep_documents(&mut self, at: usize, kept: ToolCallKept) {
        let ToolCallKept { result, document, answer } = kept;
        let origin = self.state.origin();
        let written = document.map(|document| (DocumentId::of_run(origin, &document.path), document));
        let is_new = written.as_ref().is_some_and(|(id, _)| !self.state.answers().has(*id));
        let answer = answer.filter(|answer| self.state.answers().have_room(answer.body.len()));
        let answer = answer.map(|answer| {
            let id = DocumentId::of_run(origin, &answer.path);
            let bytes = if self.state.answers().has(id) { 0 } else { answer.body.len() as u64 };
            (KeptText { document_id: id, bytes }, answer)
        });
        let document_id = written.as_ref().map(|(id, _)| *id).or(result.document_id);
        self.emit(
            at,
            ToolCallResult { document_id, answer: answer.as_ref().map(|(kept, _)| *kept), ..result },
        );
        if let Some((kept, answer)) = answer.filter(|(kept, _)| kept.bytes > 0) {
            self.keep_record(at, kept.document_id, DocumentKind::ToolAnswer, answer);
        }
        if let Some((id, document)) = written {
            self.keep_written(at, id, document, is_new);
        }
    }

    /// A model has answered the node at `at`. The `prompt` becomes a document, if the run keeps prompts and has room.
    pub(super) fn record_usage(&mut self, at: usize, usage: UsageRecorded, prompt: Option<String>) {
        let is_kept = self.state.spec().keep_prompts && self.state.answers().prompt_bytes <= PROMPTS_FULL;
        let Some(body) = prompt.filter(|_| is_kept) else { return self.emit(at, usage) };
        // Named after its event, so that it has a path of its own.
        let path = format!("prompts/{:08}.md", self.state.graph().seq() + 1);
        let document_id = DocumentId::of_run(self.state.origin(), &path);
        let title = prefix(&format!("{} · {}", usage.purpose, usage.model), limits::TITLE_BYTES).to_owned();
        let prompt = Some(KeptText { document_id, bytes: body.len() as u64 });
        self.emit(at, UsageRecorded { prompt, ..usage });
        self.keep_record(at, document_id, DocumentKind::Prompt, KeptDocument { path, title, body });
    }

    /// What `usage` takes beyond what the call in flight for the node at `at` may still use.
    pub(super) fn beyond(&self, at: usize, usage: &UsageRecorded) -> Amounts {
        let spent = self.state.control(at).spent;
        let left = self.in_flight.call(at).map_or([u64::MAX; 3], |call| call.left(spent));
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        [tokens.saturating_sub(left[0]), usage.cost_micros.saturating_sub(left[1]), 0]
    }

    /// Accounts above take over `beyond`, which the node at `at` used beyond the allowance of its call, as
    /// far as its lease lacks it. What the lease promised to steps although a call in flight may use it is
    /// not covered: while every call keeps to its allowance, the subtree keeps to its lease.
    pub(super) fn cover(&mut self, at: usize, beyond: Amounts) {
        for (m, mut left) in beyond.into_iter().enumerate() {
            let Some(lease) = self.state.account_of(at, m) else { continue };
            while let Some(covered) = budgets::cover(self.state, lease, m, left) {
                left -= covered.amount;
                self.emit(lease, covered);
            }
        }
    }

    /// The answer of a tool, or a prompt, becomes a document.
    fn keep_record(&mut self, at: usize, id: DocumentId, kind: DocumentKind, kept: KeptDocument) {
        let document = documents::record(self.state.graph().run_id(), id, kind, kept, self.now);
        self.create_document(self.own(at, document), self.place_of(at));
    }

    /// What a tool wrote becomes an artifact of the node, also if the run has the text already from another one.
    /// `is_new`: it has not.
    fn keep_written(&mut self, at: usize, id: DocumentId, document: KeptDocument, is_new: bool) {
        if self.state.node(at).artifacts.iter().any(|known| known.document_id == Some(id)) {
            return;
        }
        let KeptDocument { path, title, body } = document;
        let node_id = self.state.node(at).id;
        // An earlier attempt of the node may have had the same artifact, which was dropped with it.
        let number = match is_new {
            true => self.state.control(at).results,
            false => u32::try_from(self.state.graph().seq()).unwrap_or(u32::MAX),
        };
        let snippet = Some(prefix(&body, limits::SNIPPET_BYTES).to_owned());
        self.emit(
            at,
            ArtifactCreated {
                artifact_id: ArtifactId::of(node_id, number, &path),
                artifact_type: ArtifactType::Document,
                document_id: Some(id),
                label: Some(path.clone()),
                title: Some(title.clone()),
                json_payload: None,
                is_primary: false,
                snippet,
            },
        );
        if is_new {
            let document = self.artifact_document(at, id, title, body);
            self.create_document(Document { path, ..document }, self.place_of(at));
        }
    }

    /// The document behind an artifact of the node at `at`.
    fn artifact_document(&self, at: usize, id: DocumentId, title: String, body: String) -> Document {
        self.own(at, documents::artifact(self.state.graph().run_id(), id, title, body, self.now))
    }

    /// `document` with the props of what the node at `at` writes.
    pub(crate) fn own(&self, at: usize, document: Document) -> Document {
        let node = self.state.node(at);
        let document = documents::of_node(document, node.id, node.parent_id, node.depth);
        match (self.state.control(at).strategy, &node.task) {
            (Strategy::Homework, Some(task)) => {
                let document = documents::of_homework(document, "executor");
                documents::of_branch(document, &task.branch_id, task.iteration)
            }
            (Strategy::Homework, None) => documents::of_homework(document, "planner"),
            (Strategy::Tree | Strategy::Search, _) => document,
        }
    }

    /// Ends a node that has returned its result.
    pub(crate) fn complete(&mut self, at: usize, evidence: Option<String>) {
        self.complete_partly(at, evidence, false);
    }

    /// As [`complete`](Self::complete). The outcome is partial also if work below the node was `lost`.
    pub(crate) fn complete_partly(&mut self, at: usize, evidence: Option<String>, lost: bool) {
        let node = self.state.node(at);
        // A step that the latest plan dropped was given up on purpose, so it is not missing.
        let missing = node.steps().any(|step| {
            let child = step.node_id.and_then(|id| self.state.position(id)).map(|c| self.state.node(c));
            child.is_none_or(|c| c.status != NodeStatus::Completed || c.outcome == Some(Outcome::Partial))
        });
        let partial = missing || lost || self.state.control(at).is_cut();
        let mut metrics = Map::new();
        let started = node.started_at.unwrap_or(node.created_at);
        metrics.insert("durationMs".into(), Value::from(self.now.millis_since(started)));
        metrics.insert("children".into(), Value::from(self.state.control(at).bands().children.len()));
        metrics.insert("toolCalls".into(), Value::from(node.usage.get().tool_calls));
        let outcome = if partial { Outcome::Partial } else { Outcome::Success };
        let evidence = evidence.map(|e| prefix(&e, limits::TEXT_BYTES).to_owned());
        self.emit(at, NodeCompleted { outcome, evidence, metrics: Some(metrics) });
        self.ask(Next::Ended { at });
    }
}

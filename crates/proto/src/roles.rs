//! The role contracts.

use tree_agent_contract::error::FieldError;
use tree_agent_contract::homework::{
    BranchBrief, BranchEntry, BranchTask, HomeworkBrief, HomeworkDraft, Refusal,
};
use tree_agent_contract::role::*;
use tree_agent_contract::search::ChildEntry;
use tree_agent_contract::session::{SessionFork, SessionId, SessionMessage, Speaker};
use tree_agent_contract::{
    Allowance, AnswerUse, BudgetLeft, Finding, ModelProblem, ModelProblemKind, SiblingFindings,
};

use crate::internal::v1 as pb;
use crate::wire::{Wire, missing, wire_enum, wire_message, within};

wire_enum! {
    PlannerMode => pb::PlannerMode { Execute, Plan, Done }
    Complexity => pb::Complexity { Low, Medium, High }
    ActionKind => pb::ActionKind { Analysis, ToolCall, Document }
    DraftType => pb::DraftType { Document, Json }
    ResearchForm => pb::ResearchForm { Root, Topic }
    AnswerUse => pb::AnswerUse { Keep, Reuse }
    Speaker => pb::Speaker { User, Assistant }
    ModelProblemKind => pb::ModelProblemKind { Unknown, NotSet, KeyMissing, KeyRefused }
}

wire_message! {
    CallContext => CallContext {
        run_id, node_id, attempt, objective, title, reason, success_criteria, depth, budgets [required], context [required], model,
        scratchpad_tail, sibling_index, allowance [required], finish, read_only, guidance,
        origin_run_id, deliverable, profile, started_at, time_left_ms, answers, siblings, earlier_calls, language,
        keep_prompts,
    }
    Guidance => Guidance { author, text }
    EarlierCall => EarlierCall { tool_name, args, writes, ok, outcome }
    Finding => Finding { tool, about, found }
    SiblingFindings => SiblingFindings { node_id, title, status, summary, findings }
    Allowance => Allowance { tokens, cost_micros, tool_calls }
    BudgetLeft => BudgetLeft { budget, limit, left }
    ScratchpadDelta => ScratchpadDelta { append_markdown }
    ToolCallKept => ToolCallKept { result [required], document, answer }
    KeptDocument => KeptDocument { path, title, body }
    ScratchpadDraft => ScratchpadDraft { append_markdown, tail_preview }
    ArtifactRef => ArtifactRef { label, title, document_id, is_primary, snippet, hinted, json_payload }
    ChildOutcome => ChildOutcome {
        node_id, step_id, title, status, partial, result, error, artifacts, scratchpad_doc_id, scratchpad_tail,
    }

    PlanInput => PlanRequest {
        call [required], existing_plan_summary, replan_reason, prior_steps, earlier_result, homework, review,
    }
    PriorStep => PriorStep { id, title, status, summary }
    PlannerOutput => PlannerOutput { mode, mode_reason, leaf_decision, plan, homework, premises, scratchpad [required] }
    LeafDecision => LeafDecision { can_execute_directly, complexity, blockers }
    PlanDraft => PlanDraft { summary, bands }
    BandDraft => BandDraft { index, goal, parallelizable, steps }
    StepDraft => StepDraft { id, title, reason, success_criteria, step_index, strategy, search, branch_id, budget, deliverable, profile }

    ExecuteInput => ExecuteRequest { call [required], earlier, task }
    ExecutorOutput => ExecutorOutput { actions, artifacts, result [required], scratchpad [required] }
    Action => Action { kind, note, tool_name, tool_args }
    ArtifactDraft => ArtifactDraft {
        r#type, label, title, document_markdown, json_payload, is_primary, citations, uncited, disagreements,
    }
    ParentHintDraft => ParentHintDraft { hint_type, artifact_labels }
    ResultDraft => ResultDraft {
        kind, summary, success_assessment, primary_artifact_label, parent_hint [required], key_findings, gaps,
    }

    ResearchInput => ResearchRequest {
        call [required], form, path, siblings, outline, session, prompts [required], frontmatter_schema,
        max_children, slug,
    }
    ResearchOutput => ResearchOutput {
        document_markdown, summary, children, dropped, messages, scratchpad [required],
    }
    ChildEntry => ChildEntry { title, slug, score }
    SessionFork => SessionFork { id, parent_id, messages, shortened }
    SessionMessage => SessionMessage { speaker, text }
    PickInput => PickRequest { call [required], outline, leaves, note, prompt }
    OfferedLeaf => OfferedLeaf { path, title, depth, score, leaves_below }
    PickOutput => PickOutput { path, reason }

    VerifyInput => VerifyRequest { call [required], answer [required], may_replan }
    VerifierOutput => VerifierOutput { verification [required], next [required], scratchpad [required] }

    AggregateInput => AggregateRequest { call [required], plan_summary, children, exhausted_budget, homework }
    AggregatorOutput => AggregatorOutput { synthesis [required], artifacts, result [required], next [required], scratchpad [required] }
    Synthesis => Synthesis { summary, key_findings, gaps }
    AggregatorNext => AggregatorNext { should_replan, replan_reason }

    HomeworkBrief => HomeworkBrief {
        iteration, max_iterations, scratchpad_doc_id, plan_doc_id, last [required], rollups, branches, refused,
    }
    HomeworkDraft => HomeworkDraft { items, rollup, branches, remaining, questions }
    BranchBrief => BranchBrief { branch_id, title, scratchpad_doc_id, summary, entries, earlier }
    BranchEntry => BranchEntry { iteration, title, status, summary }
    Refusal => Refusal { branch_id, title, reason }
    BranchTask => BranchTask { branch_id, iteration, scratchpad_doc_id, workspace_doc_id, rollup }

    ModelProblem => ModelProblem { kind, message }
}

impl Wire for SessionId {
    type Pb = String;

    fn to_wire(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_wire(pb: String) -> Result<Self, FieldError> {
        String::from_wire(pb).map(SessionId::new)
    }
}

impl Wire for RoleUpdate {
    type Pb = pb::RoleUpdate;

    fn to_wire(&self) -> pb::RoleUpdate {
        use pb::role_update::Update;
        let (update, prompt) = match self {
            RoleUpdate::Scratchpad(delta) => (Update::Scratchpad(delta.to_wire()), None),
            RoleUpdate::ToolCallRequested(call) => (Update::ToolCallRequested(call.to_wire()), None),
            RoleUpdate::ToolCallResult(result) => (Update::ToolCallResult(result.to_wire()), None),
            RoleUpdate::ToolCallKept(kept) => (Update::ToolCallKept(kept.to_wire()), None),
            RoleUpdate::Usage { usage, prompt } => (Update::Usage(usage.to_wire()), prompt.clone()),
            RoleUpdate::Heartbeat => (Update::Heartbeat(pb::RoleHeartbeat {}), None),
        };
        pb::RoleUpdate { update: Some(update), prompt }
    }

    fn from_wire(pb: pb::RoleUpdate) -> Result<Self, FieldError> {
        use pb::role_update::Update;
        let at = |e| within("update", e);
        Ok(match pb.update.ok_or_else(missing).map_err(at)? {
            Update::Scratchpad(delta) => RoleUpdate::Scratchpad(Wire::from_wire(delta).map_err(at)?),
            Update::ToolCallRequested(call) => {
                RoleUpdate::ToolCallRequested(Wire::from_wire(call).map_err(at)?)
            }
            Update::ToolCallResult(result) => {
                RoleUpdate::ToolCallResult(Wire::from_wire(result).map_err(at)?)
            }
            Update::ToolCallKept(kept) => {
                RoleUpdate::ToolCallKept(Box::new(Wire::from_wire(kept).map_err(at)?))
            }
            Update::Usage(usage) => {
                RoleUpdate::Usage { usage: Wire::from_wire(usage).map_err(at)?, prompt: pb.prompt }
            }
            Update::Heartbeat(_) => RoleUpdate::Heartbeat,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call() -> serde_json::Value {
        let id = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
        json!({
            "runId": id, "nodeId": id, "attempt": 2, "objective": "o", "title": "t", "reason": "r",
            "successCriteria": ["c"], "depth": 1, "budgets": {"maxDepth": 2, "maxTokens": 5},
            "context": {"scope": "project", "projectIds": [id]}, "model": "offline", "scratchpadTail": "s",
            "siblingIndex": 3, "allowance": {"tokens": 7},
            "finish": {"budget": "maxTokens", "limit": 5, "left": 1}, "originRunId": id,
            "deliverable": "hybrid", "profile": "powerful",
            "startedAt": "2026-01-27T10:00:00.000001Z", "timeLeftMs": 9,
        })
    }

    fn survives<T>(json: serde_json::Value)
    where
        T: Wire + PartialEq + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let value: T = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(
            serde_json::to_value(&value).unwrap().as_object().map(|o| o.len()),
            json.as_object().map(|o| o.len())
        );
        assert_eq!(T::from_wire(value.to_wire()).unwrap(), value);
    }

    #[test]
    fn what_a_search_asks_and_is_answered_survives_the_wire() {
        let message = json!({"speaker": "assistant", "text": "m"});
        survives::<ResearchInput>(json!({
            "call": call(), "form": "topic", "path": ["a", "b"], "siblings": ["c"], "outline": "- a",
            "session": {"id": "s", "parentId": "p", "messages": [message], "shortened": 2},
            "prompts": {"root": "r", "document": "d", "children": "c", "picker": "p"},
            "frontmatterSchema": {"type": "object"}, "maxChildren": 9, "slug": "b",
        }));
        survives::<ResearchOutput>(json!({
            "documentMarkdown": "# d", "summary": "s", "children": [{"title": "t", "slug": "t", "score": 0.5}],
            "dropped": 1, "messages": [message], "scratchpad": {"appendMarkdown": "a", "tailPreview": "a"},
        }));
        survives::<PickInput>(json!({
            "call": call(), "outline": "- t [unexpanded]",
            "leaves": [{"path": "a/b", "title": "t", "depth": 2, "score": 0.5, "leavesBelow": 4}],
            "note": "n", "prompt": "p",
        }));
        survives::<PickOutput>(json!({"path": "a/b", "reason": "r"}));
    }

    #[test]
    fn what_homework_asks_and_is_answered_survives_the_wire() {
        let id = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
        let draft = json!({
            "items": [{"title": "t", "state": "dropped", "note": "n"}], "rollup": "r",
            "branches": [{"branchId": "b", "summary": "s"}], "remaining": ["m"], "questions": ["q"],
        });
        let brief = json!({
            "iteration": 3, "maxIterations": 5, "scratchpadDocId": id, "planDocId": id, "last": draft,
            "rollups": ["r1", "r2"],
            "branches": [{
                "branchId": "b", "title": "t", "scratchpadDocId": id, "summary": "s", "earlier": 1,
                "entries": [{"iteration": 2, "title": "t", "status": "failed", "summary": "s"}],
            }],
            "refused": [{"branchId": "b", "title": "t", "reason": "r"}],
        });
        survives::<PlanInput>(json!({
            "call": call(), "existingPlanSummary": "", "replanReason": "", "priorSteps": [], "homework": brief,
        }));
        let step = json!({
            "id": "s", "title": "t", "reason": "r", "successCriteria": [], "stepIndex": 0, "branchId": "b",
            "deliverable": "document", "profile": "fast",
        });
        let band = json!({"index": 0, "goal": "g", "parallelizable": true, "steps": [step]});
        survives::<PlannerOutput>(json!({
            "mode": "done", "modeReason": "m", "plan": {"summary": "s", "bands": [band]}, "homework": draft,
            "scratchpad": {"appendMarkdown": "a", "tailPreview": "a"},
        }));
        let task = json!({
            "branchId": "b", "iteration": 2, "scratchpadDocId": id, "workspaceDocId": id, "rollup": "r",
        });
        survives::<ExecuteInput>(json!({"call": call(), "earlier": [], "task": task}));
        survives::<AggregateInput>(json!({
            "call": call(), "planSummary": "s", "children": [], "homework": brief,
        }));
    }
}

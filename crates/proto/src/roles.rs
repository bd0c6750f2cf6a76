//! The role contracts.

use tree_agent_contract::error::FieldError;
use tree_agent_contract::role::*;
use tree_agent_contract::{Allowance, BudgetLeft, ModelProblem, ModelProblemKind};

use crate::internal::v1 as pb;
use crate::wire::{Wire, missing, wire_enum, wire_message, within};

wire_enum! {
    PlannerMode => pb::PlannerMode { Execute, Plan }
    Complexity => pb::Complexity { Low, Medium, High }
    ActionKind => pb::ActionKind { Analysis, ToolCall, Document }
    DraftType => pb::DraftType { Document, Json }
    ModelProblemKind => pb::ModelProblemKind { Unknown, NotSet, KeyMissing, KeyRefused }
}

wire_message! {
    CallContext => CallContext {
        run_id, node_id, attempt, objective, title, reason, success_criteria, depth, budgets [required], context [required], model,
        scratchpad_tail, sibling_index, allowance [required], finish,
    }
    Allowance => Allowance { tokens, cost_micros, tool_calls }
    BudgetLeft => BudgetLeft { budget, limit, left }
    ScratchpadDelta => ScratchpadDelta { append_markdown }
    ScratchpadDraft => ScratchpadDraft { append_markdown, tail_preview }
    ArtifactRef => ArtifactRef { label, title, document_id, is_primary, snippet, hinted }
    ChildOutcome => ChildOutcome { node_id, step_id, title, status, partial, result, error, artifacts }

    PlanInput => PlanRequest { call [required], existing_plan_summary, replan_reason, prior_steps, earlier_result }
    PriorStep => PriorStep { id, title, status, summary }
    PlannerOutput => PlannerOutput { mode, mode_reason, leaf_decision, plan, scratchpad [required] }
    LeafDecision => LeafDecision { can_execute_directly, complexity, blockers }
    PlanDraft => PlanDraft { summary, bands }
    BandDraft => BandDraft { index, goal, parallelizable, steps }
    StepDraft => StepDraft { id, title, reason, success_criteria, step_index }

    ExecuteInput => ExecuteRequest { call [required], earlier }
    ExecutorOutput => ExecutorOutput { actions, artifacts, result [required], scratchpad [required] }
    Action => Action { kind, note, tool_name, tool_args }
    ArtifactDraft => ArtifactDraft { r#type, label, title, document_markdown, json_payload, is_primary }
    ParentHintDraft => ParentHintDraft { hint_type, artifact_labels }
    ResultDraft => ResultDraft { kind, summary, success_assessment, primary_artifact_label, parent_hint [required] }

    AggregateInput => AggregateRequest { call [required], plan_summary, children, exhausted_budget }
    AggregatorOutput => AggregatorOutput { synthesis [required], artifacts, result [required], next [required], scratchpad [required] }
    Synthesis => Synthesis { summary, key_findings, gaps }
    AggregatorNext => AggregatorNext { should_replan, replan_reason }

    ModelProblem => ModelProblem { kind, message }
}

impl Wire for RoleUpdate {
    type Pb = pb::RoleUpdate;

    fn to_wire(&self) -> pb::RoleUpdate {
        use pb::role_update::Update;
        let update = match self {
            RoleUpdate::Scratchpad(delta) => Update::Scratchpad(delta.to_wire()),
            RoleUpdate::ToolCallRequested(call) => Update::ToolCallRequested(call.to_wire()),
            RoleUpdate::ToolCallResult(result) => Update::ToolCallResult(result.to_wire()),
            RoleUpdate::Usage(usage) => Update::Usage(usage.to_wire()),
            RoleUpdate::Heartbeat => Update::Heartbeat(pb::RoleHeartbeat {}),
        };
        pb::RoleUpdate { update: Some(update) }
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
            Update::Usage(usage) => RoleUpdate::Usage(Wire::from_wire(usage).map_err(at)?),
            Update::Heartbeat(_) => RoleUpdate::Heartbeat,
        })
    }
}

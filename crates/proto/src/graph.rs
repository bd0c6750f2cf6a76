//! The graph projection.

use tree_agent_contract::graph::*;

use crate::v1 as pb;
use crate::wire::wire_message;

wire_message! {
    GraphSnapshot => Graph { run_id, seq, status, partial, goes_on_at, nodes }
    GraphNode => GraphNode {
        id, parent_id, title, reason, success_criteria, status, role, depth, band_index, step_index, step_id,
        message, decisions, progress, outcome, error, scratchpad_doc_id, scratchpad_tail, last_tool, plan, result, artifacts,
        usage [required], subtree_usage [required], strategy, topic, task, paused, stopped, generation, lease, written_by,
        verification, review, created_at [required], started_at, ended_at,
    }
    Lease => Lease { limits [required], deadline, exhausted, since, before [required] }
    SubtreeUse => SubtreeUse { tokens, cost_micros, tool_calls }
    GraphTopic => GraphTopic { score, picked, skipped, session_id }
    GraphTask => GraphTask { iteration, branch_id }
    WrittenBy => WrittenBy { purpose, model }
    ToolActivity => ToolActivity { call_id, tool_name, ok }
    GraphPlan => GraphPlan { plan_id, version, summary, iteration, bands }
    GraphBand => GraphBand { index, goal, parallelizable, steps }
    GraphStep => GraphStep { step_id, title, reason, success_criteria, strategy, search, branch_id, budget, deliverable, profile, status, node_id }
    GraphArtifact => GraphArtifact { artifact_id, artifact_type, document_id, label, title, is_primary, json_payload, citations }
    Usage => Usage {
        input_tokens, output_tokens, cached_tokens, cache_write_tokens, cost_micros, model_calls, duration_ms, tool_calls,
    }
}

//! What a node differs in from its counterpart in another run.

use tree_agent_contract::diff::{NodeAspect, NodeMatching, Spending};
use tree_agent_contract::graph::{GraphArtifact, GraphBand, GraphNode, GraphPlan, GraphStep};
use tree_agent_contract::{ArtifactId, TreeAgentResult};

/// Independent runs never take equally long. Between them a difference in time counts from this many milliseconds on …
const NOTABLE_MS: u64 = 1_000;
/// … and from this part of the longer time on: a tenth.
const NOTABLE_PART: u64 = 10;

/// What `a` and `b` differ in, in the order of [`NodeAspect::ALL`].
///
/// Shared ids are compared too: an artifact with another id was made again. Ids of independent runs always differ, and
/// say nothing.
pub(crate) fn changes(a: &GraphNode, b: &GraphNode, matching: NodeMatching) -> Vec<NodeAspect> {
    let differs = |aspect: NodeAspect| match aspect {
        NodeAspect::Plan => plan(a) != plan(b) || a.strategy != b.strategy,
        NodeAspect::Result => result(a, matching) != result(b, matching),
        NodeAspect::Cost => cost(a) != cost(b),
        NodeAspect::Time => time_differs(duration_ms(a), duration_ms(b), matching),
        NodeAspect::Tools => tools(a) != tools(b),
        NodeAspect::Status => status(a) != status(b),
        NodeAspect::Title => a.title != b.title,
    };
    NodeAspect::ALL.iter().copied().filter(|aspect| differs(*aspect)).collect()
}

/// Milliseconds from the node's start to its end.
pub(crate) fn duration_ms(node: &GraphNode) -> Option<u64> {
    let ended = node.ended_at.filter(|_| node.status.is_final())?;
    Some(ended.millis_since(node.started_at.unwrap_or(node.created_at)))
}

fn time_differs(a: Option<u64>, b: Option<u64>, matching: NodeMatching) -> bool {
    match (a, b) {
        (Some(a), Some(b)) if matching == NodeMatching::Steps => {
            let difference = a.abs_diff(b);
            difference >= NOTABLE_MS && difference >= a.max(b) / NOTABLE_PART
        }
        _ => a != b,
    }
}

/// The plan without the progress of its steps, which the nodes below show, and without the ids of this run.
fn plan(node: &GraphNode) -> Option<impl PartialEq> {
    fn step(step: &GraphStep) -> impl PartialEq {
        let GraphStep {
            step_id,
            title,
            reason,
            success_criteria,
            strategy,
            search,
            branch_id,
            budget,
            deliverable,
            profile,
            ..
        } = step;
        let how = (strategy, search, branch_id, budget, deliverable, profile);
        (step_id, title, reason, success_criteria, how)
    }
    fn band(band: &GraphBand) -> impl PartialEq {
        let GraphBand { index, goal, parallelizable, steps } = band;
        (index, goal, parallelizable, steps.iter().map(step).collect::<Vec<_>>())
    }
    let GraphPlan { version, summary, iteration, bands, .. } = node.plan.as_deref()?;
    Some((version, summary, iteration, bands.iter().map(band).collect::<Vec<_>>()))
}

/// What the node returned. The end of the scratchpad is how it got there.
fn result(node: &GraphNode, matching: NodeMatching) -> impl PartialEq {
    let by_ids = matching == NodeMatching::Ids;
    let artifact = move |artifact: &GraphArtifact| {
        let GraphArtifact { artifact_id, artifact_type, label, title, is_primary, json_payload, .. } =
            artifact;
        let id: Option<ArtifactId> = by_ids.then_some(*artifact_id);
        (id, *artifact_type, label.clone(), title.clone(), *is_primary, json_payload.clone())
    };
    let returned = node.result.as_deref().map(|result| {
        let TreeAgentResult { kind, summary, success_assessment, json_payload, .. } = result;
        (*kind, summary.clone(), success_assessment.clone(), json_payload.clone())
    });
    (returned, node.artifacts.iter().map(artifact).collect::<Vec<_>>())
}

/// What its model calls used. Their time is part of the node's time.
fn cost(node: &GraphNode) -> impl PartialEq {
    Spending { tool_calls: 0, ..node.usage.get().into() }
}

fn tools(node: &GraphNode) -> impl PartialEq {
    let last = node.last_tool.as_deref().map(|tool| (&tool.tool_name, tool.ok));
    (node.usage.get().tool_calls, last)
}

fn status(node: &GraphNode) -> impl PartialEq {
    let skipped = node.topic.as_deref().is_some_and(|topic| topic.skipped.is_some());
    (node.status, node.outcome, &node.error, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_independent_runs_small_differences_in_time_do_not_count() {
        let differs = |a, b| time_differs(a, b, NodeMatching::Steps);
        assert!(!differs(Some(100), Some(1_000)), "less than a second");
        assert!(!differs(Some(60_000), Some(65_000)), "less than a tenth");
        assert!(differs(Some(60_000), Some(67_000)) && differs(Some(67_000), Some(60_000)));
        assert!(differs(Some(0), None) && !differs(None, None));
        assert!(time_differs(Some(100), Some(101), NodeMatching::Ids), "what is shared took equally long");
    }
}

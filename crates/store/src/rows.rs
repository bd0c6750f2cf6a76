//! From events to the rows they touch: the one place that says what the projection tables hold.

use std::collections::BTreeMap;

use serde_json::json;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::{GraphNode, GraphPlan, GraphView};
use tree_agent_contract::{NodeId, Timestamp};

use crate::ports::{ArtifactRow, NodeRow, PlanRow, Projection, RunRow};

impl Projection {
    /// The final rows of everything that `events` touch, read from the graph after them.
    pub fn of(events: &[Event], graph: &impl GraphView) -> Self {
        // When each was last touched, so that rows do not depend on how events were grouped into appends.
        let mut touched: BTreeMap<NodeId, Timestamp> = BTreeMap::new();
        let mut planned: BTreeMap<NodeId, Timestamp> = BTreeMap::new();
        let mut projection = Self::default();
        let mut run_touched = false;
        let mut error = None;
        for event in events {
            match &event.body {
                EventBody::RunStatusChanged(e) => {
                    run_touched = true;
                    error = e.error();
                }
                EventBody::NodeCreated(_) | EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => {
                    run_touched = true;
                    touched.insert(event.node_id, event.timestamp);
                }
                EventBody::NodeStatusChanged(e) => {
                    run_touched |= e.status.is_final();
                    touched.insert(event.node_id, event.timestamp);
                }
                EventBody::ScratchpadLinked(_) => {
                    touched.insert(event.node_id, event.timestamp);
                }
                EventBody::UsageRecorded(_)
                | EventBody::ToolCallRequested(_)
                | EventBody::NodeReopened(_) => {
                    run_touched = true;
                }
                // A fork of a run that has failed has failed, too.
                EventBody::RunForked(_) => {
                    run_touched = true;
                    error = graph.error().map(str::to_owned);
                }
                EventBody::PlanCreated(_) | EventBody::PlanBandCreated(_) | EventBody::StepCreated(_) => {
                    planned.entry(event.node_id).or_insert(event.timestamp);
                }
                EventBody::ArtifactCreated(e) => projection.artifacts.push(ArtifactRow {
                    id: e.artifact_id,
                    node_id: event.node_id,
                    artifact_type: e.artifact_type,
                    document_id: e.document_id,
                    json_payload: e.json_payload.clone(),
                    is_primary: e.is_primary,
                    label: e.label.clone().unwrap_or_default(),
                    created_at: event.timestamp,
                }),
                _ => {}
            }
        }
        if run_touched {
            projection.run = Some(RunRow {
                status: graph.status(),
                partial: graph.partial(),
                error,
                node_count: graph.node_count(),
                ended_nodes: graph.ended_nodes(),
                usage: graph.usage(),
                models: graph.models().to_vec(),
                started_at: graph.started_at(),
                ended_at: graph.ended_at(),
            });
        }
        projection.nodes =
            touched.iter().filter_map(|(&id, &at)| graph.node(id).map(|node| node_row(node, at))).collect();
        projection.plans = planned
            .iter()
            .filter_map(|(&id, &at)| {
                let node = graph.node(id)?;
                node.plan.as_ref().map(|plan| plan_row(node, plan, at))
            })
            .collect();
        projection
    }
}

fn node_row(node: &GraphNode, updated_at: Timestamp) -> NodeRow {
    NodeRow {
        id: node.id,
        parent_node_id: node.parent_id,
        title: node.title.clone(),
        reason: node.reason.clone(),
        success_criteria: node.success_criteria.clone(),
        band_index: node.band_index,
        step_index: node.step_index,
        depth: node.depth,
        status: node.status,
        role_state: node.role,
        scratchpad_doc_id: node.scratchpad_doc_id,
        started_at: node.started_at,
        ended_at: node.ended_at,
        created_at: node.created_at,
        updated_at,
    }
}

fn plan_row(node: &GraphNode, plan: &GraphPlan, created_at: Timestamp) -> PlanRow {
    let bands: Vec<_> = plan
        .bands
        .iter()
        .map(|band| {
            let steps: Vec<_> = (0u32..)
                .zip(&band.steps)
                .map(|(step_index, step)| {
                    json!({
                        "id": step.step_id, "title": step.title, "reason": step.reason,
                        "successCriteria": step.success_criteria, "stepIndex": step_index,
                    })
                })
                .collect();
            json!({
                "index": band.index, "goal": band.goal, "parallelizable": band.parallelizable, "steps": steps,
            })
        })
        .collect();
    PlanRow {
        id: plan.plan_id,
        node_id: node.id,
        version: plan.version,
        plan_json: json!({"summary": plan.summary, "bands": bands}),
        created_at,
    }
}

//! The graph for other tools: Graphviz and Mermaid.

use std::fmt::Write;

use tree_agent_contract::graph::{GraphNode, GraphSnapshot};
use tree_agent_contract::{NodeStatus, Role, Strategy};

use super::paint::fit;
use super::printable::one_line;
use super::tree::band_name;

/// Columns of a title inside a box.
const TITLE: usize = 60;

/// Graphviz's dot language.
pub(crate) fn dot(graph: &GraphSnapshot) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
        graph.run_id
    );
    for node in &graph.nodes {
        let label = label(node).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = writeln!(out, "  \"{}\" [label=\"{label}\", fillcolor=\"{}\"];", node.id, fill(node.status));
    }
    for node in &graph.nodes {
        if let Some(parent) = node.parent_id {
            let band = node.band_index.map(|b| format!(" [label=\"{}\"]", band_name(b))).unwrap_or_default();
            let _ = writeln!(out, "  \"{parent}\" -> \"{}\"{band};", node.id);
        }
    }
    out.push_str("}\n");
    out
}

/// Mermaid's flow chart.
pub(crate) fn mermaid(graph: &GraphSnapshot) -> String {
    let mut out = String::from("flowchart TD\n");
    let name = |id: tree_agent_contract::NodeId| format!("n{}", id.0.simple());
    for node in &graph.nodes {
        // Mermaid knows HTML's entities, and has no other escape within quotes.
        let label = label(node)
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('\n', "<br/>");
        let _ = writeln!(out, "  {}[\"{label}\"]:::{}", name(node.id), node.status);
    }
    for node in &graph.nodes {
        if let Some(parent) = node.parent_id {
            let band = node.band_index.map(|b| format!("|{}|", band_name(b))).unwrap_or_default();
            let _ = writeln!(out, "  {} -->{band} {}", name(parent), name(node.id));
        }
    }
    for &status in NodeStatus::ALL {
        if graph.nodes.iter().any(|n| n.status == status) {
            let _ = writeln!(out, "  classDef {status} fill:{}", fill(status));
        }
    }
    out
}

fn label(node: &GraphNode) -> String {
    let role = match node.role {
        Role::Planner => 'P',
        Role::Executor => 'E',
    };
    let search = if node.strategy == Some(Strategy::Search) { " search" } else { "" };
    let task = node.task.as_ref();
    let task = task.map(|task| format!(" i{} {}", task.iteration, fit(&one_line(&task.branch_id), TITLE)));
    let task = task.unwrap_or_default();
    format!("{}\n{role}{search}{task} {}", fit(&one_line(&node.title), TITLE), node.status)
}

fn fill(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Completed => "#d7f0d7",
        NodeStatus::Failed => "#f6d0d0",
        NodeStatus::Blocked => "#fbe6c2",
        NodeStatus::Cancelled | NodeStatus::Waiting => "#e8e8e8",
        NodeStatus::Planning | NodeStatus::Delegating => "#e6d9f2",
        NodeStatus::Executing | NodeStatus::Aggregating => "#d3e8f5",
    }
}

//! A run as lines: one for each event that matters to a reader.

use serde_json::{Map, Value};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::text::count;
use tree_agent_contract::{NodeStatus, Outcome, Role};
use tree_agent_engine::Graph;

use super::paint::{Paint, Palette, fit};
use super::printable::one_line;
use super::tree::run_icon;
use super::{homework, search, steering, usage};

/// Columns of the title before a tool call, and of the call's subject.
const CALLER: usize = 40;

/// The line for `event`, or none when it does not matter to a reader. `graph` already includes the event; it has the
/// titles, which later events do not repeat.
pub(crate) fn line(event: &Event, graph: &Graph, palette: Palette) -> Option<String> {
    let step = search::step(event, graph).or_else(|| homework::step(event, graph));
    let is_sentence = step.is_some();
    let (icon, paint, mut text) = step.or_else(|| describe(&event.body))?;
    if let EventBody::RunStatusChanged(change) = &event.body
        && change.status.is_final()
        && let Some(used) = usage::words(&graph.usage())
    {
        text.push_str(&format!("; {used}"));
    }
    let about_run = matches!(
        event.body,
        EventBody::RunCreated(_) | EventBody::RunStatusChanged(_) | EventBody::BudgetExhausted(_)
    ) || (matches!(event.body, EventBody::BudgetSet(_)) && event.parent_node_id.is_none());
    let (title, depth) = match graph.node(event.node_id).filter(|_| !about_run) {
        Some(node) if is_sentence => (String::new(), node.depth),
        // Before a tool call the title only says which node makes it.
        Some(node) if matches!(event.body, EventBody::ToolCallRequested(_)) => {
            (fit(&one_line(&node.title), CALLER), node.depth)
        }
        Some(node) => (one_line(&node.title), node.depth),
        None => (String::new(), 0),
    };
    let at = event.timestamp.to_string();
    let clock = at.get(11..23).unwrap_or(&at);
    let indent = "  ".repeat(depth.min(12) as usize);
    let gap = if title.is_empty() { "" } else { "  " };
    Some(format!(
        "{} {indent}{} {title}{gap}{}",
        palette.paint(Paint::Dim, clock),
        palette.paint(paint, icon),
        palette.paint(paint, &text),
    ))
}

/// The subject of a tool call: the first of its arguments that has a well-known name.
fn subject(args: &Map<String, Value>) -> Option<String> {
    let named =
        ["query", "path", "path_prefix", "url", "name"].iter().find_map(|key| args.get(*key)?.as_str());
    named.map(one_line).filter(|s| !s.is_empty())
}

fn describe(body: &EventBody) -> Option<(&'static str, Paint, String)> {
    let because =
        |reason: &Option<String>| reason.as_deref().map(|r| format!(": {}", one_line(r))).unwrap_or_default();
    Some(match body {
        EventBody::RunCreated(run) => {
            let model = match run.spec.model.as_str() {
                "" => String::new(),
                model => format!(" (model {})", one_line(model)),
            };
            ("○", Paint::Plain, format!("run created{model}: {}", one_line(&run.spec.objective)))
        }
        EventBody::RunStatusChanged(change) => {
            let (icon, paint) = run_icon(change.status, change.partial);
            let partial = if change.partial { " (partial)" } else { "" };
            (icon, paint, format!("run {}{partial}{}", change.status, because(&change.reason)))
        }
        EventBody::PlanCreated(plan) => {
            let again =
                if plan.version > 1 { format!(" again (version {})", plan.version) } else { String::new() };
            ("◇", Paint::Plan, format!("planned{again}{}", because(&plan.summary)))
        }
        EventBody::NodeStatusChanged(change) => {
            let role = match change.role {
                Role::Planner => "P",
                Role::Executor => "E",
            };
            let (icon, paint) = match change.status {
                NodeStatus::Executing => ("▶", Paint::Busy),
                NodeStatus::Aggregating => ("Σ", Paint::Busy),
                NodeStatus::Blocked => ("!", Paint::Warn),
                NodeStatus::Cancelled => ("⊘", Paint::Warn),
                _ if change
                    .message
                    .as_deref()
                    .is_some_and(|m| m.starts_with("guard:") || m.starts_with("retry:")) =>
                {
                    ("!", Paint::Warn)
                }
                _ => return None,
            };
            // The status already says that a leaf executes.
            let message = change.message.clone().filter(|m| !m.starts_with("leaf_decision:"));
            (icon, paint, format!("[{role}] {}{}", change.status, because(&message)))
        }
        EventBody::ToolCallRequested(call) => {
            let purpose = because(&call.purpose);
            let subject = call.args.as_ref().and_then(subject).filter(|s| !purpose.contains(s.as_str()));
            let subject = subject.map(|s| format!(" “{}”", fit(&s, CALLER))).unwrap_or_default();
            let known = if call.cached { ", known already" } else { "" };
            ("⚙", Paint::Dim, format!("{}{subject}{known}{purpose}", one_line(&call.tool_name)))
        }
        EventBody::ToolCallResult(call) if !call.ok => {
            ("⚙", Paint::Warn, format!("{} failed{}", one_line(&call.tool_name), because(&call.error)))
        }
        EventBody::NodeCompleted(done) => match done.outcome {
            Outcome::Success => ("✓", Paint::Good, format!("completed{}", because(&done.evidence))),
            Outcome::Partial => ("✓", Paint::Warn, format!("completed in part{}", because(&done.evidence))),
        },
        EventBody::NodeFailed(failed) => ("✗", Paint::Bad, format!("failed: {}", one_line(&failed.error))),
        EventBody::AnswerVerified(e) => {
            let (verification, summary) = (&e.verification, one_line(&e.verification.summary));
            match verification.is_clean() {
                true => ("✓", Paint::Good, format!("verified: {summary}")),
                false => {
                    let doubts = count(verification.doubts.len(), "doubt");
                    let unmet = verification.criteria.iter().filter(|check| !check.met).count();
                    let unmet = if unmet > 0 { format!(", {unmet} not met") } else { String::new() };
                    ("!", Paint::Warn, format!("verified, {doubts}{unmet}: {summary}"))
                }
            }
        }
        EventBody::ReplanRequested(replan) => {
            ("↻", Paint::Plan, format!("will plan again: {}", one_line(&replan.reason)))
        }
        EventBody::BudgetExhausted(budget) => (
            "!",
            Paint::Warn,
            match budget.reserved {
                0 => format!("budget {} is used up ({} of {})", budget.budget, budget.used, budget.limit),
                kept => format!(
                    "budget {} is used up ({} of {}; {kept} are kept for aggregating)",
                    budget.budget, budget.used, budget.limit
                ),
            },
        ),
        _ => return steering::describe(body),
    })
}

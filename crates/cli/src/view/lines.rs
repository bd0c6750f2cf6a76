//! A run as lines: one for each event that matters to a reader.

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::text::count;
use tree_agent_contract::{NodeStatus, Outcome, RunStatus};
use tree_agent_engine::Graph;

use super::paint::{Paint, Palette};
use super::printable::one_line;
use super::tree::run_icon;
use super::{homework, search, steering, stopped, usage};

/// The line for `event`, or none when it does not matter to a reader: what is planned, what has ended, and what went
/// wrong, but no calls of tools. `graph` already includes the event; it has the titles, which later events do not
/// repeat.
pub(crate) fn line(event: &Event, graph: &Graph, palette: Palette) -> Option<String> {
    let step = search::step(event, graph).or_else(|| homework::step(event, graph));
    let is_sentence = step.is_some();
    let (icon, paint, mut text) = step.or_else(|| describe(&event.body))?;
    if let EventBody::RunStatusChanged(change) = &event.body
        && let Some(at) = change.goes_on_at
    {
        text = stopped::waits(&graph.snapshot(), at);
    }
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
        EventBody::RunStatusChanged(change)
            if change.status.is_final() || change.status == RunStatus::Paused =>
        {
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
            let (icon, paint) = match change.status {
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
            // The status says already that the node is blocked.
            let why = change.message.as_deref().map(|m| m.trim_start_matches("blocked:"));
            let why = why.map(|why| why.trim_start_matches("provider:").to_owned());
            (icon, paint, format!("{}{}", change.status, because(&why)))
        }
        EventBody::ToolCallResult(call) if !call.ok => {
            ("⚙", Paint::Warn, format!("{} failed{}", one_line(&call.tool_name), because(&call.error)))
        }
        EventBody::NodeCompleted(done) => match done.outcome {
            Outcome::Success => ("✓", Paint::Good, format!("completed{}", because(&done.evidence))),
            Outcome::Partial => ("✓", Paint::Warn, format!("completed in part{}", because(&done.evidence))),
        },
        EventBody::NodeFailed(failed) => {
            let again = if failed.retryable { " (a retry may help)" } else { "" };
            ("✗", Paint::Bad, format!("failed{again}: {}", one_line(&failed.error)))
        }
        EventBody::NodeResult(node) if !node.result.gaps.is_empty() => {
            ("!", Paint::Warn, format!("missing: {}", one_line(&node.result.gaps.join("; "))))
        }
        EventBody::AnswerVerified(e) => {
            let (verification, summary) = (&e.verification, one_line(&e.verification.summary));
            match verification.is_clean() {
                true => ("✓", Paint::Good, format!("verified: {summary}")),
                false if verification.not_checked.is_some() => ("!", Paint::Warn, summary),
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
        EventBody::BudgetExhausted(e) => {
            let shown = |n| if e.budget == "maxCostMicros" { usage::dollars(n) } else { usage::grouped(n) };
            let kept = match e.reserved {
                0 => String::new(),
                kept => format!("; {} are kept for aggregating", shown(kept)),
            };
            let (used, limit) = (shown(e.used), shown(e.limit));
            ("!", Paint::Warn, format!("budget {} is used up ({used} of {limit}{kept})", e.budget))
        }
        _ => return steering::describe(body),
    })
}

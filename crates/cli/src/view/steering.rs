//! What people do to a run, in words.

use std::time::Duration;

use tree_agent_contract::BudgetChange;
use tree_agent_contract::event::EventBody;

use super::paint::{Paint, count};
use super::printable::one_line;
use super::usage::{dollars, grouped};

/// The event of a command: its sign, its colour, and who did what. None for other events.
pub(super) fn describe(body: &EventBody) -> Option<(&'static str, Paint, String)> {
    Some(match body {
        EventBody::GuidanceAdded(e) => {
            let below = if e.subtree { " (for everything below, too)" } else { "" };
            ("→", Paint::Plain, format!("guidance{}{below}: {}", from(&e.author), one_line(&e.text)))
        }
        EventBody::NodePaused(e) => {
            let going_on = match e.in_flight.len() {
                0 => String::new(),
                1 => "; 1 call in flight goes on".into(),
                n => format!("; {n} calls in flight go on"),
            };
            ("‖", Paint::Warn, format!("paused{}{going_on}", by(&e.author)))
        }
        EventBody::ReviewRequested(e) => {
            let assumed = count(e.review.premises.assumptions.len(), "assumption");
            ("?", Paint::Warn, format!("waits for a review ({assumed}): tree-agent review RUN"))
        }
        EventBody::NodeResumed(e) => ("▶", Paint::Plain, format!("resumed{}", by(&e.author))),
        EventBody::NodeStopped(e) => {
            let rest = if e.discard { "discarded" } else { "combined" };
            ("■", Paint::Warn, format!("stopped{}; the existing results are {rest}", by(&e.author)))
        }
        EventBody::NodeReopened(e) => {
            let what = if e.again { "done again" } else { "reopened" };
            let model = e.model.as_deref().map(|model| format!(" with model {}", one_line(model)));
            ("↺", Paint::Plan, format!("{what}{}{}", by(&e.author), model.unwrap_or_default()))
        }
        EventBody::PlanEdited(e) => {
            let text =
                format!("plan edited{} (version {}): {}", by(&e.author), e.version, one_line(&e.summary));
            ("✎", Paint::Plan, text)
        }
        EventBody::BudgetSet(e) => {
            let cut = if e.clamped { " (guard:lease: no more was free)" } else { "" };
            ("$", Paint::Plain, format!("budgets changed{}: {}{cut}", by(&e.author), changes(&e.change)))
        }
        EventBody::LeaseCovered(e) => {
            let text = format!(
                "used {} more of {} than its lease; a budget above covers it",
                grouped(e.amount),
                e.budget
            );
            ("$", Paint::Warn, text)
        }
        // After a takeover calls are simply made again.
        EventBody::CallStopped(e) if ["pause", "guidance"].contains(&e.reason.as_str()) => {
            ("‖", Paint::Dim, format!("call stopped ({})", e.reason))
        }
        _ => return None,
    })
}

fn by(author: &str) -> String {
    if author.is_empty() { String::new() } else { format!(" by {}", one_line(author)) }
}

fn from(author: &str) -> String {
    if author.is_empty() { String::new() } else { format!(" from {}", one_line(author)) }
}

/// Budgets that change: `at most 5,000 tokens, no limit of tool calls`.
fn changes(change: &BudgetChange) -> String {
    let mut parts = Vec::new();
    let mut limit = |limit: Option<u64>, what: &str, shown: fn(u64) -> String| match limit {
        None => {}
        Some(0) => parts.push(format!("no limit of {what}")),
        Some(n) => parts.push(format!("at most {}", shown(n))),
    };
    limit(change.max_tokens, "tokens", |n| format!("{} tokens", grouped(n)));
    limit(change.max_cost_micros, "cost", dollars);
    limit(change.max_tool_calls, "tool calls", |n| format!("{} tool calls", grouped(n)));
    limit(change.max_wall_clock_ms, "time", |ms| {
        humantime::format_duration(Duration::from_millis(ms)).to_string()
    });
    limit(change.max_nodes.map(u64::from), "nodes", |n| count(n as usize, "node"));
    limit(change.max_parallel_steps.map(u64::from), "parallel steps", |n| {
        format!("{} at the same time", count(n as usize, "step"))
    });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::{BudgetSet, GuidanceAdded, NodePaused, NodeReopened, NodeStopped};
    use tree_agent_contract::{NodeId, PlanId};
    use uuid::Uuid;

    use super::*;

    fn words(body: impl Into<EventBody>) -> String {
        describe(&body.into()).expect("a command").2
    }

    #[test]
    fn every_command_says_who_gave_it() {
        let (author, request_id) = ("ann\x1b".to_owned(), String::new());
        let in_flight = vec![NodeId(Uuid::nil()); 2];
        let paused = NodePaused { author: author.clone(), request_id: request_id.clone(), in_flight };
        assert_eq!(words(paused), "paused by ann; 2 calls in flight go on");
        let stopped = NodeStopped { author: author.clone(), request_id: request_id.clone(), discard: true };
        assert_eq!(words(stopped), "stopped by ann; the existing results are discarded");
        let reopened = NodeReopened {
            generation: 1,
            author: author.clone(),
            request_id: request_id.clone(),
            again: true,
            model: Some("fast".into()),
            budget: None,
        };
        assert_eq!(words(reopened), "done again by ann with model fast");
        let text = "be\nbrief".to_owned();
        let told =
            GuidanceAdded { text, author: author.clone(), request_id: request_id.clone(), subtree: true };
        assert_eq!(words(told), "guidance from ann (for everything below, too): be brief");
        let edited = tree_agent_contract::event::PlanEdited {
            plan_id: PlanId(Uuid::nil()),
            version: 2,
            summary: "2 kept".into(),
            author: String::new(),
            request_id: request_id.clone(),
        };
        assert_eq!(words(edited), "plan edited (version 2): 2 kept");
        let change = BudgetChange {
            max_tokens: Some(5_000),
            max_cost_micros: Some(0),
            max_wall_clock_ms: Some(5_400_000),
            max_parallel_steps: Some(1),
            ..BudgetChange::default()
        };
        let set = BudgetSet { author, request_id, change, clamped: false };
        let shown = "budgets changed by ann: at most 5,000 tokens, no limit of cost, at most 1h 30m, \
                     at most 1 step at the same time";
        assert_eq!(words(set), shown);
    }
}

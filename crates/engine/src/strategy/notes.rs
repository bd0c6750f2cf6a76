//! What homework writes into its documents, as Markdown.

use std::fmt::Write as _;

use tree_agent_contract::homework::{BranchEntry, BranchNote, HomeworkDraft, ItemState, PlanItem, Refusal};
use tree_agent_contract::role::{Action, ActionKind, StepDraft};
// A text of a role stands on one line, so that it cannot look like a part of the document around it.
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{DocumentId, Finding, NodeId, NodeStatus};

use crate::state::ToolUse;

/// A task that is about to begin, in the scratchpad of its branch.
pub(super) fn task(iteration: u32, title: &str, reason: &str, criteria: &[String]) -> String {
    let mut text = format!("## Iteration {iteration}: {}\n\n", one_line(title));
    if !reason.is_empty() {
        let _ = writeln!(text, "{}\n", one_line(reason));
    }
    list(&mut text, criteria);
    if !criteria.is_empty() {
        text.push('\n');
    }
    text
}

/// What a task has led to, in the scratchpad of its branch.
pub(super) fn outcome(summary: &str) -> String {
    format!("**Result:** {}\n\n", one_line(summary))
}

/// That a task failed, in the scratchpad of its branch.
pub(super) fn failure(error: &str) -> String {
    format!("**Failed:** {}\n\n", one_line(error))
}

/// What a roll-up says about one task: the name of its branch, and what became of it.
pub(super) struct Rolled<'a> {
    pub(super) branch_id: &'a str,
    pub(super) entry: BranchEntry,
}

/// True if one of the lines of `text` is this result of a task, after the words that introduce it.
pub(super) fn tells(text: &str, summary: &str) -> bool {
    /// A longer result may be told in part.
    const WHOLE: usize = 500;
    let summary = one_line(summary);
    let begins = prefix(&summary, WHOLE);
    text.lines().map(one_line).any(|line| {
        let said = line.rsplit("**").next().unwrap_or_default().trim();
        said == summary || begins.len() < summary.len() && said.starts_with(begins)
    })
}

/// What a task did, in the scratchpad of its branch: its latest tool calls, and what else its role says it did.
pub(super) fn work(calls: &[ToolUse], actions: &[Action]) -> String {
    let others = actions.iter().filter(|action| action.kind != ActionKind::ToolCall);
    let others: Vec<String> = others.map(|action| format!("{}: {}", action.kind, action.note)).collect();
    let mut text = String::new();
    section(&mut text, "Tools", &calls.iter().map(called).collect::<Vec<_>>());
    section(&mut text, "Actions", &others);
    text
}

/// A tool call: what the tool was asked, what for, and what came of it.
fn called(ToolUse { call, purpose, .. }: &ToolUse) -> String {
    /// Bytes of each part.
    const BYTES: usize = 160;
    let about = Finding::about(call.args.as_ref());
    let asked: Vec<&str> = [about.as_str(), purpose]
        .map(|part| prefix(part, BYTES))
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let asked = if asked.is_empty() { String::new() } else { format!(" ({})", asked.join("; ")) };
    let failed = if call.ok == Some(true) { "" } else { "failed: " };
    let outcome = if call.outcome.is_empty() { "answered" } else { prefix(&call.outcome, BYTES) };
    format!("`{}`{asked}: {failed}{outcome}", call.tool_name)
}

/// The branch of the homework that `root` does, as a link to its scratchpad.
fn link(root: NodeId, branch: &str) -> String {
    format!("[{branch}](document:{})", DocumentId::branch(root, branch))
}

/// The roll-up of an iteration, in the main scratchpad: the whole, then its tasks and the other branches, in the words
/// of the planner where it has some.
pub(super) fn rollup(
    root: NodeId,
    iteration: u32,
    rollup: &str,
    tasks: &[Rolled<'_>],
    branches: &[BranchNote],
) -> String {
    let mut text = format!("## Roll-up of iteration {iteration}\n\n{}\n\n", rollup.trim());
    for Rolled { branch_id, entry } in tasks {
        let told = branches.iter().find(|note| note.branch_id == *branch_id);
        let summary = one_line(told.map_or(&entry.summary, |note| &note.summary));
        let _ = writeln!(text, "- {}, {}: {summary}", link(root, branch_id), said(entry));
    }
    if !tasks.is_empty() {
        text.push('\n');
    }
    let others = branches.iter().filter(|note| tasks.iter().all(|task| task.branch_id != note.branch_id));
    let others = others.map(|note| format!("{}: {}", link(root, &note.branch_id), note.summary));
    section(&mut text, "Other branches", &others.collect::<Vec<_>>());
    text
}

/// What an answer of the planner changes of the plan, what remains and what is open, in the main scratchpad.
pub(super) fn plan_update(before: &[PlanItem], draft: &HomeworkDraft) -> String {
    let find = |items: &[PlanItem], title: &str| items.iter().find(|item| item.title == title).cloned();
    let mut changes = Vec::new();
    for item in &draft.items {
        let PlanItem { title, state, note } = item;
        let note = if note.is_empty() { String::new() } else { format!(": {note}") };
        match find(before, title) {
            None => changes.push(format!("new, {state}: {title}{note}")),
            Some(old) if old.state != *state => {
                changes.push(format!("{} → {state}: {title}{note}", old.state))
            }
            Some(old) if old.note != item.note => changes.push(format!("{state}: {title}{note}")),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|item| find(&draft.items, &item.title).is_none());
    changes.extend(gone.map(|item| format!("taken out: {}", item.title)));
    let mut text = String::new();
    section(&mut text, "Changes of the plan", &changes);
    section(&mut text, "Remaining", &draft.remaining);
    section(&mut text, "Questions", &draft.questions);
    text
}

/// What an iteration begins with, in the main scratchpad.
pub(super) fn assigned(root: NodeId, iteration: u32, tasks: &[StepDraft], refused: &[Refusal]) -> String {
    let mut text = format!("## Iteration {iteration}\n\n");
    for task in tasks {
        let branch = task.branch_id.as_deref().unwrap_or_default();
        let _ = writeln!(text, "- {}: {}", link(root, branch), one_line(&task.title));
    }
    for task in refused {
        let (branch, title) = (&task.branch_id, one_line(&task.title));
        let _ = writeln!(text, "- refused, `{branch}`: {title} ({})", one_line(&task.reason));
    }
    text.push('\n');
    text
}

/// That the planner is satisfied, in the main scratchpad.
pub(super) fn done(reason: &str) -> String {
    format!("## Done\n\n{}\n\n", reason.trim())
}

/// The plan document.
pub(super) fn plan(title: &str, iteration: u32, draft: &HomeworkDraft) -> String {
    let mut text = format!("# Plan: {}\n\nAs of iteration {iteration}.\n\n", one_line(title));
    for item in &draft.items {
        let mark = match item.state {
            ItemState::Done => "[x]",
            ItemState::Todo | ItemState::Doing | ItemState::Dropped => "[ ]",
        };
        let title = one_line(&item.title);
        let _ = match item.state {
            ItemState::Todo | ItemState::Done => write!(text, "- {mark} {title}"),
            ItemState::Doing | ItemState::Dropped => write!(text, "- {mark} {title} ({})", item.state),
        };
        if !item.note.is_empty() {
            let _ = write!(text, ": {}", one_line(&item.note));
        }
        text.push('\n');
    }
    text.push('\n');
    section(&mut text, "Remaining", &draft.remaining);
    section(&mut text, "Questions", &draft.questions);
    text
}

/// The summary of an iteration, a document of its own.
pub(super) fn iteration(iteration: u32, rollup: &str, tasks: &[Rolled<'_>]) -> String {
    let mut text = format!("# Iteration {iteration}\n\n{}\n", rollup.trim());
    for Rolled { branch_id, entry } in tasks {
        let _ = write!(text, "\n## {}\n\nBranch `{branch_id}`, {}.\n", one_line(&entry.title), entry.status);
        if !entry.summary.is_empty() {
            let _ = write!(text, "\n{}\n", entry.summary.trim());
        }
    }
    text
}

/// The roll-up of an iteration about which no planner was asked: what its tasks led to.
pub(super) fn without_planner(tasks: &[Rolled<'_>]) -> String {
    let completed = tasks.iter().filter(|task| task.entry.status == NodeStatus::Completed).count();
    let mut text = format!("{completed} of {} tasks completed.", tasks.len());
    for Rolled { entry, .. } in tasks {
        let _ = write!(text, " {}: {}", one_line(&entry.title), one_line(&entry.summary));
    }
    text
}

fn said(entry: &BranchEntry) -> String {
    match entry.status {
        NodeStatus::Completed => one_line(&entry.title),
        status => format!("{} ({status})", one_line(&entry.title)),
    }
}

fn section(text: &mut String, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{heading}:\n");
        list(text, lines);
        text.push('\n');
    }
}

fn list(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "- {}", one_line(line));
    }
}

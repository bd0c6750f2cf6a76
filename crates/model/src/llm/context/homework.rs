//! Homework as its prompts show it.
//!
//! The prompt of the planner has a size that does not depend on the number of iterations: it holds the end of the main
//! scratchpad, the last roll-up, and the branches that worked last. What a branch did before is told by the planner's
//! own summary of it.

use serde::Serialize;
use tree_agent_contract::ProjectId;
use tree_agent_contract::homework::{BranchBrief, BranchEntry, BranchTask, HomeworkBrief, PlanItem};
use tree_agent_contract::role::{AggregateInput, PlanInput, RoleError};
use tree_agent_contract::text::prefix;

use super::super::material::line;
use super::super::prompt::{Prompt, Template, render};
use super::super::survey::Survey;
use super::PromptTrimmer;
use super::views::Call;

/// Branches that a prompt shows with their results.
const BRANCHES: usize = 16;
/// Branches that it names beyond these.
const NAMED: usize = 48;
/// Bytes of the summary of a branch.
const SUMMARY: usize = 2_000;
/// Bytes of the result of a task of the last iteration, and of an earlier one.
const RESULT: usize = 2_500;
/// See [`RESULT`].
const EARLIER_RESULT: usize = 600;
/// Bytes of a roll-up.
const ROLLUP: usize = 4_000;
/// Bytes of each further piece of text that a planner wrote.
const NOTE: usize = 400;
/// Tasks whose results the aggregator's prompt shows, the last ones.
pub(super) const TASKS: usize = 48;

#[derive(Serialize)]
struct Limits {
    iteration: u32,
    iterations: u32,
    tasks: u32,
    parallel: u32,
}

#[derive(Serialize)]
struct Item {
    state: &'static str,
    title: String,
    note: String,
}

#[derive(Serialize)]
struct Branch {
    id: String,
    title: String,
    summary: String,
    earlier: u32,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    iteration: u32,
    title: String,
    status: &'static str,
    summary: String,
}

#[derive(Serialize)]
struct Refused {
    branch: String,
    title: String,
    reason: String,
}

#[derive(Serialize)]
struct View {
    call: Call,
    /// A person reviews the tasks.
    review: bool,
    limits: Limits,
    survey: Survey,
    /// Why the finished answer was not enough.
    replan_reason: String,
    /// No iteration may follow.
    last: bool,
    items: Vec<Item>,
    remaining: Vec<String>,
    questions: Vec<String>,
    scratchpad: String,
    rollup: String,
    branches: Vec<Branch>,
    others: String,
    refused: Vec<Refused>,
    left_out: Vec<String>,
}

/// At most this many bytes of what a model said, on one line.
fn note(text: &str) -> String {
    prefix(&line(text), NOTE).to_owned()
}

impl Branch {
    fn of(branch: &BranchBrief, ended: u32, trimmer: &mut PromptTrimmer) -> Self {
        let mut entry = |entry: &BranchEntry| {
            let most = if entry.iteration == ended { RESULT } else { EARLIER_RESULT };
            Entry {
                iteration: entry.iteration,
                title: note(&entry.title),
                status: entry.status.as_str(),
                summary: trimmer.summary(prefix(&entry.summary, most)),
            }
        };
        let entries = branch.entries.iter().map(&mut entry).collect();
        Self {
            id: note(&branch.branch_id),
            title: note(&branch.title),
            summary: trimmer.summary(prefix(&branch.summary, SUMMARY)),
            earlier: branch.earlier,
            entries,
        }
    }
}

/// The branches, those that worked last before the others.
fn by_activity(brief: &HomeworkBrief) -> Vec<&BranchBrief> {
    let mut branches: Vec<&BranchBrief> = brief.branches.iter().collect();
    let worked = |branch: &BranchBrief| branch.entries.last().map_or(0, |entry| entry.iteration);
    branches.sort_by_key(|branch| std::cmp::Reverse(worked(branch)));
    branches
}

/// The prompt of the planner of homework.
pub(in crate::llm) fn planner(
    input: &PlanInput,
    brief: &HomeworkBrief,
    survey: &Survey,
    schema: Option<&str>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let budgets = &input.call.budgets;
    let branches = by_activity(brief);
    let (shown, others) = branches.split_at(branches.len().min(BRANCHES));
    let mut names: Vec<String> = others.iter().take(NAMED).map(|branch| note(&branch.branch_id)).collect();
    if others.len() > NAMED {
        names.push(format!("and {} more", others.len() - NAMED));
    }
    let mut view = View {
        call: Call::of(&input.call, trimmer),
        review: input.review,
        limits: Limits {
            iteration: brief.iteration,
            iterations: brief.max_iterations,
            tasks: budgets.max_steps_per_band,
            parallel: budgets.max_parallel_steps,
        },
        survey: trimmer.survey(survey),
        replan_reason: trimmer.own(&input.replan_reason),
        last: brief.is_last(),
        items: items(brief),
        remaining: brief.last.remaining.iter().map(|text| note(text)).collect(),
        questions: brief.last.questions.iter().map(|text| note(text)).collect(),
        scratchpad: trimmer.scratchpad(&input.call.scratchpad_tail),
        rollup: brief.rollups.last().map_or_else(String::new, |text| trimmer.summary(prefix(text, ROLLUP))),
        branches: shown.iter().map(|branch| Branch::of(branch, brief.iteration - 1, trimmer)).collect(),
        others: names.join(", "),
        refused: brief
            .refused
            .iter()
            .take(BRANCHES)
            .map(|refusal| Refused {
                branch: note(&refusal.branch_id),
                title: note(&refusal.title),
                reason: note(&refusal.reason),
            })
            .collect(),
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    render(Template::Homework, schema, &view)
}

fn items(brief: &HomeworkBrief) -> Vec<Item> {
    let item = |item: &PlanItem| Item {
        state: item.state.as_str(),
        title: note(&item.title),
        note: note(&item.note),
    };
    brief.last.items.iter().map(item).collect()
}

/// What the executor of a task is told about its branch.
#[derive(Serialize)]
pub(super) struct Task {
    branch: String,
    iteration: u32,
    scratchpad: String,
    workspace: String,
    projects: String,
    rollup: String,
}

impl Task {
    pub(super) fn of(task: &BranchTask, projects: &[ProjectId], trimmer: &mut PromptTrimmer) -> Self {
        let projects: Vec<String> = projects.iter().map(ToString::to_string).collect();
        Self {
            branch: note(&task.branch_id),
            iteration: task.iteration,
            scratchpad: task.scratchpad_doc_id.to_string(),
            workspace: task.workspace_doc_id.to_string(),
            projects: projects.join(", "),
            rollup: trimmer.summary(prefix(&task.rollup, ROLLUP)),
        }
    }
}

/// What the aggregator is told about the homework.
#[derive(Serialize)]
pub(super) struct Ended {
    iterations: u32,
    items: Vec<Item>,
    rollup: String,
    branches: Vec<Branch>,
    remaining: Vec<String>,
    questions: Vec<String>,
    /// Tasks before those whose results are shown.
    earlier: usize,
}

impl Ended {
    pub(super) fn of(brief: &HomeworkBrief, input: &AggregateInput, trimmer: &mut PromptTrimmer) -> Self {
        let branches = by_activity(brief);
        let branch = |branch: &&BranchBrief| Branch {
            entries: Vec::new(),
            ..Branch::of(branch, brief.iteration, trimmer)
        };
        let branches = branches.iter().take(BRANCHES + NAMED).map(branch).collect();
        Self {
            iterations: brief.iteration,
            items: items(brief),
            branches,
            rollup: brief
                .rollups
                .last()
                .map_or_else(String::new, |text| trimmer.summary(prefix(text, ROLLUP))),
            remaining: brief.last.remaining.iter().map(|text| note(text)).collect(),
            questions: brief.last.questions.iter().map(|text| note(text)).collect(),
            earlier: input.children.len().saturating_sub(TASKS),
        }
    }
}

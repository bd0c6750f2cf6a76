//! Homework: iterations of one root, each with one task for each of some branches, until the planner is satisfied.
//!
//! | limit | what it bounds | default |
//! | --- | --- | --- |
//! | `budgets.maxIterations` | iterations | 5 |
//! | `budgets.maxStepsPerBand` | tasks of one iteration | 4 |
//! | `budgets.maxParallelSteps` | tasks that run in parallel | 4 |
//! | [`PLAN_ITEMS`](crate::limits::PLAN_ITEMS) | steps of the plan document | 64 |
//! | [`HOMEWORK_NOTES`](crate::limits::HOMEWORK_NOTES) | questions, and pieces of remaining work | 32 |
//! | [`BRANCH_ENTRIES`](crate::limits::BRANCH_ENTRIES) | tasks of a branch of which the planner is told the results | 2 |
//!
//! Older tasks of a branch are told by what the last roll-up says about the branch. Their originals stay in its
//! scratchpad and in the log.

use serde::{Deserialize, Serialize};

use crate::error::Checks;
use crate::ids::DocumentId;
use crate::limits;
use crate::status::{NodeStatus, named_enum};

named_enum! {
    /// How far a step of the plan document has come.
    ItemState {
        /// Nothing has been done about it.
        Todo = "todo",
        /// Something has been done about it.
        Doing = "doing",
        /// Nothing is left to do about it.
        Done = "done",
        /// It is not wanted any more.
        Dropped = "dropped",
    }
}

/// A step of the plan document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanItem {
    /// What it is.
    pub title: String,
    /// How far it has come.
    pub state: ItemState,
    /// More about it; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What a branch has found so far, in the words of the planner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchNote {
    /// The branch.
    pub branch_id: String,
    /// All that matters of it so far: it stands for the older entries of the branch.
    pub summary: String,
}

/// What the planner of homework answers in addition to the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HomeworkDraft {
    /// The plan as it stands now.
    #[serde(default)]
    pub items: Vec<PlanItem>,
    /// What the last iteration has led to. Empty before the first one.
    #[serde(default)]
    pub rollup: String,
    /// What each branch has found so far.
    #[serde(default)]
    pub branches: Vec<BranchNote>,
    /// What is still to do.
    #[serde(default)]
    pub remaining: Vec<String>,
    /// What is still unknown.
    #[serde(default)]
    pub questions: Vec<String>,
}

/// Where homework stands, for its planner and its aggregator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HomeworkBrief {
    /// The iteration that is to be planned, 1 for the first. For the aggregator, the last one.
    pub iteration: u32,
    /// Iterations that there may be.
    pub max_iterations: u32,
    /// The main scratchpad. The call holds only its end.
    pub scratchpad_doc_id: DocumentId,
    /// The plan document.
    pub plan_doc_id: DocumentId,
    /// The plan, the remaining work and the questions of the last answer, and its roll-up.
    pub last: HomeworkDraft,
    /// The roll-ups of the iterations, the first one first.
    pub rollups: Vec<String>,
    /// The branches, in the order in which they began.
    pub branches: Vec<BranchBrief>,
    /// Tasks of the last iteration that were refused.
    #[serde(default)]
    pub refused: Vec<Refusal>,
}

impl HomeworkBrief {
    /// True if no iteration may follow: the planner can only say that it is done.
    pub const fn is_last(&self) -> bool {
        self.iteration > self.max_iterations
    }
}

/// One branch, for the planner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchBrief {
    /// Names the branch in tasks.
    pub branch_id: String,
    /// The title of its first task.
    pub title: String,
    /// Its scratchpad.
    pub scratchpad_doc_id: DocumentId,
    /// What the last roll-up says about it; empty before the first one.
    pub summary: String,
    /// Its latest tasks, the last one last.
    pub entries: Vec<BranchEntry>,
    /// Tasks before these.
    pub earlier: u32,
}

/// What one task of a branch led to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchEntry {
    /// The iteration.
    pub iteration: u32,
    /// The task.
    pub title: String,
    /// How it ended.
    pub status: NodeStatus,
    /// What it returned, or why it failed.
    pub summary: String,
}

/// A task that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The branch for which it was meant.
    pub branch_id: String,
    /// The task.
    pub title: String,
    /// Why.
    pub reason: String,
}

/// A task of homework, for its executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchTask {
    /// The branch.
    pub branch_id: String,
    /// The iteration, 1 for the first.
    pub iteration: u32,
    /// The scratchpad of the branch, with what its earlier tasks wrote.
    pub scratchpad_doc_id: DocumentId,
    /// The workspace of the run.
    pub workspace_doc_id: DocumentId,
    /// The last roll-up: what all branches have led to so far. Empty in the first iteration.
    #[serde(default)]
    pub rollup: String,
}

impl HomeworkDraft {
    /// Checks the answer for iteration `iteration`.
    pub(crate) fn check(&self, iteration: u32, c: &mut Checks) {
        c.range("homework.items", self.items.len() as u64, 1..=limits::PLAN_ITEMS as u64);
        for (i, item) in self.items.iter().enumerate() {
            c.text(format_args!("homework.items[{i}].title"), &item.title, limits::TITLE_BYTES);
            c.at_most(format_args!("homework.items[{i}].note"), &item.note, limits::TEXT_BYTES);
        }
        match iteration > 1 {
            true => c.text("homework.rollup", &self.rollup, limits::TEXT_BYTES),
            false => c.at_most("homework.rollup", &self.rollup, limits::TEXT_BYTES),
        }
        c.range("homework.branches", self.branches.len() as u64, 0..=limits::BRANCH_NOTES as u64);
        for (i, note) in self.branches.iter().enumerate() {
            c.text(format_args!("homework.branches[{i}].branchId"), &note.branch_id, limits::BRANCH_ID_BYTES);
            c.text(format_args!("homework.branches[{i}].summary"), &note.summary, limits::TEXT_BYTES);
        }
        for (field, notes) in
            [("homework.remaining", &self.remaining), ("homework.questions", &self.questions)]
        {
            c.range(field, notes.len() as u64, 0..=limits::HOMEWORK_NOTES as u64);
            for (i, note) in notes.iter().enumerate() {
                c.text(format_args!("{field}[{i}]"), note, limits::TEXT_BYTES);
            }
        }
    }
}

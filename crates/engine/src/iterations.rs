//! The account of one homework: its iterations, branches and plan, kept up to date event by event.

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::homework::{
    BranchBrief, BranchEntry, HomeworkBrief, HomeworkDraft, PlanItem, Refusal,
};
use tree_agent_contract::{DocumentId, limits};

use crate::state::State;

/// The latest roll-ups that a planner is told. What matters of earlier ones is in what is said about the branches.
const ROLLUPS: usize = 3;

/// What is known of one homework.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Iterations {
    root: usize,
    /// The latest iteration that was planned; 0 for none.
    latest: u32,
    /// The latest iteration of which there is a roll-up.
    rolled_up: u32,
    /// The iteration of the last of the roll-ups below; 0 for none.
    last_rolled_up: u32,
    /// The latest iteration that has a document with its summary.
    summarised: u32,
    /// The latest roll-ups, the last one last.
    rollups: Vec<String>,
    /// The branches, in the order in which they began.
    branches: Vec<Branch>,
    /// The titles of branches that began before the homework was done again. Their documents have them.
    titles: BTreeMap<String, String>,
    /// The plan, the remaining work and the questions of the last answer.
    plan: HomeworkDraft,
    /// Tasks of the latest iteration that were refused.
    refused: Vec<Refusal>,
    /// The iteration after which the latest answer was written; none if a task was done again since.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<u32>,
}

/// One branch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Branch {
    pub(crate) id: String,
    /// The title of its first task.
    pub(crate) title: String,
    /// Its tasks, in order.
    pub(crate) tasks: Vec<usize>,
    /// What the last roll-up says about it.
    summary: String,
}

impl Branch {
    /// Its latest task.
    pub(crate) fn last(&self) -> Option<usize> {
        self.tasks.last().copied()
    }
}

impl Iterations {
    /// Follows an event about the node at `at`.
    pub(crate) fn follow(&mut self, at: usize, event: &Event) {
        match &event.body {
            EventBody::NodeCreated(e) => match &e.branch_id {
                None => self.root = at,
                Some(id) => match self.branches.iter_mut().find(|branch| branch.id == *id) {
                    Some(branch) => branch.tasks.push(at),
                    None => self.branches.push(Branch {
                        id: id.clone(),
                        title: self.titles.get(id).unwrap_or(&e.title).clone(),
                        tasks: vec![at],
                        summary: String::new(),
                    }),
                },
            },
            // Its roll-up is due again.
            EventBody::NodeReopened(e) if e.again && at == self.root => {
                // The documents of its iterations are there, and are written anew.
                let mut titles = std::mem::take(&mut self.titles);
                titles.extend(self.branches.drain(..).map(|branch| (branch.id, branch.title)));
                *self = Self { root: self.root, summarised: self.summarised, titles, ..Self::default() };
            }
            EventBody::NodeReopened(e) if !e.again => self.answered = None,
            EventBody::NodeReopened(_) => {
                self.answered = None;
                self.rolled_up = self.rolled_up.min(self.latest.saturating_sub(1));
            }
            EventBody::NodeResult(_) if at == self.root => self.answered = Some(self.latest),
            EventBody::PlanCreated(e) => {
                self.latest = e.iteration.unwrap_or(self.latest);
                self.refused.clear();
            }
            EventBody::TaskRefused(e) => self.refused.push(Refusal {
                branch_id: e.branch_id.clone(),
                title: e.title.clone(),
                reason: e.reason.clone(),
            }),
            EventBody::PlanDocumentUpdated(e) => {
                self.plan = HomeworkDraft {
                    items: e.items.clone(),
                    remaining: e.remaining.clone(),
                    questions: e.questions.clone(),
                    ..HomeworkDraft::default()
                };
            }
            EventBody::RollupUpdated(e) => {
                // A task of the iteration was done again.
                if self.last_rolled_up == e.iteration {
                    self.rollups.pop();
                }
                (self.rolled_up, self.last_rolled_up) = (e.iteration, e.iteration);
                self.summarised = self.summarised.max(e.iteration);
                if self.rollups.len() == ROLLUPS {
                    self.rollups.remove(0);
                }
                self.rollups.push(e.summary.clone());
                for note in &e.branches {
                    if let Some(branch) = self.branches.iter_mut().find(|branch| branch.id == note.branch_id)
                    {
                        branch.summary = note.summary.clone();
                    }
                }
            }
            _ => {}
        }
    }

    /// The steps of the plan as the last answer had it.
    pub(crate) fn items(&self) -> &[PlanItem] {
        &self.plan.items
    }

    /// The node that does the homework.
    pub(crate) fn root(&self) -> usize {
        self.root
    }

    /// True if an answer was written.
    pub(crate) fn has_answer(&self) -> bool {
        self.answered.is_some()
    }

    /// True if an answer was written after the latest iteration.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered == Some(self.latest)
    }

    /// The latest iteration that was planned; 0 for none.
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// True if the latest iteration has no roll-up yet.
    pub(crate) fn owes_rollup(&self) -> bool {
        self.rolled_up < self.latest
    }

    /// True if there is a document with the summary of the iteration.
    pub(crate) fn is_summarised(&self, iteration: u32) -> bool {
        iteration <= self.summarised
    }

    /// The last roll-up; empty for none.
    pub(crate) fn rollup(&self) -> &str {
        self.rollups.last().map_or("", String::as_str)
    }

    /// The branches, in the order in which they began.
    pub(crate) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The branch called `id`.
    pub(crate) fn branch(&self, id: &str) -> Option<&Branch> {
        self.branches.iter().find(|branch| branch.id == id)
    }

    /// Every task so far.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = usize> + '_ {
        self.branches.iter().flat_map(|branch| &branch.tasks).copied()
    }

    /// Where the homework stands, for a planner that is asked about `iteration` or for the aggregator.
    pub(crate) fn brief(&self, state: &State, iteration: u32) -> HomeworkBrief {
        let root = state.node(self.root).id;
        let scratchpad = DocumentId::scratchpad(root);
        let branches = self.branches.iter().map(|branch| {
            let earlier = branch.tasks.len().saturating_sub(limits::BRANCH_ENTRIES);
            BranchBrief {
                branch_id: branch.id.clone(),
                title: branch.title.clone(),
                scratchpad_doc_id: DocumentId::branch(root, &branch.id),
                summary: branch.summary.clone(),
                entries: branch.tasks[earlier..].iter().map(|&at| entry(state, at)).collect(),
                earlier: earlier as u32,
            }
        });
        HomeworkBrief {
            iteration,
            max_iterations: state.budgets().max_iterations,
            scratchpad_doc_id: state.node(self.root).scratchpad_doc_id.unwrap_or(scratchpad),
            plan_doc_id: DocumentId::plan(root),
            last: HomeworkDraft { rollup: self.rollup().to_owned(), ..self.plan.clone() },
            rollups: self.rollups.clone(),
            branches: branches.collect(),
            refused: self.refused.clone(),
        }
    }
}

/// What the task at `at` led to.
pub(crate) fn entry(state: &State, at: usize) -> BranchEntry {
    let node = state.node(at);
    let said = node.result.as_ref().map(|result| result.summary.clone());
    BranchEntry {
        iteration: node.task.as_ref().map_or(0, |task| task.iteration),
        title: node.title.clone(),
        status: node.status,
        summary: said.or_else(|| node.error.clone()).or_else(|| node.message.clone()).unwrap_or_default(),
    }
}

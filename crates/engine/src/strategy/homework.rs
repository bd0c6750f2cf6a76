//! The `homework` strategy: iterations of one root, each with one task for each of some branches, until the planner is
//! satisfied.
//!
//! The root:
//!
//! | status | input | next status |
//! | --- | --- | --- |
//! | (created) | | `planning` |
//! | `planning` | planner: tasks | `delegating`, then `waiting` for the tasks |
//! | `planning` | planner: tasks, all of them refused | `planning` the next iteration |
//! | `planning` | planner: done, or tasks beyond the last iteration | `aggregating` |
//! | `waiting` | last task of the iteration ended | `planning`; `aggregating` if out of budget |
//! | `aggregating` | aggregator: result | `completed` |
//! | any of these | failure, no attempts left | `aggregating` what there is, else `failed` |
//! | any of these | out of budget | `aggregating` what there is, else `cancelled` |
//!
//! A task executes once: `executing`, then `completed`, `failed` or `cancelled`.
//!
//! After each iteration the planner is asked again, also after the last one. Its answer holds the roll-up of the
//! iteration that has ended. If no planner can be asked any more, the roll-up lists what the tasks led to.

use serde::Serialize;
use tree_agent_contract::event::*;
use tree_agent_contract::homework::{BranchNote, BranchTask, HomeworkDraft, Refusal};
use tree_agent_contract::role::*;
use tree_agent_contract::search::slug;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, NodeId, NodeStatus, Outcome, StepId, Strategy, limits};

use super::bands;
use super::notes::{self, Rolled};
use super::review;
use super::rules::Rules;
use super::verified;
use crate::briefing;
use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure};
use crate::documents;
use crate::iterations::{self, Iterations};
use crate::leases;
use crate::state::State;

/// Earlier tasks of a branch whose results its next task is told.
const EARLIER: usize = 8;

/// What the strategy keeps about a whole homework.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Homework(Box<Iterations>);

impl Homework {
    /// Its name in the log.
    pub(super) const NAME: Strategy = Strategy::Homework;
}

/// The tasks of an iteration.
struct Tasks {
    plan: PlanDraft,
    refused: Vec<(Refusal, Option<NodeId>)>,
    guards: Vec<&'static str>,
}

impl Tasks {
    fn steps(&self) -> &[StepDraft] {
        self.plan.bands.first().map_or(&[], |band| &band.steps)
    }
}

impl Rules for Homework {
    fn spans_children(&self) -> bool {
        true
    }

    fn follow(&mut self, _state: &State, at: usize, event: &Event) {
        self.0.follow(at, event);
    }

    fn begin(&self, d: &mut Decider<'_>, at: usize) {
        let node = d.state.node(at);
        let Some(task) = &node.task else { return d.need(at, CallKind::Plan, None) };
        let entry = notes::task(task.iteration, &node.title, &node.reason, &node.success_criteria);
        d.append_scratchpad(at, &entry);
        d.need(at, CallKind::Execute, None);
    }

    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput) {
        match output {
            CallOutput::Plan(out) => self.planned(d, at, out),
            CallOutput::Execute(out) => self.executed(d, at, out),
            CallOutput::Aggregate(out) => self.aggregated(d, at, out),
            CallOutput::Research(_) | CallOutput::Pick(_) | CallOutput::Verify(_) => {
                unreachable!("homework neither researches nor picks, and does not verify itself")
            }
        }
    }

    fn child_ended(&self, d: &mut Decider<'_>, at: usize) {
        if bands::advance(d, at) {
            match d.state.ending(at) {
                Some(_) => self.finish(d, at, None, self.0.owes_rollup()),
                None => d.need(at, CallKind::Plan, None),
            }
        }
    }

    fn advance(&self, d: &mut Decider<'_>, at: usize) {
        if d.state.control(at).needs.is_none() {
            self.child_ended(d, at);
        }
    }

    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure) {
        if at != self.0.root() {
            self.note(d, at, &[], &notes::failure(&failure.text()));
            return d.fail(at, failure.text(), failure.error.retryable());
        }
        if failure.kind.finishes() {
            if self.0.has_answer() {
                return self.return_answer(d, at, Some("guard:aggregationFailed"));
            }
            let tasks = d.state.latest_children(at).collect();
            return d.return_listing(at, tasks, &failure.error);
        }
        match d.state.has_completed_children(at) {
            true => self.finish(d, at, Some("guard:replanFailed"), self.0.owes_rollup()),
            false => d.fail(at, failure.text(), failure.error.retryable()),
        }
    }

    fn wind_down(&self, d: &mut Decider<'_>, at: usize) {
        match at == self.0.root() && d.state.has_completed_children(at) {
            true => {
                let guard = d.guard(at);
                self.finish(d, at, Some(&guard), self.0.owes_rollup());
            }
            false => {
                self.note(d, at, &[], "");
                d.cancel(at);
            }
        }
    }

    fn complete(&self, d: &mut Decider<'_>, at: usize) {
        let evidence = d.evidence(at);
        // A branch that another task has brought to an end has lost nothing.
        let lost = self.0.branches().iter().filter_map(|branch| branch.last()).any(|task| {
            let node = d.state.node(task);
            node.status != NodeStatus::Completed || node.outcome == Some(Outcome::Partial)
        });
        d.complete_partly(at, evidence, lost);
    }

    /// Verifications that asked for another iteration count like iterations, because a planner may find nothing more to
    /// do.
    fn may_replan(&self, state: &State, at: usize) -> bool {
        self.0.latest() + state.control(at).bands().replans < state.budgets().max_iterations
    }

    fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput {
        match kind {
            CallKind::Plan => CallInput::Plan(Box::new(PlanInput {
                call,
                existing_plan_summary: briefing::plan_summary(state, at),
                replan_reason: state.control(at).bands().replan_reason.clone().unwrap_or_default(),
                prior_steps: Vec::new(),
                earlier_result: None,
                homework: Some(Box::new(self.0.brief(state, self.0.latest() + 1))),
                review: review::is_due(state, at),
            })),
            CallKind::Execute => CallInput::Execute(Box::new(self.task(state, at, call))),
            CallKind::Aggregate => CallInput::Aggregate(Box::new(AggregateInput {
                call,
                plan_summary: briefing::plan_summary(state, at),
                children: briefing::child_outcomes(state, at),
                exhausted_budget: state.exhausted_of(at).map(str::to_owned),
                homework: Some(Box::new(self.0.brief(state, self.0.latest()))),
            })),
            CallKind::Research | CallKind::Pick | CallKind::Verify => {
                unreachable!("homework neither researches nor picks, and does not verify itself")
            }
        }
    }
}

impl Homework {
    /// The planner has answered: what has ended is rolled up, then the next iteration begins or the homework ends.
    fn planned(&self, d: &mut Decider<'_>, at: usize, out: PlannerOutput) {
        let (ended, may_go_on) = (self.0.latest(), self.0.latest() < d.state.budgets().max_iterations);
        let is_over = d.state.ending(at).is_some();
        let mut draft = out.homework.map(|draft| *draft).unwrap_or_default();
        for note in &mut draft.branches {
            note.branch_id = slug::of(&note.branch_id);
        }
        let wants_more = out.mode == PlannerMode::Plan;
        let tasks = out.plan.filter(|_| wants_more && may_go_on && !is_over).map(|plan| self.tasks(d, plan));
        let rolled = self.rolled(d.state, ended);
        let mut text = line_break(out.scratchpad.append_markdown);
        let root = d.state.node(at).id;
        if self.0.owes_rollup() {
            text.push_str(&notes::rollup(root, ended, &draft.rollup, &rolled, &draft.branches));
        }
        text.push_str(&notes::plan_update(self.0.items(), &draft));
        text.push_str(&match &tasks {
            Some(tasks) => {
                let refused: Vec<Refusal> = tasks.refused.iter().map(|(refusal, _)| refusal.clone()).collect();
                notes::assigned(root, ended + 1, tasks.steps(), &refused)
            }
            None if wants_more => String::new(),
            None => notes::done(&out.mode_reason),
        });
        d.append_scratchpad(at, &text);
        if self.0.owes_rollup() {
            self.roll_up(d, at, ended, draft.rollup.clone(), draft.branches.clone(), &rolled);
        }
        update_plan(d, at, ended + 1, &draft);
        match tasks {
            Some(tasks) => self.assign(d, at, tasks, out.mode_reason),
            None => {
                let guard = if is_over { d.guard(at) } else { "guard:maxIterations".to_owned() };
                self.finish(d, at, wants_more.then_some(&guard), false);
            }
        }
    }

    /// The tasks that may begin of those that the planner wants.
    fn tasks(&self, d: &Decider<'_>, mut plan: PlanDraft) -> Tasks {
        let (state, iteration) = (&*d.state, self.0.latest() + 1);
        let mut band = plan.bands.drain(..).next();
        let (mut tasks, mut refused) = (Vec::<StepDraft>::new(), Vec::new());
        for mut task in band.iter_mut().flat_map(|band| band.steps.drain(..)) {
            let branch = slug::of(task.branch_id.as_deref().unwrap_or(&task.title));
            let refuse = |reason: String, repeats| {
                let refusal = Refusal { branch_id: branch.clone(), title: task.title.clone(), reason };
                (refusal, repeats)
            };
            if tasks.iter().any(|other| other.branch_id.as_deref() == Some(&branch)) {
                refused.push(refuse("the branch has a task in this iteration".into(), None));
            } else if let Some(earlier) = self.repeated(state, &task) {
                let node = state.node(earlier);
                let iteration = node.task.as_ref().map_or(0, |task| task.iteration);
                let reason = format!("repeats {:?} of iteration {iteration}", node.title);
                refused.push(refuse(prefix(&reason, limits::TEXT_BYTES).to_owned(), Some(node.id)));
            } else if tasks.iter().any(|other| is_same(&task, &other.title, &other.success_criteria)) {
                refused.push(refuse("repeats another task of this iteration".into(), None));
            } else {
                task.id = StepId::new(format!("{iteration}.{branch}"));
                task.step_index = tasks.len() as u32;
                task.branch_id = Some(branch);
                tasks.push(task);
            }
        }
        let mut guards = Vec::new();
        let budgets = d.state.budgets();
        let nodes = budgets.max_nodes.saturating_sub(d.state.planned_nodes());
        for (limit, guard) in
            [(budgets.max_steps_per_band, "guard:maxStepsPerBand"), (nodes, "guard:maxNodes")]
        {
            if tasks.len() > limit as usize {
                tasks.truncate(limit as usize);
                guards.push(guard);
            }
        }
        plan.bands = band.filter(|_| !tasks.is_empty()).into_iter().collect();
        for band in &mut plan.bands {
            (band.index, band.parallelizable) = (0, true);
        }
        if let Some(band) = plan.bands.first_mut() {
            band.steps = tasks;
        }
        Tasks { plan, refused, guards }
    }

    /// A completed task that `task` repeats.
    fn repeated(&self, state: &State, task: &StepDraft) -> Option<usize> {
        self.0.tasks().find(|&at| {
            let node = state.node(at);
            let is_done = node.status == NodeStatus::Completed && node.outcome != Some(Outcome::Partial);
            is_done && is_same(task, &node.title, &node.success_criteria)
        })
    }

    /// An iteration begins. If all of its tasks were refused, it has ended.
    fn assign(&self, d: &mut Decider<'_>, at: usize, tasks: Tasks, reason: String) {
        let iteration = self.0.latest() + 1;
        let Tasks { mut plan, refused, guards } = tasks;
        let is_empty = plan.bands.is_empty();
        let cut = leases::cut_plan(d.state, at, &mut plan);
        bands::write(d, at, plan, reason.clone(), Some(iteration));
        for (Refusal { branch_id, title, reason }, repeats) in refused {
            d.emit(at, TaskRefused { iteration, branch_id, title, reason, repeats });
        }
        for guard in guards {
            d.status(at, NodeStatus::Delegating, Some(guard.into()));
        }
        if let Some(why) = cut {
            d.cut_leases(at, why);
        }
        if is_empty {
            // Without room for a node there is nothing to wait for.
            return match d.state.planned_nodes() >= d.state.budgets().max_nodes {
                true => self.finish(d, at, Some("guard:maxNodes"), true),
                false => d.need(at, CallKind::Plan, None),
            };
        }
        d.status_because(at, NodeStatus::Delegating, prefix(&reason, limits::TEXT_BYTES).to_owned());
        if bands::begin(d, at) {
            self.finish(d, at, None, true);
        }
    }

    /// No iteration follows. `owes_rollup`: the latest one has no roll-up.
    fn finish(&self, d: &mut Decider<'_>, at: usize, guard: Option<&str>, owes_rollup: bool) {
        let latest = d.state.node(at).plan.as_ref().and_then(|plan| plan.iteration).unwrap_or_default();
        if owes_rollup && latest > 0 {
            let rolled = self.rolled(d.state, latest);
            let rollup = prefix(&notes::without_planner(&rolled), limits::TEXT_BYTES).to_owned();
            d.append_scratchpad(at, &notes::rollup(d.state.node(at).id, latest, &rollup, &rolled, &[]));
            self.roll_up(d, at, latest, rollup, Vec::new(), &rolled);
        }
        if self.0.is_answered() {
            return self.return_answer(d, at, guard);
        }
        if d.state.has_completed_children(at) {
            d.in_flight.reached(at);
            return d.need(at, CallKind::Aggregate, guard.map(str::to_owned));
        }
        if d.state.ending(at).is_some() {
            return d.cancel(at);
        }
        let tasks: Vec<usize> = d.state.latest_children(at).collect();
        let error = tasks.iter().find_map(|&task| d.state.node(task).error.as_deref());
        let error = match (error, guard) {
            (Some(error), _) => bands::none_completed(tasks.len(), "task", error),
            (None, Some(guard)) => format!("no task could begin ({guard})"),
            (None, None) => "every task was refused, because it repeats another".to_owned(),
        };
        d.fail(at, prefix(&error, limits::TEXT_BYTES).to_owned(), false);
    }

    /// The tasks of an iteration, for its roll-up.
    fn rolled<'a>(&'a self, state: &State, iteration: u32) -> Vec<Rolled<'a>> {
        let tasks = self.0.branches().iter().filter_map(|branch| {
            let is_of = |&&at: &&usize| state.node(at).task.as_ref().is_some_and(|t| t.iteration == iteration);
            let task = branch.tasks.iter().rev().find(is_of)?;
            Some(Rolled { branch_id: &branch.id, entry: iterations::entry(state, *task) })
        });
        tasks.collect()
    }

    /// The input of a task.
    fn task(&self, state: &State, at: usize, mut call: CallContext) -> ExecuteInput {
        let (node, root) = (state.node(at), state.node(self.0.root()).id);
        let task = node.task.as_ref();
        let branch = task.and_then(|task| self.0.branch(&task.branch_id));
        let before: Vec<usize> =
            branch.iter().flat_map(|branch| &branch.tasks).copied().filter(|&task| task < at).collect();
        let latest = before.len().saturating_sub(EARLIER);
        // What the earlier tasks wrote is in front of what this one writes.
        let tail = before.last().and_then(|&task| state.node(task).scratchpad_tail.as_deref());
        call.scratchpad_tail.insert_str(0, tail.unwrap_or_default());
        let task = task.zip(branch).map(|(task, branch)| {
            Box::new(BranchTask {
                branch_id: branch.id.clone(),
                iteration: task.iteration,
                scratchpad_doc_id: DocumentId::branch(root, &branch.id),
                workspace_doc_id: DocumentId::workspace(state.origin()),
                rollup: self.0.rollup().to_owned(),
            })
        });
        let earlier = briefing::outcomes(state, before[latest..].iter().copied());
        ExecuteInput { call, earlier, task }
    }

    /// The roll-up of iteration `ended` is known: writes the summary of the iteration.
    fn roll_up(
        &self,
        d: &mut Decider<'_>,
        at: usize,
        ended: u32,
        summary: String,
        branches: Vec<BranchNote>,
        rolled: &[Rolled<'_>],
    ) {
        let (run_id, node, place) = (d.state.graph().run_id(), d.state.node(at).id, d.scratchpad_of(at));
        let body = notes::iteration(ended, &summary, rolled);
        let document = documents::iteration(run_id, node, ended, body, d.now);
        let summary_document_id = Some(document.id);
        d.emit(at, RollupUpdated { document_id: place, iteration: ended, summary, branches, summary_document_id });
        match self.0.is_summarised(ended) {
            // A task of the iteration was done again.
            true => d.replace_document(document.id, document.body),
            false => d.create_document(document, place),
        }
    }

    /// The result of a task is known.
    fn executed(&self, d: &mut Decider<'_>, at: usize, out: ExecutorOutput) {
        let mut entry = line_break(out.scratchpad.append_markdown);
        if !notes::tells(&entry, &out.result.summary) {
            entry.push_str(&notes::outcome(&out.result.summary));
        }
        self.note(d, at, &out.actions, &entry);
        let evidence = out.result.success_assessment.as_ref().and_then(|a| a.notes.clone());
        d.return_result(at, out.artifacts, out.result);
        d.complete(at, evidence);
    }

    /// Writes what the task at `at` did, and then `text`, into the scratchpad of its branch.
    fn note(&self, d: &mut Decider<'_>, at: usize, actions: &[Action], text: &str) {
        let done = notes::work(&d.state.control(at).earlier_calls, actions);
        d.append_scratchpad(at, &(done + text));
    }

    fn aggregated(&self, d: &mut Decider<'_>, at: usize, mut out: AggregatorOutput) {
        let child_ids = d.state.latest_children(at).map(|child| d.state.node(child).id).collect();
        d.aggregated(at, child_ids, &mut out);
        d.return_result(at, out.artifacts, out.result);
        verified::then_complete(self, d, at);
    }

    /// The answer that was doubted is the last one: nothing was found since.
    fn return_answer(&self, d: &mut Decider<'_>, at: usize, guard: Option<&str>) {
        d.give_up(at);
        d.in_flight.reached(at);
        d.status(at, NodeStatus::Aggregating, guard.map(str::to_owned));
        self.complete(d, at);
    }
}

/// The plan document is written again.
fn update_plan(d: &mut Decider<'_>, at: usize, iteration: u32, draft: &HomeworkDraft) {
    let node = d.state.node(at);
    let (document_id, text) = (DocumentId::plan(node.id), notes::plan(&node.title, iteration, draft));
    let HomeworkDraft { items, remaining, questions, .. } = draft.clone();
    d.emit(at, PlanDocumentUpdated { document_id, iteration, items, remaining, questions });
    d.replace_document(document_id, text);
}

/// True if `task` repeats a task with this title and these criteria, word for word.
fn is_same(task: &StepDraft, title: &str, criteria: &[String]) -> bool {
    task.title == title && task.success_criteria == criteria
}

/// A note of a role, apart from what follows it.
fn line_break(mut markdown: String) -> String {
    if !markdown.is_empty() {
        markdown.truncate(markdown.trim_end().len());
        markdown.push_str("\n\n");
    }
    markdown
}

//! The planner of homework. The first tasks are the sources of what answers best, as in a tree. Later ones are sources
//! which nobody has read yet and which hold words of the question that no passage so far has held. It is done when no
//! source adds anything.
//!
//! It keeps no state but the plan document: the same documents and the same plan give the same tasks.

use std::collections::BTreeSet;

use tree_agent_contract::homework::{
    BranchBrief, BranchEntry, BranchNote, HomeworkBrief, HomeworkDraft, ItemState, PlanItem,
};
use tree_agent_contract::role::{
    BandDraft, ChildOutcome, PlanDraft, PlanInput, PlannerMode, PlannerOutput, RoleError, ScratchpadDraft,
    StepDraft,
};
use tree_agent_contract::search::slug;
use tree_agent_contract::text::{count, prefix, suffix};
use tree_agent_contract::{NodeStatus, StepId, limits};

use super::evidence::{Evidence, gather, wait};
use super::hits::{Hit, MANY_HITS};
use super::plan::{Source, of_group, of_part, sources, titles, width};
use super::{brief, question, room, short};
use crate::io::RoleIo;

/// Bytes of what is said about one task in a roll-up.
const TASK_BYTES: usize = 300;
/// Bytes of what is said about a branch.
const BRANCH_BYTES: usize = 1_500;

/// Answers about the iteration that `brief` names.
pub(super) async fn plan(
    input: &PlanInput,
    brief: &HomeworkBrief,
    io: &RoleIo,
) -> Result<PlannerOutput, RoleError> {
    let mut items = brief.last.items.clone();
    settle(&mut items, brief);
    let wait = if brief.iteration == 1 { wait(&input.call) } else { 0 };
    let mut tasks = wanted(input, &items, io, wait).await?;
    for task in &tasks {
        if items.len() < limits::PLAN_ITEMS && !items.iter().any(|item| item.title == task.title) {
            let (title, note) = (task.title.clone(), String::new());
            items.push(PlanItem { title, state: ItemState::Todo, note });
        }
    }
    let is_todo = |items: &[PlanItem], task: &Source| {
        items.iter().any(|item| item.title == task.title && item.state == ItemState::Todo)
    };
    // What nobody finds any more is not wanted any more.
    for item in items.iter_mut().filter(|item| item.state == ItemState::Todo) {
        if !tasks.iter().any(|task| task.title == item.title) {
            item.state = ItemState::Dropped;
        }
    }
    tasks.retain(|task| is_todo(&items, task));
    tasks.truncate(if brief.is_last() { 0 } else { width(&input.call).max(1) });
    for item in items.iter_mut().filter(|item| tasks.iter().any(|task| task.title == item.title)) {
        item.state = ItemState::Doing;
    }
    let mut branches = BTreeSet::new();
    let steps = (0..).zip(tasks).map(|(i, task)| StepDraft {
        branch_id: Some(branch(&task.title, &mut branches)),
        reason: task.reason,
        success_criteria: task.criteria,
        step_index: i,
        ..StepDraft::new(StepId::new(format!("task-{}", i + 1)), task.title)
    });
    Ok(answer(brief, items, steps.collect()))
}

/// The branch of a source.
fn branch(title: &str, taken: &mut BTreeSet<String>) -> String {
    let branch = slug::unique(title, |slug| taken.contains(slug));
    taken.insert(branch.clone());
    branch
}

/// The sources that are read and that are still to be read: those of the plan, or what it lacks when all are read.
async fn wanted(
    input: &PlanInput,
    items: &[PlanItem],
    io: &RoleIo,
    wait: u8,
) -> Result<Vec<Source>, RoleError> {
    let question = question(&input.call);
    let parts = brief::parts(&question);
    if !parts.is_empty() {
        return Ok(parts.iter().map(of_part).collect());
    }
    let found = gather(io, &question, Some(MANY_HITS), wait, room(&input.call)).await?;
    let mut tasks = if found.missing.is_none() { sources(&found, usize::MAX) } else { Vec::new() };
    if tasks.is_empty() {
        // The task says itself what was not found.
        let title = short(&question, TASK_BYTES);
        let (id, reason) = ("objective".to_owned(), "It is the whole task.".to_owned());
        tasks.push(Source { id, title, reason, criteria: Vec::new() });
    }
    let is_known = |title: &str| items.iter().any(|item| item.title == title);
    if found.missing.is_some() || !tasks.iter().all(|task| is_known(&task.title)) {
        return Ok(tasks);
    }
    let titles = titles(found.quoted.iter().chain(&found.further));
    let mut covered: BTreeSet<&String> = found.quoted.iter().flat_map(|hit| hit.held(&found.known)).collect();
    // Those of the plan come first, so that the others are compared with what it covers.
    let mut further: Vec<&Hit> = found.further.iter().collect();
    further.sort_by_key(|hit| !titles.get(&hit.path).is_some_and(|title| is_known(title)));
    for hit in further {
        let (task, held) = (of_group(&[hit], &Evidence::default(), &titles), hit.held(&found.known));
        if !held.is_subset(&covered) && !tasks.iter().any(|known| known.title == task.title) {
            covered.extend(held);
            let reason = "It holds words of the task that no passage before has held.".to_owned();
            tasks.push(Source { reason, ..task });
        }
    }
    Ok(tasks)
}

fn answer(brief: &HomeworkBrief, items: Vec<PlanItem>, steps: Vec<StepDraft>) -> PlannerOutput {
    let todo = items.iter().filter(|item| item.state == ItemState::Todo);
    let mut left: Vec<String> = todo.map(|item| item.title.clone()).collect();
    let reason = match (steps.len(), left.len()) {
        (0, 0) => "Nothing is lacking that another source holds.".to_owned(),
        (0, n) => format!("No iteration is left for {}.", count(n, "further task")),
        (n, 0) => format!("{} to do, none after that.", count(n, "task")),
        (n, more) => format!("{} to do, {more} after that.", count(n, "task")),
    };
    left.truncate(limits::HOMEWORK_NOTES);
    let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
    let summary = short(&format!("{}.", titles.join("; ")), limits::TEXT_BYTES);
    let mode = if steps.is_empty() { PlannerMode::Done } else { PlannerMode::Plan };
    let goal = "Quote the sources".to_owned();
    let band = BandDraft { index: 0, goal, parallelizable: true, steps };
    let homework = HomeworkDraft {
        rollup: rollup(brief),
        branches: branch_notes(brief),
        remaining: left,
        questions: Vec::new(),
        items,
    };
    PlannerOutput {
        premises: None,
        mode,
        leaf_decision: None,
        plan: (mode == PlannerMode::Plan).then(|| PlanDraft { summary, bands: vec![band] }),
        homework: Some(Box::new(homework)),
        scratchpad: ScratchpadDraft::of(format!("**Iteration {}.** {reason}\n", brief.iteration)),
        mode_reason: reason,
    }
}

/// What became of the steps that the last iteration was for. One that was not begun is still to do.
fn settle(items: &mut [PlanItem], brief: &HomeworkBrief) {
    for item in items.iter_mut().filter(|item| item.state == ItemState::Doing) {
        let ended = entries(brief).find(|entry| entry.title == item.title);
        let refused = brief.refused.iter().find(|refusal| refusal.title == item.title);
        (item.state, item.note) = match (ended, refused) {
            (Some(entry), _) if entry.status == NodeStatus::Completed => (ItemState::Done, String::new()),
            (Some(entry), _) => {
                (ItemState::Dropped, format!("{}: {}", entry.status, short(&entry.summary, TASK_BYTES)))
            }
            (None, Some(refusal)) => {
                (ItemState::Dropped, format!("refused: {}", short(&refusal.reason, TASK_BYTES)))
            }
            (None, None) => (ItemState::Todo, String::new()),
        };
    }
}

/// The tasks of the last iteration.
fn entries(brief: &HomeworkBrief) -> impl Iterator<Item = &BranchEntry> {
    let ended = brief.iteration - 1;
    let all = brief.branches.iter().flat_map(|branch| &branch.entries);
    all.filter(move |entry| entry.iteration == ended)
}

/// What the last iteration has led to; empty before the first one.
fn rollup(brief: &HomeworkBrief) -> String {
    if brief.iteration == 1 {
        return String::new();
    }
    let completed = entries(brief).filter(|entry| entry.status == NodeStatus::Completed).count();
    let mut text = format!("{completed} of {} completed.", count(entries(brief).count(), "task"));
    for entry in entries(brief) {
        let said = short(&entry.summary, TASK_BYTES);
        text.push_str(&format!("\n- {} ({}): {said}", short(&entry.title, TASK_BYTES), entry.status));
    }
    for refusal in &brief.refused {
        let why = short(&refusal.reason, TASK_BYTES);
        text.push_str(&format!("\n- {} was refused: {why}", short(&refusal.title, TASK_BYTES)));
    }
    prefix(&text, limits::TEXT_BYTES).to_owned()
}

/// What each branch has found so far: what was said before, and what its last task adds.
fn branch_notes(brief: &HomeworkBrief) -> Vec<BranchNote> {
    let ended = brief.iteration - 1;
    let note = |branch: &BranchBrief| {
        let mut summary = branch.summary.clone();
        for entry in branch.entries.iter().filter(|entry| entry.iteration == ended) {
            let said = format!("{}: {}", short(&entry.title, TASK_BYTES), short(&entry.summary, TASK_BYTES));
            summary = if summary.is_empty() { said } else { format!("{summary}\n{said}") };
        }
        if summary.len() > BRANCH_BYTES {
            summary = format!("…{}", suffix(&summary, BRANCH_BYTES));
        }
        (!summary.is_empty()).then(|| BranchNote { branch_id: branch.branch_id.clone(), summary })
    };
    // If there are too many, the latest branches matter most.
    let too_many = brief.branches.len().saturating_sub(limits::BRANCH_NOTES);
    brief.branches.iter().skip(too_many).filter_map(note).collect()
}

/// What the plan of homework that has ended leaves undone, as sentences. Its tasks were `begun`.
pub(super) fn gaps(brief: &HomeworkBrief, begun: &[ChildOutcome]) -> Vec<String> {
    let is_begun = |item: &PlanItem| begun.iter().any(|task| task.title == item.title);
    let gap = |item: &PlanItem| match item.state {
        ItemState::Todo => Some(format!("Not done: {}.", short(&item.title, TASK_BYTES))),
        ItemState::Doing if !is_begun(item) => Some(format!("Not done: {}.", short(&item.title, TASK_BYTES))),
        ItemState::Dropped if !is_begun(item) && !item.note.is_empty() => {
            Some(format!("“{}” was {}.", short(&item.title, TASK_BYTES), item.note))
        }
        _ => None,
    };
    brief.last.items.iter().filter_map(gap).collect()
}

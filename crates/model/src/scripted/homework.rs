//! Scripted homework: a number of iterations, each with tasks for some of the branches in turn.

use tree_agent_contract::homework::{BranchNote, HomeworkBrief, HomeworkDraft, ItemState, PlanItem};
use tree_agent_contract::role::{BandDraft, PlanDraft, PlannerMode, PlannerOutput, StepDraft};
use tree_agent_contract::{NodeStatus, limits};

use super::script::Script;
use super::{note, step};

/// The planner's answer about the iteration that `brief` names.
pub(super) fn plan(script: &Script, brief: &HomeworkBrief) -> PlannerOutput {
    let iteration = brief.iteration;
    let tasks = match iteration <= script.iterations && !brief.is_last() {
        true => tasks(script, brief),
        false => Vec::new(),
    };
    let mode = if tasks.is_empty() { PlannerMode::Done } else { PlannerMode::Plan };
    let band =
        BandDraft { index: 0, goal: format!("iteration {iteration}"), parallelizable: true, steps: tasks };
    let plan = PlanDraft { summary: format!("Scripted iteration {iteration}"), bands: vec![band] };
    PlannerOutput {
        premises: None,
        mode,
        mode_reason: format!("iteration {iteration} of {}", script.iterations),
        leaf_decision: None,
        plan: (mode == PlannerMode::Plan).then_some(plan),
        homework: Some(Box::new(draft(script, brief))),
        scratchpad: note("scripted: planned\n"),
    }
}

/// One task for each of the next branches. The first ones have the title of the task that their branch had before.
fn tasks(script: &Script, brief: &HomeworkBrief) -> Vec<StepDraft> {
    let branches = script.branches();
    let width = script.fanout.min(branches);
    (0..width)
        .map(|i| {
            let turn = u64::from(brief.iteration - 1) * u64::from(width) + u64::from(i);
            let branch = format!("b{}", turn % u64::from(branches));
            let before = brief.branches.iter().find(|known| known.branch_id == branch);
            let before = before.and_then(|known| known.entries.last()).filter(|_| i < script.repeats);
            let title =
                before.map_or_else(|| format!("i{}.{branch}", brief.iteration), |entry| entry.title.clone());
            StepDraft { branch_id: Some(branch), ..step(format!("t{i}"), title, i) }
        })
        .collect()
}

fn draft(script: &Script, brief: &HomeworkBrief) -> HomeworkDraft {
    let done = brief.iteration - 1;
    let item = |i: u32| PlanItem {
        title: format!("iteration {i}"),
        state: if i <= done { ItemState::Done } else { ItemState::Todo },
        note: String::new(),
    };
    let branches = brief.branches.iter().map(|branch| BranchNote {
        branch_id: branch.branch_id.clone(),
        summary: format!("{} tasks", branch.earlier as usize + branch.entries.len()),
    });
    let ended =
        brief.branches.iter().flat_map(|branch| &branch.entries).filter(|entry| entry.iteration == done);
    let (completed, others): (Vec<_>, Vec<_>) =
        ended.partition(|entry| entry.status == NodeStatus::Completed);
    let rollup = match done {
        0 => String::new(),
        _ => format!(
            "{} tasks of iteration {done} completed, {} did not, {} were refused.",
            completed.len(),
            others.len(),
            brief.refused.len()
        ),
    };
    let left = (done + 1..=script.iterations).map(|i| format!("iteration {i}"));
    HomeworkDraft {
        items: (1..=script.iterations).take(limits::PLAN_ITEMS).map(item).collect(),
        rollup,
        branches: branches.take(limits::BRANCH_NOTES).collect(),
        remaining: left.take(limits::HOMEWORK_NOTES).collect(),
        questions: Vec::new(),
    }
}

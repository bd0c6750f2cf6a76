//! A question that goes through things one after the other by its grammar: one band for each.

use tree_agent_contract::role::{PlanInput, PlannerOutput};

use super::objective::chain;
use super::plan::{TITLE, Task, delegate, part_task, width};
use super::short;
use super::step::Brief;
use super::subject::Subject;

/// One band for each thing that leads to the next: `the lid of the box` before `the colour of the lid`.
pub(super) fn plan(input: &PlanInput, brief: &Brief, subject: &Subject) -> Option<PlannerOutput> {
    let steps = chain(&brief.subject)?;
    let budgets = &input.call.budgets;
    let most = budgets.max_bands_per_plan.min(budgets.max_children_per_node) as usize;
    if steps.len() > most || width(&input.call) == 0 {
        return None;
    }
    let n = steps.len();
    let band = |(i, step): (usize, &String)| {
        let reason = format!("Step {} of {n} from one thing to the next.", i + 1);
        (format!("Look for {}", short(step, TITLE)), vec![Task { reason, ..part_task(step, i + 1, n) }])
    };
    let bands = steps.iter().enumerate().map(band).collect();
    let reason = format!("The task goes through {n} things, one after the other.");
    Some(delegate(input, &reason, &format!("Take {n} steps, then merge."), bands, &subject.notes()))
}

//! What subtrees may get of the budgets above them.

use tree_agent_contract::event::Event;
use tree_agent_contract::role::PlanDraft;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{BudgetChange, SubtreeBudget, limits};

use crate::amounts::Amounts;
use crate::budgets;
use crate::state::State;

/// The budget as far as `free` suffices, which is less afterwards. True if it had to be cut.
fn cut(budget: SubtreeBudget, free: &mut Amounts) -> (SubtreeBudget, bool) {
    let (mut granted, mut is_cut) = (budget, false);
    let limits = [&mut granted.max_tokens, &mut granted.max_cost_micros, &mut granted.max_tool_calls];
    for (limit, free) in limits.into_iter().zip(free) {
        let Some(limit) = limit else { continue };
        is_cut |= *limit > *free;
        *limit = (*limit).min(*free);
        *free -= *limit;
    }
    (granted, is_cut)
}

/// What a child of the node at `parent` gets of the budget that is asked for. True if that is less.
pub(crate) fn grant(state: &State, parent: usize, asked: SubtreeBudget) -> (SubtreeBudget, bool) {
    cut(asked, &mut budgets::free_for_leases(state, parent))
}

/// Cuts the leases of a plan of the node at `at` to what is free, in the order of its steps. Steps that are completed
/// already need none. Returns what was cut, for people.
pub(crate) fn cut_plan(state: &State, at: usize, plan: &mut PlanDraft) -> Option<String> {
    let mut steps =
        plan.bands.iter_mut().flat_map(|band| &mut band.steps).filter(|s| s.budget.is_some()).peekable();
    steps.peek()?;
    let mut free = budgets::free_for_leases(state, at);
    let mut titles = Vec::new();
    for step in steps {
        step.budget = step.budget.filter(|_| state.reusable_child(at, &step.id).is_none()).map(|asked| {
            let (granted, is_cut) = cut(asked, &mut free);
            if is_cut {
                titles.push(step.title.clone());
            }
            granted
        });
    }
    let why = format!("guard:lease less was free than planned for: {}", titles.join(", "));
    (!titles.is_empty()).then(|| prefix(&why, limits::TEXT_BYTES).to_owned())
}

/// The change of the budget of the node at `at`, cut to what is free above it. `asked` is the event of the whole
/// change.
pub(crate) fn fit(state: &State, at: usize, asked: &Event, change: BudgetChange) -> BudgetChange {
    let mut after = state.clone();
    if after.apply(asked).is_err() {
        return change;
    }
    let beyond = budgets::promised_beyond(&after, at);
    let committed = budgets::committed(&after, at);
    let mut granted = change;
    let limits = [&mut granted.max_tokens, &mut granted.max_cost_micros, &mut granted.max_tool_calls];
    for (m, limit) in limits.into_iter().enumerate() {
        // A limit below what is used or promised takes nothing from above.
        if let Some(limit) = limit.as_mut().filter(|limit| **limit > committed[m]) {
            *limit = limit.saturating_sub(beyond[m]).max(committed[m]).max(1);
        }
    }
    granted
}

//! Budgets of subtrees that change while the run runs.

use tree_agent_contract::event::BudgetSet;
use tree_agent_contract::{BudgetChange, NodeId, Refusal, RefusalKind};

use super::budget::{go_on, unopened, was_cancelled};
use super::nodes::{Issuer, check_current, check_reopens, check_seen, find, find_open, precondition};
use super::reopen::{reopen, wait_below};
use crate::budgets;
use crate::decide::{Decider, Next};
use crate::leases;
use crate::state::Accounts;

/// Changes what the node and everything below it may use. If it was used up and has room again, what it cancelled goes
/// on.
pub(super) fn set(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    node: NodeId,
    change: BudgetChange,
) -> Result<(), Refusal> {
    let at = find(d.state, node)?;
    let goes_on = d.state.node(at).status.is_final();
    if goes_on {
        // Steps of a plan that is gone are not done again, so the node would wait for nothing.
        let was_lost = |at| was_cancelled(d.state, at, true) && check_current(d.state, at).is_ok();
        let is_lost = |at| was_lost(at) || !unopened(d.state, at, true).is_empty();
        let may_go_on = was_cancelled(d.state, at, by.is_edit)
            || by.is_edit && d.state.has_used_up_lease(at) && d.state.subtree(at).into_iter().any(is_lost);
        if !may_go_on {
            find_open(d.state, Some(node))?;
        }
        check_reopens(d.state, at)?;
    } else if d.state.ending(d.state.control(at).parent.unwrap_or(at)).is_some() || d.state.node(at).stopped {
        let message =
            format!("nothing new may begin for node {node}: it is stopped, or what is above is used up");
        return Err(precondition(message));
    }
    check_current(d.state, at)?;
    check_seen(d.state, by, &[at])?;
    let before = d.state.node(at).lease.as_ref().map(|lease| lease.limits).unwrap_or_default();
    let wanted = change.apply_to_subtree(before);
    if wanted == before {
        let message = "the budgets already have these values";
        return Err(Refusal::of_field(RefusalKind::Precondition, "budgets", message));
    }
    let (author, request_id) = (by.author.to_owned(), by.request_id.to_owned());
    let was_exhausted = d.state.has_used_up_lease(at);
    if goes_on {
        // With the lease that it had, as far as that is free. The command is carried out with its change.
        let by = Issuer { request_id: "", ..by };
        match was_cancelled(d.state, at, true) {
            true => reopen(d, by, at, None, None),
            false => wait_below(d, by, at),
        }
    }
    let asked = BudgetSet { author, request_id, change, clamped: false };
    let granted = leases::fit(d.state, at, &d.event(at, asked.clone()), change);
    if !goes_on && granted.apply_to_subtree(before) == before {
        let message = "cannot be raised: nothing more is free above the node";
        return Err(Refusal::of_field(RefusalKind::Limit, "budgets", message));
    }
    d.emit(at, BudgetSet { change: granted, clamped: granted != change, ..asked });
    let accounts = Accounts::of(d.state);
    let has_room = budgets::lease_tripped(d.state, d.in_flight, &accounts, at, d.now).is_none();
    if was_exhausted && has_room {
        go_on(d, by, at, by.is_edit);
        d.ask(Next::Advance { at });
    }
    Ok(())
}

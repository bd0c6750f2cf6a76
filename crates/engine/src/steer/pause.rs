//! Pause, resume, guide.

use tree_agent_contract::event::{GuidanceAdded, NodePaused, NodeResumed, RunStatusChanged};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{NodeId, Refusal, RunStatus};

use super::nodes::{Issuer, check_seen, find_open, precondition};
use crate::decide::{Decider, Next};
use crate::pacing;
use crate::state::State;

/// From now on no role call begins for the node and below it. With `now`, calls in flight are stopped.
pub(super) fn pause(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    node: Option<NodeId>,
    now: bool,
) -> Result<(), Refusal> {
    let at = find_open(d.state, node)?;
    // A run that waits for a quota would go on by itself, and whoever pauses it does not want that.
    let would_go_on = at == 0 && d.state.graph().goes_on_at().is_some();
    if d.state.node(at).paused && !would_go_on {
        return Err(precondition(format!("node {} is paused already", d.state.node(at).id)));
    }
    let below = d.state.subtree(at);
    check_seen(d.state, by, &concerned(d.state, at, if now { &below } else { &[] }))?;
    if would_go_on {
        // The pause has the id of the command.
        lift(d, Issuer { request_id: "", ..by }, at);
    }
    // A call that has finished, and whose end only waits, cannot be stopped.
    let goes_on =
        |&at: &usize| d.in_flight.call(at).is_some() && (!now || pacing::has_finished(d.in_flight, at));
    let in_flight = below.iter().copied().filter(goes_on).map(|at| d.state.node(at).id).collect();
    let (author, request_id) = (by.author.to_owned(), by.request_id.to_owned());
    d.emit(at, NodePaused { author, request_id, in_flight });
    if now {
        below.into_iter().for_each(|at| d.stop_call(at, "pause"));
    }
    // A search that was about to pick may have nothing to pick from.
    advance_above(d, at);
    if at == 0 {
        let reason = Some(format!("paused by {}", by.name()));
        d.emit(0, RunStatusChanged { status: RunStatus::Paused, reason, partial: false, goes_on_at: None });
    }
    Ok(())
}

/// The node at `at`, and those of `stopped` that need a call. Whether it is in flight only one driver knows.
fn concerned(state: &State, at: usize, stopped: &[usize]) -> Vec<usize> {
    let stops = |&at: &usize| state.control(at).needs.is_some();
    std::iter::once(at).chain(stopped.iter().copied().filter(stops)).collect()
}

/// Ends the pause of the node itself.
pub(super) fn resume(d: &mut Decider<'_>, by: Issuer<'_>, node: Option<NodeId>) -> Result<(), Refusal> {
    let at = find_open(d.state, node)?;
    let id = d.state.node(at).id;
    if !d.state.node(at).paused {
        return Err(match d.state.line(at).find(|&above| d.state.node(above).paused) {
            Some(above) => {
                let above = d.state.node(above).id;
                precondition(format!(
                    "node {id} is not paused by itself, but by node {above}; resume that one"
                ))
            }
            None => precondition(format!("node {id} is not paused")),
        });
    }
    check_seen(d.state, by, &[at])?;
    lift(d, by, at);
    go_on(d, at);
    Ok(())
}

/// Ends the pause of the node at `at`.
pub(super) fn lift(d: &mut Decider<'_>, by: Issuer<'_>, at: usize) {
    d.emit(at, NodeResumed { author: by.author.to_owned(), request_id: by.request_id.to_owned() });
    if at == 0 {
        d.emit(
            0,
            RunStatusChanged { status: RunStatus::Running, reason: None, partial: false, goes_on_at: None },
        );
    }
}

/// The nodes at and below `at` do what a pause has kept them from.
pub(super) fn go_on(d: &mut Decider<'_>, at: usize) {
    for below in d.state.subtree(at).into_iter().rev() {
        // What a search would pick from may be gone.
        let may_go_on = matches!(d.state.control(below).needs, None | Some(CallKind::Pick));
        if !d.state.node(below).status.is_final() && may_go_on {
            d.ask(Next::Advance { at: below });
        }
    }
    // It may not have begun.
    advance_above(d, at);
}

/// Those above the node at `at` go on, the nearest first: the root of a search begins topics on every level.
pub(super) fn advance_above(d: &mut Decider<'_>, at: usize) {
    let above: Vec<usize> = d.state.line(at).skip(1).collect();
    above.into_iter().for_each(|at| d.ask(Next::Advance { at }));
}

/// Tells the node something, and with `subtree` every node below. With `restart`, their calls in flight are made again.
pub(super) fn guide(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    node: NodeId,
    text: &str,
    subtree: bool,
    restart: bool,
) -> Result<(), Refusal> {
    let at = find_open(d.state, Some(node))?;
    let told = if subtree { d.state.subtree(at) } else { vec![at] };
    check_seen(d.state, by, &concerned(d.state, at, if restart { &told } else { &[] }))?;
    tell(d, by, at, text, subtree);
    if restart {
        told.into_iter().for_each(|at| d.stop_call(at, "guidance"));
    }
    Ok(())
}

/// Tells the node something.
pub(super) fn tell(d: &mut Decider<'_>, by: Issuer<'_>, at: usize, text: &str, subtree: bool) {
    let (author, request_id) = (by.author.to_owned(), by.request_id.to_owned());
    d.emit(at, GuidanceAdded { text: text.to_owned(), author, request_id, subtree });
}

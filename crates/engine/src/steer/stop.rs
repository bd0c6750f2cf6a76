//! Stop: nothing new begins for a node and below it.

use tree_agent_contract::event::{NodeStopped, StepStatusChanged};
use tree_agent_contract::{NodeId, NodeStatus, Refusal, StepStatus};

use super::nodes::{Issuer, check_seen, find_open, precondition};
use super::pause;
use crate::strategy::Turn;

/// Stops the node. The existing results are combined, or discarded with `discard`.
pub(super) fn stop(turn: &mut Turn<'_>, by: Issuer<'_>, node: NodeId, discard: bool) -> Result<(), Refusal> {
    let d = &mut turn.decider;
    let at = find_open(d.state, Some(node))?;
    if d.state.line(at).any(|above| d.state.node(above).stopped) {
        return Err(precondition(format!("node {node} is stopped already")));
    }
    let below = d.state.subtree(at);
    check_seen(d.state, by, &below)?;
    for below in below {
        if d.state.node(below).paused {
            pause::lift(d, by, below);
        }
    }
    d.emit(at, NodeStopped { author: by.author.to_owned(), request_id: by.request_id.to_owned(), discard });
    wind_down(turn, at, discard);
    Ok(())
}

/// Stops of which a driver has written a part go on.
pub(crate) fn go_on(turn: &mut Turn<'_>) {
    for at in 0..turn.decider.state.nodes().len() {
        let state = &turn.decider.state;
        let stopped = state.control(at).stopped();
        if let Some(discard) = stopped.filter(|_| !state.node(at).status.is_final()) {
            wind_down(turn, at, discard);
        }
    }
}

fn wind_down(turn: &mut Turn<'_>, at: usize, discard: bool) {
    turn.carry_on();
    if discard {
        return drop_all(turn, at);
    }
    turn.stop_starting(at, true);
    // What a pause has kept from going on.
    pause::go_on(&mut turn.decider, at);
    turn.carry_on();
}

/// Cancels the node at `at` and everything below it, children before their parents.
fn drop_all(turn: &mut Turn<'_>, at: usize) {
    let d = &mut turn.decider;
    for below in d.state.subtree(at).into_iter().rev() {
        if below == at || d.state.node(below).status.is_final() {
            continue;
        }
        d.give_up(below);
        d.status(below, NodeStatus::Cancelled, Some("stopped".into()));
        if let (Some(parent), Some(step_id)) = (d.state.control(below).parent, d.state.planned_step(below)) {
            d.emit(parent, StepStatusChanged { step_id, status: StepStatus::Cancelled });
        }
    }
    if !d.state.node(at).status.is_final() {
        d.cancel(at);
    }
    turn.carry_on();
}

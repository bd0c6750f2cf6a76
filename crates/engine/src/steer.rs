//! Commands of people, carried out while the run runs. Each is checked whole before its first event, so that one that
//! is refused changes nothing.

mod budget;
pub(crate) mod fork;
mod lease;
mod nodes;
mod pause;
mod plan;
pub(crate) mod preview;
mod reopen;
mod retry;
pub(crate) mod stop;

use tree_agent_contract::command::Action;
use tree_agent_contract::event::{NodePaused, RunStatusChanged};
use tree_agent_contract::{Command, Refusal, RefusalKind, RunStatus, limits};

use crate::strategy::Turn;
use nodes::Issuer;

/// Carries out a command.
///
/// # Errors
/// Why it is refused. Then there is no event.
pub(crate) fn carry_out(turn: &mut Turn<'_>, command: &Command) -> Result<(), Refusal> {
    act(turn, command, false)
}

/// A run of which nothing can go on before the quota of its provider has ended is paused until then.
pub(crate) fn park(turn: &mut Turn<'_>) {
    let d = &mut turn.decider;
    let is_running = d.state.graph().status() == RunStatus::Running && !d.state.node(0).paused;
    let Some(until) = d.in_flight.quota_ends_at(d.now).filter(|_| is_running) else { return };
    d.emit(0, NodePaused { author: String::new(), request_id: String::new(), in_flight: Vec::new() });
    let (reason, goes_on_at) = (Some("quota".into()), Some(until));
    d.emit(0, RunStatusChanged { status: RunStatus::Paused, reason, partial: false, goes_on_at });
}

/// The run goes on by itself when the time of its review, or of the quota that it waits for, has come.
pub(crate) fn go_on_in_time(turn: &mut Turn<'_>) {
    let d = &mut turn.decider;
    if !d.state.is_final() && d.state.goes_on_at().is_some_and(|at| at <= d.now) {
        let by = Issuer { author: "", request_id: "", expected_seq: None, is_edit: false };
        pause::lift(d, by, 0);
        pause::go_on(d, 0);
        turn.carry_on();
    }
}

/// Carries out a command, or with `is_edit` what a fork does differently.
fn act(turn: &mut Turn<'_>, command: &Command, is_edit: bool) -> Result<(), Refusal> {
    let Command { request_id, author, expected_seq, action } = command;
    let by = Issuer { author, request_id, expected_seq: *expected_seq, is_edit };
    // What is paused must be able to end.
    let may_always = matches!(action, Action::Cancel { .. } | Action::Resume { .. });
    if !may_always && turn.decider.state.steering().commands() >= limits::COMMANDS {
        let message = format!("the run has applied {} commands, which is the most", limits::COMMANDS);
        return Err(Refusal::new(RefusalKind::Limit, message));
    }
    let d = &mut turn.decider;
    match action {
        Action::Cancel { reason } => {
            d.end_all(RunStatus::Cancelled, reason.clone());
            Ok(())
        }
        Action::Pause { node_id, now } => pause::pause(d, by, *node_id, *now),
        Action::Resume { node_id } => pause::resume(d, by, *node_id),
        Action::Guide { node_id, text, subtree, restart } => {
            pause::guide(d, by, *node_id, text, *subtree, *restart)
        }
        Action::Stop { node_id, discard } => stop::stop(turn, by, *node_id, *discard),
        Action::Retry { node_id, guidance, model, budget } => {
            retry::retry(d, by, *node_id, guidance, model, *budget)
        }
        Action::EditPlan { node_id, plan } => plan::edit(d, by, *node_id, plan),
        Action::SetBudget { node_id, change } => match *node_id {
            None => budget::set(d, by, *change),
            // The limits of the root are those of the run. It has none of its own that could be lifted.
            Some(root) if root == d.state.node(0).id => budget::set(d, by, change.without_zeros()),
            Some(node) => lease::set(d, by, node, *change),
        },
        Action::SetModel { .. } => Err(nodes::precondition(
            "only a fork can give all calls another model; fork the run, or retry a node with it",
        )),
    }?;
    turn.carry_on();
    // A fork has all of its edits before anything may be used up.
    if !is_edit && matches!(action, Action::SetBudget { .. }) {
        turn.check_limits();
    }
    Ok(())
}

//! What a fork does differently: edits, which its first driver carries out like commands, each of them once.

use tree_agent_contract::command::Action;
use tree_agent_contract::{Command, Refusal, RunStatus};

use super::act;
use crate::strategy::Turn;

/// Carries out the edits of a fork that are not carried out yet. A driver that died may have left some.
///
/// They were checked when the run was forked. If one of them is refused nevertheless, the run fails and says why.
/// Budgets are checked after the last one: the first driver may come so late that the time of the fork is over.
pub(crate) fn carry_out_edits(turn: &mut Turn<'_>) {
    if turn.decider.state.steering().edits().is_empty() {
        return;
    }
    while let Some(edit) = turn.decider.state.steering().edits().first().cloned() {
        if turn.decider.state.is_final() {
            return;
        }
        if let Err(refusal) = act(turn, &edit, true) {
            let reason = format!("an edit of the fork cannot be carried out: {refusal}");
            return turn.decider.end_all(RunStatus::Failed, reason);
        }
    }
    turn.check_limits();
}

/// Carries out the edits of a fork to see what they lead to.
///
/// # Errors
/// Why one of them is refused. The field names it.
pub(crate) fn try_edits(turn: &mut Turn<'_>, edits: &[Action]) -> Result<(), Refusal> {
    for (i, edit) in edits.iter().enumerate() {
        // The fork begins with its model.
        if matches!(edit, Action::SetModel { .. }) {
            continue;
        }
        act(turn, &Command::new(edit.clone()), true).map_err(|refusal| {
            let field = match refusal.field.as_str() {
                "" => format!("edits[{i}]"),
                field => format!("edits[{i}].{field}"),
            };
            Refusal { field, ..refusal }
        })?;
    }
    turn.check_limits();
    Ok(())
}

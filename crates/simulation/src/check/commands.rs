//! Commands of people: each one that was acknowledged is applied exactly once, each one that was refused leaves no
//! event, and an answer stays what it is.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::command::Action;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::{Command, Event, NodeId, Reply, RunId};

use super::log::Logs;
use crate::world::run_name;

/// Every command that people have sent.
#[derive(Default)]
pub(crate) struct Commands(BTreeMap<(RunId, String), Given>);

struct Given {
    command: Command,
    reply: Option<Reply>,
}

impl Commands {
    /// A person sends a command for the first time.
    pub(crate) fn given(&mut self, run: RunId, command: &Command) {
        self.0.insert((run, command.request_id.clone()), Given { command: command.clone(), reply: None });
    }

    /// How many there are for a run.
    pub(crate) fn of(&self, run: RunId) -> usize {
        self.0.keys().filter(|(of, _)| *of == run).count()
    }

    /// How many were applied, and how many were refused.
    pub(crate) fn answered(&self) -> (u64, u64) {
        let applied = self.0.values().filter(|given| matches!(given.reply, Some(Reply::Applied { .. })));
        let refused = self.0.values().filter(|given| matches!(given.reply, Some(Reply::Refused(_))));
        (applied.count() as u64, refused.count() as u64)
    }

    /// A person hears an answer. What it says must be in the log by then.
    pub(crate) fn heard(&mut self, run: RunId, request_id: &str, reply: &Reply, logs: &Logs) -> Vec<String> {
        let Some(given) = self.0.get_mut(&(run, request_id.to_owned())) else {
            return vec![format!("{}: an answer to {request_id}, which nobody gave", run_name(run))];
        };
        if let Some(before) = &given.reply {
            let text =
                || format!("{}: {request_id} was answered {before:?} and then {reply:?}", run_name(run));
            return if before == reply { Vec::new() } else { vec![text()] };
        }
        given.reply = Some(reply.clone());
        let mut found = check_one(run, given, logs);
        let head = logs.of(run).map_or(0, |log| log.events.len() as u64);
        if let Reply::Applied { seq } = reply
            && *seq > head
        {
            found.push(format!("{}: {request_id} was applied with event {seq} of {head}", run_name(run)));
        }
        found
    }

    /// What is wrong when the world has ended. A command without an answer may or may not have been applied.
    pub(crate) fn check(&self, logs: &Logs) -> Vec<String> {
        self.0.iter().flat_map(|((run, _), given)| check_one(*run, given, logs)).collect()
    }
}

fn check_one(run: RunId, given: &Given, logs: &Logs) -> Vec<String> {
    let Given { command, reply } = given;
    let events = logs.of(run).map(|log| log.events.as_slice()).unwrap_or_default();
    let (mut marks, mut said, mut twice) = (0, 0, false);
    let mut seen: BTreeSet<(NodeId, &str)> = BTreeSet::new();
    for (_, event) in events.iter().filter(|(_, event)| request_id(event) == Some(&command.request_id)) {
        said += 1;
        marks += usize::from(is_mark(&command.action, event));
        twice |= !seen.insert((event.node_id, event.body.event_type()));
    }
    let what = format!("{}: {} ({:?})", run_name(run), command.request_id, command.action);
    let mut found = Vec::new();
    match reply {
        // A run ends with the command that cancels it; the event says no more than that.
        _ if matches!(command.action, Action::Cancel { .. }) => {}
        Some(Reply::Applied { .. }) if marks == 0 => {
            found.push(format!("{what} was applied and left no event"))
        }
        Some(Reply::Refused(refusal)) if said > 0 => {
            found.push(format!("{what} was refused and left {said} events: {refusal}"));
        }
        _ => {}
    }
    if marks > 1 || twice {
        found.push(format!("{what} was applied twice"));
    }
    if said > 0 && marks == 0 {
        found.push(format!("{what} was applied by half"));
    }
    found
}

/// The command that led to an event.
pub(super) fn request_id(event: &Event) -> Option<&String> {
    match &event.body {
        EventBody::NodePaused(e) => Some(&e.request_id),
        EventBody::NodeResumed(e) => Some(&e.request_id),
        EventBody::NodeStopped(e) => Some(&e.request_id),
        EventBody::NodeReopened(e) => Some(&e.request_id),
        EventBody::GuidanceAdded(e) => Some(&e.request_id),
        EventBody::PlanEdited(e) => Some(&e.request_id),
        EventBody::BudgetSet(e) => Some(&e.request_id),
        _ => None,
    }
}

/// True for the one event that shows that the command was applied.
pub(super) fn is_mark(action: &Action, event: &Event) -> bool {
    match action {
        // Nothing in the log names it.
        Action::Cancel { .. } | Action::SetModel { .. } => false,
        Action::Pause { .. } => matches!(event.body, EventBody::NodePaused(_)),
        Action::Resume { .. } => matches!(event.body, EventBody::NodeResumed(_)),
        Action::Guide { .. } => matches!(event.body, EventBody::GuidanceAdded(_)),
        Action::Stop { .. } => matches!(event.body, EventBody::NodeStopped(_)),
        Action::Retry { node_id, .. } => {
            event.node_id == *node_id && matches!(&event.body, EventBody::NodeReopened(e) if e.again)
        }
        Action::EditPlan { .. } => matches!(event.body, EventBody::PlanEdited(_)),
        Action::SetBudget { .. } => matches!(event.body, EventBody::BudgetSet(_)),
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::NodePaused;
    use tree_agent_contract::{Refusal, RefusalKind, RunSpec, Timestamp};
    use tree_agent_engine::start;
    use uuid::Uuid;

    use super::*;

    /// What is found if a pause is answered and its log holds this many pauses with its request id.
    fn found(pauses: u64, reply: &Reply) -> Vec<String> {
        let run = RunId(Uuid::from_u128(1));
        let mut events = start(run, RunSpec::new("Why?"), Timestamp(1)).events;
        for _ in 0..pauses {
            let last = events.last().unwrap().clone();
            let paused = NodePaused { author: String::new(), request_id: "c1".into(), in_flight: vec![] };
            events.push(Event { seq: last.seq + 1, body: paused.into(), ..last });
        }
        let (mut logs, mut commands) = (Logs::default(), Commands::default());
        logs.wrote(run, &events.into_iter().map(|event| (0, event)).collect::<Vec<_>>());
        let pause = Command::new(Action::Pause { node_id: None, now: false });
        commands.given(run, &Command { request_id: "c1".into(), ..pause });
        let mut found = commands.heard(run, "c1", reply, &logs);
        found.extend(commands.heard(run, "c1", &Reply::Applied { seq: 5 }, &logs));
        found
    }

    #[test]
    fn what_was_applied_twice_or_not_at_all_is_found() {
        let applied = Reply::Applied { seq: 5 };
        assert_eq!(found(1, &applied), Vec::<String>::new());
        assert!(found(0, &applied)[0].contains("was applied and left no event"));
        assert!(found(2, &applied)[0].contains("was applied twice"));
        let refused = Reply::Refused(Refusal::new(RefusalKind::Precondition, "no"));
        let found = found(1, &refused);
        assert!(found[0].contains("was refused and left 1 events"), "{found:?}");
        assert!(found[1].contains("and then"), "an answer changes: {found:?}");
    }
}

//! The commands of one run while it is driven: what was heard, and what is still to be answered.

use tree_agent_contract::{Reply, Timestamp};
use tree_agent_engine::{Decision, Run};
use tree_agent_store::{Answer, PendingCommand};

/// Commands that were heard, and their answers.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The last command that was heard. Commands are heard in the order of their ids, and each of them once: a command
    /// that was refused is not judged again.
    heard: i64,
    /// Answers that are still to be given: in the append that writes what was decided, or alone if nothing was. So an
    /// append that ends the run cannot refuse a command of which a predecessor has written a part.
    answers: Vec<Answer>,
}

impl Inbox {
    /// Carries out commands that were not heard before. What they lead to is added to `decision`.
    pub(crate) fn hear(
        &mut self,
        run: &mut Run,
        commands: Vec<PendingCommand>,
        now: Timestamp,
        decision: &mut Decision,
    ) {
        for PendingCommand { id, command, .. } in commands {
            if id <= self.heard {
                continue;
            }
            self.heard = id;
            let carried_out = run.command(&command, now);
            let reply = match &carried_out {
                Ok(_) => Reply::Applied { seq: run.graph().seq() },
                Err(refusal) => Reply::Refused(refusal.clone()),
            };
            self.answers.push(Answer { id, request_id: command.request_id, reply });
            decision.merge(carried_out.unwrap_or_default());
        }
    }

    /// The answers that are still to be given.
    pub(crate) fn answers(&mut self) -> &mut Vec<Answer> {
        &mut self.answers
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::command::Action;
    use tree_agent_contract::{Command, NodeId, RunId, RunSpec};
    use tree_agent_engine::start;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_command_that_arrives_twice_is_judged_once() {
        let (run_id, now) = (RunId(Uuid::from_u128(1)), Timestamp(1));
        let started = start(run_id, RunSpec::new("Why?"), now);
        let mut run = Run::begin(&started.events[0]).unwrap();
        started.events[1..].iter().for_each(|event| run.apply(event).unwrap());
        let node_id = NodeId(Uuid::from_u128(9));
        let guide = Action::Guide { node_id, text: "be brief".into(), subtree: false, restart: false };
        let cancel = Action::Cancel { reason: "enough".into() };
        let commands: Vec<PendingCommand> = [guide, cancel]
            .into_iter()
            .zip(1..)
            .map(|(action, id)| PendingCommand { id, run_id, command: Command::new(action) })
            .collect();
        let (mut inbox, mut decision) = (Inbox::default(), Decision::default());
        for arrived in [commands[..1].to_vec(), commands.clone(), commands.clone()] {
            inbox.hear(&mut run, arrived, now, &mut decision);
        }
        let answers = std::mem::take(inbox.answers());
        assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(answers[0].reply, Reply::Refused(_)));
        let seq = decision.events.last().unwrap().seq;
        assert_eq!(answers[1].reply, Reply::Applied { seq });
        inbox.hear(&mut run, commands, now, &mut decision);
        assert!(inbox.answers().is_empty());
    }
}

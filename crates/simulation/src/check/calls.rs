//! Role calls: a finished step is never called again, and no call is made twice by one driver.

use std::collections::BTreeMap;

use tree_agent_contract::event::EventBody;
use tree_agent_contract::{NodeStatus, RunId};
use tree_agent_engine::{CallKey, CallOutput};
use tree_agent_store::Claim;

use super::log::Logs;
use crate::world::{node_name, run_name};

/// Every role call that was made.
#[derive(Default)]
pub(crate) struct Calls {
    made: u64,
    /// The epoch that each driver believes it holds.
    epochs: BTreeMap<(String, RunId), u64>,
    tries: BTreeMap<(RunId, u64, CallKey), u64>,
    /// The answers so far, for drivers that repeat a call.
    answers: BTreeMap<(RunId, CallKey), CallOutput>,
}

impl Calls {
    /// How many were made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The earlier answer to this call, whichever driver made it.
    pub(crate) fn answer(&self, run: RunId, key: &CallKey) -> Option<CallOutput> {
        self.answers.get(&(run, *key)).cloned()
    }

    /// Records the answer to a call.
    pub(crate) fn answered(&mut self, run: RunId, key: CallKey, answer: CallOutput) {
        self.answers.insert((run, key), answer);
    }

    /// A driver has learnt that it holds a run.
    pub(crate) fn claimed(&mut self, driver: &str, claim: &Claim) {
        self.epochs.insert((driver.to_owned(), claim.run_id), claim.epoch);
    }

    /// A call is due only if the log up to the driver's epoch says that its node needs it. That part of the log is what
    /// the driver has replayed and written itself. A call whose outcome is in it is never made.
    pub(crate) fn called(
        &mut self,
        driver: &str,
        run: RunId,
        key: &CallKey,
        logs: &Logs,
    ) -> (u64, Vec<String>) {
        self.made += 1;
        let what = format!("{} {} {:?}", run_name(run), node_name(key.node_id), key.kind);
        let Some(epoch) = self.epochs.get(&(driver.to_owned(), run)).copied() else {
            return (self.made, vec![format!("{driver} calls {what} without a lease")]);
        };
        let (mut at_work, mut unreachable) = (None, 0);
        for (_, event) in
            logs.of(run).into_iter().flat_map(|log| &log.events).take_while(|(written, _)| *written <= epoch)
        {
            if event.node_id != key.node_id {
                continue;
            }
            match &event.body {
                EventBody::NodeStatusChanged(e) if e.call.is_some() => at_work = e.call,
                EventBody::NodeStatusChanged(e) => match e.status {
                    // The call that was named goes on.
                    NodeStatus::Planning | NodeStatus::Executing | NodeStatus::Aggregating => {}
                    // A retry shows as waiting, an unreachable role as blocked: the call is still due.
                    NodeStatus::Waiting if e.attempt.is_some() => {}
                    NodeStatus::Blocked => unreachable += 1,
                    _ => at_work = None,
                },
                EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) | EventBody::PlanCreated(_) => {
                    at_work = None;
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        if at_work != Some(key.kind) {
            found.push(format!("{driver} calls {what} in epoch {epoch}, though the log says {at_work:?}"));
        }
        // An unreachable role is called again with the same key: nothing was attempted.
        let tries = self.tries.entry((run, epoch, *key)).or_default();
        *tries += 1;
        if *tries > 1 && unreachable == 0 {
            found.push(format!("{driver} calls {what} attempt {} twice in epoch {epoch}", key.attempt));
        }
        (self.made, found)
    }
}

//! Role calls: a finished step is never called again, and no call is made twice by one driver.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tree_agent_contract::event::EventBody;
use tree_agent_contract::{Event, NodeId, NodeStatus, RunId};
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
    /// Every answer that roles have given, by its number.
    given: BTreeMap<u64, CallOutput>,
}

/// Time that a driver may take to hear that its append was written.
const UNHEARD: Duration = Duration::from_secs(9);

/// True if a command may have ended the call of the event's node.
fn ends_call(body: &EventBody) -> bool {
    match body {
        EventBody::NodeStatusChanged(e) => e.status == NodeStatus::Cancelled,
        EventBody::NodeReopened(_) | EventBody::CallStopped(_) => true,
        _ => false,
    }
}

/// What is paused, and the calls that go on all the same.
#[derive(Default)]
struct Pauses {
    parents: BTreeMap<NodeId, Option<NodeId>>,
    /// The paused nodes, each with the nodes whose calls were in flight then and have not ended.
    paused: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

impl Pauses {
    fn follow(&mut self, event: &Event) {
        let node = event.node_id;
        match &event.body {
            EventBody::NodeCreated(e) => drop(self.parents.insert(node, e.parent_node_id)),
            EventBody::NodePaused(e) => {
                self.paused.insert(node, e.in_flight.iter().copied().collect());
            }
            EventBody::NodeResumed(_) | EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => {
                self.paused.remove(&node);
            }
            EventBody::NodeStatusChanged(e) if e.status.is_final() => drop(self.paused.remove(&node)),
            EventBody::NodeStatusChanged(e) if e.call.is_some() || e.attempt.is_some() => self.landed(node),
            EventBody::CallStopped(_) | EventBody::NodeReopened(_) => self.landed(node),
            // The calls of the run before are not those of its fork.
            EventBody::RunForked(_) => self.paused.values_mut().for_each(BTreeSet::clear),
            _ => {}
        }
    }

    /// The call of the node has ended.
    fn landed(&mut self, node: NodeId) {
        self.paused.values_mut().for_each(|in_flight| in_flight.retain(|flying| *flying != node));
    }

    /// The paused node that keeps the call of `node` from being made.
    fn of(&self, node: NodeId) -> Option<NodeId> {
        let above = std::iter::successors(Some(node), |node| self.parents.get(node).copied().flatten());
        let mut paused = above.filter_map(|above| Some((above, self.paused.get(&above)?)));
        paused.find(|(_, in_flight)| !in_flight.contains(&node)).map(|(above, _)| above)
    }
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

    /// Every answer that roles have given, by its number.
    pub(crate) fn given(&self) -> &BTreeMap<u64, CallOutput> {
        &self.given
    }

    /// A role gives an answer.
    pub(crate) fn gives(&mut self, number: u64, answer: CallOutput) {
        self.given.insert(number, answer);
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
        let mut pauses = Pauses::default();
        // A command that stops a call reaches the task that makes it when its append has returned.
        let mut stopped = None;
        let log = logs.of(run);
        let written = log.into_iter().flat_map(|log| log.events.iter().zip(&log.written));
        for ((_, event), when) in written.take_while(|((written, _), _)| *written <= epoch) {
            pauses.follow(event);
            if event.node_id != key.node_id {
                continue;
            }
            if at_work.is_some() && ends_call(&event.body) {
                stopped = at_work.map(|kind| (kind, *when));
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
                EventBody::NodeCompleted(_)
                | EventBody::NodeFailed(_)
                | EventBody::PlanCreated(_)
                | EventBody::NodeReopened(_) => at_work = None,
                _ => {}
            }
        }
        let mut found = Vec::new();
        let just_stopped = stopped.is_some_and(|(kind, when)| kind == key.kind && when.elapsed() < UNHEARD);
        if let Some(above) = pauses.of(key.node_id).filter(|_| !just_stopped) {
            found.push(format!("{driver} calls {what} though {} is paused", node_name(above)));
        }
        if at_work != Some(key.kind) && !just_stopped {
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

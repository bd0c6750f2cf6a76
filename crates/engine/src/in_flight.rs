//! The volatile half of a run: what is not in the log. It is lost with the driver and rebuilt by its successor.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tree_agent_contract::Timestamp;
use tree_agent_contract::event::{Event, EventBody};

use crate::amounts::Amounts;
use crate::call::CallKey;
use crate::input::Input;
use crate::ready::Ready;
use crate::state::State;

/// What a driver knows beyond the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    calls: HashMap<usize, CallInFlight>,
    /// Nodes that need a call which is not in flight.
    ready: Ready,
    /// Nodes whose role service could not be reached: how often in a row, and when to retry.
    unreachable: HashMap<usize, (u32, Timestamp)>,
    /// Those among them that wait for the quota of their provider.
    quota: BTreeSet<usize>,
    /// The call that last wrote to a node's scratchpad while it was at work.
    writing: HashMap<usize, CallKey>,
    /// Updates of calls in flight that could not be handled yet, by node, in order.
    held: BTreeMap<usize, VecDeque<Input>>,
    /// Nodes whose time ran out, so that leaf work in flight was stopped; the root for the wall clock of the run.
    overtime: BTreeSet<usize>,
    /// Answers that were ignored because their call was not in flight.
    stale: u64,
}

/// A call in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInFlight {
    pub(crate) key: CallKey,
    /// What it may use.
    pub(crate) allotted: Amounts,
    /// Use of this attempt in the log before the call was made, by a previous driver that made it before.
    pub(crate) before: Amounts,
    /// Tool calls of this attempt in the log before the call was made.
    pub(crate) tool_calls_before: u32,
}

impl CallInFlight {
    /// What the call may still use.
    pub(crate) fn left(&self, spent: Amounts) -> Amounts {
        std::array::from_fn(|m| self.allotted[m].saturating_sub(spent[m].saturating_sub(self.before[m])))
    }

    /// A role's id of a tool call is unique within its role call. In the log it must be unique within the node, also if
    /// the same call was made before and broke off after it had called tools.
    pub(crate) fn tool_call_id(&self, id: &str) -> String {
        let CallKey { kind, round, attempt, .. } = self.key;
        match self.tool_calls_before {
            0 => format!("{kind}.{round}.{attempt}.{id}"),
            made => format!("{kind}.{round}.{attempt}+{made}.{id}"),
        }
    }
}

impl InFlight {
    /// Follows an event that was applied to `state`.
    pub(crate) fn follow(&mut self, state: &State, event: &Event) {
        let Some(at) = state.position(event.node_id) else { return };
        match &event.body {
            EventBody::NodeStatusChanged(_) | EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => {
                match state.node(at).status.is_final() {
                    true => {
                        self.forget(at);
                        self.end_lease(at);
                    }
                    false => self.line_up(state, at),
                }
            }
            EventBody::CallStopped(_) | EventBody::NodeReopened(_) => {
                self.forget(at);
                self.line_up(state, at);
                if state.lease(at).is_some_and(|lease| lease.exhausted.is_none()) {
                    self.end_lease(at);
                }
            }
            EventBody::NodePaused(_) | EventBody::NodeResumed(_) => {
                let resumes = matches!(event.body, EventBody::NodeResumed(_));
                for at in state.subtree(at) {
                    // Whoever resumes a run wants it to go on now.
                    if resumes && self.quota.contains(&at) {
                        self.reached(at);
                    }
                    self.line_up(state, at);
                }
            }
            EventBody::BudgetSet(_) if at > 0 || state.exhausted().is_none() => {
                self.overtime.remove(&at);
            }
            _ => {}
        }
    }

    /// The node at `at` waits for its call to be made, if it needs one that is not in flight and it is not paused.
    fn line_up(&mut self, state: &State, at: usize) {
        match state.control(at).needs {
            Some(kind) if !self.calls.contains_key(&at) && !state.is_paused(at) => {
                let unreachable_until = self.unreachable.get(&at).map(|&(_, until)| until);
                self.ready.insert(at, kind, state.control(at).retry_at.max(unreachable_until));
            }
            _ => self.ready.remove(at),
        }
    }

    /// The node at `at` has ended.
    fn forget(&mut self, at: usize) {
        self.ready.remove(at);
        self.calls.remove(&at);
        self.held.remove(&at);
        self.reached(at);
        self.writing.remove(&at);
    }

    /// The time of another lease of the node at `at` counts anew. That of the run goes on.
    fn end_lease(&mut self, at: usize) {
        if at > 0 {
            self.overtime.remove(&at);
        }
    }

    /// The call in flight for the node at `at`.
    pub(crate) fn call(&self, at: usize) -> Option<&CallInFlight> {
        self.calls.get(&at)
    }

    /// Every call in flight, with its node.
    pub(crate) fn calls(&self) -> impl ExactSizeIterator<Item = (usize, &CallInFlight)> {
        self.calls.iter().map(|(&at, call)| (at, call))
    }

    /// The index of the node of call `key`, if that call is in flight.
    pub(crate) fn position(&self, state: &State, key: &CallKey) -> Option<usize> {
        state.position(key.node_id).filter(|at| self.calls.get(at).is_some_and(|call| call.key == *key))
    }

    /// As [`position`](Self::position). Otherwise counts a stale answer.
    pub(crate) fn expect(&mut self, state: &State, key: &CallKey) -> Option<usize> {
        let at = self.position(state, key);
        self.stale += u64::from(at.is_none());
        at
    }

    /// A call is made for the node at `at`.
    pub(crate) fn begin(&mut self, at: usize, call: CallInFlight) {
        self.ready.remove(at);
        self.calls.insert(at, call);
    }

    /// The call for the node at `at` has ended.
    pub(crate) fn end(&mut self, at: usize) {
        self.calls.remove(&at);
    }

    /// Nodes that need a call which is not in flight.
    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// As [`ready`](Self::ready), to move on with the time.
    pub(crate) fn ready_mut(&mut self) -> &mut Ready {
        &mut self.ready
    }

    /// The role of the node at `at` could not be reached again. Returns how often that was in a row.
    pub(crate) fn tries(&self, at: usize) -> u32 {
        self.unreachable.get(&at).map_or(1, |&(tries, _)| tries + 1)
    }

    /// The role of the node at `at` is called again at `until`.
    pub(crate) fn wait_for_role(&mut self, state: &State, at: usize, tries: u32, until: Timestamp) {
        self.unreachable.insert(at, (tries, until));
        self.line_up(state, at);
    }

    /// The role of the node at `at` was reached.
    pub(crate) fn reached(&mut self, at: usize) {
        self.unreachable.remove(&at);
        self.quota.remove(&at);
    }

    /// The node at `at` waits for the quota of its provider.
    pub(crate) fn wait_for_quota(&mut self, at: usize) {
        self.quota.insert(at);
    }

    /// When the first of the nodes may go on, if all that need a call wait for a quota, and nothing is in flight.
    pub(crate) fn quota_ends_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.quota.is_empty() || !self.calls.is_empty() || !self.held.is_empty() {
            return None;
        }
        let until = |(at, _)| {
            let (_, until) = self.unreachable.get(&at).filter(|_| self.quota.contains(&at))?;
            Some(*until).filter(|until| *until > now)
        };
        let ends: Option<Vec<Timestamp>> = self.ready.nodes().map(until).collect();
        ends?.into_iter().min()
    }

    /// Call `key` writes to the scratchpad of the node at `at`. True if another call wrote before.
    pub(crate) fn writes(&mut self, at: usize, key: CallKey) -> bool {
        self.writing.insert(at, key) != Some(key)
    }

    /// The updates that wait for the node at `at`.
    pub(crate) fn held(&self, at: usize) -> Option<&VecDeque<Input>> {
        self.held.get(&at)
    }

    /// As [`held`](Self::held), to add to them.
    pub(crate) fn held_mut(&mut self, at: usize) -> &mut VecDeque<Input> {
        self.held.entry(at).or_default()
    }

    /// Nodes for which updates wait.
    pub(crate) fn holding(&self) -> impl Iterator<Item = usize> + '_ {
        self.held.keys().copied()
    }

    /// Removes the first update that waits for the node at `at`.
    pub(crate) fn pop_held(&mut self, at: usize) -> Option<Input> {
        let waiting = self.held.get_mut(&at)?;
        let input = waiting.pop_front();
        if waiting.is_empty() {
            self.held.remove(&at);
        }
        input
    }

    /// Removes every update that waits for the node at `at`.
    pub(crate) fn take_held(&mut self, at: usize) -> VecDeque<Input> {
        self.held.remove(&at).unwrap_or_default()
    }

    /// True if the time of the node at `at` ran out, and leaf work in flight was stopped.
    pub(crate) fn is_overtime(&self, at: usize) -> bool {
        self.overtime.contains(&at)
    }

    /// Leaf work in flight below the node at `at` is stopped.
    pub(crate) fn stop_leaves(&mut self, at: usize) {
        self.overtime.insert(at);
    }

    /// Answers that were ignored, since this was last called.
    pub(crate) fn take_stale(&mut self) -> u64 {
        std::mem::take(&mut self.stale)
    }
}

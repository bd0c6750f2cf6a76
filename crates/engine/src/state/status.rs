//! What the status of a node means for the role call that it needs.

use tree_agent_contract::event::NodeStatusChanged;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{NodeStatus, Timestamp};

use super::State;
use crate::amounts::Amounts;
use crate::call::at_work;

impl State {
    /// A node shows another status: what it needs follows from that.
    pub(super) fn apply_status(&mut self, at: usize, e: &NodeStatusChanged, now: Timestamp) {
        self.left_open.remove(&at);
        if e.status.is_final() {
            return self.node_ended(at, false);
        }
        let clock_ms = self.elapsed_ms(now);
        self.waiting.status_changed(at, e, clock_ms);
        let before = self.control[at].needs;
        let needs = match e.status {
            _ if e.call.is_some() => e.call,
            status if before.is_some_and(|kind| at_work(kind) == status) => before,
            NodeStatus::Waiting if e.attempt.is_some() => before,
            NodeStatus::Blocked => before,
            _ => None,
        };
        let is_new = e.call.is_some() || needs != before;
        let attempt = if needs.is_some() { e.attempt.unwrap_or(1) } else { 0 };
        let is_new_attempt = is_new || attempt != self.control[at].attempt;
        if is_new_attempt || e.status == NodeStatus::Blocked {
            self.call_ended(at, is_new);
        }
        if is_new_attempt {
            self.control[at].tool_calls = 0;
        }
        if is_new_attempt || e.status == NodeStatus::Blocked {
            self.control[at].flying = false;
        }
        let control = &mut self.control[at];
        if let Some(guard) = e.message.as_deref().and_then(|m| m.strip_prefix("guard:")) {
            // A node that need not plan does its own work, and a smaller lease may do. Every other guard loses work.
            let wound_down = matches!(guard, "budget" | "stopped" | "aggregationFailed");
            let is_leaf = e.call == Some(CallKind::Execute);
            control.wound_down |= wound_down;
            control.cut |= !wound_down && !is_leaf && guard != "lease";
        }
        control.calls += u32::from(needs.is_some() && is_new);
        control.restarted &= !is_new;
        control.needs = needs;
        control.attempt = attempt;
        control.retry_at = match (e.status, e.attempt) {
            (NodeStatus::Waiting, Some(attempt)) => {
                let delay = self.behaviour.retry.delay_ms(attempt.saturating_sub(1), at);
                Some(now.plus_millis(delay))
            }
            _ => None,
        };
    }

    /// The role call that the node needed has ended, so its usage is known. A call that was never made counts for
    /// nothing.
    pub(super) fn call_ended(&mut self, at: usize, answered: bool) {
        if answered {
            self.waiting.moved_on(at);
            self.control[at].earlier_calls = Vec::new();
        }
        let spent = std::mem::take(&mut self.control[at].spent);
        if let Some(kind) = self.control[at].needs
            && (answered || spent != Amounts::default())
        {
            self.ledger.ended(kind, spent);
        }
    }

    /// The node has ended: nothing is due for it any more.
    pub(super) fn node_ended(&mut self, at: usize, answered: bool) {
        self.call_ended(at, answered);
        self.end_pause(at);
        let control = &mut self.control[at];
        control.needs = None;
        control.earlier_calls = Vec::new();
        control.attempt = 0;
        control.retry_at = None;
        control.flying = false;
        if std::mem::take(&mut control.owes) {
            self.settle(at);
        }
        self.leases.remove(&at);
        self.lessors.remove(&at);
    }
}

//! How nodes and runs end: failed, cancelled, out of budget.

use std::collections::BTreeSet;

use tree_agent_contract::event::*;
use tree_agent_contract::text::{count, prefix};
use tree_agent_contract::{NodeStatus, Outcome, RunStatus, StepStatus, limits};

use super::{Decider, Next};

impl Decider<'_> {
    /// The guard of the node at `at`, for which nothing new may begin.
    pub(crate) fn guard(&self, at: usize) -> String {
        format!("guard:{}", self.state.ending(at).map_or("budget", |ending| ending.guard()))
    }

    /// Ends the node at `at` with an error.
    pub(crate) fn fail(&mut self, at: usize, error: String, retryable: bool) {
        let error = self.state.waiting().explain_node(at, error);
        self.emit(at, NodeFailed { error, retryable });
        self.ask(Next::Ended { at });
    }

    /// Ends the node at `at` without a result because nothing new may begin for it.
    pub(crate) fn cancel(&mut self, at: usize) {
        self.give_up(at);
        self.cancel_unbegun(at);
        self.ask(Next::Ended { at });
    }

    /// As [`cancel`](Self::cancel), for a node that has not begun, by its parent.
    pub(crate) fn cancel_unbegun(&mut self, at: usize) {
        let message = self.state.ending(at).map(|ending| ending.message());
        self.status(at, NodeStatus::Cancelled, message);
    }

    /// The root has ended, so the run ends.
    pub(crate) fn end_run(&mut self) {
        let root = self.state.node(0);
        let exhausted = self.state.exhausted().map(|b| format!("budget {b} is used up"));
        let (status, reason, partial) = match root.status {
            NodeStatus::Completed => {
                let partial = root.outcome == Some(Outcome::Partial);
                (RunStatus::Completed, exhausted.or_else(|| partial.then(|| self.lost()).flatten()), partial)
            }
            NodeStatus::Failed => (RunStatus::Failed, root.error.clone(), false),
            _ if exhausted.is_none() && root.stopped => {
                (RunStatus::Cancelled, Some("stopped before anything was finished".to_owned()), false)
            }
            _ => (
                RunStatus::Failed,
                exhausted.map(|e| format!("{e} before anything was finished; raise it and run again")),
                false,
            ),
        };
        let reason = reason.map(|reason| self.state.waiting().explain_run(reason));
        self.emit(0, RunStatusChanged { status, reason, partial, goes_on_at: None });
    }

    /// What a partial run lost, and to what: the guards that cut work, and the nodes that failed.
    fn lost(&self) -> Option<String> {
        let nodes = self.state.nodes();
        let cut = nodes.iter().enumerate().filter(|&(at, _)| self.state.control(at).is_cut());
        let guards = cut.flat_map(|(_, node)| &node.decisions).filter_map(|why| why.strip_prefix("guard:"));
        let guards: BTreeSet<&str> = guards.filter(|guard| *guard != "lease").map(words).collect();
        let guards: Vec<&str> = guards.into_iter().collect();
        let cut = (!guards.is_empty()).then(|| format!("cut by {}", guards.join(", ")));
        let mut failed = nodes.iter().filter_map(|node| Some((node.title.as_str(), node.error.as_deref()?)));
        let failed = failed.next().map(|(title, error)| match failed.count() {
            0 => format!("{title} failed: {error}"),
            more => format!("{} failed; the first, {title}: {error}", count(more + 1, "node")),
        });
        let lost: Vec<String> = [cut, failed].into_iter().flatten().collect();
        (!lost.is_empty()).then(|| prefix(&lost.join("; "), limits::TEXT_BYTES).to_owned())
    }

    /// Ends the run as it is: children before their parents, then the run itself.
    pub(crate) fn end_all(&mut self, status: RunStatus, reason: String) {
        for at in (0..self.state.nodes().len()).rev() {
            if self.state.node(at).status.is_final() {
                continue;
            }
            self.give_up(at);
            self.status(at, NodeStatus::Cancelled, None);
            let step_id = self.state.planned_step(at);
            if let (Some(parent), Some(step_id)) = (self.state.control(at).parent, step_id) {
                self.emit(parent, StepStatusChanged { step_id, status: StepStatus::Cancelled });
            }
        }
        let reason = match status {
            RunStatus::Failed => self.state.waiting().explain_run(reason),
            _ => reason,
        };
        let reason = (!reason.is_empty()).then_some(reason);
        self.emit(0, RunStatusChanged { status, reason, partial: false, goes_on_at: None });
    }
}

/// What cut work, as people read it. Most guards are called as the limit that they keep.
fn words(guard: &str) -> &str {
    match guard {
        "aggregationFailed" => "an aggregation that failed",
        "replanFailed" => "a new plan that failed",
        "stopped" => "a person who stopped it",
        limit => limit,
    }
}

//! What a fork changes in the logged state.

use tree_agent_contract::Timestamp;
use tree_agent_contract::command::{Action, BudgetChange};
use tree_agent_contract::event::RunForked;

use super::State;
use crate::amounts::{NAMES, limits};

impl State {
    /// The run is a fork from here on. Its owner, its clock and its accounts are its own: what was used up is clear.
    pub(super) fn forked(&mut self, seq: u64, e: &RunForked, now: Timestamp) {
        self.origin = e.origin_run_id.unwrap_or(e.source_run_id);
        self.started_at = self.started_at.map(|_| now);
        // A fork of a fork that has not raised them yet may do so.
        self.exhausted_before.extend(self.exhausted.take().map(|exhausted| exhausted.budget));
        self.steering.forked(seq, e, now);
        self.waiting.begin_again();
        self.fork_leases();
        self.left_open = (0..self.control.len()).filter(|at| self.waits_for_nothing(*at)).collect();
        // Calls that were in flight are made again.
        self.control.iter_mut().for_each(|control| control.flying = false);
        (0..self.control.len()).for_each(|at| self.note_moving(at));
        self.spec.user_id.clone_from(&e.author);
        self.spec.by_administrator = e.by_administrator;
        self.spec.display_name.clone_from(&e.display_name);
        self.spec.labels.clone_from(&e.labels);
        for edit in &e.edits {
            let Action::SetModel { model } = edit else { continue };
            self.spec.model.clone_from(model);
            self.spec.review.iter_mut().for_each(|review| review.per_call = None);
            self.control.iter_mut().filter_map(|c| c.steered.as_mut()).for_each(|s| s.model = None);
        }
    }

    /// True if the node at `at` has not ended, and will not by itself: its children have all ended, and it needs no
    /// call. In a log that is whole, the event that ends the last child is followed by more of the same decision.
    pub(crate) fn waits_for_nothing(&self, at: usize) -> bool {
        let (control, node) = (self.control(at), self.node(at));
        let children = &control.bands().children;
        let is_open = !node.status.is_final() && control.needs.is_none();
        is_open && !children.is_empty() && children.iter().all(|child| self.node(*child).status.is_final())
    }

    /// True if the run was forked while the node at `at` waited for nothing.
    pub(crate) fn was_left_open(&self, at: usize) -> bool {
        self.left_open.contains(&at)
    }

    /// True if the change gives more room to a budget that was used up before the fork.
    pub(crate) fn raises_exhausted_before(&self, change: &BudgetChange) -> bool {
        self.exhausted_before.iter().any(|budget| self.raises(budget, change))
    }

    /// True if the change gives more room to `budget`.
    pub(super) fn raises(&self, budget: &str, change: &BudgetChange) -> bool {
        let (old, new) = (self.budgets(), change.apply(self.budgets()));
        match NAMES.iter().position(|name| *name == budget) {
            Some(m) => match (limits(old)[m], limits(&new)[m]) {
                (Some(old), Some(new)) => new > old,
                (old, new) => old.is_some() && new.is_none(),
            },
            None => new.max_wall_clock_ms > old.max_wall_clock_ms,
        }
    }
}

//! The `tree` strategy: execute or plan; bands one after the other, steps of a band side by side; aggregate; replan.
//!
//! | status | input | next status |
//! | --- | --- | --- |
//! | (created) | a free place in its band | `planning`; `executing` at the depth limit, or near the end of a budget |
//! | `planning` | planner: execute | `executing` (`leaf_decision:direct`) |
//! | `planning` | planner: plan | `delegating`, then `waiting` for the first band |
//! | `executing` | executor: result | `completed` |
//! | `waiting` | last step of a band ended | next band, or `aggregating` |
//! | `aggregating` | aggregator: result | `completed`; a root that is to be verified: `aggregating` |
//! | `aggregating` | aggregator: replan, within budget | `planning` |
//! | `aggregating` | verifier: no doubts, or no budget for another plan | `completed` |
//! | `aggregating` | verifier: replan, within budget | `planning` |
//! | any of these | failure, attempts left | `waiting` with the next attempt number |
//! | any of these | failure, no attempts left | `failed` (an aggregator's: `completed`, partial; a verifier's: `completed`) |
//! | any of these | cancelled, or out of budget | `cancelled` |

use serde::Serialize;
use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{NodeId, NodeStatus, Strategy, limits};

use super::bands;
use super::review;
use super::rules::Rules;
use super::verified;
use crate::briefing;
use crate::budgets;
use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure};
use crate::state::State;

/// What the strategy keeps about a node beyond its bands.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Tree {
    /// Version of the latest plan.
    version: u32,
    /// The plan whose results the node's latest synthesis puts together. It was paid for, so it is returned if another
    /// plan leads nowhere.
    synthesis_of: Option<u32>,
}

impl Tree {
    /// Its name in the log.
    pub(super) const NAME: Strategy = Strategy::Tree;
}

impl Rules for Tree {
    fn follow(&mut self, _state: &State, _at: usize, event: &Event) {
        match &event.body {
            EventBody::PlanCreated(e) => self.version = e.version,
            EventBody::NodeResult(_) => self.synthesis_of = Some(self.version),
            // What a child finds now is not in the synthesis.
            EventBody::NodeReopened(_) => self.synthesis_of = None,
            _ => {}
        }
    }

    fn begin(&self, d: &mut Decider<'_>, at: usize) {
        let is_deepest = d.state.node(at).depth >= d.state.budgets().max_depth;
        match is_deepest.then_some("maxDepth").or_else(|| budgets::near_end(d.state, at, d.now)) {
            Some(guard) => d.need(at, CallKind::Execute, Some(format!("guard:{guard}"))),
            None => d.need(at, CallKind::Plan, None),
        }
    }

    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput) {
        match output {
            CallOutput::Plan(out) => self.planned(d, at, out),
            CallOutput::Execute(out) => self.executed(d, at, out),
            CallOutput::Aggregate(out) => self.aggregated(d, at, out),
            CallOutput::Research(_) | CallOutput::Pick(_) | CallOutput::Verify(_) => {
                unreachable!("a tree neither researches nor picks, and does not verify itself")
            }
        }
    }

    fn child_ended(&self, d: &mut Decider<'_>, at: usize) {
        if bands::advance(d, at) {
            self.bands_done(d, at);
        }
    }

    fn advance(&self, d: &mut Decider<'_>, at: usize) {
        if d.state.control(at).needs.is_none() {
            self.child_ended(d, at);
        }
    }

    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure) {
        if failure.kind.finishes() {
            if d.state.spec().verify && self.synthesis_of.is_some() {
                return d.return_kept(at, "guard:aggregationFailed");
            }
            let children = d.state.latest_children(at).collect();
            return d.return_listing(at, children, &failure.error);
        }
        if !self.keep_work(d, at, "replanFailed") {
            d.fail(at, failure.text(), failure.error.retryable());
        }
    }

    fn wind_down(&self, d: &mut Decider<'_>, at: usize) {
        let guard = d.state.ending(at).map_or("budget", |ending| ending.guard());
        if !self.keep_work(d, at, guard) {
            d.cancel(at);
        }
    }

    fn complete(&self, d: &mut Decider<'_>, at: usize) {
        let evidence = d.evidence(at);
        d.complete(at, evidence);
    }

    fn may_replan(&self, state: &State, at: usize) -> bool {
        let (node, budgets) = (state.node(at), state.budgets());
        node.depth < budgets.max_depth && state.control(at).bands().replans < budgets.max_replans_per_node
    }

    fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput {
        match kind {
            CallKind::Plan => CallInput::Plan(Box::new(PlanInput { homework: None,
                call,
                existing_plan_summary: briefing::plan_summary(state, at),
                replan_reason: state.control(at).bands().replan_reason.clone().unwrap_or_default(),
                prior_steps: briefing::prior_steps(state, at),
                earlier_result: state.node(at).result.as_deref().cloned(),
                review: review::is_due(state, at),
            })),
            CallKind::Execute => CallInput::Execute(Box::new(ExecuteInput { task: None,
                call,
                earlier: briefing::earlier_outcomes(state, at),
            })),
            CallKind::Aggregate => CallInput::Aggregate(Box::new(AggregateInput { homework: None,
                call,
                plan_summary: briefing::plan_summary(state, at),
                children: briefing::child_outcomes(state, at),
                exhausted_budget: state.exhausted_of(at).map(str::to_owned),
            })),
            CallKind::Research | CallKind::Pick | CallKind::Verify => {
                unreachable!("a tree neither researches nor picks, and does not verify itself")
            }
        }
    }
}

impl Tree {
    fn planned(&self, d: &mut Decider<'_>, at: usize, out: PlannerOutput) {
        d.append_scratchpad(at, &out.scratchpad.append_markdown);
        if d.state.ending(at).is_some() {
            return self.wind_down(d, at);
        }
        let why = reasons(&out);
        let (PlannerMode::Plan, Some(plan)) = (out.mode, out.plan) else {
            let (message, why) = (Some("leaf_decision:direct".into()), Some(why));
            return d.show(at, NodeStatusChanged { message, why, ..d.needing(at, CallKind::Execute) });
        };
        match bands::plan(d, at, plan, out.mode_reason, why) {
            bands::Planned::Open => {}
            bands::Planned::Done => self.bands_done(d, at),
            bands::Planned::Empty(guard) => {
                let name = guard.strip_prefix("guard:").unwrap_or(guard);
                if !self.keep_work(d, at, name) {
                    d.need(at, CallKind::Execute, Some(guard.into()));
                }
            }
        }
    }

    /// Every band has ended: aggregates the results, or fails if there are none.
    fn bands_done(&self, d: &mut Decider<'_>, at: usize) {
        if self.is_dead_end(d, at) {
            return d.return_kept(at, "guard:replanFailed");
        }
        if d.state.has_completed_children(at) {
            return d.need(at, CallKind::Aggregate, None);
        }
        if d.state.ending(at).is_some() {
            return self.wind_down(d, at);
        }
        let steps = d.state.latest_children(at).count();
        let error = d.state.latest_children(at).find_map(|c| d.state.node(c).error.as_deref());
        let first = error.unwrap_or("unknown");
        let error = bands::none_completed(steps, "step", first);
        d.fail(at, prefix(&error, limits::TEXT_BYTES).to_owned(), false);
    }

    /// True if the node has a synthesis and nothing was completed since.
    fn is_dead_end(&self, d: &Decider<'_>, at: usize) -> bool {
        let Some(version) = self.synthesis_of else { return false };
        let since = |&c: &usize| d.state.control(c).born_version > version;
        !d.state.latest_children(at).filter(since).any(|c| d.state.node(c).status == NodeStatus::Completed)
    }

    /// A node that cannot go on returns its synthesis, or puts together what its children completed, as partial, so
    /// that it is not lost. False if there is nothing to keep.
    fn keep_work(&self, d: &mut Decider<'_>, at: usize, guard: &str) -> bool {
        if self.is_dead_end(d, at) {
            d.return_kept(at, &format!("guard:{guard}"));
            return true;
        }
        bands::keep_children(d, at, guard)
    }

    fn aggregated(&self, d: &mut Decider<'_>, at: usize, mut out: AggregatorOutput) {
        let child_ids: Vec<NodeId> = d.state.latest_children(at).map(|c| d.state.node(c).id).collect();
        d.aggregated(at, child_ids.clone(), &mut out);
        if out.next.should_replan {
            let ending = d.state.ending(at).map(|ending| ending.guard());
            if ending.is_none() && self.may_replan(d.state, at) {
                let reason = out.next.replan_reason.unwrap_or_default();
                // It was paid for, so it is in the log before anything else may go wrong.
                d.keep_result(at, out.artifacts, out.result);
                d.emit(at, ReplanRequested { reason, based_on_child_ids: child_ids });
                return d.need(at, CallKind::Plan, None);
            }
            let guard = ending.unwrap_or("maxReplansPerNode");
            d.status(at, NodeStatus::Aggregating, Some(format!("guard:{guard}")));
        }
        d.return_result(at, out.artifacts, out.result);
        verified::then_complete(self, d, at);
    }

    fn executed(&self, d: &mut Decider<'_>, at: usize, out: ExecutorOutput) {
        d.append_scratchpad(at, &out.scratchpad.append_markdown);
        d.return_result(at, out.artifacts, out.result);
        verified::then_complete(self, d, at);
    }
}

/// What the planner decided and why, for people.
fn reasons(out: &PlannerOutput) -> String {
    let mut text = format!("{}: {}", out.mode, out.mode_reason);
    if let Some(leaf) = &out.leaf_decision {
        text.push_str(&format!("; complexity: {}", leaf.complexity));
        if !leaf.blockers.is_empty() {
            text.push_str(&format!("; blockers: {}", leaf.blockers.join(", ")));
        }
    }
    prefix(&text, limits::TEXT_BYTES).to_owned()
}

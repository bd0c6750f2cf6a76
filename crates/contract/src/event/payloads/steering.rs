//! The payloads of what people do to a run, and of the budgets that this is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::SubtreeBudget;
use crate::command::{Action, BudgetChange};
use crate::ids::{NodeId, PlanId, RunId};

payloads! {
    /// Payload of `tree.budget_exhausted`. The budget is that of the run if its node is the root, else that of its
    /// subtree.
    BudgetExhausted {
        /// The budget's key, such as `maxWallClockMs`.
        budget: String,
        /// Its limit.
        limit: u64,
        /// What was used when it was exhausted.
        used: u64,
        /// What is kept of the rest for aggregation. `used` plus this is the limit.
        #[serde(default)]
        reserved: u64,
    }
    /// Payload of `tree.lease_covered`. The node's subtree has used more than its lease, and an account above takes
    /// that over.
    LeaseCovered {
        /// The budget's key, such as `maxTokens`.
        budget: String,
        /// What is taken over.
        amount: u64,
        /// The node whose lease takes it over; the root for the budget of the run.
        by_node_id: NodeId,
    }
    /// Payload of `tree.guidance_added`.
    GuidanceAdded {
        /// What the user said.
        text: String,
        /// Who said it.
        #[serde(default)]
        author: String,
        /// The command that it comes from.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        request_id: String,
        /// Every node below is told, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        subtree: bool,
    }
    /// Payload of `tree.plan_edited`.
    PlanEdited {
        /// The new plan.
        plan_id: PlanId,
        /// Its version.
        version: u32,
        /// What was changed, in words.
        summary: String,
        /// Who changed it.
        #[serde(default)]
        author: String,
        /// The command that it comes from.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        request_id: String,
    }
    /// Payload of `tree.run_forked`. Its node is the root. It is the first event that a fork wrote itself, and the only
    /// one that may follow the end of a run.
    RunForked {
        /// The run that this one continues. It wrote the event `at_seq`.
        source_run_id: RunId,
        /// The last event that they share.
        at_seq: u64,
        /// The run that began the log. Documents of the run are named after it. None: the source.
        origin_run_id: Option<RunId>,
        /// Who forked. The fork is theirs.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        author: String,
        /// Who forked was an administrator.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_administrator: bool,
        /// The request that created the fork; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        request_id: String,
        /// What people call the fork; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        display_name: String,
        /// Labels by which the fork can be found.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// What the fork does differently, in order. Its first driver carries it out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<Action>,
        /// The run had ended, and an edit gives it something to do: it goes on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        goes_on: bool,
    }
    /// Payload of `tree.node_paused`. For the node and everything below it no role call begins.
    NodePaused {
        /// Who paused it.
        #[serde(default)]
        author: String,
        /// The command.
        #[serde(default)]
        request_id: String,
        /// Nodes whose calls are in flight and go on. What they lead to is recorded.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        in_flight: Vec<NodeId>,
    }
    /// Payload of `tree.node_resumed`.
    NodeResumed {
        /// Who resumed it.
        #[serde(default)]
        author: String,
        /// The command.
        #[serde(default)]
        request_id: String,
    }
    /// Payload of `tree.call_stopped`. The node needs the same call again, from its beginning.
    CallStopped {
        /// Why: `pause`, `guidance`, `lost` with its driver while paused, or `unreachable` while paused.
        reason: String,
    }
    /// Payload of `tree.node_stopped`. Nothing new begins for the node and below it.
    NodeStopped {
        /// Who stopped it.
        #[serde(default)]
        author: String,
        /// The command.
        #[serde(default)]
        request_id: String,
        /// True: the existing results are discarded. False: they are combined.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discard: bool,
    }
    /// Payload of `tree.node_reopened`.
    NodeReopened {
        /// How often the node was reopened, this time included.
        generation: u32,
        /// Who wanted it.
        #[serde(default)]
        author: String,
        /// The command.
        #[serde(default)]
        request_id: String,
        /// True: the node does its work again, from its first call. False: it waits for a child that does.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
        /// The model of the node and everything below it from here on, if that changes.
        model: Option<String>,
        /// What the node and everything below it may use from here on, if it had ended and that has a budget of its
        /// own.
        budget: Option<SubtreeBudget>,
    }
    /// Payload of `tree.budget_set`. The budgets are those of the run if its node is the root, else those of its
    /// subtree.
    BudgetSet {
        /// Who changed it.
        #[serde(default)]
        author: String,
        /// The command.
        #[serde(default)]
        request_id: String,
        /// The budgets that change.
        change: BudgetChange,
        /// True: what is above had less. The change says what it could give.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        clamped: bool,
    }
}

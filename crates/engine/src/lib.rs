//! Decide and apply: the pure state machine of a run.
//!
//! A [`Run`] is a fold of its log. It is used in this order:
//!
//! 1. [`start`] gives the first events of a new run. [`Run::replay`] rebuilds the state from any log. [`Run::adopt`]
//!    records what an earlier run found, before the run begins.
//! 2. [`Run::handle`] takes one [`Input`] (a role's answer, a user's command, a tick of the clock) and returns the
//!    events that follow. They are already applied: if writing them fails, drop the run and replay the log.
//! 3. [`Run::take_due`] returns the role calls to make now. [`Run::next_wakeup`] says when to ask again.
//!
//! Time is an argument, ids are derived from their parents, and there is no randomness, so the same log and the same
//! inputs give the same events, byte for byte. No I/O, no async, no clock: CI checks that tokio is not among the
//! dependencies.

#[cfg(test)]
extern crate self as tree_agent_engine;

mod amounts;
mod answers;
mod audit;
mod bands;
mod behaviour;
mod briefing;
mod budgets;
mod call;
mod calls;
mod decide;
mod diff;
mod diff_nodes;
mod diff_pairs;
mod diff_text;
mod documents;
mod graph;
mod in_flight;
mod input;
mod iterations;
mod lease_time;
mod leases;
mod outline;
mod pacing;
mod ready;
mod retry;
mod run;
mod start;
mod state;
mod steer;
mod steering;
mod strategy;
mod topics;
mod waiting;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of a strategy need a part of it")]
#[path = "../tests/world/mod.rs"]
mod world;

pub use audit::{Audit, Violation};
pub use call::{CallInput, CallKey, CallOutput, RoleCall};
pub use diff::{Compared, diff};
pub use diff_text::text_diff;
pub use graph::{Graph, ReplayError};
pub use input::{Decision, Input};
pub use run::{AdoptError, Run};
pub use start::start;
pub use tree_agent_contract::role::CallKind;

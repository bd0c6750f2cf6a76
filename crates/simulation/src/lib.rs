//! The driver and the gateway's streams in a deterministic world.
//!
//! The production code of both runs unchanged, on tokio's paused clock in one thread, over ports of ours: a store
//! ([`SimStore`]), a fan-out, roles and clocks that fail, linger, lie and vanish as a seed says. What must hold is checked
//! while it happens. The same seed gives the same trace, byte for byte, so that whatever is found can be looked at
//! again: [`replay_command`] says how.
//!
//! [`simulate`] is the entry; [`Plan::of`] says what a seed enables; [`Flaw`] breaks a world on purpose.

mod check;
mod client;
mod cluster;
mod dice;
mod fanout;
mod flaw;
mod node;
mod plan;
mod roles;
mod simulate;
mod store;
mod world;

pub use flaw::Flaw;
pub use plan::{Fault, Plan};
pub use simulate::{Outcome, replay_command, simulate};
pub use store::{Model, SimStore, StoredRun};

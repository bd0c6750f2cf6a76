//! The driver and the gateway's streams in a deterministic world.
//!
//! The production code of both runs unchanged, in one thread on tokio's paused clock. The store ([`SimStore`]), the
//! fan-out, the roles and the clocks are simulated: they fail, linger, lie and vanish as a seed says. The invariants
//! are checked while a world runs. The same seed gives the same trace, byte for byte, so every finding can be
//! replayed ([`replay_command`]).
//!
//! [`simulate`] is the entry point. In its worlds people give commands (`people`) and fork runs (`forks`).
//! [`Plan::of`] derives a world from a seed. [`Flaw`] breaks a world on purpose.

mod check;
mod client;
mod cluster;
mod fanout;
mod flaw;
mod forks;
mod node;
mod people;
mod plan;
mod rng;
mod roles;
mod simulate;
mod store;
mod world;

pub use flaw::Flaw;
pub use plan::{Fault, Plan};
pub use simulate::{Outcome, replay_command, simulate, simulate_alone};
pub use store::{Model, SimStore, StoredReply, StoredRun};

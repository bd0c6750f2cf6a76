//! The whole cluster, as its users and its failures meet it.

mod answers;
mod faults;
mod keys;
mod metrics;
mod roles;
mod scratchpads;
mod traces;

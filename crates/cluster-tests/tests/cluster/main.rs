//! The whole cluster, as its users and its failures meet it.

mod answers;
mod faults;
mod keys;
mod roles;
mod scratchpads;

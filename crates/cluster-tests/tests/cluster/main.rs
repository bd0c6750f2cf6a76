//! Tests of a whole cluster: what users see, and faults.

mod answers;
mod faults;
mod keys;
mod metrics;
mod roles;
mod scratchpads;
mod searches;
mod traces;

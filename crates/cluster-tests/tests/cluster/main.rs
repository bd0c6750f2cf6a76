//! The whole cluster, as its users and its failures meet it.

mod answers;
mod doors;
mod drivers;
mod outages;
mod roles;
mod storm;

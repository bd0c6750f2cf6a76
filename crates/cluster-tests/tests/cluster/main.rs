//! The whole cluster, as its users and its failures meet it.

mod doors;
mod drivers;
mod outages;

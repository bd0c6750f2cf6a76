//! What every service starts with: configuration, telemetry, health, reflection, shutdown.
//!
//! A service's `main` is: parse its arguments, [`start::configure`] (checks them all and starts [`telemetry`]), listen,
//! connect to what it needs ([`server::while_starting`] with [`retry`]), and hand everything to the library's `serve`,
//! which ends in [`Server::serve`](server::Server::serve).
//!
//! Imports point downwards: [`start`] and [`config`] use [`server`], which uses [`telemetry`], which uses [`client`].
//! Below them are [`errors`], [`readiness`], [`retry`] and the list of what is wrong with a configuration.

pub mod client;
pub mod config;
pub mod errors;
mod problems;
pub mod readiness;
pub mod retry;
pub mod server;
pub mod shutdown;
pub mod start;
pub mod telemetry;
mod urls;

pub use client::{channel, credentials};
pub use readiness::Readiness;
pub use server::{Server, listen, protocol, role_token};
pub use telemetry::metrics::{self, Metrics};

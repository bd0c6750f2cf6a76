//! What every service starts with: configuration, telemetry, health, reflection, shutdown.
//!
//! A service's `main` is: parse its arguments, [`start::configure`] (checks them all and starts [`telemetry`]), listen,
//! connect to what it needs ([`server::while_starting`] with [`retry`]), and hand everything to the library's `serve`,
//! which ends in [`Server::serve`](server::Server::serve).

pub mod channel;
pub mod config;
pub mod credentials;
pub mod errors;
mod former_path;
mod health;
pub mod listen;
pub mod metrics;
pub mod protocol;
pub mod readiness;
pub mod request;
pub mod retry;
pub mod role_token;
pub mod server;
pub mod shutdown;
pub mod start;
pub mod telemetry;

pub use metrics::Metrics;
pub use readiness::Readiness;
pub use server::Server;

//! The wire contract: generated protobuf and gRPC code, and its conversion to and from the contract crate.
//!
//! All conversions use [`Wire`]: `value.to_wire()` and `Value::from_wire(message)?`. Handlers convert, make one call,
//! and convert back.

#![cfg_attr(test, recursion_limit = "256")]

mod codec;
mod diff;
mod documents;
mod edits;
mod events;
mod graph;
pub mod rights;
mod roles;
mod run;
mod status;
mod wire;

pub use edits::plan_from_wire;
pub use run::{budgets_of, request_of};
pub use status::{ERROR_DOMAIN, role_error, role_status};
pub use wire::Wire;

/// The public API, generated from `proto/treeagent/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("treeagent.v1");
}

/// The services that only the cluster itself calls.
pub mod internal {
    /// The role services, generated from `proto/treeagent/internal/v1`.
    #[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    pub mod v1 {
        tonic::include_proto!("treeagent.internal.v1");
    }
}

/// Every file descriptor of the API, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

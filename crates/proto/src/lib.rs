//! The wire contract: generated protobuf and gRPC code, and its conversions to and from the contract crate.

/// Generated from `proto/treeagent/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("treeagent.v1");
}

/// Every file descriptor of the API, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

//! The executor over real loopback gRPC.

mod mcp;
mod serving;

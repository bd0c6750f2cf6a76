//! The executor: its settings, and its service over real loopback gRPC.

mod configuration;
mod mcp;
mod serving;

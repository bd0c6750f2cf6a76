//! The executor: its settings, and its service over real loopback gRPC.

mod configuration;
mod mcp;
mod role_token;
mod serving;

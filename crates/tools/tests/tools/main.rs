//! Tools: the built-in ones, those of MCP servers, and where documents come from.

mod answers;
mod gateway;
mod mcp;
mod registry;
mod rules;
mod server;

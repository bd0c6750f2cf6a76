//! Built-in tools and those of MCP servers behind one registry, filtered by the context of the run.
//!
//! Role services know nothing of a database. They read and write documents through the port [`DocumentSource`],
//! whose gRPC implementation is [`GatewayDocuments`]. A role gets a [`ToolSet`]: the tools that its run's context
//! allows, bound to that run. Scope is checked twice, by the tool (nothing outside of the context is handed to the
//! role) and by the source (which is told the context with every call).

mod answers;
mod args;
mod builtin;
mod error;
mod gateway;
mod kept;
mod mcp;
mod memory;
mod prompt_text;
mod registry;
mod schema;
mod source;

pub use builtin::{
    CREATE_DOCUMENT, LIST_DOCUMENTS, LIST_PROJECTS, OUTPUT_BYTES, QUERY_BYTES, READ_DOCUMENT,
    SEARCH_DOCUMENTS, SEARCH_LIMIT_MAX, WHOLE_WITHIN_MAX, WRITE_NOTE,
};
pub use error::ToolError;
pub use gateway::GatewayDocuments;
pub use mcp::{McpConfig, McpServers};
pub use memory::MemoryDocuments;
pub use prompt_text::prompt_text;
pub use registry::{Ready, ToolOutput, ToolRegistry, ToolSet, ToolSpec, ToolStart};
pub use source::{
    Caller, DocumentSource, ListDocuments, Listing, NewDocument, ProjectInfo, ProjectState, SearchDocuments,
};

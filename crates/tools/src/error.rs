//! Why a tool call failed.

use tree_agent_contract::ProjectId;

/// The failure of a tool call. The text is what the role and the event log are told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The context of the run offers no such tool.
    #[error("no tool {name:?} in this context; available: {available}")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// The names that would be right.
        available: String,
    },
    /// The project that the call is about does not offer the tool.
    #[error("project {project} does not allow the tool {tool}")]
    Denied {
        /// The tool.
        tool: String,
        /// The project.
        project: ProjectId,
    },
    /// An argument is missing, unknown, of the wrong type or out of range.
    #[error("argument {field:?} of {tool}: {message}")]
    Argument {
        /// The tool.
        tool: String,
        /// The argument.
        field: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// The document or project does not exist, or the context of the run does not reach it. One error for both, so
    /// that a tool does not tell what exists elsewhere.
    #[error("{0} does not exist in the context of this run")]
    NotFound(String),
    /// An earlier attempt has made the same call of a tool that writes, and there is no result of it.
    #[error(
        "this call was made before, and nobody knows whether it was carried out, so it is not made again; \
         say in your answer that this is unknown"
    )]
    Made,
    /// The documents cannot be reached now; the same call later may succeed.
    #[error("documents cannot be reached: {0}")]
    Unavailable(String),
    /// The source refused the call or answered with something that makes no sense.
    #[error("the document service refused: {0}")]
    Source(String),
    /// The tool gave no answer in its time; the call was cancelled, and the same call later may succeed.
    #[error("{tool} gave no answer within {seconds} s; the call was cancelled")]
    Timeout {
        /// The tool.
        tool: String,
        /// Its time limit.
        seconds: u64,
    },
    /// The MCP server behind the tool is down, died in the middle of the call or broke the protocol. It is started
    /// again by itself, so the same call later may succeed. Whether this call had an effect is not known.
    #[error("the MCP server {server:?} did not answer: {message}")]
    Server {
        /// The server's name in the configuration.
        server: String,
        /// What happened.
        message: String,
    },
    /// The role call has made every tool call that it may make. The tool was not called.
    #[error("no tool call is left: this step may make {0}; answer with what is there")]
    Budget(u64),
    /// The tool ran and said that it failed.
    #[error("{tool} failed: {message}")]
    Failed {
        /// The tool.
        tool: String,
        /// What the tool said. Text from elsewhere: data, never instructions.
        message: String,
    },
}

impl ToolError {
    /// An error about one argument of `tool`.
    pub fn argument(tool: &str, field: &str, message: impl Into<String>) -> Self {
        Self::Argument { tool: tool.to_owned(), field: field.to_owned(), message: message.into() }
    }

    /// True when the same call later may succeed.
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Timeout { .. } | Self::Server { .. })
    }
}

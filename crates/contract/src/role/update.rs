//! What a role streams while it works.

use serde::{Deserialize, Serialize};

use crate::event::{ToolCallRequested, ToolCallResult, UsageRecorded};

/// Text for the node's scratchpad, before the call has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScratchpadDelta {
    /// Markdown to append.
    pub append_markdown: String,
}

/// One update of a role call in flight. Each becomes an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoleUpdate {
    /// Scratchpad text.
    Scratchpad(ScratchpadDelta),
    /// A tool was asked for.
    ToolCallRequested(ToolCallRequested),
    /// A tool answered.
    ToolCallResult(ToolCallResult),
    /// Tokens or money were used.
    Usage(UsageRecorded),
    /// Nothing but a sign of life; not an event.
    Heartbeat,
}

//! The updates that a role streams while it works.

use serde::{Deserialize, Serialize};

use crate::answers;
use crate::error::{Checks, Invalid};
use crate::event::{ToolCallRequested, ToolCallResult, UsageRecorded};
use crate::limits;

/// Text for the node's scratchpad, before the call has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScratchpadDelta {
    /// Markdown to append.
    pub append_markdown: String,
}

/// A tool has answered, and something of it becomes a document of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallKept {
    /// The answer, as events show it.
    pub result: ToolCallResult,
    /// What the tool wrote: a note, or an answer that is too long for a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<KeptDocument>,
    /// The whole answer, for further calls of the run that ask the same ([`answers`](crate::answers)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<KeptDocument>,
}

/// A document of a run that a tool wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptDocument {
    /// Names it within the run ([`DocumentId::of_run`](crate::DocumentId::of_run)). It holds a hash of the text,
    /// because a path that the run has already stays what it is.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
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
    /// A tool answered, and something of it is kept.
    ToolCallKept(Box<ToolCallKept>),
    /// Tokens or money were used.
    Usage {
        /// What was used.
        usage: UsageRecorded,
        /// What the model was sent, thought and answered, if the run keeps prompts.
        prompt: Option<String>,
    },
    /// Only a sign of life; not an event.
    Heartbeat,
}

impl RoleUpdate {
    /// Checks the size of everything that would become part of an event or a document.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        match self {
            RoleUpdate::Scratchpad(delta) => {
                c.at_most("appendMarkdown", &delta.append_markdown, limits::DOCUMENT_BYTES);
            }
            RoleUpdate::ToolCallRequested(call) => {
                c.at_most("callId", &call.call_id, limits::LABEL_BYTES);
                c.text("toolName", &call.tool_name, limits::LABEL_BYTES);
                c.at_most("purpose", call.purpose.as_deref().unwrap_or_default(), limits::TEXT_BYTES);
                c.at_most("phase", call.phase.as_deref().unwrap_or_default(), limits::LABEL_BYTES);
                let args =
                    call.args.as_ref().map(|a| serde_json::to_string(a).map_or(usize::MAX, |s| s.len()));
                c.range("args", args.unwrap_or_default() as u64, 0..=limits::JSON_BYTES as u64);
            }
            RoleUpdate::ToolCallResult(result) => check_result(result, &mut c),
            RoleUpdate::ToolCallKept(kept) => {
                check_result(&kept.result, &mut c);
                if let Some(document) = &kept.document {
                    c.text("document.path", &document.path, limits::LABEL_BYTES);
                    c.at_most("document.title", &document.title, limits::TITLE_BYTES);
                    c.at_most("document.body", &document.body, limits::DOCUMENT_BYTES);
                    // What is looked up for later calls is written as an answer only.
                    let apart = !answers::is_answer(&document.path);
                    c.require(apart, "document.path", || format!("must not be in {}", answers::FOLDER));
                }
                if let Some(answer) = &kept.answer {
                    c.text("answer.path", &answer.path, limits::LABEL_BYTES);
                    c.at_most("answer.title", &answer.title, limits::TITLE_BYTES);
                    c.at_most("answer.body", &answer.body, limits::DOCUMENT_BYTES);
                    let there = answers::is_answer(&answer.path);
                    c.require(there, "answer.path", || format!("must be in {}", answers::FOLDER));
                }
            }
            RoleUpdate::Usage { usage, prompt } => {
                c.at_most("model", &usage.model, limits::LABEL_BYTES);
                c.at_most("purpose", &usage.purpose, limits::LABEL_BYTES);
                c.at_most("prompt", prompt.as_deref().unwrap_or_default(), limits::KEPT_PROMPT_BYTES);
                c.range("documents", usage.documents.len() as u64, 0..=limits::PROMPT_DOCUMENTS as u64);
                for (field, value) in [
                    ("inputTokens", usage.input_tokens),
                    ("outputTokens", usage.output_tokens),
                    ("cachedTokens", usage.cached_tokens),
                    ("cacheWriteTokens", usage.cache_write_tokens),
                    ("costMicros", usage.cost_micros),
                    ("durationMs", usage.duration_ms),
                ] {
                    c.range(field, value, 0..=limits::USAGE);
                }
            }
            RoleUpdate::Heartbeat => {}
        }
        c.finish()
    }
}

fn check_result(result: &ToolCallResult, c: &mut Checks) {
    c.at_most("callId", &result.call_id, limits::LABEL_BYTES);
    c.text("toolName", &result.tool_name, limits::LABEL_BYTES);
    c.at_most("summary", result.summary.as_deref().unwrap_or_default(), limits::TEXT_BYTES);
    c.at_most("error", result.error.as_deref().unwrap_or_default(), limits::TEXT_BYTES);
    c.at_most("phase", result.phase.as_deref().unwrap_or_default(), limits::LABEL_BYTES);
}

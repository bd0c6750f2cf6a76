//! The size of an answer while it arrives.

use genai::adapter::AdapterKind;
use genai::chat::ChatStreamEvent;
use serde_json::Value;

/// The size of an answer so far.
pub(super) struct AnswerSize {
    /// Each event of a tool call repeats the arguments so far.
    repeats: bool,
    bytes: usize,
    /// The tool call of the last event and the bytes of its arguments.
    last_call: (String, usize),
}

impl AnswerSize {
    pub(super) const fn new(adapter: AdapterKind) -> Self {
        let repeats = matches!(adapter, AdapterKind::Anthropic | AdapterKind::OpenAIResp);
        Self { repeats, bytes: 0, last_call: (String::new(), 0) }
    }

    /// Counts `event` and returns the bytes so far.
    pub(super) fn add(&mut self, event: &ChatStreamEvent) -> usize {
        /// Counted for each event, because many empty events are an endless answer, too.
        const OVERHEAD: usize = 16;
        self.bytes += OVERHEAD;
        match event {
            ChatStreamEvent::Chunk(chunk)
            | ChatStreamEvent::ReasoningChunk(chunk)
            | ChatStreamEvent::ThoughtSignatureChunk(chunk) => self.bytes += chunk.content.len(),
            ChatStreamEvent::ToolCallChunk(chunk) => {
                let call = &chunk.tool_call;
                let arguments = match &call.fn_arguments {
                    Value::String(text) => text.len(),
                    other => other.to_string().len(),
                };
                let (last_id, last_arguments) = &self.last_call;
                if self.repeats && *last_id == call.call_id {
                    self.bytes += arguments.saturating_sub(*last_arguments);
                } else {
                    self.bytes += call.call_id.len() + call.fn_name.len() + arguments;
                }
                self.last_call = (call.call_id.clone(), arguments);
            }
            _ => {}
        }
        self.bytes
    }
}

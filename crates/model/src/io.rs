//! What a model does besides answering: updates while it works, and tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tree_agent_contract::Timestamp;
use tree_agent_contract::event::{ToolCallRequested, ToolCallResult, UsageRecorded};
use tree_agent_contract::role::{RoleUpdate, ScratchpadDelta};
use tree_agent_tools::{ToolError, ToolSet};

/// The outside of one role call. Updates go to a bounded channel: a model that writes faster than its caller reads
/// waits. When the caller is gone they are dropped, as the call itself is about to be.
pub struct RoleIo {
    updates: mpsc::Sender<RoleUpdate>,
    tools: ToolSet,
    phase: &'static str,
    calls: AtomicU64,
    /// Tool calls that may be made; none for no limit.
    allowed: Option<u64>,
}

impl RoleIo {
    /// The outside of a call in `phase` (`plan`, `execute`, `aggregate`), and where its updates arrive.
    pub fn new(tools: ToolSet, phase: &'static str) -> (Self, mpsc::Receiver<RoleUpdate>) {
        const UPDATES_IN_FLIGHT: usize = 32;
        let (updates, receiver) = mpsc::channel(UPDATES_IN_FLIGHT);
        (Self { updates, tools, phase, calls: AtomicU64::new(0), allowed: None }, receiver)
    }

    /// The same for a call that may make so many tool calls; none means no limit.
    #[must_use]
    pub fn allowing(mut self, tool_calls: Option<u64>) -> Self {
        self.allowed = tool_calls;
        self
    }

    /// Tool calls that may still be made; none means no limit. At 0 no tool needs to be offered.
    pub fn tool_calls_left(&self) -> Option<u64> {
        self.allowed.map(|most| most.saturating_sub(self.calls.load(Ordering::Relaxed)))
    }

    /// True when a tool call was refused because none was left: the answer is made of less than was wanted.
    pub fn ran_out_of_tool_calls(&self) -> bool {
        self.allowed.is_some_and(|most| self.calls.load(Ordering::Relaxed) > most)
    }

    /// The tools that the run's context offers.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Adds Markdown to the node's scratchpad before the call has ended.
    pub async fn scratchpad(&self, append_markdown: impl Into<String>) {
        self.send(RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: append_markdown.into() })).await;
    }

    /// Reports tokens, money and time that the call used.
    pub async fn usage(&self, usage: UsageRecorded) {
        self.send(RoleUpdate::Usage(usage)).await;
    }

    /// Calls a tool, and says so before and after; not when no call is left ([`ToolError::Budget`]). Calls are named `t1`, `t2`, … in the order in which they are made.
    pub async fn call_tool(
        &self,
        name: &str,
        args: Map<String, Value>,
        purpose: &str,
    ) -> Result<Value, ToolError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(most) = self.allowed.filter(|most| number > *most) {
            return Err(ToolError::Budget(most));
        }
        let call_id = format!("t{number}");
        self.send(RoleUpdate::ToolCallRequested(ToolCallRequested {
            call_id: call_id.clone(),
            tool_name: name.to_owned(),
            args: Some(shown(&args)),
            purpose: Some(purpose.to_owned()),
            phase: Some(self.phase.to_owned()),
            started_at: Some(now()),
        }))
        .await;
        let answer = self.tools.call(name, &args).await;
        let (summary, error) = match &answer {
            Ok(output) => (Some(output.summary.clone()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        self.send(RoleUpdate::ToolCallResult(ToolCallResult {
            call_id,
            tool_name: name.to_owned(),
            ok: answer.is_ok(),
            summary,
            error,
            phase: Some(self.phase.to_owned()),
            completed_at: Some(now()),
        }))
        .await;
        answer.map(|output| output.value)
    }

    async fn send(&self, update: RoleUpdate) {
        // An error means that nobody listens any more: the call's future is dropped next.
        let _ = self.updates.send(update).await;
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Arguments as events show them: long texts, such as the body of a new document, are cut, and it is said.
fn shown(args: &Map<String, Value>) -> Map<String, Value> {
    const SHOWN_BYTES: usize = 2_048;
    let shown = |value: &Value| match value {
        Value::String(text) if text.len() > SHOWN_BYTES => {
            let beginning = &text[..text.floor_char_boundary(SHOWN_BYTES)];
            Value::String(format!("{beginning}… ({} bytes)", text.len()))
        }
        other => other.clone(),
    };
    args.iter().map(|(name, value)| (name.clone(), shown(value))).collect()
}

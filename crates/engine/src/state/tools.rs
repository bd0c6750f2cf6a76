//! The tool calls of the role call that a node needs.

use serde::Serialize;
use tree_agent_contract::Finding;
use tree_agent_contract::event::{ToolCallRequested, ToolCallResult};
use tree_agent_contract::role::EarlierCall;

use super::Control;

/// How the error of a tool call begins whose role call ended before its result.
pub(crate) const ABANDONED: &str = "abandoned";
/// Tool calls with a result that a node remembers: the latest ones, and all that wrote.
const REMEMBERED: usize = 64;

/// A tool call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ToolUse {
    pub(crate) call_id: String,
    pub(crate) phase: Option<String>,
    pub(crate) purpose: String,
    /// The tool was called: the answer was not known, and a call was left.
    pub(crate) is_made: bool,
    /// For later attempts. One that is open, or was cut off, has no result.
    pub(crate) call: EarlierCall,
}

impl Control {
    pub(super) fn tool_began(&mut self, e: &ToolCallRequested) {
        self.open_tools.push(ToolUse {
            call_id: e.call_id.clone(),
            phase: e.phase.clone(),
            purpose: e.purpose.clone().unwrap_or_default(),
            is_made: !e.cached,
            call: EarlierCall {
                tool_name: e.tool_name.clone(),
                args: e.args.clone(),
                writes: e.writes,
                ok: None,
                outcome: String::new(),
            },
        });
    }

    /// Returns what was asked, in short, if that is known.
    pub(super) fn tool_ended(&mut self, e: &ToolCallResult) -> Option<String> {
        let place = self.open_tools.iter().position(|open| open.call_id == e.call_id)?;
        let mut ended = self.open_tools.remove(place);
        let is_known = !e.error.as_deref().unwrap_or_default().starts_with(ABANDONED);
        ended.call.ok = is_known.then_some(e.ok);
        ended.call.outcome = e.error.clone().or_else(|| e.summary.clone()).unwrap_or_default();
        let about = Finding::about(ended.call.args.as_ref());
        if self.earlier_calls.len() >= REMEMBERED
            && let Some(oldest) = self.earlier_calls.iter().position(|tool| !tool.call.writes)
        {
            self.earlier_calls.remove(oldest);
        }
        self.earlier_calls.push(ended);
        Some(about)
    }
}

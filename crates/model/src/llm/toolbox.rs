//! The tools of a call: offered by their schemas, run side by side, their output marked as material.

use futures::future::join_all;
use genai::chat::{Tool, ToolCall, ToolResponse};
use serde_json::{Map, Value};
use tree_agent_contract::role::{Action, ActionKind};
use tree_agent_contract::text::prefix;
use tree_agent_tools::prompt_text;

use super::material::data;
use crate::io::RoleIo;

/// Calls that one answer may ask for; the others are refused, and it is said.
const AT_ONCE: usize = 8;
/// Bytes of arguments at the most: more than any tool takes, and few enough for an event.
const ARGUMENTS: usize = 128 * 1024;
/// Bytes of an answer that always have room.
const LEAST_ANSWER: usize = 400;
/// Bytes of a tool's name that are looked at.
const NAME: usize = 64;

/// The tools that the run's context offers.
pub(super) async fn offered(io: &RoleIo) -> Vec<Tool> {
    io.tools().ready().await;
    io.tools()
        .specs()
        .iter()
        .map(|spec| {
            Tool::new(spec.name()).with_description(spec.description()).with_schema(spec.schema().clone())
        })
        .collect()
}

/// One call and what came of it.
pub(super) struct Outcome {
    call_id: String,
    name: String,
    args: Map<String, Value>,
    ok: bool,
    /// What the tool answered, without marks.
    pub(super) text: String,
}

impl Outcome {
    pub(super) fn response(&self) -> ToolResponse {
        let marked = data(&self.text, &format!("tool {}", self.name));
        ToolResponse::new(self.call_id.as_str(), marked).with_fn_name(self.name.as_str())
    }

    /// As the executor's output lists it.
    pub(super) fn action(&self) -> Action {
        /// Bytes of arguments beyond which an action does not repeat them.
        const SHOWN: usize = 2_048;
        let short = serde_json::to_string(&self.args).is_ok_and(|text| text.len() <= SHOWN);
        Action {
            kind: ActionKind::ToolCall,
            note: format!("{} {}", self.name, if self.ok { "answered" } else { "failed" }),
            tool_name: Some(self.name.clone()),
            tool_args: (short && !self.args.is_empty()).then(|| self.args.clone()),
        }
    }

    /// Keeps the beginning of the text.
    pub(super) fn shorten(&mut self, bytes: usize) {
        if self.text.len() > bytes + 40 {
            self.text.truncate(prefix(&self.text, bytes).len());
            self.text.push_str("\n[…] (shortened for lack of room)");
        }
    }
}

/// Runs the calls side by side, the answers in their order. A call that cannot be made is answered with an error that
/// the model can act on. An output has at most about a quarter of `budget` tokens.
pub(super) async fn run(io: &RoleIo, calls: &[ToolCall], budget: usize) -> Vec<Outcome> {
    join_all(calls.iter().enumerate().map(|(i, call)| one(io, call, i < AT_ONCE, budget))).await
}

async fn one(io: &RoleIo, call: &ToolCall, allowed: bool, budget: usize) -> Outcome {
    let name = call.fn_name.trim();
    let name = if name.is_empty() { "unnamed" } else { prefix(name, NAME) };
    let (args, answer) = match arguments(&call.fn_arguments) {
        Err(error) => (Map::new(), Err(error)),
        Ok(args) if !allowed => (
            args,
            Err(format!("not called: at most {AT_ONCE} calls can be made at once; call it again if needed")),
        ),
        Ok(args) => {
            let answer = io.call_tool(name, args.clone(), "asked for by the model").await;
            (args, answer.map_err(|error| error.to_string()))
        }
    };
    let ok = answer.is_ok();
    let answer = answer.unwrap_or_else(|error| Value::String(format!("Error: {error}")));
    // About four bytes are a token.
    let text = prompt_text(name, &args, &answer, budget.max(LEAST_ANSWER));
    Outcome { call_id: call.call_id.clone(), text, name: name.to_owned(), args, ok }
}

/// Arguments as an object; models write none at all as null or as an empty text.
fn arguments(value: &Value) -> Result<Map<String, Value>, String> {
    let args = match value {
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::Object(map) => map.clone(),
        Value::String(text) => {
            super::json::object(text).map_err(|e| format!("the arguments are no JSON object: {e}"))?
        }
        other => return Err(format!("the arguments must be a JSON object, not {}", kind(other))),
    };
    match serde_json::to_string(&args).map_or(usize::MAX, |text| text.len()) {
        bytes if bytes > ARGUMENTS => Err(format!("the arguments are longer than {ARGUMENTS} bytes")),
        _ => Ok(args),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Number(_) => "a number",
        _ => "a truth value",
    }
}

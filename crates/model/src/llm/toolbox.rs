//! The tools of a call: their definitions, their parallel execution, and their output, which is marked as material.

use std::sync::Arc;

use futures::future::join_all;
use genai::chat::{Tool, ToolCall, ToolResponse};
use serde_json::{Map, Value};
use tree_agent_contract::role::{Action, ActionKind, RoleError};
use tree_agent_contract::text::prefix;
use tree_agent_tools::{LIST_DOCUMENTS, LIST_PROJECTS, ToolSpec, WRITE_NOTE, prompt_text};

use super::material::data;
use crate::io::{Origin, RoleIo, failed};

/// Maximum of calls in one answer; further ones are refused with an error.
const MAX_CALLS: usize = 8;
/// Maximum of bytes of arguments: more than any tool needs, and few enough for an event.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;
/// An answer is never cut below this many bytes.
const MIN_ANSWER_BYTES: usize = 400;
/// Maximum of bytes of a tool's name.
const MAX_NAME_BYTES: usize = 64;

/// What a model is told of an answer that its own task or another one got before.
const KNOWN_HERE: &str = "This task has asked the same before. This is what was found.\n";
const KNOWN_ELSEWHERE: &str = "Another task of this run has asked the same already. This is what it found.\n";

/// The tools that the run's context offers, or the one of them that is called `only`.
pub(super) async fn offered(io: &RoleIo, only: Option<&str>) -> Result<Vec<Tool>, RoleError> {
    io.tools().ready().await;
    let specs = io.tools().specs().await.map_err(failed)?;
    let tool = |spec: &Arc<ToolSpec>| {
        Tool::new(spec.name()).with_description(spec.description()).with_schema(spec.schema().clone())
    };
    Ok(specs.iter().filter(|spec| only.is_none_or(|name| spec.name() == name)).map(tool).collect())
}

/// Whether a small prompt offers a tool: what searches find and what a scratchpad holds needs no others.
pub(super) fn is_worth_its_tokens(name: &str) -> bool {
    ![LIST_DOCUMENTS, LIST_PROJECTS, WRITE_NOTE].contains(&name)
}

/// Takes away the tools that a `refusal` is about: the one that it names by position or name, or those beyond the
/// number that it names, or all.
pub(super) fn drop_refused(refusal: &str, tools: &mut Vec<Tool>) {
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok();
    let position = ["function_declarations[", "tools[", "tools."]
        .iter()
        .find_map(|mark| number(refusal.split_once(mark)?.1));
    let named = || tools.iter().position(|tool| refusal.contains(&tool.name.to_string()));
    if let Some(at) = position.filter(|at| *at < tools.len()).or_else(named) {
        tools.remove(at);
        return;
    }
    let mut numbers = refusal.split(|c: char| !c.is_ascii_digit()).filter_map(number);
    tools.truncate(numbers.find(|n| (1..tools.len()).contains(n)).unwrap_or_default());
}

/// A call and its result.
pub(super) struct Outcome {
    pub(super) call_id: String,
    name: String,
    /// Empty if the model wrote no object.
    pub(super) args: Map<String, Value>,
    ok: bool,
    answer: Value,
    /// Says that the question is not new.
    remark: &'static str,
    /// What the model is shown of the answer, without marks.
    pub(super) text: String,
}

impl Outcome {
    pub(super) fn response(&self) -> ToolResponse {
        ToolResponse::new(self.call_id.as_str(), self.marked()).with_fn_name(self.name.as_str())
    }

    /// What the model is told of the result.
    pub(super) fn marked(&self) -> String {
        self.remark.to_owned() + &data(&self.text, &format!("tool {}", self.name))
    }

    /// The call as text.
    pub(super) fn told(&self) -> String {
        format!("I called {} with {}.", self.name, Value::Object(self.args.clone()))
    }

    /// The call as an action of the executor's output.
    pub(super) fn action(&self) -> Action {
        /// An action repeats arguments of at most this many bytes.
        const SHOWN: usize = 2_048;
        let short = serde_json::to_string(&self.args).is_ok_and(|text| text.len() <= SHOWN);
        Action {
            kind: ActionKind::ToolCall,
            note: format!("{} {}", self.name, if self.ok { "answered" } else { "failed" }),
            tool_name: Some(self.name.clone()),
            tool_args: (short && !self.args.is_empty()).then(|| self.args.clone()),
        }
    }

    /// Shows less of the answer: its header, which says how to read it again, and about `bytes` bytes in all.
    pub(super) fn shorten(&mut self, bytes: usize) {
        if self.text.len() > bytes {
            self.show(bytes);
        }
    }

    /// Shows about `bytes` bytes of the answer, but not more than before.
    fn show(&mut self, bytes: usize) {
        let text = prompt_text(&self.name, &self.answer, bytes);
        if self.text.is_empty() || text.len() < self.text.len() {
            self.text = text;
        }
    }
}

/// Runs the calls in parallel and returns the results in order. If a call cannot be made, its result is an error that
/// the model can act on. An output has at most about a quarter of `budget` tokens.
pub(super) async fn run(io: &RoleIo, calls: &[ToolCall], budget: usize) -> Vec<Outcome> {
    join_all(calls.iter().enumerate().map(|(i, call)| one(io, call, i < MAX_CALLS, budget))).await
}

async fn one(io: &RoleIo, call: &ToolCall, allowed: bool, budget: usize) -> Outcome {
    let name = call.fn_name.trim();
    let name = if name.is_empty() { "unnamed" } else { prefix(name, MAX_NAME_BYTES) };
    let (args, answer) = match arguments(&call.fn_arguments) {
        Err(error) => (Map::new(), Err(error)),
        Ok(args) if !allowed => (
            args,
            Err(format!(
                "not called: at most {MAX_CALLS} calls can be made at once; call it again if needed"
            )),
        ),
        Ok(args) => {
            let answer = io.ask_tool(name, args.clone(), "asked for by the model").await;
            (args, answer.map_err(|error| error.to_string()))
        }
    };
    let ok = answer.is_ok();
    let remark = match answer.as_ref().map(|answer| answer.origin) {
        Ok(Origin::ThisNode) => KNOWN_HERE,
        Ok(Origin::AnotherNode) => KNOWN_ELSEWHERE,
        Ok(Origin::Tool) | Err(_) => "",
    };
    let answer = answer.map_or_else(|error| Value::String(format!("Error: {error}")), |answer| answer.value);
    let mut outcome = Outcome {
        call_id: call.call_id.clone(),
        text: String::new(),
        name: name.to_owned(),
        args,
        ok,
        answer,
        remark,
    };
    // About four bytes are a token.
    outcome.show(budget.max(MIN_ANSWER_BYTES));
    outcome
}

/// Arguments as an object. Models write null or an empty text if there are none.
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
        bytes if bytes > MAX_ARGUMENT_BYTES => {
            Err(format!("the arguments are longer than {MAX_ARGUMENT_BYTES} bytes"))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_takes_away_as_little_as_it_asks_for() {
        for (refusal, left) in [
            ("Invalid 'tools[1].function.parameters': no properties (HTTP 400)", "alpha gamma delta"),
            ("tools.3.name: too long", "alpha beta gamma"),
            ("the tool 'gamma' is not allowed", "alpha beta delta"),
            ("At most 2 tools may be given", "alpha beta"),
            ("something about functions (HTTP 400)", ""),
        ] {
            let mut tools = ["alpha", "beta", "gamma", "delta"].map(Tool::new).to_vec();
            drop_refused(refusal, &mut tools);
            let names: Vec<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
            assert_eq!(names.join(" "), left, "{refusal}");
        }
    }
}

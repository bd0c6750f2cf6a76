//! The tool calls of an answer of OpenAI's protocol, put together from their pieces.
//!
//! Servers disagree about the pieces: some give every call the same index or none, some repeat the id and the name,
//! some use one id for several calls, and some send the arguments as an object. Memory grows only with what has
//! arrived.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use genai::chat::ToolCall;
use serde_json::{Map, Value};

/// Calls that were given an id here.
static NAMED: AtomicU64 = AtomicU64::new(0);

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// What Google's servers want back with the call.
    extra: Option<Value>,
}

impl Call {
    /// True if nothing can be added to the arguments.
    fn is_whole(&self) -> bool {
        serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }
}

impl ToolCalls {
    /// Adds a piece: the beginning of a call, or more of one. Returns how many bytes it holds.
    pub(super) fn add(&mut self, piece: &Value) -> usize {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let function = &piece["function"];
        let arguments = match &function["arguments"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (index, id, name) = (piece["index"].as_u64(), text(&piece["id"]), text(&function["name"]));
        let extra = Some(&piece["extra_content"]).filter(|extra| extra.is_object()).cloned();
        let extra_bytes = extra.as_ref().map_or(0, |extra| extra.to_string().len());
        let bytes = id.len() + name.len() + arguments.len() + extra_bytes;
        match self.position(index, &id, &name) {
            Some(at) => {
                let call = &mut self.0[at];
                call.arguments.push_str(&arguments);
                if call.extra.is_none() {
                    call.extra = extra;
                }
            }
            None if bytes == 0 => {}
            None => self.0.push(Call { index, id, name, arguments, extra }),
        }
        bytes
    }

    /// The call that a piece continues. Only the first piece of a call has a name, and most servers send its id only
    /// then; some repeat both, and some invent another id for each piece.
    fn position(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let find = |is: &dyn Fn(&Call) -> bool| self.0.iter().rposition(is);
        let by_index = index.and_then(|index| find(&|call| call.index == Some(index)));
        let by_id = (!id.is_empty()).then(|| find(&|call| call.id == id)).flatten();
        if name.is_empty() {
            return by_index.or(by_id).or(self.0.len().checked_sub(1));
        }
        by_id
            .or(by_index.filter(|_| id.is_empty()))
            .filter(|&at| self.0[at].name == name && !self.0[at].is_whole())
    }

    /// The calls, each with an id of its own, and with their arguments as JSON values where they are JSON.
    pub(super) fn finish(self) -> Vec<ToolCall> {
        let mut ids = BTreeSet::new();
        let mut finished = |call: Call| {
            let call_id = match call.id.is_empty() || ids.contains(&call.id) {
                // Unique in the conversation, too.
                true => format!("call_{}", NAMED.fetch_add(1, Ordering::Relaxed)),
                false => call.id,
            };
            ids.insert(call_id.clone());
            ToolCall {
                call_id,
                fn_name: call.name,
                fn_arguments: serde_json::from_str(&call.arguments).unwrap_or(Value::String(call.arguments)),
                thought_signatures: call.extra.map(|extra| vec![extra.to_string()]),
            }
        };
        self.0.into_iter().map(&mut finished).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The calls that come of pieces: index, id, name, arguments.
    fn calls(pieces: &[(Option<u64>, &str, &str, &str)]) -> Vec<(String, Value)> {
        let mut calls = ToolCalls::default();
        for (index, id, name, arguments) in pieces {
            calls.add(&json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}));
        }
        let calls = calls.finish();
        let ids: BTreeSet<&str> = calls.iter().map(|call| call.call_id.as_str()).collect();
        assert_eq!(ids.len(), calls.len(), "{calls:?}");
        calls.into_iter().map(|call| (call.fn_name, call.fn_arguments)).collect()
    }

    fn call(name: &str, arguments: Value) -> (String, Value) {
        (name.to_owned(), arguments)
    }

    #[test]
    fn pieces_are_joined_however_a_server_names_them() {
        let both = vec![call("read", json!({"x": 1})), call("find", json!({"y": 2}))];
        for (how, pieces) in [
            (
                "as OpenAI does, mixed",
                &[
                    (Some(0), "a1", "read", ""),
                    (Some(0), "", "", "{\"x\""),
                    (Some(1), "b2", "find", "{"),
                    (Some(0), "", "", ": 1}"),
                    (Some(1), "", "", "\"y\": 2}"),
                ][..],
            ),
            (
                "the id in every piece, with and without the name",
                &[
                    (Some(0), "a1", "read", "{\"x\""),
                    (Some(0), "a1", "", ": 1}"),
                    (Some(1), "b2", "find", "{\"y\""),
                    (Some(1), "b2", "find", ": 2}"),
                ],
            ),
            (
                "another id in every piece",
                &[
                    (None, "a1", "read", "{\"x\""),
                    (None, "z8", "", ": 1}"),
                    (None, "b2", "find", ""),
                    (None, "z9", "", "{\"y\": 2}"),
                ],
            ),
            ("one index", &[(Some(0), "a1", "read", "{\"x\": 1}"), (Some(0), "b2", "find", "{\"y\": 2}")]),
            ("one index, no id", &[(Some(0), "", "read", "{\"x\": 1}"), (Some(0), "", "find", "{\"y\": 2}")]),
            ("one id", &[(Some(0), "a", "read", "{\"x\": 1}"), (Some(1), "a", "find", "{\"y\": 2}")]),
            (
                "no index and no id",
                &[(None, "", "read", "{\"x\""), (None, "", "", ": 1}"), (None, "", "find", "{\"y\": 2}")],
            ),
        ] {
            assert_eq!(calls(pieces), both, "{how}");
        }
    }

    #[test]
    fn two_calls_of_one_tool_are_two() {
        for (index, id) in [(Some(0), "a"), (Some(0), ""), (None, "a"), (None, "")] {
            let pieces = [(index, id, "read", "{\"x\": 1}"), (index, id, "read", "{\"x\": 2}")];
            let both = [call("read", json!({"x": 1})), call("read", json!({"x": 2}))];
            assert_eq!(calls(&pieces), both, "{index:?} {id}");
        }
    }

    #[test]
    fn whatever_the_pieces_are_there_are_no_more_calls_than_pieces() {
        assert_eq!(calls(&[(Some(4_000_000_000), "", "read", "{}")]), [call("read", json!({}))]);
        assert_eq!(calls(&[(None, "x", "", "no JSON")]), [call("", json!("no JSON"))]);
        assert_eq!(calls(&[(None, "", "", "")]), []);
        let mut object = ToolCalls::default();
        object.add(&json!({"function": {"name": "read", "arguments": {"x": 1}}, "extra_content": {"a": 1}}));
        let object = object.finish().remove(0);
        assert_eq!(object.fn_arguments, json!({"x": 1}));
        assert_eq!(object.thought_signatures, Some(vec!["{\"a\":1}".to_owned()]));
    }
}

//! The tool calls of a streamed answer of OpenAI's protocol, put together from their pieces.
//!
//! The client library could do this, but it allocates as many calls as the index of a piece says, and the provider
//! chooses the index. Here memory grows only with what has arrived. The library passes on each piece without its index;
//! a piece without an id gets the id `call_INDEX`.

use genai::chat::ToolCall;
use serde_json::Value;

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<ToolCall>);

impl ToolCalls {
    /// Adds a piece: the beginning of a call, or more of the arguments of one.
    pub(super) fn add(&mut self, piece: ToolCall) {
        match self.position(&piece) {
            Some(at) => {
                let arguments = piece.fn_arguments.as_str().unwrap_or_default();
                if let Value::String(text) = &mut self.0[at].fn_arguments {
                    text.push_str(arguments);
                }
            }
            None => {
                let call_id =
                    if piece.call_id.is_empty() { format!("call_{}", self.0.len()) } else { piece.call_id };
                self.0.push(ToolCall { call_id, ..piece });
            }
        }
    }

    /// The call that `piece` continues. Only the first piece of a call has a name, and most servers send its id only
    /// then; some repeat both, and some invent another id for each piece.
    fn position(&self, piece: &ToolCall) -> Option<usize> {
        let same_id =
            self.0.iter().position(|call| call.call_id == piece.call_id && !piece.call_id.is_empty());
        if !piece.fn_name.is_empty() {
            return same_id.filter(|&at| self.0[at].fn_name == piece.fn_name);
        }
        let index = piece.call_id.strip_prefix("call_").and_then(|index| index.parse::<usize>().ok());
        index.filter(|&at| at < self.0.len()).or(same_id).or(self.0.len().checked_sub(1))
    }

    /// The calls, with their arguments as JSON values where they are JSON.
    pub(super) fn finish(self) -> Vec<ToolCall> {
        let parsed = |mut call: ToolCall| {
            if let Some(arguments) =
                call.fn_arguments.as_str().and_then(|text| serde_json::from_str(text).ok())
            {
                call.fn_arguments = arguments;
            }
            call
        };
        self.0.into_iter().map(parsed).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The calls that come of pieces: id, name, arguments.
    fn calls(pieces: &[(&str, &str, &str)]) -> Vec<(String, String, Value)> {
        let mut calls = ToolCalls::default();
        for &(id, name, arguments) in pieces {
            calls.add(ToolCall {
                call_id: id.to_owned(),
                fn_name: name.to_owned(),
                fn_arguments: arguments.into(),
                thought_signatures: None,
            });
        }
        calls.finish().into_iter().map(|call| (call.call_id, call.fn_name, call.fn_arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: Value) -> (String, String, Value) {
        (id.to_owned(), name.to_owned(), arguments)
    }

    #[test]
    fn pieces_are_joined_by_index_or_id() {
        let both = vec![call("a1", "read", json!({"x": 1})), call("b2", "find", json!({"y": 2}))];
        // As OpenAI sends it: the id comes once, and the library names later pieces by their index.
        let pieces =
            [("a1", "read", ""), ("call_0", "", "{\"x\""), ("b2", "find", "{"), ("call_1", "", "\"y\": 2}")];
        let mut mixed = pieces.to_vec();
        mixed.insert(3, ("call_0", "", ": 1}"));
        assert_eq!(calls(&mixed), both);
        // The id in every piece, with and without the name.
        let pieces =
            [("a1", "read", "{\"x\""), ("a1", "", ": 1}"), ("b2", "find", "{\"y\""), ("b2", "find", ": 2}")];
        assert_eq!(calls(&pieces), both);
        // Another id in every piece.
        let pieces =
            [("a1", "read", "{\"x\""), ("z8", "", ": 1}"), ("b2", "find", ""), ("z9", "", "{\"y\": 2}")];
        assert_eq!(calls(&pieces), both);
        // Ids that look like an index, but count from one.
        let pieces =
            [("call_1", "read", ""), ("call_0", "", "{}"), ("call_2", "find", "{"), ("call_1", "", "}")];
        assert_eq!(calls(&pieces), [call("call_1", "read", json!({})), call("call_2", "find", json!({}))]);
    }

    #[test]
    fn calls_without_an_id_are_told_apart() {
        let pieces = [("", "read", "{\"x\": 1}"), ("", "read", "{\"x\": 2}")];
        assert_eq!(
            calls(&pieces),
            [call("call_0", "read", json!({"x": 1})), call("call_1", "read", json!({"x": 2}))]
        );
    }

    #[test]
    fn whatever_the_pieces_are_there_are_no_more_calls_than_pieces() {
        assert_eq!(calls(&[("call_4000000000", "read", "{}")]), [call("call_4000000000", "read", json!({}))]);
        assert_eq!(
            calls(&[("call_4000000000", "", "no JSON")]),
            [call("call_4000000000", "", json!("no JSON"))]
        );
    }
}

//! OpenAI's Responses API: `POST responses`, with events of the shapes that it streams.

use std::convert::Infallible;

use super::*;

/// An answer that ends for the reason `failed` fails with its text as the message; `unfinished` means that the
/// connection is closed in order, but the answer has not ended.
pub(super) async fn responses(
    State(script): Shared,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Infallible> {
    let under_way = UnderWay::new(&script);
    let mut items: Vec<Value> = Vec::new();
    let mut events = vec![event(
        json!({"type": "response.created", "response": response("in_progress", &[], &Value::Null)}),
    )];
    let mut pause = BETWEEN;
    let mut end = End::Close;
    let mut last = ("response.completed", "completed");
    let mut error = Value::Null;
    match take(&script, &headers, &body) {
        Answer::Status(code, headers, body) => return Ok(refuse(code, headers, body)),
        Answer::Raw(kind, body) => return Ok(([("content-type", kind)], body).into_response()),
        Answer::Text(text, "failed") => {
            last = ("response.failed", "failed");
            error = json!({"code": "server_error", "message": text});
        }
        Answer::Text(text, why) => {
            message(&mut events, &mut items, &text);
            match why {
                "length" => last = ("response.incomplete", "incomplete"),
                "unfinished" => return Ok(sse(under_way, events, End::Close)),
                _ => {}
            }
        }
        Answer::Tools(text, calls) => {
            message(&mut events, &mut items, text);
            calls.iter().for_each(|call| function_call(&mut events, &mut items, call));
        }
        Answer::Thinks { thoughts, apart, text, calls } => {
            reasoning(&mut events, &mut items, thoughts);
            pause = apart;
            if !text.is_empty() {
                message(&mut events, &mut items, &text);
            }
            calls.iter().for_each(|call| function_call(&mut events, &mut items, call));
        }
        Answer::Stall(text) => {
            message(&mut events, &mut items, text);
            end = End::Hang;
        }
        other => unreachable!("no test asks for {other:?}"),
    }
    if matches!(end, End::Close) {
        events.push(event(json!({"type": last.0, "response": response(last.1, &items, &error)})));
    }
    Ok(sse_apart(under_way, events, end, pause))
}

fn event(value: Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().expect("a type"))
}

fn response(status: &str, output: &[Value], error: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "error": error, "output": output,
        "incomplete_details": (status == "incomplete").then(|| json!({"reason": "max_output_tokens"})),
        "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100},
            "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 1050}})
}

fn add(events: &mut Vec<String>, items: &mut Vec<Value>, begun: Value, deltas: Vec<Value>, done: Value) {
    let at = items.len();
    events.push(event(json!({"type": "response.output_item.added", "output_index": at, "item": begun})));
    events.extend(deltas.into_iter().map(|mut delta| {
        delta["output_index"] = at.into();
        event(delta)
    }));
    events.push(event(json!({"type": "response.output_item.done", "output_index": at, "item": done})));
    items.push(done);
}

fn message(events: &mut Vec<String>, items: &mut Vec<Value>, text: &str) {
    let item = |text: &str| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let mut deltas =
        vec![json!({"type": "response.content_part.added", "item_id": "msg_1", "content_index": 0,
        "part": {"type": "output_text", "text": ""}})];
    deltas.extend(pieces(text).iter().map(|piece| {
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0, "delta": piece})
    }));
    add(events, items, item(""), deltas, item(text));
}

/// Thoughts are summarised for people, and sent encrypted for the next request.
fn reasoning(events: &mut Vec<String>, items: &mut Vec<Value>, thoughts: usize) {
    let deltas = (0..thoughts).map(|n| {
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 0,
            "delta": format!("thought {n}. ")})
    });
    let begun = json!({"id": "rs_1", "type": "reasoning", "summary": []});
    let done = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "c2VhbGVk",
        "summary": [{"type": "summary_text", "text": "thoughts"}]});
    add(events, items, begun, deltas.collect(), done);
}

fn function_call(events: &mut Vec<String>, items: &mut Vec<Value>, call: &(&str, &str, String)) {
    let (id, name, args) = call;
    let item = |args: &str| json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": name, "arguments": args});
    let deltas = pieces(args).into_iter().map(|piece| {
        json!({"type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"), "delta": piece})
    });
    add(events, items, item(""), deltas.collect(), item(args));
}

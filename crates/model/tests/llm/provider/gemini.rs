//! Google's protocol: `streamGenerateContent`, with events of the shapes that Gemini sends.

use std::convert::Infallible;

use axum::extract::{Path, Query};

use super::*;

/// `POST models/MODEL:streamGenerateContent?alt=sse`. Of an answer that ends for the reason `safety` Gemini shows what
/// was written before; `blocked` means that it refuses the prompt itself.
pub(super) async fn generate(
    State(script): Shared,
    Path(call): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Infallible> {
    let streams = call.ends_with(":streamGenerateContent") && query == [("alt".into(), "sse".into())];
    assert!(streams, "{call} {query:?} is no call of a streamed answer, or holds more than it should");
    let under_way = UnderWay::new(&script);
    let mut parts: Vec<Value> = Vec::new();
    let mut finish = Some("STOP");
    let mut end = End::Close;
    let mut usage = true;
    let mut pause = BETWEEN;
    let texts = |text: &str| pieces(text).into_iter().map(|piece| json!({"text": piece})).collect::<Vec<_>>();
    match take(&script, &headers, &body) {
        Answer::Status(code, headers, body) => return Ok(refuse(code, headers, body)),
        Answer::Raw(kind, body) => return Ok(([("content-type", kind)], body).into_response()),
        Answer::Text(_, "blocked") => {
            let feedback = json!({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [
                {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": true}]},
                "usageMetadata": metadata(0, 0), "modelVersion": "gemini-test"});
            return Ok(sse(under_way, vec![event(&feedback)], End::Close));
        }
        Answer::Text(text, why) => {
            parts.extend(texts(&text));
            match why {
                "length" => finish = Some("MAX_TOKENS"),
                "safety" => finish = Some("SAFETY"),
                // The connection is closed in order, but the answer has not ended.
                "unfinished" => finish = None,
                _ => {}
            }
        }
        Answer::NoUsage(text) => {
            parts.extend(texts(&text));
            usage = false;
        }
        Answer::Tools(text, calls) => {
            parts.extend(texts(text));
            for (_, name, args) in calls {
                let args: Value = serde_json::from_str(&args).expect("Gemini's arguments are JSON");
                parts.push(
                    json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2lnbmVk"}),
                );
            }
        }
        Answer::Thinks { thoughts, apart, text, calls } => {
            assert!(calls.is_empty(), "no test asks for it");
            parts.extend((0..thoughts).map(|n| json!({"text": format!("thought {n}. "), "thought": true})));
            parts.extend(texts(&text));
            pause = apart;
        }
        Answer::ToolsAt(..) => unreachable!("this protocol has no index of calls"),
        Answer::Forever(_) => unreachable!("no test asks for it"),
        Answer::Stall(text) => {
            parts.extend(texts(text));
            (finish, end) = (None, End::Hang);
        }
        Answer::Break(text) => {
            parts.extend(texts(text));
            (finish, end) = (None, End::Break);
        }
    }
    let last = parts.len();
    let mut events: Vec<String> = (1..)
        .zip(parts)
        .map(|(n, part)| {
            let mut chunk = json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
                "modelVersion": "gemini-test", "responseId": "r1"});
            if usage {
                chunk["usageMetadata"] = metadata(50 * n / last, 20);
            }
            event(&chunk)
        })
        .collect();
    if let Some(finish) = finish {
        let mut chunk = json!({"candidates": [{"content": {"role": "model"}, "finishReason": finish, "index": 0}],
            "modelVersion": "gemini-test", "responseId": "r1"});
        if usage {
            chunk["usageMetadata"] = metadata(50, 20);
        }
        events.push(event(&chunk));
    }
    Ok(sse_apart(under_way, events, end, pause))
}

fn event(value: &Value) -> String {
    format!("data: {value}\r\n\r\n")
}

/// Thoughts are counted beside what was written, cached tokens among those of the prompt.
fn metadata(written: usize, thoughts: usize) -> Value {
    json!({"promptTokenCount": 1000, "cachedContentTokenCount": 400, "candidatesTokenCount": written,
        "thoughtsTokenCount": thoughts, "totalTokenCount": 1000 + written + thoughts,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
        "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 400}]})
}

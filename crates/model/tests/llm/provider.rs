//! Servers that answer what a test tells them to, and remember what they were asked.

mod gemini;
mod responses;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

/// What a server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Streams a text, and says why it ended.
    Text(String, &'static str),
    /// Streams a text and calls of tools: id, name, arguments.
    Tools(&'static str, Vec<(&'static str, &'static str, String)>),
    /// Streams one call of a tool with this index: name, arguments.
    ToolsAt(u64, &'static str, String),
    /// Refuses.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Sends this body, of this type, with status 200.
    Raw(&'static str, String),
    /// Streams this much, then nothing for ever.
    Stall(&'static str),
    /// Streams this event for ever, as fast as it is read.
    Forever(&'static str),
    /// Streams this much, then breaks off.
    Break(&'static str),
    /// Streams a text and says nothing of tokens.
    NoUsage(String),
    /// Streams that many thoughts, then a text and calls of tools: id, name, arguments.
    Thinks {
        thoughts: usize,
        /// Between two events.
        apart: Duration,
        text: String,
        calls: Vec<(&'static str, &'static str, String)>,
    },
}

/// Between two events, so that they arrive as chunks of their own.
const BETWEEN: Duration = Duration::from_micros(200);

/// An answer after a few thoughts.
pub(crate) fn thought_of(text: &str, calls: Vec<(&'static str, &'static str, String)>) -> Answer {
    Answer::Thinks { thoughts: 3, apart: BETWEEN, text: text.to_owned(), calls }
}

pub(crate) fn text(value: &Value) -> Answer {
    Answer::Text(value.to_string(), "stop")
}

pub(crate) fn status(status: u16, body: &str) -> Answer {
    Answer::Status(status, Vec::new(), body.to_owned())
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) body: Value,
    pub(crate) headers: HeaderMap,
}

impl Asked {
    /// Everything that was said to the model, in one text.
    pub(crate) fn said(&self) -> String {
        self.body.to_string()
    }

    /// The text of the last message.
    pub(crate) fn last(&self) -> String {
        let messages = self.body["messages"].as_array().expect("messages");
        let content = &messages.last().expect("one at least")["content"];
        content.as_str().map_or_else(|| content.to_string(), str::to_owned)
    }
}

type Rule = Arc<dyn Fn(&Asked) -> Answer + Send + Sync>;

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<Asked>,
    /// What every request gets once the answers are used up.
    always: Option<Answer>,
    /// Decides by what was asked, once the answers are used up.
    by_request: Option<Rule>,
    models: Option<Answer>,
    /// How often the models were asked for.
    listed: usize,
    at_once: usize,
    most_at_once: usize,
}

/// A server on a free port of the loopback, for as long as the test's runtime lasts.
#[derive(Clone)]
pub(crate) struct Provider {
    script: Arc<Mutex<Script>>,
    pub(crate) url: String,
}

impl Provider {
    /// A server that gives `answers` in their order.
    pub(crate) async fn new(answers: Vec<Answer>) -> Self {
        let script = Arc::new(Mutex::new(Script { answers: answers.into(), ..Script::default() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let app = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/messages", post(messages))
            .route("/v1/responses", post(responses::responses))
            .route("/v1/models", get(models))
            .route("/v1beta/models/{call}", post(gemini::generate))
            .route("/v1beta/models", get(models))
            .with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { script, url }
    }

    /// A server that always gives the same answer.
    pub(crate) async fn always(answer: Answer) -> Self {
        let server = Self::new(Vec::new()).await;
        server.script.lock().unwrap().always = Some(answer);
        server
    }

    /// A server that answers by what it is asked.
    pub(crate) async fn by(rule: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let server = Self::new(Vec::new()).await;
        server.script.lock().unwrap().by_request = Some(Arc::new(rule));
        server
    }

    /// From now on these, and after them what was always given.
    pub(crate) fn then(&self, answers: Vec<Answer>) {
        self.script.lock().unwrap().answers.extend(answers);
    }

    /// What the list of models answers.
    pub(crate) fn models(&self, answer: Answer) {
        self.script.lock().unwrap().models = Some(answer);
    }

    /// How often the models were asked for.
    pub(crate) fn listed(&self) -> usize {
        self.script.lock().unwrap().listed
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.script.lock().unwrap().most_at_once
    }
}

type Shared = State<Arc<Mutex<Script>>>;

fn take(script: &Mutex<Script>, headers: &HeaderMap, body: &[u8]) -> Answer {
    let body = serde_json::from_slice(body).expect("requests are JSON");
    let asked = Asked { body, headers: headers.clone() };
    let (next, rule) = {
        let mut script = script.lock().unwrap();
        script.asked.push(asked.clone());
        (script.answers.pop_front().or_else(|| script.always.clone()), script.by_request.clone())
    };
    // Without the lock: a rule may fail its test.
    let next = next.or_else(|| rule.map(|rule| rule(&asked)));
    next.unwrap_or_else(|| status(500, "the test has no answer for this request"))
}

/// Counts a request as under way for as long as its answer is streamed.
struct UnderWay(Arc<Mutex<Script>>);

impl UnderWay {
    fn new(script: &Arc<Mutex<Script>>) -> Self {
        let mut s = script.lock().unwrap();
        s.at_once += 1;
        s.most_at_once = s.most_at_once.max(s.at_once);
        drop(s);
        Self(script.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().unwrap().at_once -= 1;
    }
}

async fn models(State(script): Shared) -> Response {
    let mut script = script.lock().unwrap();
    script.listed += 1;
    match script.models.clone() {
        Some(Answer::Status(code, headers, body)) => refuse(code, headers, body),
        _ => axum::Json(json!({"data": [{"id": "first-model"}, {"id": "second-model"}]})).into_response(),
    }
}

fn refuse(code: u16, headers: Vec<(&'static str, String)>, body: String) -> Response {
    let mut response = (StatusCode::from_u16(code).expect("a status"), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().expect("a header"));
    }
    response
}

/// A text in pieces of a few characters, as models write; a long one in a few hundred.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(7.max(chars.len() / 300)).map(|piece| piece.iter().collect()).collect()
}

enum End {
    Close,
    Hang,
    Break,
}

/// Streams events a little apart.
fn sse(under_way: UnderWay, events: Vec<String>, end: End) -> Response {
    sse_apart(under_way, events, end, BETWEEN)
}

fn sse_apart(under_way: UnderWay, events: Vec<String>, end: End, apart: Duration) -> Response {
    let events = stream::iter(events).then(move |event| async move {
        tokio::time::sleep(apart).await;
        Ok::<_, std::io::Error>(Bytes::from(event))
    });
    let tail = stream::once(async move {
        let _until_here = under_way;
        match end {
            End::Close => Ok(Bytes::new()),
            End::Hang => std::future::pending().await,
            End::Break => Err(std::io::Error::other("the connection breaks here")),
        }
    });
    let body = Body::from_stream(events.chain(tail));
    ([("content-type", "text/event-stream")], body).into_response()
}

async fn chat(State(script): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Infallible> {
    let under_way = UnderWay::new(&script);
    let event = |value: Value| format!("data: {value}\n\n");
    let delta = |delta: Value| {
        event(json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut finish = "stop";
    let mut end = End::Close;
    let mut usage = true;
    let mut pause = BETWEEN;
    match take(&script, &headers, &body) {
        Answer::Status(code, headers, body) => return Ok(refuse(code, headers, body)),
        Answer::Raw(kind, body) => return Ok(([("content-type", kind)], body).into_response()),
        Answer::Text(text, why) => {
            events.extend(pieces(&text).iter().map(|piece| delta(json!({"content": piece}))));
            finish = why;
        }
        Answer::NoUsage(text) => {
            events.extend(pieces(&text).iter().map(|piece| delta(json!({"content": piece}))));
            usage = false;
        }
        Answer::Tools(text, calls) => {
            events.extend(pieces(text).iter().map(|piece| delta(json!({"content": piece}))));
            for (index, (id, name, args)) in calls.iter().enumerate() {
                let call = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
                events.push(delta(json!({"tool_calls": [call]})));
                events.extend(pieces(args).iter().map(|piece| {
                    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
                }));
            }
            finish = "tool_calls";
        }
        Answer::Thinks { thoughts, apart, text, calls } => {
            assert!(calls.is_empty(), "no test asks for it");
            let thought = |n| delta(json!({"content": format!("thought {n}. ")}));
            events.push(delta(json!({"content": "<think>"})));
            events.extend((0..thoughts).map(thought));
            events.push(delta(json!({"content": format!("</think>{text}")})));
            pause = apart;
        }
        Answer::ToolsAt(index, name, args) => {
            let call =
                json!({"index": index, "type": "function", "function": {"name": name, "arguments": args}});
            events.push(delta(json!({"tool_calls": [call]})));
            finish = "tool_calls";
        }
        Answer::Stall(text) => {
            events.extend(pieces(text).iter().map(|piece| delta(json!({"content": piece}))));
            return Ok(sse(under_way, events, End::Hang));
        }
        Answer::Forever(event) => {
            let body =
                Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(Bytes::from(event))));
            return Ok(([("content-type", "text/event-stream")], body).into_response());
        }
        Answer::Break(text) => {
            events.extend(pieces(text).iter().map(|piece| delta(json!({"content": piece}))));
            end = End::Break;
        }
    }
    if matches!(end, End::Close) {
        events.push(event(
            json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
        ));
        if usage {
            events.push(event(json!({"id": "chatcmpl-1", "choices": [], "usage": {
                "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                "prompt_tokens_details": {"cached_tokens": 400}}})));
        }
        events.push("data: [DONE]\n\n".to_owned());
    }
    Ok(sse_apart(under_way, events, end, pause))
}

async fn messages(State(script): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Infallible> {
    let under_way = UnderWay::new(&script);
    let event = |name: &str, value: Value| format!("event: {name}\ndata: {value}\n\n");
    let mut events = vec![event(
        "message_start",
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "content": [], "model": "m", "stop_reason": null,
            "usage": {"input_tokens": 500, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100,
                "output_tokens": 1}}}),
    )];
    let block = |index: usize, start: Value, deltas: Vec<Value>| {
        let mut events = vec![event(
            "content_block_start",
            json!({"type": "content_block_start", "index": index, "content_block": start}),
        )];
        events.extend(deltas.into_iter().map(|delta| {
            event(
                "content_block_delta",
                json!({"type": "content_block_delta", "index": index, "delta": delta}),
            )
        }));
        events.push(event("content_block_stop", json!({"type": "content_block_stop", "index": index})));
        events
    };
    let texts = |text: &str| -> Vec<Value> {
        pieces(text).iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect()
    };
    let start = json!({"type": "text", "text": ""});
    let mut stop = "end_turn";
    let mut pause = BETWEEN;
    let tool_use = |(id, name, args): &(&str, &str, String)| {
        let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let delta = |piece: &String| json!({"type": "input_json_delta", "partial_json": piece});
        (start, pieces(args).iter().map(delta).collect::<Vec<_>>())
    };
    match take(&script, &headers, &body) {
        Answer::Status(code, headers, body) => return Ok(refuse(code, headers, body)),
        Answer::Raw(kind, body) => return Ok(([("content-type", kind)], body).into_response()),
        Answer::Text(text, why) => {
            events.extend(block(0, start, texts(&text)));
            if why == "length" {
                stop = "max_tokens";
            }
        }
        Answer::NoUsage(text) => events.extend(block(0, start, texts(&text))),
        Answer::ToolsAt(..) => unreachable!("this protocol has no index of calls"),
        Answer::Forever(_) => unreachable!("no test asks for it"),
        Answer::Tools(text, calls) => {
            events.extend(block(0, start, texts(text)));
            for (index, call) in (1..).zip(&calls) {
                let (start, deltas) = tool_use(call);
                events.extend(block(index, start, deltas));
            }
            stop = "tool_use";
        }
        Answer::Thinks { thoughts, apart, text, calls } => {
            let thinks = |n| json!({"type": "thinking_delta", "thinking": format!("thought {n}. ")});
            let mut deltas: Vec<Value> = (0..thoughts).map(thinks).collect();
            deltas.push(json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
            events.extend(block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), deltas));
            events.extend(block(1, start, texts(&text)));
            for (index, call) in (2..).zip(&calls) {
                let (start, deltas) = tool_use(call);
                events.extend(block(index, start, deltas));
                stop = "tool_use";
            }
            pause = apart;
        }
        Answer::Stall(text) => {
            events.extend(block(0, start, texts(text)));
            return Ok(sse(under_way, events, End::Hang));
        }
        Answer::Break(text) => {
            events.extend(block(0, start, texts(text)));
            return Ok(sse(under_way, events, End::Break));
        }
    }
    events.push(event(
        "message_delta",
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 50}}),
    ));
    events.push(event("message_stop", json!({"type": "message_stop"})));
    Ok(sse_apart(under_way, events, End::Close, pause))
}

//! OpenAI's chat completions, over HTTP and server-sent events, as OpenAI and most other servers speak it.
//!
//! Servers differ from the protocol in many ways, so the adapter takes what it can use:
//!
//! - An answer is complete when a choice says why it ended, or with `[DONE]`. It may also come as one JSON object.
//! - An `error` ends it, also with status 200.
//! - What a server wants back with its tool calls (`reasoning_content`, `extra_content`) is repeated.
//! - Text between `<think>` and `</think>` is no part of the answer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use genai::chat::{
    ChatMessage, ChatRole, ContentPart, CustomPart, JsonSchemaDialect, MessageContent, StopReason, Tool,
    ToolCall, sanitize_json_schema,
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

use super::concession::Concession;
use super::effort::Effort;
use super::failure::{Failure, FailureKind, connection, retry_after, retry_delay};
use super::prices::TokenCounts;
use super::protocol::{Format, Piece, Pieces, Protocol, Question, Turn};
use super::site::Site;
use super::thinking::{Thinking, split_unopened};
use super::tool_calls::ToolCalls;

/// How long the counts of tokens may come after the end of an answer.
const COUNTS: Duration = Duration::from_secs(2);
/// Parameters that a server may not know. A request does without those that it refuses.
const OPTIONAL: [&str; 8] = [
    "stream_options",
    "tool_choice",
    "reasoning_effort",
    REASONING,
    THOUGHT_DETAILS,
    MAX_COMPLETION_TOKENS,
    MAX_TOKENS,
    SYSTEM,
];
/// Some models have no system prompt: what it says then stands in the first message.
const SYSTEM: &str = "system role";
const MAX_TOKENS: &str = "max_tokens";
/// The name of the same for models of OpenAI that reason.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
/// Under these names servers send what the model thinks, and want it back with its tool calls.
const THOUGHTS: [&str; 2] = [REASONING, "reasoning"];
const REASONING: &str = "reasoning_content";
/// The same in the form of OpenRouter, which may be encrypted.
const THOUGHT_DETAILS: &str = "reasoning_details";

/// OpenAI's chat completions.
pub(super) struct Chat {
    site: Arc<Site>,
}

impl Chat {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

#[async_trait]
impl Protocol for Chat {
    async fn open<'a>(
        &'a self,
        question: &Question<'_>,
        conceded: &BTreeSet<Concession>,
    ) -> Result<Pieces<'a>, Failure> {
        let body = body(question, conceded);
        let site = &*self.site;
        let failed = |error: reqwest::Error| connection(&error, site);
        let mut response = site.post("chat/completions").json(&body).send().await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after(response.headers());
            let text = site.read_bounded(response).await?.map_err(failed)?;
            let lower = text.to_lowercase();
            let refused = |name: &&'static str| Some((lower.find(*name)?, *name));
            let messages = body["messages"].to_string();
            let sent = OPTIONAL.iter().filter(|name| {
                **name == SYSTEM || body.get(**name).is_some() || messages.contains(&format!("\"{name}\":"))
            });
            let mut failure = site.refusal(Some(status.as_u16()), &text);
            // A message may name the parameter to use instead, but later.
            if matches!(status.as_u16(), 400 | 404 | 422)
                && failure.kind != FailureKind::TooLong
                && let Some((_, name)) = sent.filter_map(refused).min()
            {
                failure.kind = FailureKind::Parameter(name);
            }
            failure.retry_after = wait.or_else(|| retry_delay(&text));
            return Err(failure);
        }
        let limit = question.byte_limit();
        let first = response.chunk().await.map_err(failed)?.unwrap_or_default();
        let is_json = first.trim_ascii_start().first() == Some(&b'{');
        let is_page = first.trim_ascii_start().first() == Some(&b'<');
        let chunks = stream::iter([Ok(first)]).chain(response.bytes_stream());
        if is_json || is_page {
            let body = site.collect(chunks, limit).await?.map_err(failed)?;
            let mut answer = Assembly::new(site, limit);
            let Ok(whole) = serde_json::from_str(&body) else { return Err(site.cut_off(false)) };
            let text = answer.event(&whole)?.map(Ok);
            return Ok(Box::pin(stream::iter(text.into_iter().chain([answer.end()]))));
        }
        let lines = StreamReader::new(chunks.map_err(io::Error::other));
        // A server may cut a character between two events, so that lines are no valid text.
        let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), limit);
        let state = (FramedRead::new(lines, codec), Assembly::new(site, limit));
        let pieces = stream::try_unfold(Some(state), move |state| async move {
            let Some((mut lines, mut answer)) = state else { return Ok(None) };
            loop {
                let next = match answer.stop.is_some() {
                    true => timeout(COUNTS, lines.next()).await.unwrap_or(None),
                    false => lines.next().await,
                };
                let line = match next {
                    Some(Ok(line)) => String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned(),
                    Some(Err(AnyDelimiterCodecError::MaxChunkLengthExceeded)) => {
                        return Err(site.too_large(limit));
                    }
                    // Whatever breaks after the end has taken nothing away.
                    Some(Err(_)) | None if answer.stop.is_some() => return Ok(Some((answer.end()?, None))),
                    Some(Err(AnyDelimiterCodecError::Io(error))) => return Err(broke_off(&error, site)),
                    None => return Err(site.cut_off(answer.began)),
                };
                match answer.line(&line)? {
                    Line::Nothing => {}
                    Line::Piece(piece) => return Ok(Some((piece, Some((lines, answer))))),
                    Line::Done => return Ok(Some((answer.end()?, None))),
                }
            }
        });
        Ok(Box::pin(pieces))
    }

    fn shows_thoughts(&self, _question: &Question<'_>, _conceded: &BTreeSet<Concession>) -> bool {
        // Some servers do, which only shortens a silence.
        false
    }
}

fn broke_off(error: &io::Error, site: &Site) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>()) {
        Some(inner) => connection(inner, site),
        None => site.cut_off(true),
    }
}

/// The body of a request. What does not change comes first, so that providers can cache it.
fn body(question: &Question<'_>, conceded: &BTreeSet<Concession>) -> Value {
    let mut body = Map::new();
    let mut set = |name: &'static str, value: Value| {
        if !conceded.contains(&Concession::Parameter(name)) {
            body.insert(name.to_owned(), value);
        }
    };
    set("model", question.model.into());
    set("stream", true.into());
    set("stream_options", json!({"include_usage": true}));
    if let Some(tools) = &question.request.tools {
        set("tools", tools.iter().map(tool).collect());
        if !question.may_call_tools {
            set("tool_choice", "none".into());
        }
    }
    let system = question.request.system.as_ref().map(|text| json!({"role": "system", "content": text}));
    let messages = question.request.messages.iter().flat_map(message);
    let mut messages: Vec<Value> = system.into_iter().chain(messages).collect();
    if conceded.contains(&Concession::Parameter(SYSTEM)) && messages.len() > 1 {
        let text = |message: &Value| match &message["content"] {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        let both = format!("{}\n\n{}", text(&messages[0]), text(&messages[1]));
        messages.splice(0..2, [json!({"role": "user", "content": both})]);
    }
    for name in [REASONING, THOUGHT_DETAILS] {
        if conceded.contains(&Concession::Parameter(name)) {
            messages
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|message| drop(message.remove(name)));
        }
    }
    set("messages", messages.into());
    match &question.format {
        Format::Free => {}
        Format::Object => set("response_format", json!({"type": "json_object"})),
        Format::Strict(schema) => {
            set(
                "response_format",
                json_schema(&sanitize_json_schema(schema, JsonSchemaDialect::OpenAiStrict), true),
            );
        }
        Format::Bounded(schema) => set("response_format", json_schema(schema, false)),
    }
    if let Some(effort) = question.effort {
        set("reasoning_effort", Effort::name(effort).into());
    }
    // A deployment may have a name of its own, so the name of the model decides only what is tried first.
    let is_newer = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|name| question.model.starts_with(name));
    let refused = |name| conceded.contains(&Concession::Parameter(name));
    match is_newer != (refused(if is_newer { MAX_COMPLETION_TOKENS } else { MAX_TOKENS })) {
        true => set(MAX_COMPLETION_TOKENS, question.output_limit.into()),
        false => set(MAX_TOKENS, question.output_limit.into()),
    }
    Value::Object(body)
}

fn json_schema(schema: &Value, strict: bool) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": schema}})
}

fn tool(tool: &Tool) -> Value {
    let mut function = json!({"name": tool.name.to_string(), "parameters": tool.schema});
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    json!({"type": "function", "function": function})
}

/// The messages that one of ours becomes: the results of several tools are one each.
fn message(message: &ChatMessage) -> Vec<Value> {
    let role = match message.role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
        ChatRole::Tool => {
            let result = |part: &ContentPart| match part {
                ContentPart::ToolResponse(r) => {
                    Some(json!({"role": "tool", "tool_call_id": r.call_id, "content": r.content}))
                }
                _ => None,
            };
            return message.content.iter().filter_map(result).collect();
        }
    };
    let mut whole = json!({"role": role});
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for part in &message.content {
        match part {
            ContentPart::Text(text) => texts.push(text.as_str()),
            ContentPart::ToolCall(call) => calls.push(tool_call(call)),
            ContentPart::Custom(CustomPart { model_iden: None, data: Value::Object(fields) }) => {
                fields.iter().for_each(|(name, value)| whole[name] = value.clone());
            }
            _ => {}
        }
    }
    let text = texts.join("\n\n");
    let is_marked = message.options.as_ref().is_some_and(|options| options.cache_control.is_some());
    whole["content"] = match () {
        // Strict servers refuse an empty text.
        () if text.is_empty() && !calls.is_empty() => Value::Null,
        () if is_marked => json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]),
        () => text.into(),
    };
    if !calls.is_empty() {
        whole["tool_calls"] = calls.into();
    }
    vec![whole]
}

fn tool_call(call: &ToolCall) -> Value {
    let arguments = call.fn_arguments.to_string();
    let function = json!({"name": call.fn_name, "arguments": arguments});
    let mut value = json!({"id": call.call_id, "type": "function", "function": function});
    let extra = call.thought_signatures.as_ref().and_then(|all| all.first());
    if let Some(extra) = extra.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        value["extra_content"] = extra;
    }
    value
}

/// What a line of the stream means.
enum Line {
    Nothing,
    Piece(Piece),
    /// Nothing more comes.
    Done,
}

/// An answer while it arrives.
struct Assembly<'a> {
    site: &'a Site,
    /// Bytes of the longest event.
    limit: usize,
    /// The lines of the event that is being read.
    data: String,
    is_error: bool,
    /// The first half of a character that the server has cut between two events.
    high: Option<String>,
    /// Something of an answer has come.
    began: bool,
    thinking: Thinking,
    text: String,
    refusal: String,
    calls: ToolCalls,
    /// What the model thinks, by the name of the field.
    thoughts: Map<String, Value>,
    stop: Option<StopReason>,
    tokens: Option<TokenCounts>,
}

impl<'a> Assembly<'a> {
    fn new(site: &'a Site, limit: usize) -> Self {
        Self {
            site,
            limit,
            data: String::new(),
            is_error: false,
            high: None,
            began: false,
            thinking: Thinking::default(),
            text: String::new(),
            refusal: String::new(),
            calls: ToolCalls::default(),
            thoughts: Map::new(),
            stop: None,
            tokens: None,
        }
    }

    /// Reads a line of server-sent events. Most events are one line, and some servers leave out the empty one after it.
    fn line(&mut self, line: &str) -> Result<Line, Failure> {
        let line = line.trim_start_matches('\u{feff}');
        if let Some(name) = line.strip_prefix("event:") {
            self.is_error = name.trim() == "error";
            return Ok(Line::Nothing);
        }
        // A comment keeps the connection alive, and says that somebody works.
        if line.starts_with(':') {
            return Ok(Line::Piece(Piece::Other(1)));
        }
        let data = line.strip_prefix("data:");
        let ends = line.trim().is_empty();
        if data.is_none() && !ends {
            return Ok(Line::Nothing);
        }
        self.data.push_str(data.unwrap_or_default().trim());
        if self.data.is_empty() {
            return Ok(Line::Nothing);
        }
        if self.data == "[DONE]" {
            // Some servers never say why an answer ended.
            return if self.began { Ok(Line::Done) } else { Err(self.site.cut_off(false)) };
        }
        let whole = joined(&self.data, &mut self.high);
        match serde_json::from_str::<Value>(&whole) {
            Ok(event) => {
                let data = std::mem::take(&mut self.data);
                match std::mem::take(&mut self.is_error) {
                    true => Err(self.site.refusal(None, &data)),
                    false => Ok(self.event(&event)?.map_or(Line::Nothing, Line::Piece)),
                }
            }
            Err(_) if ends => Err(self.site.cut_off(self.began)),
            Err(_) if self.data.len() > self.limit => Err(self.site.too_large(self.limit)),
            Err(_) => Ok(Line::Nothing),
        }
    }

    /// Reads an event, or a whole answer in one.
    fn event(&mut self, event: &Value) -> Result<Option<Piece>, Failure> {
        let error = &event["error"];
        if !error.is_null() {
            let status = |code: &Value| code.as_u64().filter(|code| (400..600).contains(code));
            return Err(self
                .site
                .refusal(status(&error["code"]).map(|code| code as u16), &error.to_string()));
        }
        if let Some(tokens) = tokens(&event["usage"]) {
            self.tokens = Some(tokens);
        }
        let choices = event["choices"].as_array();
        let mine = |choice: &&Value| choice["index"].as_u64().unwrap_or_default() == 0;
        let Some(choice) = choices.and_then(|all| all.iter().find(mine)) else { return Ok(None) };
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let (text, mut bytes) = self.delta(delta);
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.stop = Some(StopReason::from(reason.to_owned()));
            bytes += reason.len();
        }
        self.began |= bytes > 0 || !text.is_empty();
        let arrived = text.len();
        let text = self.thinking.answer(&text);
        // Thoughts are a sign of life, too.
        bytes += arrived.saturating_sub(text.len());
        Ok(match (text.is_empty(), bytes) {
            (true, 0) => None,
            (true, bytes) => Some(Piece::Other(bytes)),
            (false, _) => {
                self.text.push_str(&text);
                Some(Piece::Text(text))
            }
        })
    }

    /// Reads the change of a message. Returns its text, and the bytes of all else.
    fn delta(&mut self, delta: &Value) -> (String, usize) {
        let (mut text, mut bytes) = (String::new(), 0);
        match &delta["content"] {
            Value::String(content) => text.push_str(content),
            Value::Array(parts) => {
                for part in parts {
                    text.push_str(part["text"].as_str().unwrap_or_default());
                    bytes += part["thinking"].to_string().len();
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        self.thinking.thoughts.push_str(thought["text"].as_str().unwrap_or_default());
                    }
                }
            }
            _ => {}
        }
        let refusal = delta["refusal"].as_str().unwrap_or_default();
        self.refusal.push_str(refusal);
        bytes += refusal.len();
        for name in THOUGHTS {
            if let Some(thought) = delta[name].as_str().filter(|thought| !thought.is_empty()) {
                bytes += thought.len();
                match self.thoughts.get_mut(name) {
                    Some(Value::String(all)) => all.push_str(thought),
                    _ => drop(self.thoughts.insert(name.to_owned(), thought.into())),
                }
            }
        }
        if let Some(details) = delta[THOUGHT_DETAILS].as_array().filter(|details| !details.is_empty()) {
            bytes += delta[THOUGHT_DETAILS].to_string().len();
            let all = self.thoughts.entry(THOUGHT_DETAILS).or_insert_with(|| json!([]));
            all.as_array_mut().expect("it was made here").extend(details.iter().cloned());
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            bytes += self.calls.add(piece);
        }
        (text, bytes)
    }

    /// The whole answer.
    fn end(mut self) -> Result<Piece, Failure> {
        if !self.began {
            return Err(self.site.cut_off(false));
        }
        self.text.push_str(&self.thinking.rest());
        let (unopened, text) = split_unopened(&self.text);
        // Some servers send the same under both names.
        let told = THOUGHTS.iter().find_map(|name| self.thoughts.get(*name)?.as_str());
        let thoughts = format!("{}{}{unopened}", told.unwrap_or_default(), self.thinking.thoughts);
        let text = text.to_owned();
        if text.trim().is_empty() && !self.refusal.is_empty() {
            self.stop = Some(StopReason::ContentFilter(self.refusal));
        }
        let tool_calls = self.calls.finish();
        let mut parts = Vec::new();
        if !self.thoughts.is_empty() {
            parts.push(ContentPart::Custom(CustomPart {
                model_iden: None,
                data: Value::Object(self.thoughts),
            }));
        }
        parts.extend((!text.is_empty()).then(|| ContentPart::Text(text.clone())));
        parts.extend(tool_calls.iter().cloned().map(ContentPart::ToolCall));
        let content = MessageContent::from_parts(parts);
        let (stop, tokens) = (self.stop, self.tokens);
        let turn = Turn { text, tool_calls, content, stop, tokens, thoughts, ..Turn::default() };
        Ok(Piece::End(Box::new(turn)))
    }
}

/// `data` without halves of characters (`\ud83d` and `\ude00`): a first half without the second is kept in `high` for
/// the next event, which begins with the other.
fn joined<'a>(data: &'a str, high: &mut Option<String>) -> Cow<'a, str> {
    const ESCAPE: usize = "\\u0000".len();
    let half = |at: usize| {
        let digits = data.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..0xE000).contains(unit))
    };
    if !data.contains("\\ud") && !data.contains("\\uD") {
        return data.into();
    }
    let mut text = String::with_capacity(data.len());
    let mut at = 0;
    while let Some(next) = data[at..].find('\\').map(|next| at + next) {
        text.push_str(&data[at..next]);
        let own = data.get(next..next + ESCAPE).unwrap_or_default();
        at = next
            + match half(next) {
                // What follows a backslash is no escape of its own.
                None => data[next..].chars().take(2).map(char::len_utf8).sum(),
                Some(_) => ESCAPE,
            };
        match half(next) {
            None => text.push_str(&data[next..at]),
            Some(0xDC00..) => {
                let first = high.take();
                text.push_str(first.as_deref().map_or("\u{fffd}", |_| ""));
                first.iter().for_each(|first| text.push_str(&format!("{first}{own}")));
            }
            Some(_) if half(at).is_some_and(|unit| unit >= 0xDC00) => {
                text.push_str(&data[next..at + ESCAPE]);
                at += ESCAPE;
            }
            Some(_) => *high = Some(own.to_owned()),
        }
    }
    text.push_str(&data[at..]);
    text.into()
}

fn tokens(usage: &Value) -> Option<TokenCounts> {
    let (input, output) = (usage["prompt_tokens"].as_u64()?, usage["completion_tokens"].as_u64()?);
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default().min(input);
    Some(TokenCounts { input, output, cached, written: 0 })
}

//! Anthropic's and Google's protocols and OpenAI's Responses, by the client library.
//!
//! The library takes the name of a model apart: what stands before `::` is a namespace to it, and a last word such as
//! `-high` is an effort. So it gets a name that it leaves alone, and the body of the request holds the real one.
//! Gemini's name is part of the address, which no body corrects: there the contract refuses such names.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, future};
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatStreamEvent, JsonSpec, StreamEnd, ToolChoice};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use serde_json::{Map, Value, json};
use tree_agent_contract::ProviderKind;
use tree_agent_contract::model::ends_in_effort;

use super::concession::Concession;
use super::effort::Effort;
use super::failure::{Failure, FailureKind, classify};
use super::prices::TokenCounts;
use super::protocol::{Format, Piece, Pieces, Protocol, Question, Turn};
use super::site::Site;

/// The client library, for one provider.
pub(super) struct Library {
    site: Arc<Site>,
    client: Client,
    adapter: AdapterKind,
}

impl Library {
    pub(super) fn new(site: Arc<Site>) -> Result<Self, Failure> {
        let client = Client::builder().with_reqwest(site.http.clone()).build().map_err(|error| {
            let message = format!("no client for {} can be made: {error}", site.address.url);
            Failure::new(FailureKind::Refused, message)
        })?;
        let adapter = match site.kind {
            ProviderKind::OpenAi => AdapterKind::OpenAIResp,
            ProviderKind::Anthropic => AdapterKind::Anthropic,
            ProviderKind::Gemini => AdapterKind::Gemini,
        };
        Ok(Self { site, client, adapter })
    }

    fn options(&self, question: &Question<'_>, conceded: &BTreeSet<Concession>) -> ChatOptions {
        let shows_thoughts = self.shows_thoughts(question, conceded);
        // Calls of tools after thoughts must be sent back together with them.
        let keeps_thoughts = shows_thoughts || question.reasons && self.adapter == AdapterKind::OpenAIResp;
        let mut options = ChatOptions::default()
            .with_max_tokens(question.output_limit)
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_reasoning_content(keeps_thoughts)
            .with_capture_tool_calls(true);
        if let Some(effort) = question.effort {
            options = options.with_reasoning_effort(effort.asked());
        }
        let mut body = Map::new();
        if self.adapter != AdapterKind::Gemini {
            body.insert("model".to_owned(), question.model.into());
        }
        if keeps_thoughts && !shows_thoughts {
            // The library asks for a summary whenever it is to keep thoughts; this takes its place.
            let effort = question.effort.map(Effort::name);
            let reasoning = effort.map_or_else(|| json!({}), |effort| json!({ "effort": effort }));
            body.insert("reasoning".to_owned(), reasoning);
        }
        if !body.is_empty() {
            options = options.with_extra_body(Value::Object(body));
        }
        if let Format::Strict(schema) | Format::Bounded(schema) = &question.format {
            options = options.with_response_format(JsonSpec::new("answer", schema.clone()));
        }
        if question.request.tools.is_some() && !question.may_call_tools {
            options = options.with_tool_choice(ToolChoice::None);
        }
        options
    }
}

#[async_trait]
impl Protocol for Library {
    async fn open<'a>(
        &'a self,
        question: &Question<'_>,
        conceded: &BTreeSet<Concession>,
    ) -> Result<Pieces<'a>, Failure> {
        let site = &*self.site;
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(site.address.url.as_str()),
            // Other servers ignore the key, but the protocol requires one.
            auth: AuthData::from_single(site.address.key.as_ref().map_or("none", |key| key.expose())),
            model: ModelIden::new(self.adapter, name_for_library(question.model)),
        };
        let (request, options) = (question.request.clone(), self.options(question, conceded));
        let opened = self.client.exec_chat_stream(target, request, Some(&options)).await;
        let events = opened.map_err(|error| classify(&error, site))?.stream;
        // A complete answer of these has a stop reason. The library also accepts a stream that just ends.
        let needs_reason = self.adapter != AdapterKind::Anthropic;
        // Each event of a tool call repeats the arguments so far.
        let repeats = self.adapter != AdapterKind::Gemini;
        let (mut text, mut began, mut last_call) = (String::new(), false, (String::new(), 0));
        let pieces = events.map(move |event| {
            let piece = match event.map_err(|error| classify(&error, site))? {
                ChatStreamEvent::Chunk(chunk) => {
                    text.push_str(&chunk.content);
                    Piece::Text(chunk.content)
                }
                ChatStreamEvent::ReasoningChunk(chunk) | ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                    Piece::Other(chunk.content.len())
                }
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    let call = &chunk.tool_call;
                    let size = call
                        .fn_arguments
                        .as_str()
                        .map_or_else(|| call.fn_arguments.to_string().len(), str::len);
                    let (last_id, last_size) =
                        std::mem::replace(&mut last_call, (call.call_id.clone(), size));
                    match repeats && last_id == call.call_id {
                        true => Piece::Other(size.saturating_sub(last_size)),
                        false => Piece::Other(call.call_id.len() + call.fn_name.len() + size),
                    }
                }
                ChatStreamEvent::End(end) if needs_reason && end.captured_stop_reason.is_none() => {
                    return Err(site.cut_off(began));
                }
                ChatStreamEvent::End(end) => Piece::End(Box::new(turn(std::mem::take(&mut text), end))),
                ChatStreamEvent::Heartbeat => return Ok(Some(Piece::Other(0))),
                ChatStreamEvent::Start => return Ok(None),
            };
            began = true;
            Ok(Some(piece))
        });
        Ok(Box::pin(pieces.try_filter_map(|piece| future::ready(Ok(piece)))))
    }

    fn shows_thoughts(&self, question: &Question<'_>, conceded: &BTreeSet<Concession>) -> bool {
        question.reasons && !conceded.contains(&Concession::Thoughts)
    }
}

fn turn(text: String, end: StreamEnd) -> Turn {
    let content = end.captured_content.unwrap_or_default();
    Turn {
        text,
        tool_calls: content.tool_calls().into_iter().cloned().collect(),
        content,
        stop: end.captured_stop_reason,
        tokens: end.captured_usage.as_ref().and_then(tokens),
        thoughts: end.captured_reasoning_content.unwrap_or_default(),
        ..Turn::default()
    }
}

fn tokens(usage: &genai::chat::Usage) -> Option<TokenCounts> {
    let count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok());
    let (input, output) = (count(usage.prompt_tokens)?, count(usage.completion_tokens)?);
    let details = usage.prompt_tokens_details.as_ref();
    let cached = details.and_then(|d| count(d.cached_tokens)).unwrap_or_default().min(input);
    let written = details.and_then(|d| count(d.cache_creation_tokens)).unwrap_or_default();
    Some(TokenCounts { input, output, cached, written: written.min(input - cached) })
}

/// The name for the library. It begins like `model`, because the library tells families of models by that.
fn name_for_library(model: &str) -> String {
    let mut name = model.to_owned();
    // Three colons leave two.
    while name.contains("::") {
        name = name.replace("::", ":");
    }
    if ends_in_effort(&name) {
        name.push_str("-as-named");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_leaves_the_name_alone() {
        for (model, told) in [
            ("gpt-5", "gpt-5"),
            ("gpt-5-high", "gpt-5-high-as-named"),
            ("qwen3-max", "qwen3-max-as-named"),
            ("x::gpt-4.1", "x:gpt-4.1"),
            (":::gpt-4.1-low", ":gpt-4.1-low-as-named"),
            ("::::::a", ":a"),
        ] {
            assert_eq!(name_for_library(model), told);
            assert!(genai::chat::ReasoningEffort::from_model_name(told).0.is_none());
        }
    }
}

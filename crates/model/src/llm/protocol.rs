//! What the protocols of providers have in common: a question, and the pieces in which its answer arrives.
//!
//! [`Chat`](super::chat::Chat) is OpenAI's chat completions, which most servers speak.
//! [`Library`](super::library::Library) speaks the other protocols.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use genai::chat::{ChatRequest, MessageContent, StopReason, ToolCall};
use serde_json::Value;

use super::concession::Concession;
use super::effort::Effort;
use super::failure::Failure;
use super::prices::TokenCounts;
use super::table::Api;

/// Bytes that an answer may have for each of its tokens. No token has as many, so only answers that ignore their
/// limit are refused.
const BYTES_PER_TOKEN: usize = 32;
/// Bytes that an answer may have in addition, for reasoning and arguments of tools.
const ANSWER_BYTES: usize = 1024 * 1024;

/// Parts of the words by which providers say that an answer failed.
const FAILED: [&str; 6] = ["error", "abort", "cancel", "fail", "insufficient", "malformed"];

/// One request.
pub(super) struct Question<'a> {
    pub(super) model: &'a str,
    pub(super) request: ChatRequest,
    pub(super) format: Format,
    /// Whether this answer may call tools.
    pub(super) may_call_tools: bool,
    /// Of the answer, with room for reasoning.
    pub(super) output_limit: u32,
    pub(super) api: Api,
    /// Whether the model reasons before it answers.
    pub(super) reasons: bool,
    /// How much; none for as the provider chooses.
    pub(super) effort: Option<Effort>,
    /// About how many tokens the prompt has, for the limit of tokens in a minute.
    pub(super) about_tokens: u64,
}

impl Question<'_> {
    /// Bytes of the longest answer that is read.
    pub(super) const fn byte_limit(&self) -> usize {
        ANSWER_BYTES + self.output_limit as usize * BYTES_PER_TOKEN
    }
}

/// What the provider must make sure of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    Free,
    /// Any JSON object.
    Object,
    /// A schema as providers of structured output take it: every property is required, and lengths have no bounds.
    Strict(Value),
    /// A schema with all its bounds, which servers make a grammar of.
    Bounded(Value),
}

/// One answer.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) text: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// The whole answer, as the next request must repeat it.
    pub(super) content: MessageContent,
    pub(super) stop: Option<StopReason>,
    /// None if the provider does not report them.
    pub(super) tokens: Option<TokenCounts>,
    pub(super) took: Duration,
    /// What the model thought, as far as the provider shows it.
    pub(super) thoughts: String,
    /// What it was sent and what came back, if the run keeps that.
    pub(super) kept: Option<String>,
}

impl Turn {
    /// True if the answer reached its limit.
    pub(super) const fn is_cut(&self) -> bool {
        matches!(self.stop, Some(StopReason::MaxTokens(_)))
    }

    /// Why the provider ended the answer before the model did; none if it did not.
    pub(super) fn broken_off(&self) -> Option<String> {
        match &self.stop {
            Some(StopReason::ContentFilter(why)) => Some(format!("a content filter ended the answer: {why}")),
            // Servers invent words for a normal end, so those of a failure are told apart, or an empty answer.
            Some(StopReason::Other(why))
                if FAILED.iter().any(|word| why.to_lowercase().contains(word))
                    || self.text.trim().is_empty() && self.tool_calls.is_empty() =>
            {
                Some(format!("the provider ended the answer: {why}"))
            }
            _ => None,
        }
    }
}

/// A piece of an answer.
pub(super) enum Piece {
    Text(String),
    /// That many bytes of something else, such as thoughts or arguments of a tool.
    Other(usize),
    /// The answer is complete.
    End(Box<Turn>),
}

/// The pieces of an answer. One that ends without [`Piece::End`] broke off.
pub(super) type Pieces<'a> = BoxStream<'a, Result<Piece, Failure>>;

/// A protocol by which models are asked.
#[async_trait]
pub(super) trait Protocol: Send + Sync {
    /// Sends `question` without what was conceded, and reads the beginning of the answer.
    async fn open<'a>(
        &'a self,
        question: &Question<'_>,
        conceded: &BTreeSet<Concession>,
    ) -> Result<Pieces<'a>, Failure>;

    /// True if the provider shows what the model thinks, so that a long silence is none of thinking.
    fn shows_thoughts(&self, question: &Question<'_>, conceded: &BTreeSet<Concession>) -> bool;
}

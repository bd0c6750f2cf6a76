//! The messages of one call after the prompt, in a form that can still be shortened.

use genai::chat::{ChatMessage, ContentPart, MessageContent, ToolResponse};
use serde_json::Map;
use tree_agent_contract::text::prefix;

use super::prompt::Prompt;
use super::toolbox::Outcome;

/// Bytes of an unusable answer that the model is shown again.
const QUOTED_ANSWER: usize = 6_000;
/// Bytes that are kept of old tool output.
const SHORT: usize = 300;

/// The turns after the prompt.
#[derive(Default)]
pub(super) struct History(Vec<Entry>);

enum Entry {
    /// Tool calls and their results.
    Tools(MessageContent, Vec<Outcome>),
    /// The same, told as text.
    Told(Vec<Outcome>),
    /// An unusable answer, and our reply.
    Answer(String, String),
}

impl History {
    /// Adds tool calls and their results. Strict servers take only objects as arguments, so whatever else the model
    /// wrote goes back as an empty one, and the result says what was wrong.
    pub(super) fn called(&mut self, content: MessageContent, outcomes: Vec<Outcome>) {
        let with_object = |part: ContentPart| match part {
            ContentPart::ToolCall(mut call) => {
                let outcome = outcomes.iter().find(|outcome| outcome.call_id == call.call_id);
                call.fn_arguments = outcome.map_or_else(Map::new, |outcome| outcome.args.clone()).into();
                ContentPart::ToolCall(call)
            }
            other => other,
        };
        let content = MessageContent::from_parts(content.into_iter().map(with_object).collect::<Vec<_>>());
        self.0.push(Entry::Tools(content, outcomes));
    }

    /// Tells the tool calls as text, for a model that turned out to take none.
    pub(super) fn retell(&mut self) {
        for entry in &mut self.0 {
            if let Entry::Tools(_, outcomes) = entry {
                *entry = Entry::Told(std::mem::take(outcomes));
            }
        }
    }

    /// Keeps only what every provider understands, because another one is asked from now on.
    pub(super) fn change_provider(&mut self) {
        for entry in &mut self.0 {
            let Entry::Tools(content, _) = entry else { continue };
            let kept = std::mem::take(content).into_iter().filter_map(|part| match part {
                ContentPart::ToolCall(mut call) => {
                    call.thought_signatures = None;
                    Some(ContentPart::ToolCall(call))
                }
                ContentPart::Text(_) => Some(part),
                _ => None,
            });
            *content = MessageContent::from_parts(kept.collect::<Vec<_>>());
        }
    }

    /// Adds an unusable answer and our `reply`. Of several in a row only the last is kept, because its reply lists
    /// all errors.
    pub(super) fn answered(&mut self, text: &str, reply: String) {
        if matches!(self.0.last(), Some(Entry::Answer(..))) {
            self.0.pop();
        }
        let text = text.trim();
        let shown = match prefix(text, QUOTED_ANSWER) {
            // Some providers refuse empty messages.
            "" => "(nothing)".to_owned(),
            beginning if beginning.len() < text.len() => format!("{beginning} […]"),
            whole => whole.to_owned(),
        };
        self.0.push(Entry::Answer(shown, reply));
    }

    pub(super) fn has_tool_calls(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry, Entry::Tools(..)))
    }

    /// All texts, for counting.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|entry| match entry {
            Entry::Tools(_, outcomes) | Entry::Told(outcomes) => {
                outcomes.iter().map(|o| o.text.as_str()).collect::<Vec<_>>()
            }
            Entry::Answer(text, reply) => vec![text.as_str(), reply.as_str()],
        })
    }

    /// About how many tokens a request with `prompt` has: four bytes are about one.
    pub(super) fn about_tokens(&self, prompt: &Prompt) -> usize {
        (prompt.system.len() + prompt.user.len() + self.texts().map(str::len).sum::<usize>()) / 4
    }

    /// Cuts tool output, the oldest first, until the history has at most about `budget` tokens.
    pub(super) fn shorten(&mut self, budget: usize) {
        // About four bytes are a token. The prompt itself is counted exactly and leaves room.
        let budget = budget.saturating_mul(4);
        let mut bytes: usize = self.texts().map(str::len).sum();
        for entry in &mut self.0 {
            let (Entry::Tools(_, outcomes) | Entry::Told(outcomes)) = entry else { continue };
            for outcome in outcomes {
                if bytes <= budget {
                    return;
                }
                let before = outcome.text.len();
                outcome.shorten(SHORT);
                bytes -= before - outcome.text.len().min(before);
            }
        }
    }

    /// The messages of a request.
    pub(super) fn messages(&self) -> Vec<ChatMessage> {
        let mut messages = Vec::new();
        for entry in &self.0 {
            match entry {
                Entry::Tools(content, outcomes) => {
                    messages.push(ChatMessage::assistant(content.clone()));
                    let responses: Vec<ToolResponse> = outcomes.iter().map(Outcome::response).collect();
                    messages.push(ChatMessage::tool(MessageContent::from_tool_responses(responses)));
                }
                Entry::Told(outcomes) => {
                    let called: Vec<String> = outcomes.iter().map(Outcome::told).collect();
                    let results: Vec<String> = outcomes.iter().map(Outcome::marked).collect();
                    messages.push(ChatMessage::assistant(called.join("\n")));
                    messages.push(ChatMessage::user(results.join("\n\n")));
                }
                Entry::Answer(text, reply) => {
                    messages.push(ChatMessage::assistant(text.clone()));
                    messages.push(ChatMessage::user(reply.clone()));
                }
            }
        }
        messages
    }
}

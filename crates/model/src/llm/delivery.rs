//! Documents travel as text. The JSON object of an answer names them, and each is then asked for as plain Markdown. A
//! text that reaches the limit of an answer is continued in the next one, so that no limit cuts it.

use std::collections::BTreeMap;

use genai::chat::{ChatMessage, StopReason};
use serde_json::{Map, Value};
use tree_agent_contract::limits;
use tree_agent_contract::role::RoleError;
use tree_agent_contract::text::prefix;

use super::ask::{Call, Target, cached, cached_tools};
use super::failure::{Failure, FailureKind};
use super::material::line;
use super::prompt::{DocumentPrompt, Prompt};
use super::provider::{Question, Turn};
use super::stream::ScratchpadWriter;
use super::table::Reasoning;
use super::{json, tokens};

/// Requests for texts in one call. What is missing then is made of the summary.
pub(super) const TEXTS: u32 = 8;
/// Answers that one document may take.
const PIECES: u32 = 4;
/// Ends a document that needed more.
const CUT: &str = "\n\n*The text ends here, because it reached the limit of its length.*\n";

/// A document that an answer names without its text.
pub(super) struct Wanted {
    label: String,
    title: String,
}

/// The texts that a call has received so far.
#[derive(Default)]
pub(super) struct Delivery {
    texts: BTreeMap<String, String>,
    asked: u32,
}

impl Delivery {
    /// The JSON object in `answer` with the texts that are here, and the documents whose text is not. None if there is
    /// no object, which whoever reads the answer says better.
    pub(super) fn complete(&self, answer: &str) -> Option<(String, Vec<Wanted>)> {
        let mut object = json::object(answer).ok()?;
        let mut missing = Vec::new();
        for artifact in object.get_mut("artifacts").and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(artifact) = artifact else { continue };
            if text(artifact, "type") != "document" || !text(artifact, "documentMarkdown").trim().is_empty() {
                continue;
            }
            let label = text(artifact, "label").trim().to_owned();
            match self.texts.get(&label) {
                Some(known) => {
                    artifact.insert("documentMarkdown".to_owned(), known.as_str().into());
                }
                None => missing.push(Wanted { title: line(text(artifact, "title")), label }),
            }
        }
        Some((Value::Object(object).to_string(), missing))
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What a text is asked for with.
pub(super) struct Conversation<'a> {
    pub(super) prompt: &'a Prompt,
    /// The messages up to the answer.
    pub(super) messages: Vec<ChatMessage>,
    /// Providers require the definitions of tools that an earlier message calls.
    pub(super) with_tools: bool,
    /// The answer that names the documents.
    pub(super) answer: &'a str,
}

impl Call<'_> {
    /// Asks for the texts of `wanted`. A failure says that another model may be tried; what has arrived is kept.
    pub(super) async fn deliver(
        &self,
        target: &Target,
        wanted: Vec<Wanted>,
        conversation: &Conversation<'_>,
        delivery: &mut Delivery,
    ) -> Result<Result<(), Failure>, RoleError> {
        for Wanted { label, title } in wanted {
            let mut writer = ScratchpadWriter::of_text(self.io);
            let (mut body, mut pieces) = (String::new(), 0);
            let is_whole = loop {
                if pieces == PIECES || delivery.asked == TEXTS || !self.io.may_ask() {
                    break false;
                }
                (pieces, delivery.asked) = (pieces + 1, delivery.asked + 1);
                let demand = DocumentPrompt { label: &line(&label), title: &title, cut: false }.render()?;
                let mut messages = conversation.messages.clone();
                messages.push(ChatMessage::assistant(conversation.answer.to_owned()));
                messages.push(ChatMessage::user(demand));
                if !body.is_empty() {
                    messages.push(ChatMessage::assistant(body.clone()));
                    let go_on = DocumentPrompt { label: "", title: "", cut: true }.render()?;
                    messages.push(ChatMessage::user(go_on));
                }
                let asked = size_of(&conversation.prompt.system, &messages);
                let turn = match self.text(target, conversation, messages, &mut writer).await {
                    Ok(turn) => turn,
                    // A conversation that is too long for the model ends the text.
                    Err(failure) if failure.kind == FailureKind::TooLong => break false,
                    Err(failure) => return Ok(Err(failure)),
                };
                self.record(target, &turn, " (document)", Vec::new(), || asked).await;
                body.push_str(&turn.text);
                if !matches!(turn.stop, Some(StopReason::MaxTokens(_)))
                    || body.len() >= limits::DOCUMENT_BYTES
                {
                    break body.len() <= limits::DOCUMENT_BYTES;
                }
            };
            let mut body = format!("{}\n", unfenced(&body));
            if body.trim().is_empty() {
                continue;
            }
            if !is_whole {
                body.truncate(prefix(&body, limits::DOCUMENT_BYTES - CUT.len()).len());
                body.push_str(CUT);
            }
            delivery.texts.insert(label, body);
        }
        Ok(Ok(()))
    }

    /// Asks for a text that is not the answer itself.
    pub(super) async fn text(
        &self,
        target: &Target,
        conversation: &Conversation<'_>,
        messages: Vec<ChatMessage>,
        writer: &mut ScratchpadWriter<'_>,
    ) -> Result<Turn, Failure> {
        let about_tokens = size_of(&conversation.prompt.system, &messages) as u64;
        let facts = &target.facts;
        let mut request = cached(messages, &conversation.prompt.system, facts.cache_marks, true);
        if conversation.with_tools {
            request = request.with_tools(cached_tools(&self.tools, facts.cache_marks));
        }
        let question = Question {
            model: &target.name.model,
            request,
            schema: None,
            may_call_tools: false,
            output_limit: target.output_limit,
            api: facts.api,
            reasons: facts.reasons(self.effort),
            effort: self.effort.filter(|_| facts.reasoning != Reasoning::Never),
            about_tokens,
        };
        target.provider.ask(question, writer).await
    }
}

/// Tokens of a request, as they are counted here.
pub(super) fn size_of(system: &str, messages: &[ChatMessage]) -> usize {
    let size = |m: &ChatMessage| m.content.joined_texts().map_or(0, |text| tokens::count(&text));
    tokens::count(system) + messages.iter().map(size).sum::<usize>()
}

/// `text` without a code fence around the whole of it. Without a language, a fence inside may be its end.
fn unfenced(text: &str) -> &str {
    let text = text.trim().trim_start_matches('\u{feff}');
    let Some((language, rest)) = text.strip_prefix("```").and_then(|rest| rest.split_once('\n')) else {
        return text;
    };
    let Some(inside) = rest.strip_suffix("```") else { return text };
    let fences = inside.matches("```").count();
    match language.trim() {
        "markdown" | "md" if fences.is_multiple_of(2) => inside.trim(),
        "" if fences == 0 => inside.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_completed_with_the_texts_that_are_there() {
        let answer = "Here:\n{\"artifacts\": [{\"type\": \"document\", \"label\": \"a\", \"title\": \"A\"}, \
                      {\"type\": \"document\", \"label\": \"b\", \"documentMarkdown\": \"own\"}, {\"type\": \"json\"}, 7]}";
        let mut delivery = Delivery::default();
        let (_, missing) = delivery.complete(answer).unwrap();
        assert_eq!(
            missing.iter().map(|w| (w.label.as_str(), w.title.as_str())).collect::<Vec<_>>(),
            [("a", "A")]
        );
        delivery.texts.insert("a".into(), "# A \"quoted\"\n".into());
        let (whole, missing) = delivery.complete(answer).unwrap();
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole["artifacts"][0]["documentMarkdown"], "# A \"quoted\"\n");
        assert_eq!(whole["artifacts"][1]["documentMarkdown"], "own");
        assert!(missing.is_empty() && delivery.complete("no object").is_none());
    }

    #[test]
    fn only_a_fence_round_the_whole_text_is_taken_off() {
        assert_eq!(unfenced("```markdown\n# A\n\n```\ncode\n```\n```\n"), "# A\n\n```\ncode\n```");
        for kept in
            ["# A\n\n```\ncode\n```", "```\ncode\n```\n\ntext\n\n```\ncode\n```", "```rust\ncode\n```", ""]
        {
            assert_eq!(unfenced(kept), kept);
        }
    }
}

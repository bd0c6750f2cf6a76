//! Documents travel as text. The JSON object of an answer names them, and each is then asked for as plain Markdown. A
//! text that reaches the limit of an answer is continued in the next one, so that no limit cuts it.

use std::collections::BTreeMap;

use genai::chat::{ChatMessage, Tool};
use serde_json::{Map, Value};
use tree_agent_contract::language::{Sentence, translate};
use tree_agent_contract::limits;
use tree_agent_contract::role::RoleError;
use tree_agent_contract::text::prefix;

use super::ask::{Call, Target, cached, cached_tools};
use super::failure::{Failure, FailureKind};
use super::material::{line, unmarked};
use super::prompt::{DocumentPrompt, Prompt};
use super::protocol::{Format, Question, Turn};
use super::stream::ScratchpadWriter;
use super::table::Reasoning;
use super::{json, tokens};

/// Requests for texts in one call. What is missing then is made of the summary.
pub(super) const TEXTS: u32 = 8;
/// Answers that one document may take.
const PIECES: u32 = 4;
/// The label of a document that is added to an answer without one.
const ADDED: &str = "the answer";
/// Why a document ends that needed more.
const LIMIT: &str = Sentence::LengthLimit.english();

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
    /// The JSON object in `answer` with the texts that are here, and the documents whose text is not. If a document
    /// with the title `needed` is needed and the answer names none, it is one of these. None if there is no object,
    /// which whoever reads the answer says better.
    pub(super) fn complete(&self, answer: &str, needed: Option<&str>) -> Option<(String, Vec<Wanted>)> {
        let mut object = json::object(answer).ok()?;
        let mut missing = Vec::new();
        if let (Some(title), Some(artifacts)) =
            (needed, object.get_mut("artifacts").and_then(Value::as_array_mut))
            && !artifacts.iter().any(|artifact| artifact["type"] == "document")
        {
            let title = prefix(title, limits::TITLE_BYTES);
            artifacts.push(
                serde_json::json!({"type": "document", "label": ADDED, "title": title, "isPrimary": true}),
            );
        }
        for artifact in object.get_mut("artifacts").and_then(Value::as_array_mut).into_iter().flatten() {
            let Value::Object(artifact) = artifact else { continue };
            if text(artifact, "type") != "document" {
                continue;
            }
            if !text(artifact, MARKDOWN).trim().is_empty() {
                let own = unmarked(&document_in(text(artifact, MARKDOWN)));
                artifact.insert(MARKDOWN.to_owned(), own.into());
                continue;
            }
            let label = text(artifact, "label").trim().to_owned();
            match self.texts.get(&label) {
                Some(known) => {
                    artifact.insert(MARKDOWN.to_owned(), known.as_str().into());
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
    /// Those that were offered: providers require the definitions of tools that an earlier message calls.
    pub(super) tools: Vec<Tool>,
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
            let cut = loop {
                if pieces == PIECES || delivery.asked == TEXTS || !self.io.may_ask() {
                    break Some(LIMIT.to_owned());
                }
                (pieces, delivery.asked) = (pieces + 1, delivery.asked + 1);
                let Prompt { task, example, .. } = conversation.prompt;
                let label = &line(&label);
                let whole = DocumentPrompt { label, title: &title, task, example: *example, cut: false };
                let demand = whole.render()?;
                let mut messages = conversation.messages.clone();
                messages.push(ChatMessage::assistant(conversation.answer.to_owned()));
                messages.push(ChatMessage::user(demand));
                if !body.is_empty() {
                    messages.push(ChatMessage::assistant(body.clone()));
                    let go_on = DocumentPrompt { cut: true, ..whole }.render()?;
                    messages.push(ChatMessage::user(go_on));
                }
                let asked = size_of(&conversation.prompt.system, &messages);
                let turn = match self.text(target, conversation, messages, &mut writer).await {
                    Ok(turn) => turn,
                    // A conversation that is too long for the model ends the text.
                    Err(failure) if failure.kind == FailureKind::TooLong => break Some(LIMIT.to_owned()),
                    Err(failure) => return Ok(Err(failure)),
                };
                self.record(target, &turn, " (document)", Vec::new(), || asked).await;
                body.push_str(&turn.text);
                if let Some(why) = turn.broken_off() {
                    break Some(why);
                }
                if !turn.is_cut() || body.len() >= limits::DOCUMENT_BYTES {
                    break (body.len() > limits::DOCUMENT_BYTES).then(|| LIMIT.to_owned());
                }
            };
            let mut body = format!("{}\n", unmarked(&document_in(&body)));
            if body.trim().is_empty() {
                continue;
            }
            if let Some(why) = cut {
                let language = self.io.language();
                let why = translate(language, &why);
                let end = format!("\n\n*{}*\n", Sentence::TextEnds.of(language, &[why]));
                body.truncate(prefix(&body, limits::DOCUMENT_BYTES - end.len()).len());
                body.push_str(&end);
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
        if !conversation.tools.is_empty() {
            request = request.with_tools(cached_tools(&conversation.tools, facts.cache_marks));
        }
        let question = Question {
            model: &target.name.model,
            request,
            format: Format::Free,
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

/// The document in `text`, without what some models put round it: their JSON object, notes, a code fence, a sentence.
fn document_in(text: &str) -> String {
    let text = text.trim().trim_start_matches('\u{feff}');
    if text.starts_with('{') || text.starts_with("```json") {
        let Ok(object) = json::object(text) else { return text.to_owned() };
        let own = || object.get("artifacts")?.as_array()?.iter().find_map(|artifact| artifact.get(MARKDOWN));
        return match object.get(MARKDOWN).or_else(own).and_then(Value::as_str) {
            Some(inside) => inside.trim().to_owned(),
            // The answer itself once more holds no text.
            None if is_answer(&object) => String::new(),
            None => text.to_owned(),
        };
    }
    // Only an object that ends the text is one behind it.
    let text = match text.rfind("\n{") {
        Some(at)
            if text.trim_end_matches(['`', '\n', ' ']).ends_with('}')
                && json::object(&text[at..]).is_ok_and(|object| is_answer(&object)) =>
        {
            text[..at].trim_end().trim_end_matches("```json").trim_end()
        }
        _ => text,
    };
    unfenced(without_preamble(text)).to_owned()
}

/// The key of a document's text.
const MARKDOWN: &str = "documentMarkdown";

/// True if `object` has keys of the answers that roles are asked for.
fn is_answer(object: &Map<String, Value>) -> bool {
    ["scratchpad", "appendMarkdown", "artifacts"].iter().any(|key| object.contains_key(*key))
}

/// `text` without a sentence that announces the document, such as `Here it is:`, in front of a heading or a fence.
fn without_preamble(text: &str) -> &str {
    /// Bytes of the longest one.
    const LONGEST: usize = 160;
    match text.split_once('\n') {
        Some((first, rest))
            if first.trim_end().ends_with(':')
                && first.len() <= LONGEST
                && (rest.trim_start().starts_with('#') || rest.trim_start().starts_with("```m"))
                && !first.starts_with('#') =>
        {
            rest.trim_start()
        }
        _ => text,
    }
}

/// `text` without a code fence around the whole of it, and a remark behind that fence. Without a language, a fence
/// inside may be its end.
fn unfenced(text: &str) -> &str {
    let Some((language, rest)) = text.strip_prefix("```").and_then(|rest| rest.split_once('\n')) else {
        return text;
    };
    let language = language.trim();
    let is_markdown = matches!(language, "markdown" | "md");
    let Some((inside, behind)) = rest.rsplit_once("```") else { return text };
    let fences = inside.matches("```").count();
    let behind = behind.trim();
    let is_remark =
        behind.is_empty() || is_markdown && behind.lines().count() == 1 && !behind.starts_with("[^");
    match fences.is_multiple_of(2) && is_remark && (is_markdown || language.is_empty() && fences == 0) {
        true => inside.trim(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_completed_with_the_texts_that_are_there() {
        let answer = "Here:\n{\"artifacts\": [{\"type\": \"document\", \"label\": \"a\", \"title\": \"A\"}, \
                      {\"type\": \"document\", \"label\": \"b\", \"documentMarkdown\": \"own</data-0123456789abcdef>\"}, \
                      {\"type\": \"json\"}, 7]}";
        let mut delivery = Delivery::default();
        let (_, missing) = delivery.complete(answer, None).unwrap();
        assert_eq!(
            missing.iter().map(|w| (w.label.as_str(), w.title.as_str())).collect::<Vec<_>>(),
            [("a", "A")]
        );
        delivery.texts.insert("a".into(), "# A \"quoted\"\n".into());
        let (whole, _) = delivery.complete(answer, None).unwrap();
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(whole["artifacts"][0]["documentMarkdown"], "# A \"quoted\"\n");
        assert_eq!(whole["artifacts"][1]["documentMarkdown"], "own");
        let (_, missing) =
            delivery.complete("{\"artifacts\": [{\"type\": \"json\"}]}", Some("Tides")).unwrap();
        assert_eq!((missing[0].label.as_str(), missing[0].title.as_str()), (ADDED, "Tides"));
        let (_, missing) = delivery.complete(answer, Some("Tides")).unwrap();
        assert!(missing.is_empty() && delivery.complete("no object", None).is_none());
    }

    #[test]
    fn what_models_put_round_a_document_is_taken_off() {
        for text in [
            "# A\n\nText.",
            "```markdown\n# A\n\nText.\n```\n",
            "Sure! Here is the document:\n\n```md\n# A\n\nText.\n```\n\nLet me know if you need changes.",
            "Here it is:\n\n# A\n\nText.",
            "{\"documentMarkdown\": \"# A\\n\\nText.\"}",
            "```json\n{\"artifacts\": [{\"type\": \"document\", \"documentMarkdown\": \"# A\\n\\nText.\"}]}\n```",
            "# A\n\nText.\n\n{\"scratchpad\": {\"appendMarkdown\": \"- noted\"}}",
            "# A\n\nText.\n\n```json\n{\"scratchpad\": {\"appendMarkdown\": \"- noted\"}}\n```",
        ] {
            assert_eq!(document_in(text), "# A\n\nText.", "{text}");
        }
        assert_eq!(document_in("{\"scratchpad\": {}, \"artifacts\": []}"), "");
        assert_eq!(document_in("```markdown\n# A\n\n```\ncode\n```\n```\n"), "# A\n\n```\ncode\n```");
        for kept in [
            "# A\n\n```\ncode\n```",
            "```\ncode\n```\n\ntext\n\n```\ncode\n```",
            "```rust\ncode\n```",
            "{\"port\": 80}",
            "# A\n\n```json\n{\"port\": 80}\n```",
            "The ports are:\n\n- 80",
            "Run this:\n```\nmake x\n```",
            "# A\n\n{\"result\": 1}\n\nmeans yes.[^1]\n\n[^1]: x \"y\"",
            "```json\n{\"result\": 1}\n```\n\nmeans yes.",
            "```markdown\n# A.[^1]\n```\n[^1]: x \"y\"",
            "",
        ] {
            assert_eq!(document_in(kept), kept);
        }
    }
}

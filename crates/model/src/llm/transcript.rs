//! What a model was sent and what came back, as Markdown that people read.

use std::fmt::Write;

use genai::chat::{ChatRequest, ContentPart, MessageContent};
use tree_agent_contract::limits::KEPT_PROMPT_BYTES;
use tree_agent_contract::text::{prefix, suffix};

use super::protocol::Turn;

/// The messages of `request`, what the model thought and what it answered. If that is too long to be kept, its middle
/// is left out: instructions are at the beginning, and the answer is at the end.
pub(super) fn of(request: &ChatRequest, turn: &Turn) -> String {
    let mut out = String::new();
    section(&mut out, "Sent: System", request.system.as_deref().unwrap_or_default());
    for message in &request.messages {
        section(&mut out, &format!("Sent: {}", message.role), &text_of(&message.content));
    }
    let tools: Vec<_> = request.tools.iter().flatten().map(|tool| tool.name.to_string()).collect();
    section(&mut out, "Sent: Tools that may be called", &tools.join(", "));
    section(&mut out, "Thoughts", &turn.thoughts);
    section(&mut out, "Answer", &text_of(&turn.content));
    if out.len() <= KEPT_PROMPT_BYTES {
        return out;
    }
    /// Bytes for the mark.
    const MARK: usize = 64;
    let half = (KEPT_PROMPT_BYTES - MARK) / 2;
    let (begin, end) = (prefix(&out, half), suffix(&out, half));
    format!("{begin}\n\n[{} bytes are left out]\n\n{end}", out.len() - begin.len() - end.len())
}

fn section(out: &mut String, title: &str, text: &str) {
    if !text.trim().is_empty() {
        let _ = write!(out, "# {title}\n\n{}\n\n", text.trim());
    }
}

fn text_of(content: &MessageContent) -> String {
    let texts = content.parts().iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text.clone()),
        ContentPart::ToolCall(call) => Some(format!("Calls {} with {}", call.fn_name, call.fn_arguments)),
        ContentPart::ToolResponse(result) => Some(result.content.clone()),
        // Thoughts that are sent back were kept with the answer that they led to.
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use genai::chat::ChatMessage;

    use super::*;

    #[test]
    fn the_middle_of_a_long_prompt_is_left_out() {
        let request = ChatRequest::from_messages(vec![ChatMessage::user("é".repeat(KEPT_PROMPT_BYTES))])
            .with_system("You plan.");
        let turn = Turn { content: "done".into(), thoughts: "so".into(), ..Turn::default() };
        let kept = of(&request, &turn);
        assert!(kept.len() <= KEPT_PROMPT_BYTES, "{}", kept.len());
        assert!(kept.starts_with("# Sent: System\n\nYou plan.\n\n# Sent: User\n\né"), "{}", &kept[..80]);
        assert!(kept.contains(" bytes are left out]"));
        assert!(kept.ends_with("é\n\n# Thoughts\n\nso\n\n# Answer\n\ndone\n\n"));
    }
}

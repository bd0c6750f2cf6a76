//! A research: two questions in one conversation, first for the document, then for the topics below it.

use tree_agent_contract::role::{ResearchForm, ResearchInput, ResearchOutput, RoleError, ScratchpadDraft};
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_contract::text::count;

use super::ask::{Answered, Call};
use super::context;
use super::fork::Fork;
use super::reply::{ChildrenReply, DocumentReply};
use super::survey;

/// Topics that a list of a small model may have; the token limit of its answer would cut a longer one.
pub(super) const LISTED: u32 = 100;

/// Makes the calls of a research.
pub(super) async fn research(input: &ResearchInput, mut call: Call<'_>) -> Result<ResearchOutput, RoleError> {
    if let Some(session) = &input.session {
        call.fork = Fork::new(session.messages.clone(), session.shortened);
    }
    let mut messages = Vec::new();
    let mut document = None;
    if input.form == ResearchForm::Topic {
        let passages = survey::passages(&input.call, call.io).await;
        let asked = call
            .ask::<DocumentReply>(input, |with, trimmer| context::document(input, &passages, with, trimmer));
        let answered = asked.await?;
        messages.extend(said(&answered, &answered.output.markdown));
        document = Some(answered.output);
        call.fork = call.fork.after(&messages);
        call.purpose = "research: topics";
    }
    let asked = call.ask::<ChildrenReply>(input, |with, trimmer| context::children(input, with, trimmer));
    let answered = asked.await?;
    if input.form == ResearchForm::Topic {
        messages.extend(said(&answered, &answered.text));
    }
    let listed = answered.output;
    let children = listed.tidied.children;
    let mut outcome = match children.len() {
        0 => "**Topics below:** none\n".to_owned(),
        n => format!("**{} below**\n", count(n, "topic")),
    };
    children.iter().for_each(|child| outcome.push_str(&format!("- {}\n", child.title)));
    if listed.tidied.dropped > 0 {
        outcome.push_str(&format!(
            "{} left out: repeats, or more than fit\n",
            count(listed.tidied.dropped as usize, "topic")
        ));
    }
    let (document_markdown, summary) = match document {
        Some(document) => (Some(document.markdown), document.summary),
        None => (None, listed.summary),
    };
    let summary = if summary.trim().is_empty() { count(children.len(), "topic") } else { summary };
    Ok(ResearchOutput {
        document_markdown,
        summary,
        children,
        dropped: listed.tidied.dropped,
        messages,
        scratchpad: ScratchpadDraft::of(outcome),
    })
}

/// A question and its answer, as those who continue the conversation see them.
fn said<O>(answered: &Answered<O>, answer: &str) -> [SessionMessage; 2] {
    [(Speaker::User, answered.prompt.as_str()), (Speaker::Assistant, answer)].map(|(speaker, text)| {
        // Providers refuse empty messages.
        let text = text.trim_end();
        SessionMessage::new(speaker, if text.is_empty() { "(nothing)" } else { text })
    })
}

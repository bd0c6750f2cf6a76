//! The conversation that a call continues, as it stands before the prompt.
//!
//! Its messages are the same for every call that continues the same conversation, so providers can cache them. The last
//! of them carries a mark for providers that want one.

use genai::chat::{CacheControl, ChatMessage};
use tree_agent_contract::session::{self, SessionMessage, Speaker};

use super::tokens;

/// Bytes of a message that does not fit whole.
const SHORT: usize = 600;

/// A conversation; none for most calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Fork {
    /// The oldest first.
    messages: Vec<SessionMessage>,
    /// Messages that were shortened or left out before.
    shortened: u32,
}

/// As much of it as a prompt has room for.
pub(super) struct Forked {
    pub(super) messages: Vec<ChatMessage>,
    /// Messages that were shortened or left out, before or now.
    pub(super) shortened: u32,
    /// Of all messages together.
    pub(super) tokens: usize,
}

impl Fork {
    pub(super) fn new(messages: Vec<SessionMessage>, shortened: u32) -> Self {
        Self { messages, shortened }
    }

    /// The same conversation after another question and its answer.
    pub(super) fn after(&self, said: &[SessionMessage]) -> Self {
        let messages = self.messages.iter().chain(said).cloned().collect();
        Self { messages, shortened: self.shortened }
    }

    /// Half of `budget` tokens is for the conversation. The newest messages stay whole; older ones are shortened to
    /// their beginning, and left out when not even that fits. Questions and answers are kept or left out together. If
    /// the provider wants `marks`, the last message carries one.
    pub(super) fn fit(&self, budget: usize, marks: bool) -> Forked {
        let mut room = budget / 2;
        let (mut kept, mut shortened, mut used) = (Vec::new(), self.shortened, 0);
        let mut is_full = false;
        for pair in self.messages.rchunks(2) {
            let whole: usize = pair.iter().map(|message| tokens::count(&message.text)).sum();
            is_full |= whole > room;
            let texts: Vec<String> = pair
                .iter()
                .map(|m| session::shortened(&m.text, if is_full { SHORT } else { usize::MAX }).into())
                .collect();
            let size: usize =
                if is_full { texts.iter().map(|text| tokens::count(text)).sum() } else { whole };
            let cut = pair.iter().zip(&texts).filter(|(message, text)| message.text != **text).count();
            if size > room {
                // Whatever is older is left out too, so that the conversation has no hole.
                room = 0;
                shortened = shortened.saturating_add(pair.len() as u32);
                continue;
            }
            (room, used) = (room - size, used + size);
            shortened = shortened.saturating_add(cut as u32);
            kept.extend(pair.iter().zip(texts).rev().map(|(message, text)| (message.speaker, text)));
        }
        kept.reverse();
        let last = kept.len().saturating_sub(1);
        let messages = kept.into_iter().enumerate().map(|(i, (speaker, text))| {
            let message = match speaker {
                Speaker::User => ChatMessage::user(text),
                Speaker::Assistant => ChatMessage::assistant(text),
            };
            if marks && i == last { message.with_options(CacheControl::Ephemeral) } else { message }
        });
        Forked { messages: messages.collect(), shortened, tokens: used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(texts: &[&str]) -> Fork {
        let speakers = [Speaker::User, Speaker::Assistant].into_iter().cycle();
        let messages = texts.iter().zip(speakers);
        Fork::new(
            messages.map(|(text, speaker)| SessionMessage { speaker, text: (*text).to_owned() }).collect(),
            1,
        )
    }

    fn texts(forked: &Forked) -> Vec<String> {
        forked.messages.iter().map(|m| m.content.joined_texts().unwrap_or_default()).collect()
    }

    #[test]
    fn a_conversation_that_fits_is_carried_whole_and_marked_at_its_end() {
        let forked = fork(&["a", "b", "c", "d"]).fit(1_000, true);
        assert_eq!(texts(&forked), ["a", "b", "c", "d"]);
        assert_eq!(forked.shortened, 1, "what was shortened before still counts");
        let marked: Vec<bool> = forked.messages.iter().map(|m| m.options.is_some()).collect();
        assert_eq!(marked, [false, false, false, true]);
        assert!(fork(&["a", "b"]).fit(1_000, false).messages.iter().all(|m| m.options.is_none()));
        assert!(Fork::default().fit(0, true).messages.is_empty());
    }

    #[test]
    fn older_messages_are_shortened_and_then_left_out() {
        let long = "word ".repeat(1_000);
        let conversation = fork(&["first", &long, "second", &long, "third", "fourth"]);
        let forked = conversation.fit(700, true);
        let sizes: Vec<usize> = texts(&forked).iter().map(String::len).collect();
        let cut = SHORT;
        assert_eq!(sizes, [5, cut, 6, cut, 5, 6]);
        assert_eq!(forked.shortened, 3);
        assert!(forked.tokens <= 350, "{}", forked.tokens);
        let forked = conversation.fit(300, true);
        assert_eq!(texts(&forked).len(), 4, "the oldest two are left out");
        assert_eq!(forked.shortened, 4);
        assert!(conversation.fit(2, true).messages.is_empty());
    }

    #[test]
    fn siblings_carry_the_same_beginning() {
        let long = "word ".repeat(1_000);
        let conversation = fork(&["first", &long, "second", &long]);
        assert_eq!(texts(&conversation.fit(3_000, true)), texts(&conversation.clone().fit(3_000, true)));
    }
}

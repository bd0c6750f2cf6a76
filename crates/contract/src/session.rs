//! Conversations: each holds its own messages and continues another. Nothing is copied.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Checks;
use crate::ids::NodeId;
use crate::limits;
use crate::status::named_enum;
use crate::text::prefix;
use crate::time::Timestamp;

/// Names a conversation within its run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// The conversation about a node.
    pub fn of(node: NodeId) -> Self {
        Self(format!("sess_{}", node.0.simple()))
    }

    /// The conversation about a node that has done its work `before` times already.
    pub fn of_round(node: NodeId, before: u32) -> Self {
        match before {
            0 => Self::of(node),
            before => Self(format!("sess_{}_{before}", node.0.simple())),
        }
    }

    /// Wraps a stored id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

named_enum! {
    /// Who says a message.
    Speaker {
        /// The program, for its user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMessage {
    /// Who says it.
    pub speaker: Speaker,
    /// What is said.
    pub text: String,
}

impl SessionMessage {
    /// A message of at most [`SESSION_MESSAGE_BYTES`](limits::SESSION_MESSAGE_BYTES): a longer text is shortened.
    pub fn new(speaker: Speaker, text: &str) -> Self {
        Self { speaker, text: shortened(text, limits::SESSION_MESSAGE_BYTES).into_owned() }
    }
}

/// A conversation as it is stored: its own messages, and the conversation that it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// The node that it is about.
    pub node_id: NodeId,
    /// The conversation that it continues; none if it begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Its own messages, in order.
    pub messages: Vec<SessionMessage>,
    /// When they were said.
    pub created_at: Timestamp,
}

/// What a role is given of the conversation that it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionFork {
    /// The new conversation.
    pub id: SessionId,
    /// The one that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The messages so far, the oldest first. They are the same for every conversation that continues this parent.
    #[serde(default)]
    pub messages: Vec<SessionMessage>,
    /// Messages that were shortened or left out, so that the rest fits.
    #[serde(default)]
    pub shortened: u32,
}

impl SessionFork {
    /// A conversation of which no earlier message is known yet.
    pub fn new(id: SessionId, parent_id: Option<SessionId>) -> Self {
        Self { id, parent_id, messages: Vec::new(), shortened: 0 }
    }

    /// Fills in the messages of `chain`, which begins with the oldest conversation and ends with the parent.
    ///
    /// At most [`SESSION_FORK_BYTES`](limits::SESSION_FORK_BYTES) are carried. The newest messages stay whole. Older
    /// ones are shortened to their beginning when they do not fit, and left out when not even that fits. What is
    /// carried depends on the chain alone.
    #[must_use]
    pub fn with_chain<'a>(mut self, chain: impl IntoIterator<Item = &'a Session>) -> Self {
        let said: Vec<&SessionMessage> = chain.into_iter().flat_map(|session| &session.messages).collect();
        let mut room = limits::SESSION_FORK_BYTES;
        let mut is_full = false;
        for message in said.into_iter().rev() {
            is_full |= message.text.len() > room;
            let text = shortened(&message.text, if is_full { SHORTENED_BYTES } else { usize::MAX });
            let is_cut = matches!(text, Cow::Owned(_));
            self.shortened += u32::from(is_cut || text.len() > room);
            let Some(left) = room.checked_sub(text.len()) else {
                room = 0;
                continue;
            };
            room = left;
            self.messages.push(SessionMessage { speaker: message.speaker, text: text.into_owned() });
        }
        self.messages.reverse();
        self
    }
}

/// Bytes of a message that does not fit whole.
const SHORTENED_BYTES: usize = 1024;

/// `text` if it has at most `max` bytes, else its beginning and a mark that says so, together at most `max` bytes.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    const MARK: &str = "\n[… shortened]";
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{MARK}", prefix(text, max.saturating_sub(MARK.len()))))
}

/// Checks the messages that a role adds to a conversation.
pub(crate) fn check(messages: &[SessionMessage], c: &mut Checks) {
    c.range("messages", messages.len() as u64, 0..=limits::SESSION_MESSAGES as u64);
    for (i, message) in messages.iter().enumerate() {
        c.text(format_args!("messages[{i}].text"), &message.text, limits::SESSION_MESSAGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n: usize, texts: &[&str]) -> Session {
        let messages = texts.iter().map(|&text| SessionMessage { speaker: Speaker::User, text: text.into() });
        Session {
            id: SessionId::new(format!("s{n}")),
            node_id: NodeId(uuid::Uuid::from_u128(n as u128)),
            parent_id: None,
            messages: messages.collect(),
            created_at: Timestamp(0),
        }
    }

    fn fork(chain: &[Session]) -> SessionFork {
        SessionFork::new(SessionId::new("new"), Some(SessionId::new("s1"))).with_chain(chain)
    }

    #[test]
    fn a_fork_carries_what_was_said_in_order() {
        let forked = fork(&[session(0, &["a", "b"]), session(1, &["c"])]);
        let texts: Vec<_> = forked.messages.iter().map(|m| m.text.as_str()).collect();
        assert_eq!((texts, forked.shortened), (vec!["a", "b", "c"], 0));
    }

    #[test]
    fn the_newest_messages_stay_whole_and_older_ones_are_shortened_and_left_out() {
        let long = "x".repeat(limits::SESSION_FORK_BYTES - 1_500);
        let forked = fork(&[session(0, &[&long, "old", &long]), session(1, &[&long, "last"])]);
        let texts: Vec<_> = forked.messages.iter().map(|m| m.text.len()).collect();
        // The second long message is shortened, what is older than it fits as it is, and the first has no room left.
        assert_eq!(texts, [3, SHORTENED_BYTES, long.len(), 4]);
        assert_eq!(forked.shortened, 2);
        let all: usize = texts.iter().sum();
        assert!(all <= limits::SESSION_FORK_BYTES);
    }

    #[test]
    fn a_session_is_named_after_its_node() {
        let node = NodeId(uuid::Uuid::from_u128(10));
        assert_eq!(SessionId::of(node).as_str(), "sess_0000000000000000000000000000000a");
    }
}

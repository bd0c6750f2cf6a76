//! Signs and verifies messages: an HMAC-SHA256 over topic and message, with a key that the services share.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hmac;
use bytes::Bytes;
use tree_agent_security::{SharedSecret, SharedSecrets};

use crate::{Signal, Topic};

/// Bytes of an HMAC-SHA256. It precedes the message.
const TAG: usize = 32;

/// Signs messages as the adapters do, for tools that publish by themselves.
pub struct Signer(hmac::Key);

impl Signer {
    /// Signs with `secret`.
    pub fn new(secret: &SharedSecret) -> Self {
        Self(secret.hmac_key())
    }

    /// The message behind its signature.
    pub fn sign(&self, topic: &str, message: &[u8]) -> Vec<u8> {
        [self.tag(topic, message).as_ref(), message].concat()
    }

    /// Covers the topic too, so that a message cannot be moved to another one. Topic names contain no zero byte, so the
    /// boundary is unambiguous.
    fn tag(&self, topic: &str, message: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(topic.as_bytes());
        context.update(&[0]);
        context.update(message);
        context.sign()
    }
}

/// Signs outgoing messages and verifies incoming ones. Without keys it does neither.
pub(crate) struct Authenticator {
    /// The first one signs. Messages signed with any of them are accepted.
    keys: Vec<Signer>,
    dropped: AtomicU64,
}

impl Authenticator {
    pub(crate) fn new(secrets: Option<&SharedSecrets>) -> Self {
        let keys = secrets.into_iter().flat_map(SharedSecrets::iter).map(Signer::new).collect();
        Self { keys, dropped: AtomicU64::new(0) }
    }

    /// Messages that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The message as it is published.
    pub(crate) fn sign<'a>(&self, topic: &str, message: &'a [u8]) -> Cow<'a, [u8]> {
        self.keys.first().map_or(message.into(), |key| key.sign(topic, message).into())
    }

    /// The message without its signature. A message that none of us signed for this topic is counted as dropped.
    /// Without keys, a message only says that there is something to look for.
    pub(crate) fn verify(&self, topic: Topic, signed: Bytes) -> Option<Signal> {
        if self.keys.is_empty() {
            return Some(Signal::Missed);
        }
        let topic = topic.to_string();
        let signed_by = |key: &Signer| {
            let (presented, message) = signed.split_at_checked(TAG)?;
            let expected = key.tag(&topic, message);
            aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_ref(), presented).ok()
        };
        if self.keys.iter().any(|key| signed_by(key).is_some()) {
            return Some(Signal::Message(signed.slice(TAG..)));
        }
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        // Rarely, so that an attacker cannot fill our log.
        if dropped.is_power_of_two() {
            tracing::warn!(
                topic,
                dropped,
                "a message over Redis is not signed with the fan-out key and was dropped: somebody else writes to this Redis, \
                 or services have different keys (TREE_AGENT_FANOUT_KEY)"
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::RunId;

    use super::*;

    const TOPIC: Topic = Topic::Run(RunId(uuid::Uuid::from_u128(1)));
    const OTHER: Topic = Topic::Run(RunId(uuid::Uuid::from_u128(2)));

    /// What subscribers get.
    fn published(by: &Authenticator, message: &[u8]) -> Bytes {
        by.sign(&TOPIC.to_string(), message).into_owned().into()
    }

    #[test]
    fn only_what_was_signed_for_the_topic_is_taken() {
        let secret = SharedSecret::random();
        let ours = Authenticator::new(Some(&secret.clone().into()));
        for message in ["", "a message"] {
            let message = Bytes::from_static(message.as_bytes());
            let signed = published(&ours, &message);
            assert_eq!(ours.verify(TOPIC, signed.clone()), Some(Signal::Message(message.clone())));
            let mut changed = signed.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            let by_another = published(&Authenticator::new(Some(&SharedSecrets::random())), &message);
            for forged in [changed.into(), by_another, message, signed.slice(1..)] {
                assert_eq!(ours.verify(TOPIC, forged), None);
            }
            assert_eq!(ours.verify(OTHER, signed), None, "it was for another topic");
        }
        assert_eq!(ours.dropped(), 10);
    }

    #[test]
    fn both_keys_are_accepted_while_one_is_replaced() {
        let (old, new) = (SharedSecret::random(), SharedSecret::random());
        let both = SharedSecrets::parse(&format!("{}\n{}", new.expose(), old.expose())).unwrap();
        let (both, old) = (Authenticator::new(Some(&both)), Authenticator::new(Some(&old.into())));
        let new = Authenticator::new(Some(&new.into()));
        let message = Bytes::from_static(b"a message");
        let sign = |by: &Authenticator| published(by, &message);
        let taken = Some(Signal::Message(message.clone()));
        assert_eq!(both.verify(TOPIC, sign(&old)), taken);
        assert_eq!(new.verify(TOPIC, sign(&both)), taken);
        assert_eq!(old.verify(TOPIC, sign(&both)), None);
    }
}

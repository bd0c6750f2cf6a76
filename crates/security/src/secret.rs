//! Secrets that the services of a cluster share.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac, rand};

/// Shortest secret, in characters: 128 bits in hexadecimal digits.
const SHORTEST: usize = 32;
/// Longest secret, in characters.
const LONGEST: usize = 1_024;

/// A secret that the services of a cluster share. It is never printed.
#[derive(Clone)]
pub struct SharedSecret(String);

/// Why a text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("is empty; make one with `openssl rand -hex 32`")]
    Empty,
    /// It could be guessed, or is not one at all.
    #[error(
        "must be {SHORTEST} to {LONGEST} visible ASCII characters without spaces; make one with `openssl rand -hex 32`"
    )]
    Malformed,
}

impl SharedSecret {
    /// The secret in `text`, without the space around it.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        let sized = (SHORTEST..=LONGEST).contains(&text.len());
        if !sized || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Malformed);
        }
        Ok(Self(text.to_owned()))
    }

    /// A new secret of 256 random bits.
    ///
    /// # Panics
    /// When the system gives no random numbers.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).expect("the system gives random numbers");
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The text, for sending it to another service.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `presented` is this secret, in a time that tells nothing about either.
    pub fn matches(&self, presented: &[u8]) -> bool {
        // Digests have one length, so not even that of the secret shows.
        let digest = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
        verify_slices_are_equal(digest(self.0.as_bytes()).as_ref(), digest(presented).as_ref()).is_ok()
    }

    /// The key with which HMAC-SHA256 authenticates messages.
    pub fn hmac_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes())
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

impl From<SharedSecret> for SharedSecrets {
    fn from(secret: SharedSecret) -> Self {
        Self([secret].into())
    }
}

/// The secrets that are valid now, at least one: the first is used, all are accepted. So a secret is replaced without
/// an interruption: add the new one everywhere, make it the first everywhere, then remove the old one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedSecrets(Arc<[SharedSecret]>);

impl SharedSecrets {
    /// The secrets in `text`, one a line.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets = lines.map(SharedSecret::parse).collect::<Result<Arc<[_]>, _>>()?;
        if secrets.is_empty() { Err(SecretError::Empty) } else { Ok(Self(secrets)) }
    }

    /// A new one alone.
    pub fn random() -> Self {
        SharedSecret::random().into()
    }

    /// The one that is used.
    pub fn first(&self) -> &SharedSecret {
        &self.0[0]
    }

    /// All that are accepted.
    pub fn iter(&self) -> impl Iterator<Item = &SharedSecret> {
        self.0.iter()
    }

    /// Whether `presented` is one of them.
    pub fn accept(&self, presented: &[u8]) -> bool {
        // Each is looked at, so that the time does not tell which one it was.
        self.iter().fold(false, |found, secret| secret.matches(presented) | found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_itself_matches() {
        let secret = SharedSecret::random();
        assert!(secret.matches(secret.expose().as_bytes()));
        let mut other = secret.expose().as_bytes().to_vec();
        other[63] ^= 1;
        for wrong in
            [&other[..], b"", &secret.expose().as_bytes()[..63], SharedSecret::random().expose().as_bytes()]
        {
            assert!(!secret.matches(wrong));
        }
    }

    #[test]
    fn weak_and_malformed_secrets_are_refused_and_none_is_printed() {
        assert_eq!(SharedSecret::parse(" \n").unwrap_err(), SecretError::Empty);
        for bad in ["short", &"a b".repeat(20), &"ü".repeat(40), &"a".repeat(LONGEST + 1)] {
            let error = SharedSecret::parse(bad).unwrap_err();
            assert!(error.to_string().contains("openssl rand -hex 32"), "{bad}: {error}");
        }
        let text = "0123456789abcdef0123456789abcdef";
        let secret = SharedSecret::parse(&format!("{text}\n")).unwrap();
        assert_eq!(secret.expose(), text);
        assert!(!format!("{secret:?}").contains(text));
    }

    #[test]
    fn the_first_secret_is_used_and_all_are_accepted() {
        let (old, new) = (SharedSecret::random(), SharedSecret::random());
        let both = SharedSecrets::parse(&format!("{}\n\n {}\n", new.expose(), old.expose())).unwrap();
        assert_eq!(both.first().expose(), new.expose());
        assert!(both.accept(new.expose().as_bytes()) && both.accept(old.expose().as_bytes()));
        assert!(!both.accept(b"") && !both.accept(SharedSecret::random().expose().as_bytes()));
        assert_eq!(SharedSecrets::parse("\n").unwrap_err(), SecretError::Empty);
        assert_eq!(
            SharedSecrets::parse(&format!("{}\nx", new.expose())).unwrap_err(),
            SecretError::Malformed
        );
    }
}

//! The public keys that tokens are checked with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

/// Why a JWKS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is not what RFC 7517 calls a JWK Set, or its keys are of other kinds.
    #[error(
        "{} is no JWKS, a JSON object with a list \"keys\" of which one can be used (EdDSA with Ed25519, ES256 or \
         RS256): {reason}", .path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// One public key. The algorithm is the key's, whatever a token says: a token cannot choose a weaker one.
pub(crate) struct Key {
    id: Option<String>,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: DecodingKey,
    /// As the file has it, by which it is known again.
    pub(crate) text: Arc<str>,
}

/// The keys of one state of the file.
pub(crate) struct Keys {
    keys: Vec<Key>,
    /// True if the file has one key, those included that are not used.
    is_single: bool,
    /// The bytes of the file, by which a change is noticed.
    pub(crate) text: Vec<u8>,
}

/// The bytes of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KeysError> {
    std::fs::read(path).map_err(|source| KeysError::Read { path: path.to_owned(), source })
}

impl Keys {
    /// The keys in `text`, which is what `path` holds. Keys of other kinds are passed over, as issuers publish those
    /// too; a private key is an error, since it is in the wrong place.
    pub(crate) fn parse(path: &Path, text: Vec<u8>) -> Result<Self, KeysError> {
        let unusable = |reason: String| KeysError::Unusable { path: path.to_owned(), reason };
        let set: Value = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        let list = set.get("keys").and_then(Value::as_array);
        let list = list.ok_or_else(|| unusable("there is no such list".to_owned()))?;
        if list.iter().any(|jwk| jwk.get("d").is_some()) {
            return Err(unusable("it holds a private key, which belongs to the issuer alone".to_owned()));
        }
        let (mut keys, mut reasons) = (Vec::new(), Vec::new());
        for (place, jwk) in (1..).zip(list) {
            match Key::of(jwk) {
                Ok(key) => keys.push(key),
                Err(reason) => reasons.push(format!("key {place} {reason}")),
            }
        }
        let reasons = reasons.join("; ");
        if keys.is_empty() {
            return Err(unusable(if reasons.is_empty() { "it is empty".to_owned() } else { reasons }));
        }
        if !reasons.is_empty() {
            tracing::info!("{}: {reasons}; the other keys are used", path.display());
        }
        Ok(Self { keys, is_single: list.len() == 1, text })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if the key is still one of them.
    pub(crate) fn have(&self, text: &str) -> bool {
        self.keys.iter().any(|key| &*key.text == text)
    }

    /// The key that a token names. A token that names none means the only key of the file: an issuer with several
    /// keys, of whatever kind, must name the one that it used (OpenID Connect Core 1.0, 10.1).
    pub(crate) fn find(&self, id: Option<&str>) -> Option<&Key> {
        match id {
            Some(id) => self.keys.iter().find(|key| key.id.as_deref() == Some(id)),
            None => self.keys.first().filter(|_| self.is_single),
        }
    }
}

impl Key {
    fn of(jwk: &Value) -> Result<Self, String> {
        let text = jwk.to_string().into();
        let jwk: Jwk =
            serde_json::from_value(jwk.clone()).map_err(|error| format!("cannot be read: {error}"))?;
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                Algorithm::EdDSA
            }
            AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
                Algorithm::ES256
            }
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            _ => return Err("is of another kind or curve (kty, crv)".to_owned()),
        };
        if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
            return Err("is for encryption (use)".to_owned());
        }
        let key = DecodingKey::from_jwk(&jwk).map_err(|error| format!("cannot be read: {error}"))?;
        Ok(Self { id: jwk.common.key_id, algorithm, key, text })
    }
}

//! Checking one token.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tree_agent_contract::limits;
use tree_agent_contract::text::{check_name, nfc};
use tree_agent_runtime::errors::chain;

use super::administrators::AdminClaim;
use super::caller::Caller;
use super::keys::{self, Keys, KeysError};
use super::refusal::Refusal;

/// How far the issuer's clock may be ahead of ours when a token says from when on it holds (`nbf`). Its end (`exp`) has
/// no leeway, so that a stream which ended with its token cannot be opened again with it.
const LEEWAY: Duration = Duration::from_secs(30);

/// Which tokens are accepted.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// A JWKS: the public keys of the issuer.
    pub jwks: PathBuf,
    /// What a token's `iss` must be.
    pub issuer: String,
    /// What a token's `aud` must be or hold.
    pub audience: String,
    /// What the token of an administrator says; none if nobody is one.
    pub admin_claim: Option<AdminClaim>,
    /// How often the file is looked at for new keys. Default 30 s.
    pub check_every: Duration,
}

/// Checks tokens. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator(Arc<Inner>);

struct Inner {
    config: AuthConfig,
    keys: RwLock<Arc<Keys>>,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authenticator").field(&self.0.config).finish()
    }
}

/// What is read of a token beside what the library checks.
#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    /// Seconds since 1970, perhaps with a fraction (RFC 7519, 2).
    exp: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Authenticator {
    /// Reads the keys.
    pub fn load(config: AuthConfig) -> Result<Self, KeysError> {
        let keys = Keys::parse(&config.jwks, keys::read(&config.jwks)?)?;
        Ok(Self(Arc::new(Inner { config, keys: RwLock::new(Arc::new(keys)) })))
    }

    /// Reloads the keys whenever their file changes, until it is dropped. If the file cannot be used, the previous keys
    /// stay in use.
    pub(crate) async fn watch_file(self) {
        let mut failed = false;
        loop {
            tokio::time::sleep(self.0.config.check_every).await;
            let this = self.clone();
            let outcome = tokio::task::spawn_blocking(move || this.reload()).await;
            match outcome {
                Ok(Ok(())) => failed = false,
                Ok(Err(error)) if !failed => {
                    failed = true;
                    tracing::error!("TREE_AGENT_AUTH_JWKS: {}; the previous keys stay in use", chain(&error));
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    fn reload(&self) -> Result<(), KeysError> {
        let path = &self.0.config.jwks;
        let text = keys::read(path)?;
        if text == self.keys().text {
            return Ok(());
        }
        let keys = Keys::parse(path, text)?;
        tracing::info!(keys = keys.len(), "the keys for tokens were reloaded");
        *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(())
    }

    fn keys(&self) -> Arc<Keys> {
        self.0.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Not when settings are checked: there is no log yet.
    pub(crate) fn warn_without_administrators(&self) {
        if self.0.config.admin_claim.is_none() {
            let text = "TREE_AGENT_ADMIN_CLAIM is not set: nobody reaches runs and projects without an owner";
            tracing::warn!("{text}");
        }
    }

    /// Whose request this is, by the token in its headers.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let value = headers.get(header::AUTHORIZATION).ok_or(Refusal::Missing)?;
        let text = value.to_str().map_err(|_| Refusal::Invalid("it is no text"))?;
        match text.trim().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => self.verify(token.trim()),
            _ => Err(Refusal::Invalid("authorization must read: Bearer TOKEN")),
        }
    }

    /// Whose token this is.
    pub(super) fn verify(&self, token: &str) -> Result<Caller, Refusal> {
        let header = decode_header(token)
            .map_err(|_| Refusal::Invalid("it is no JWT whose alg is EdDSA, ES256 or RS256"))?;
        // Extensions that a token calls critical must be understood, and we know none (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Err(Refusal::Invalid("it names extensions (crit), and the gateway knows none"));
        }
        let keys = self.keys();
        let key = keys
            .find(header.kid.as_deref())
            .ok_or(Refusal::Invalid("its kid is missing, or is not that of a key of the gateway"))?;
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.0.config.issuer]);
        validation.set_audience(&[&self.0.config.audience]);
        let mut claims =
            decode::<Claims>(token, &key.key, &validation).map_err(|error| refusal(error.kind()))?.claims;
        let remaining = remaining(claims.exp.unwrap_or_default())?;
        // As people write it: two forms of one name are one user.
        let user_id = nfc(&claims.sub.unwrap_or_default());
        claims.others.insert("sub".to_owned(), user_id.clone().into());
        if user_id.len() > limits::LABEL_BYTES || check_name(&user_id).is_err() {
            let text = "its sub must be 1 to 256 bytes without control and bidirectional characters";
            return Err(Refusal::Invalid(text));
        }
        // A token that outlives the clock has no end.
        Ok(Caller {
            user_id,
            administrator: self
                .0
                .config
                .admin_claim
                .as_ref()
                .is_some_and(|claim| claim.is_in(&claims.others)),
            expires_at: Instant::now().checked_add(remaining),
            key: Some(key.text.clone()),
            ..Caller::default()
        })
    }

    /// True if the key that vouched for a token still does.
    pub(crate) fn vouches(&self, key: &str) -> bool {
        self.keys().have(key)
    }
}

/// How long a token with this `exp` holds from now on.
fn remaining(exp: f64) -> Result<Duration, Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match Duration::try_from_secs_f64(exp - now.as_secs_f64()) {
        Ok(left) if !left.is_zero() => Ok(left),
        _ => Err(Refusal::Expired),
    }
}

fn refusal(kind: &ErrorKind) -> Refusal {
    match kind {
        ErrorKind::ExpiredSignature => Refusal::Expired,
        ErrorKind::InvalidSignature => Refusal::Invalid("its signature is not that of its key"),
        ErrorKind::InvalidAlgorithm => Refusal::Invalid("its alg is not that of its key"),
        ErrorKind::ImmatureSignature => Refusal::Invalid("it is not valid yet (nbf)"),
        ErrorKind::InvalidIssuer => Refusal::Invalid("it is from another issuer (iss)"),
        ErrorKind::InvalidAudience => Refusal::Invalid("it is for another audience (aud)"),
        ErrorKind::MissingRequiredClaim(_) => Refusal::Invalid("exp, iss, aud or sub is missing"),
        _ => Refusal::Invalid("it cannot be read"),
    }
}

//! Who calls: bearer tokens (JWT, RFC 7519) checked against a file of public keys (JWKS, RFC 7517).
//!
//! [`AuthArgs`] is how it is switched on, [`Authenticator`] what checks a token ([`keys`] holds the keys and reads them
//! again when their file changes), [`Guard`] the layer that stands before every service but health, and [`Caller`]
//! what handlers learn of a token: whose it is, and when a stream that was opened with it must end.

mod administrators;
mod args;
mod caller;
mod guard;
mod keys;
mod refusal;
#[cfg(test)]
mod tests;
mod verify;

pub use administrators::AdminClaim;
pub use args::AuthArgs;
pub(crate) use caller::Caller;
pub(crate) use guard::{Admission, Guard};
pub use keys::KeysError;
pub(crate) use refusal::Refusal;
pub use verify::{AuthConfig, Authenticator};

//! What clients and services trust: certificate authorities, shared secrets, API keys, private files.
//!
//! The services, the store and the fan-out share these, so they depend on nothing else of ours.

mod api_key;
pub mod private_files;
mod roots;
mod secret;

pub use api_key::ApiKey;
pub use roots::{Roots, RootsError, install_crypto_provider};
pub use secret::{SecretError, SharedSecret, SharedSecrets};

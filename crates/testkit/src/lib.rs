//! Builders, fakes, private servers, an issuer of tokens and a hostile proxy for tests. Dev-dependency only.

pub mod issuer;
pub mod proxy;
pub mod services;

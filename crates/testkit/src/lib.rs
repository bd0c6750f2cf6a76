//! Builders, fakes, private servers and ports, an issuer of tokens, a certificate authority and a hostile proxy for
//! tests. Dev-dependency only.

pub mod folders;
pub mod issuer;
pub mod ports;
pub mod proxy;
pub mod services;
pub mod tls;

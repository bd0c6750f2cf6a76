//! Builders, fakes, private servers and a hostile proxy for tests. Dev-dependency only.

pub mod proxy;
pub mod services;

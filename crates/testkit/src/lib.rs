//! Builders, fakes and private servers for tests. Dev-dependency only.

pub mod services;

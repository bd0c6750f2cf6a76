//! How our programs call services: connections to all replicas, and the token that they send.

pub mod channel;
pub mod credentials;

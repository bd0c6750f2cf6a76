//! A bare server over loopback, and clients of it.

mod admission;
mod connections;
mod server;
mod tls;

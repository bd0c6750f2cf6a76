//! Private Postgres and Redis servers on free loopback ports.
//!
//! Each server runs under a small shell that waits for the end of a pipe. This process holds the other end. However
//! this process ends, the shell then stops the server and removes its folder.

mod postgres;
mod redis;
mod server_process;

pub use postgres::PrivatePostgres;
pub use redis::PrivateRedis;

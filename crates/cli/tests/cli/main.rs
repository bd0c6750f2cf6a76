//! The program as a process: against a scripted server, against `dev`, and without a server.

mod support {
    pub(crate) mod dev;
    pub(crate) mod fake;
    #[path = "../../../../convert/tests/support/files.rs"]
    pub(crate) mod files;
    pub(crate) mod folder;
    pub(crate) mod terminal;
}

mod assistants;
mod auth;
mod citing;
mod client;
mod contexts;
mod dev;
mod diff;
mod doctor;
mod homework;
mod import;
mod prompts;
mod proxy;
mod reviewing;
#[cfg(target_os = "linux")]
mod role_ports;
mod search;
mod searches;
mod steering;
mod terminal;
mod tls;
mod verifying;

//! The gateway over real loopback gRPC, gRPC-web, Connect and HTTP.

#![allow(missing_docs, unreachable_pub)]

mod assistants;
mod auth;
mod bad_input;
mod citations;
mod common;
mod compression;
mod connect;
mod contexts;
mod diffs;
mod document_tree;
mod estimates;
#[allow(dead_code)]
#[path = "../../../../crates/convert/tests/support/files.rs"]
mod files;
mod forged_messages;
mod forks;
mod given_up;
mod http;
mod imports;
mod meaning;
mod outage;
mod projects;
mod quotas;
mod repeated;
mod rest;
mod results;
mod rights;
mod roles;
mod run_lists;
mod services;
mod steering;
mod waits;
mod watch;
mod watch_document;

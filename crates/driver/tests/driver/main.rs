//! The driver on real stores, with roles that tests control.

#![allow(missing_docs)]

mod commands;
mod driving;
mod grpc_roles;
mod scheduling;
mod searching;
mod slow_store;
mod support;

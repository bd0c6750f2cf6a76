//! Many worlds: the driver and the gateway's streams under every fault that a seed enables.

#![allow(missing_docs, unreachable_pub)]

// The contract suite of the store, for the simulated one.
#[allow(dead_code)]
#[path = "../../../store/tests/contract/commands.rs"]
mod commands;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/document_tree.rs"]
mod document_tree;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/documents.rs"]
mod documents;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/forks.rs"]
mod forks;
#[path = "../../../store/tests/contract/leases.rs"]
mod leases;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/log.rs"]
mod log;
#[path = "../../../store/tests/contract/make.rs"]
mod make;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/run_lists.rs"]
mod run_lists;
#[allow(dead_code)]
#[path = "../../../store/tests/contract/runs.rs"]
mod runs;

mod balance;
mod contract;
mod fixture;
mod flaws;
mod found;
mod seeds;

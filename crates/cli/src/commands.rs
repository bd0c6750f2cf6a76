//! One file per command.

mod budget;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod dev;
pub(crate) mod doc;
mod estimate;
pub(crate) mod events;
pub(crate) mod export;
mod follow;
pub(crate) mod graph;
pub(crate) mod import;
pub(crate) mod log;
pub(crate) mod migrate;
mod models;
mod objective;
pub(crate) mod projects;
pub(crate) mod rebuild;
pub(crate) mod result;
pub(crate) mod run;
pub(crate) mod runs;
mod search_args;
pub(crate) mod status;
mod store;
mod text_files;
pub(crate) mod verify;
pub(crate) mod watch;

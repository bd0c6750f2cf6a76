//! One file per command.

pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod doc;
mod estimate;
pub(crate) mod events;
mod follow;
pub(crate) mod graph;
pub(crate) mod import;
pub(crate) mod log;
pub(crate) mod migrate;
pub(crate) mod projects;
pub(crate) mod rebuild;
pub(crate) mod run;
pub(crate) mod runs;
mod store;
mod text_files;
pub(crate) mod verify;
pub(crate) mod watch;

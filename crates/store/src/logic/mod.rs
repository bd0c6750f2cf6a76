//! What both databases do alike: the ports over rows, and what is told by rows.
//!
//! The statements are those of both where they can be. Where the databases differ, [`Dialect::pick`] names both forms.
//! Appends, claims and archives have statements of their own in `postgres` and `embedded`.
//!
//! [`Dialect::pick`]: crate::schema::Dialect::pick

mod by_id;
mod documents;
pub(crate) mod forks;
pub(crate) mod inherited;
mod log;
mod members;
pub(crate) mod new_run;
pub(crate) mod operations;
pub(crate) mod passages;
mod projects;
pub(crate) mod rows;
mod run_lists;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod sql;
mod vectors;

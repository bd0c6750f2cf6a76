//! What people see: trees, lines, tables, and graphs for other tools. The functions are pure: they turn data and a
//! time into text.

pub(crate) mod diff;
pub(crate) mod formats;
mod homework;
mod lease;
pub(crate) mod line;
pub(crate) mod lines;
pub(crate) mod markdown;
pub(crate) mod paint;
pub(crate) mod preview;
pub(crate) mod printable;
mod search;
mod steering;
pub(crate) mod stopped;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod usage;

pub(crate) use line::Line;

#[cfg(test)]
mod tests;

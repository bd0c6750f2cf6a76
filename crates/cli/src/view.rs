//! What people see: the tree, the lines of a pipe, graphs for other tools. Pure: graph and time come in, text goes
//! out; only [`live`] touches the terminal.

pub(crate) mod formats;
mod line;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod paint;
pub(crate) mod printable;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod usage;

pub(crate) use line::Line;

#[cfg(test)]
mod tests;

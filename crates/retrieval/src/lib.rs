//! Retrieval: how a document is divided into passages, which words a passage holds, and which passages answer a query
//! best. Everything that searches uses these functions, so it finds the same in the same order.
//!
//! A store keeps what [`chunk`] and [`Passage::terms`] make of a document. For a query it chooses candidates with the
//! terms of [`Query::new`], [`rank`] puts them in order, and [`fuse`] joins that order with that by meaning
//! ([`nearest`]). A quote of a document is looked for with [`Visible`].
//!
//! The crate is pure: no store, no clock, no threads.

mod chunk;
mod code;
mod cut;
mod folded;
mod format;
mod fuse;
mod json;
mod letters;
mod lines;
mod near;
mod quote;
mod rank;
mod support;
mod terms;
mod visible;

pub use chunk::{Kind, PIECE_BYTES, PIECES, Piece, chunk, default_title};
pub use code::names;
pub use format::Format;
pub use fuse::{Fused, fuse};
pub use near::nearest;
pub use quote::{Found, Quote, Visible};
pub use rank::{Counts, Passage, Ranked, rank};
pub use support::{Said, Support, Told, differ, sentences, support};
pub use terms::{Clause, QUERY_CLAUSES, Query, terms};

//! Measures answers against question sets with gold evidence.
//!
//! A [`load::QuestionSet`] comes from a file. Every question becomes a run on a real server ([`server`]); what the
//! answer quotes ([`answer`]) is compared with the gold evidence ([`score`]) and goes into a table ([`table`]).

pub mod answer;
pub mod load;
pub mod pairs;
pub mod score;
pub mod server;
pub mod table;

//! Measures answers against question sets with gold evidence.
//!
//! A [`set::QuestionSet`] comes from a file ([`load`]) or from the generator of fictional worlds ([`world`]). Every
//! question becomes a run on a real server ([`server`]); what the run cited, read and wrote is compared with the gold
//! evidence ([`score`]), beside plain BM25 over the same passages ([`bm25`]), and goes into a table ([`table`]).

pub mod bm25;
pub mod load;
pub mod names;
pub mod run;
pub mod score;
pub mod server;
pub mod set;
pub mod table;
pub mod text;
pub mod world;

//! Files as Markdown or plain text.
//!
//! [`Kind::of`] says by its name what a file is, and [`Converter::convert`] gives its title and text, or the [`Fault`]
//! for which there is none. Text is read here, in any encoding. Everything else runs in a process of its own
//! ([`worker`]): the libraries read files of strangers, and they panic, recurse and allocate without bound for some.
//!
//! A line such as `<!-- Page 4 -->` or `<!-- Sheet Prices -->` marks where a page or a sheet begins; citations name it
//! ([`tree_agent_contract::text::place`]).

mod document;
#[cfg(test)]
#[path = "../tests/support/files.rs"]
mod files;
mod fingerprint;
mod html;
mod kind;
mod mail;
mod office;
mod package;
mod parts;
mod pdf;
#[cfg(test)]
#[path = "../tests/support/real.rs"]
mod real;
mod table;
mod text;
pub mod worker;

use serde::{Deserialize, Serialize};
use tree_agent_contract::limits::LEFT_OUT_BYTES;
use tree_agent_contract::text::truncate;

pub use fingerprint::{file_hash, fingerprint, sha256};
pub use kind::{Kind, by_name};
pub use parts::{Part, split};
pub use worker::Converter;

/// Bytes of a file, and of its text.
pub const FILE_BYTES: usize = 10 * 1024 * 1024;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Converted {
    /// Its title; empty if it names none.
    pub title: String,
    /// Markdown or plain text.
    pub text: String,
    /// What of the file is not in the text, in words.
    pub left_out: Vec<String>,
}

impl Converted {
    /// What is left out, in one line.
    pub fn left_out_in_words(&self) -> String {
        truncate(&self.left_out.join("; "), LEFT_OUT_BYTES).into_owned()
    }
}

/// Why a file has no text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The sort of reason, which is counted.
    pub reason: Reason,
    /// The reason in words.
    pub why: String,
}

impl Fault {
    pub(crate) fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into() }
    }
}

/// A sort of reason for which a file has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// More than [`FILE_BYTES`].
    TooLarge,
    /// A few bytes that become too many when they are unpacked.
    Expands,
    /// Binary.
    NotText,
    /// No text in it.
    Empty,
    /// It needs a password.
    Password,
    /// It is not what its name says, or is damaged.
    Broken,
}

impl Reason {
    /// The reason in words, after a number of files.
    pub const fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::Expands => "that expand too much",
            Self::NotText => "not text",
            Self::Empty => "without text",
            Self::Password => "with a password",
            Self::Broken => "broken",
        }
    }
}

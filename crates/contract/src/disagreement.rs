//! Two sources that say something else of the same thing. The role service finds them among the quotes of one answer.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::citation::Passage;
use crate::error::Checks;
use crate::ids::DocumentId;
use crate::limits;

/// What two sources say of the same thing, where it differs in one value. The newer source comes first, if both say of
/// when they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The two sides.
    pub sides: Vec<Side>,
}

/// What one source says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The value in which it differs from the other, such as `1931`.
    pub value: String,
    /// The sentence that says so.
    pub quote: String,
    /// The source.
    pub document_id: DocumentId,
    /// Where the quote stands in it.
    pub passage: Option<Passage>,
    /// The title of the source then; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_title: String,
    /// The path of the source then; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_path: String,
    /// When the source is of, as its path or title says: a year, or a day such as `2024-05-31`; empty if neither says
    /// it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dated: String,
}

impl Disagreement {
    /// Checks the rules of one that stands at `at`.
    pub fn check(&self, at: impl Display, c: &mut Checks) {
        c.require(self.sides.len() == 2, format_args!("{at}.sides"), || "must be two".into());
        for (i, side) in self.sides.iter().enumerate() {
            c.text(format_args!("{at}.sides[{i}].value"), &side.value, limits::TITLE_BYTES);
            c.text(format_args!("{at}.sides[{i}].quote"), &side.quote, limits::QUOTE_BYTES);
        }
    }
}

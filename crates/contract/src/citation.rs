//! Citations: which passage of which source supports which claim of an artifact.
//!
//! A role names the claim, the source and an exact quote. The role service looks for the quote in the source before it
//! answers. What it found is part of the log: a citation that does not hold stays there and says why.

mod quote;

use std::fmt::{self, Display};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Checks;
use crate::ids::DocumentId;
use crate::limits;
use crate::status::named_enum;
use crate::text::{count, hex, place};

pub use quote::{PlainText, footnote_mark};

named_enum! {
    /// What the check of a citation found.
    Verdict {
        /// The quote stands in the source.
        Verified = "verified",
        /// There is no such source in what the run may see.
        NoSource = "no_source",
        /// The source does not contain the quote.
        NotFound = "not_found",
        /// The quote or the claim is too short to identify a passage ([`limits::QUOTE_CHARS`]).
        TooShort = "too_short",
        /// The artifact does not contain the claim.
        NoClaim = "no_claim",
    }
}

impl Verdict {
    /// What the verdict says to readers and to models.
    pub const fn reason(self) -> &'static str {
        match self {
            Verdict::Verified => "verified",
            Verdict::NoSource => "there is no document with this document_id",
            Verdict::NotFound => "the document does not contain these words",
            Verdict::TooShort => "the quote or the statement is too short to identify a passage",
            Verdict::NoClaim => "the text does not contain the statement",
        }
    }
}

/// Where a quote stands in its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Passage {
    /// First byte of the passage in the text of the source.
    pub offset: u64,
    /// Length of the passage in bytes.
    pub bytes: u64,
    /// SHA-256 of the passage, in hexadecimal digits: it shows whether the source has changed there.
    pub sha256: String,
    /// The page or the sheet of the file that the source was converted from, such as "Page 4"; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

impl Passage {
    /// The passage at these bytes of a source.
    pub fn of(source: &str, range: Range<usize>) -> Self {
        let passage = source.get(range.clone()).unwrap_or_default();
        let sha256 = hex(&Sha256::digest(passage));
        let place = place(source, range.start).unwrap_or_default().to_owned();
        Self { offset: range.start as u64, bytes: passage.len() as u64, sha256, place }
    }
}

/// A claim of an artifact and what supports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Citation {
    /// The sentence of the artifact, as it stands there.
    pub claim: String,
    /// The words of the source, as they stand there.
    pub quote: String,
    /// The document that is cited.
    pub document_id: DocumentId,
    /// What the check found.
    pub verdict: Verdict,
    /// Where the quote stands; present if it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passage: Option<Passage>,
}

impl Citation {
    /// True if the quote stands in the source.
    pub fn is_verified(&self) -> bool {
        self.verdict == Verdict::Verified
    }

    /// Checks the rules of a citation that stands at `at`.
    pub fn check(&self, at: impl Display, c: &mut Checks) {
        c.text(format_args!("{at}.claim"), &self.claim, limits::CLAIM_BYTES);
        c.text(format_args!("{at}.quote"), &self.quote, limits::QUOTE_BYTES);
        c.require(self.is_verified() == self.passage.is_some(), format_args!("{at}.passage"), || {
            "is present exactly if the verdict is verified".into()
        });
    }

    /// The verdict on a quote from a source with this text, and where the quote stands. `plain` is the plain form of
    /// the source: many quotes may be of one.
    pub fn judge(quote: &str, source: &str, plain: &PlainText) -> (Verdict, Option<Passage>) {
        let quote = PlainText::of(quote);
        if quote.letters() < limits::QUOTE_CHARS {
            return (Verdict::TooShort, None);
        }
        match plain.find(&quote) {
            None => (Verdict::NotFound, None),
            Some(found) => (Verdict::Verified, Some(Passage::of(source, found))),
        }
    }
}

/// How many citations there are, and how many of them hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CitationCounts {
    /// All.
    pub total: u64,
    /// Those whose quote stands in the source.
    pub verified: u64,
}

impl fmt::Display for CitationCounts {
    /// In words: `2 of 3 quotes verified`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} verified", self.verified, count(self.total as usize, "quote"))
    }
}

//! Citations: which passage of which source supports which claim of an artifact.
//!
//! A role names the claim, the source and an exact quote. The role service looks for the quote in the source before it
//! answers. What it found is part of the log: a citation that does not hold stays there and says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Checks;
use crate::ids::DocumentId;
use crate::language::{Sentence, translate};
use crate::limits;
use crate::status::named_enum;
use crate::text::{hex, place};
use crate::verification::Verification;

/// The mark of a numbered footnote at the beginning of `text`, such as `[^12]`.
pub fn footnote_mark(text: &str) -> Option<&str> {
    /// Digits of the number of a footnote. Our documents have no higher ones.
    const DIGITS: usize = 4;
    let number = text.strip_prefix("[^")?;
    let digits = number.bytes().take(DIGITS).take_while(u8::is_ascii_digit).count();
    let is_mark = digits > 0 && number.as_bytes().get(digits) == Some(&b']');
    is_mark.then(|| &text[..digits + "[^]".len()])
}

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
            Verdict::TooShort => Sentence::TooShort.english(),
            Verdict::NoClaim => Sentence::NoClaim.english(),
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
    /// Bytes of it that the quote leaves out, between two parts with an ellipsis; 0 if it has the whole passage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// The nearest heading above it; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub heading: String,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Passage {
    /// The passage at these bytes of a source.
    pub fn of(source: &str, range: Range<usize>) -> Self {
        let passage = source.get(range.clone()).unwrap_or_default();
        let sha256 = hex(&Sha256::digest(passage));
        let place = place(source, range.start).unwrap_or_default().to_owned();
        Self {
            offset: range.start as u64,
            bytes: passage.len() as u64,
            sha256,
            place,
            omitted: 0,
            heading: String::new(),
        }
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
    /// The title of the source when it was cited; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_title: String,
    /// The path of the source in its project then; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_path: String,
}

impl Citation {
    /// A citation that nobody has checked yet.
    pub fn unchecked(claim: String, quote: String, document_id: DocumentId) -> Self {
        let (source_title, source_path) = Default::default();
        Self {
            claim,
            quote,
            document_id,
            verdict: Verdict::NotFound,
            passage: None,
            source_title,
            source_path,
        }
    }

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
}

/// How many statements of a text are supported, doubted or not checked. What nobody could check is not doubtful.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CitationCounts {
    /// Citations; a statement may have several.
    pub total: u64,
    /// Statements with a quote that stands in its source, if the verifier could check the answer and does not doubt
    /// them.
    pub supported: u64,
    /// Statements whose quotes do not stand in their sources, and those that the verifier doubts.
    pub doubted: u64,
    /// All others.
    pub not_checked: u64,
    /// Why those were not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

impl CitationCounts {
    /// Counts the statements of one text: those with `citations`, and `uncited` ones, which cite nothing.
    pub fn of<'a>(
        citations: impl IntoIterator<Item = &'a Citation>,
        uncited: u64,
        verification: Option<&Verification>,
    ) -> Self {
        let mut counts = Self::default();
        // One quote that holds supports its statement, whatever else is cited for it.
        let says = |verdict: Verdict| (verdict == Verdict::Verified, verdict == Verdict::NotFound);
        let mut statements: BTreeMap<&str, Verdict> = BTreeMap::new();
        for Citation { claim, verdict, .. } in citations {
            counts.total += 1;
            let known = statements.entry(claim).or_insert(*verdict);
            *known = if says(*verdict) > says(*known) { *verdict } else { *known };
        }
        let unverified = verification.and_then(|found| found.not_checked.as_deref());
        let doubts = verification.map_or(&[][..], |found| &found.doubts);
        let mut doubts: Vec<(String, bool)> =
            doubts.iter().map(|doubt| (words(&doubt.claim), false)).collect();
        for (claim, verdict) in statements {
            let claim = if doubts.is_empty() { String::new() } else { words(claim) };
            let mut is_doubted = false;
            for (doubt, is_known) in &mut doubts {
                let has = |text: &str, words: &str| words.len() > 1 && text.contains(words);
                let is_same = has(&claim, doubt) || has(doubt, &claim);
                *is_known |= is_same;
                is_doubted |= is_same;
            }
            match (verdict, unverified) {
                _ if is_doubted => counts.doubted += 1,
                (Verdict::NotFound, _) => counts.doubted += 1,
                (Verdict::Verified, None) => counts.supported += 1,
                (Verdict::Verified, Some(reason)) => counts.leave_out(1, reason),
                (Verdict::NoSource, _) => counts.leave_out(1, Sentence::NoSource.english()),
                (Verdict::TooShort | Verdict::NoClaim, _) => counts.leave_out(1, verdict.reason()),
            }
        }
        let doubted = (doubts.iter().filter(|(_, is_known)| !is_known).count() as u64).min(uncited);
        counts.doubted += doubted;
        let is_full = counts.total >= limits::CITATIONS as u64;
        if uncited > doubted {
            counts.leave_out(
                uncited - doubted,
                if is_full { Sentence::CitationLimit.english() } else { Sentence::NoSource.english() },
            );
        }
        if let Some(reason) = unverified.filter(|_| counts.not_checked > 0) {
            counts.leave_out(0, reason);
        }
        counts
    }

    /// The same of the same text, with what the verifier found in it.
    pub fn after(&self, citations: &[&Citation], verification: Option<&Verification>) -> Self {
        let cited: BTreeSet<&str> = citations.iter().map(|one| one.claim.as_str()).collect();
        let statements = self.supported + self.doubted + self.not_checked;
        let uncited = statements.saturating_sub(cited.len() as u64);
        Self::of(citations.iter().copied(), uncited, verification)
    }

    fn leave_out(&mut self, statements: u64, reason: &str) {
        self.not_checked += statements;
        if !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    /// Adds those of another text.
    pub fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.supported += other.supported;
        self.doubted += other.doubted;
        self.not_checked += other.not_checked;
        other.reasons.iter().for_each(|reason| self.leave_out(0, reason));
    }

    /// In words: `2 statements supported, 0 doubted, 1 not checked (no source)`.
    pub fn in_language(&self, language: &str) -> String {
        let nothing = Sentence::NothingCited.of(language, &[]);
        let beginning = match (self.total, self.doubted + self.not_checked) {
            (0, 0) => return nothing,
            (0, _) => format!("{nothing}: "),
            _ => String::new(),
        };
        let [supported, doubted, not_checked] =
            [self.supported, self.doubted, self.not_checked].map(|number| number.to_string());
        let counts = match self.supported {
            1 => Sentence::OneSupported.of(language, &[&doubted, &not_checked]),
            _ => Sentence::Supported.of(language, &[&supported, &doubted, &not_checked]),
        };
        let reasons: Vec<&str> = self.reasons.iter().map(|reason| translate(language, reason)).collect();
        match reasons.is_empty() {
            true => format!("{beginning}{counts}"),
            false => format!("{beginning}{counts} ({})", reasons.join(", ")),
        }
    }
}

impl fmt::Display for CitationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_language("en"))
    }
}

/// The words of a statement, each between spaces, without marks of footnotes.
fn words(text: &str) -> String {
    let parts = text.split("[^").enumerate().map(|(at, part)| match part.split_once(']') {
        Some((mark, rest)) if at > 0 && mark.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => part,
    });
    let words = parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).fold(" ".to_owned(), |all, word| all + word + " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verification::Doubt;

    fn cited(claim: &str, verdict: Verdict) -> Citation {
        let document_id = DocumentId::derive(&[b"source"]);
        Citation { verdict, ..Citation::unchecked(claim.into(), "a quote".into(), document_id) }
    }

    #[test]
    fn what_could_not_be_checked_is_not_doubted() {
        use Verdict::{NoSource, NotFound, TooShort, Verified};
        let cites = [
            cited("It has twelve arches.", NotFound),
            cited("It has twelve arches.", Verified),
            cited("It is old and wide.", NotFound),
            cited("It stands in Avon.", Verified),
            cited("It is of stone.", TooShort),
            cited("It has a tower.", NoSource),
        ];
        let said =
            |uncited, found: Option<&Verification>| CitationCounts::of(&cites, uncited, found).to_string();
        let too_short = TooShort.reason();
        assert_eq!(
            said(2, None),
            format!("2 statements supported, 1 doubted, 4 not checked (no source, {too_short})")
        );
        let doubt = |claim: &str| Doubt { claim: claim.into(), reason: "no".into() };
        let doubts = vec![doubt("It stands in Avon"), doubt("Nobody has said so.")];
        let found = Verification { doubts, ..Verification::default() };
        let german = CitationCounts::of(&cites, 2, None).in_language("de");
        assert!(
            german.starts_with("2 Aussagen belegt, 1 bezweifelt, 4 nicht geprüft (keine Quelle, "),
            "{german}"
        );
        assert!(said(1, Some(&found)).starts_with("1 statement supported, 3 doubted, 2 not checked"));
        let failed = Verification { not_checked: Some("rate limit".into()), ..Verification::default() };
        assert_eq!(
            said(0, Some(&failed)),
            format!("0 statements supported, 1 doubted, 4 not checked (no source, rate limit, {too_short})")
        );
        let nothing = CitationCounts::of(&[], 3, Some(&failed)).to_string();
        assert_eq!(
            nothing,
            "Nothing is cited: 0 statements supported, 0 doubted, 3 not checked (no source, rate limit)"
        );
    }
}

//! Citations: which passage of which source supports which claim of an artifact.
//!
//! A role names the claim, the source and an exact quote. The role service looks for the quote in the source before it
//! answers. What it found is part of the log: a citation that does not hold stays there and says why.

use std::collections::BTreeMap;
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
        /// The quote stands in the source and says something else than the claim.
        Doubted = "doubted",
    }
}

named_enum! {
    /// Who has found the source of a claim, if not the model that has written it.
    Origin {
        /// The role service, after the model had written the claim.
        Found = "found",
    }
}

named_enum! {
    /// What a comparison of a claim with all its quotes found. It compares numbers, dates, names, denials and words.
    Support {
        /// They say the same.
        Supported = "supported",
        /// They say too little of it.
        Open = "open",
        /// The claim has a number that was computed, such as a sum.
        Computed = "computed",
        /// They are in another language.
        Language = "language",
    }
}

impl Verdict {
    /// What the verdict says to readers and to models.
    pub const fn reason(self) -> &'static str {
        match self {
            Verdict::Verified => "verified",
            Verdict::NoSource => Sentence::NoDocument.english(),
            Verdict::NotFound => Sentence::NoWords.english(),
            Verdict::TooShort => Sentence::TooShort.english(),
            Verdict::NoClaim => Sentence::NoClaim.english(),
            Verdict::Doubted => Sentence::SaysElse.english(),
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
    /// Who has found it; none for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What the quotes of the claim say of it together; none if nobody has compared them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// Why the verdict is doubted, such as `the quote says 1931, the statement 1957`; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doubt: String,
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
        let (source_title, source_path, doubt) = Default::default();
        Self {
            claim,
            quote,
            document_id,
            verdict: Verdict::NotFound,
            passage: None,
            origin: None,
            support: None,
            doubt,
            source_title,
            source_path,
        }
    }

    /// True if the quote stands in the source, whatever it says.
    pub fn is_found(&self) -> bool {
        matches!(self.verdict, Verdict::Verified | Verdict::Doubted)
    }

    /// True if the quote stands in the source, and says nothing else than the claim.
    pub fn is_verified(&self) -> bool {
        self.verdict == Verdict::Verified
    }

    /// What the verdict says to readers and to models.
    pub fn reason(&self) -> &'static str {
        match self.document_id {
            DocumentId::NONE if self.verdict == Verdict::NoSource => Sentence::NoneNamed.english(),
            _ => self.verdict.reason(),
        }
    }

    /// Checks the rules of a citation that stands at `at`.
    pub fn check(&self, at: impl Display, c: &mut Checks) {
        c.text(format_args!("{at}.claim"), &self.claim, limits::CLAIM_BYTES);
        c.text(format_args!("{at}.quote"), &self.quote, limits::QUOTE_BYTES);
        c.require(self.is_found() == self.passage.is_some(), format_args!("{at}.passage"), || {
            "is present exactly if the verdict is verified or doubted".into()
        });
    }
}

/// What the check of quotes found in the statements of a text. Each is found, not found or not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "LoggedCounts")]
pub struct CitationCounts {
    /// Citations; a statement may have several.
    pub total: u64,
    /// Statements with a quote that stands in its source.
    pub found: u64,
    /// Statements whose quotes do not stand in their sources.
    pub not_found: u64,
    /// Those of `found` that agree with their quotes.
    pub supported: u64,
    /// Those of `found` that a quote contradicts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contradicted: u64,
    /// Those whose quotes were not found or say something else, and others that the verifier doubts.
    pub doubted: u64,
    /// All that are neither found nor not found, and those whose quotes could not be compared with them.
    pub not_checked: u64,
    /// Why those were not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// As logs hold it. What those of 0.2 call supported was only found.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedCounts {
    total: u64,
    found: Option<u64>,
    not_found: Option<u64>,
    supported: u64,
    #[serde(default)]
    contradicted: u64,
    doubted: u64,
    not_checked: u64,
    #[serde(default)]
    reasons: Vec<String>,
}

impl From<LoggedCounts> for CitationCounts {
    fn from(logged: LoggedCounts) -> Self {
        let LoggedCounts { total, contradicted, doubted, not_checked, reasons, .. } = logged;
        let supported = logged.found.map_or(0, |_| logged.supported);
        let (found, not_found) =
            (logged.found.unwrap_or(logged.supported), logged.not_found.unwrap_or(doubted));
        Self { total, found, not_found, supported, contradicted, doubted, not_checked, reasons }
    }
}

impl CitationCounts {
    /// Counts the statements of one text: those with `citations`, and `uncited` ones, which cite nothing.
    pub fn of<'a>(citations: impl IntoIterator<Item = &'a Citation>, uncited: u64) -> Self {
        let mut counts = Self::default();
        // What says something else counts first, and then one quote that is found, whatever else is cited.
        let says = |one: &Citation| match one.verdict {
            Verdict::Doubted => 3,
            Verdict::Verified => 2,
            Verdict::NotFound => 1,
            _ => 0,
        };
        let mut statements: BTreeMap<&str, &Citation> = BTreeMap::new();
        for citation in citations {
            counts.total += 1;
            let known = statements.entry(&citation.claim).or_insert(citation);
            if says(citation) > says(known) {
                *known = citation;
            }
        }
        for citation in statements.into_values() {
            match (citation.verdict, citation.support) {
                (Verdict::Verified, Some(Support::Computed)) => {
                    counts.leave_out(1, Sentence::Computed.english());
                }
                (Verdict::Verified, Some(Support::Language)) => {
                    counts.leave_out(1, Sentence::OtherLanguage.english());
                }
                (Verdict::Verified, support) => {
                    counts.found += 1;
                    counts.supported += u64::from(support == Some(Support::Supported));
                }
                (Verdict::Doubted, _) => {
                    (counts.found, counts.contradicted) = (counts.found + 1, counts.contradicted + 1);
                }
                (Verdict::NotFound, _) => counts.not_found += 1,
                (Verdict::NoSource, _) => counts.leave_out(1, Sentence::NoSource.english()),
                (Verdict::TooShort | Verdict::NoClaim, _) => counts.leave_out(1, citation.verdict.reason()),
            }
        }
        let is_full = counts.total >= limits::CITATIONS as u64;
        if uncited > 0 {
            let why = if is_full { Sentence::CitationLimit } else { Sentence::NoSource };
            counts.leave_out(uncited, why.english());
        }
        counts.doubted = counts.not_found + counts.contradicted;
        counts
    }

    /// The same of the same text, with what the verifier doubts in it.
    pub fn after(&self, citations: &[Citation], verification: Option<&Verification>) -> Self {
        let lost = citations.iter().filter(|one| matches!(one.verdict, Verdict::NotFound | Verdict::Doubted));
        let lost: Vec<String> = lost.map(|one| words(&one.claim)).collect();
        let is_lost = |doubt: &str| lost.iter().any(|claim| claim.contains(doubt) || doubt.contains(claim));
        let doubts = verification.map_or(&[][..], |found| &found.doubts).iter();
        let doubted = doubts.filter(|doubt| !is_lost(&words(&doubt.claim))).count() as u64;
        Self { doubted: self.not_found + self.contradicted + doubted, ..self.clone() }
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
        self.found += other.found;
        self.not_found += other.not_found;
        self.supported += other.supported;
        self.contradicted += other.contradicted;
        self.doubted += other.doubted;
        self.not_checked += other.not_checked;
        other.reasons.iter().for_each(|reason| self.leave_out(0, reason));
    }

    /// In words: `3 quotes, all found in their sources`.
    pub fn in_language(&self, language: &str) -> String {
        let reasons: Vec<&str> = self.reasons.iter().map(|reason| translate(language, reason)).collect();
        let parts = [
            (self.supported, Sentence::WithSupport),
            (self.found.saturating_sub(self.supported + self.contradicted), Sentence::WithFound),
            (self.contradicted, Sentence::WithOther),
            (self.not_found, Sentence::WithNotFound),
            (self.not_checked, Sentence::NotChecked),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, part)| part.of(language, &[&number.to_string()]))
            .collect();
        let is_quotes =
            parts.len() == 1 && self.found == self.total && self.supported + self.contradicted == 0;
        let mut said = match (self.total, parts.is_empty()) {
            (0, true) => Sentence::NothingCited.of(language, &[]),
            (0, false) => format!("{}: {}", Sentence::NothingCited.of(language, &[]), parts.join(", ")),
            (1, _) if is_quotes => Sentence::OneFound.of(language, &[]),
            (total, _) if is_quotes => Sentence::AllFound.of(language, &[&total.to_string()]),
            _ => Sentence::Statements.of(language, &[&parts.join(", ")]),
        };
        if !reasons.is_empty() {
            said.push_str(&format!(" ({})", reasons.join(", ")));
        }
        match self.doubted.saturating_sub(self.not_found + self.contradicted) {
            0 => said,
            doubted => format!("{said}; {}", Sentence::Doubted.of(language, &[&doubted.to_string()])),
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
    fn found_doubted_and_not_checked_are_three_things() {
        use Verdict::{NoSource, NotFound, TooShort, Verified};
        let cites = [
            cited("It has twelve arches.", NotFound),
            cited("It has twelve arches.", Verified),
            cited("It is old and wide.", NotFound),
            cited("It stands in Avon.", Verified),
            cited("It is of stone.", TooShort),
            cited("It has a tower.", NoSource),
        ];
        let counts = CitationCounts::of(&cites, 2);
        let too_short = TooShort.reason();
        let said = format!(
            "Statements: 2 with quotes found in their sources, 1 with quotes not found, 4 not checked (no source, {too_short})"
        );
        assert_eq!((counts.to_string(), counts.supported), (said.clone(), 0));
        let german = counts.in_language("de");
        assert!(
            german.starts_with("Aussagen: 2 mit Zitaten, die in ihren Quellen stehen, 1 mit "),
            "{german}"
        );
        let doubt = |claim: &str| Doubt { claim: claim.into(), reason: "no".into() };
        let doubts =
            vec![doubt("It stands in Avon"), doubt("Nobody said so."), doubt("It is old[^3] and wide")];
        let found = Verification { doubts, ..Verification::default() };
        let after = counts.after(&cites, Some(&found));
        assert_eq!((after.to_string(), after.doubted), (format!("{said}; 2 doubted by the verifier"), 3));
        let failed = Verification { not_checked: Some("rate limit".into()), ..Verification::default() };
        assert_eq!(counts.after(&cites, Some(&failed)), counts, "what is found is found");
        for (citations, uncited, said) in [
            (&cites[..0], 0, "Nothing is cited"),
            (&cites[..0], 3, "Nothing is cited: 3 not checked (no source)"),
            (&cites[3..4], 0, "1 quote, found in its source"),
            (&[cites[3].clone(), cited("It is here.", Verified)], 0, "2 quotes, all found in their sources"),
            (&cites[..2], 0, "Statements: 1 with quotes found in their sources"),
        ] {
            assert_eq!(CitationCounts::of(citations, uncited).to_string(), said);
        }
    }

    #[test]
    fn what_old_logs_call_supported_was_found() {
        let old = r#"{"total":4,"supported":2,"doubted":1,"notChecked":1,"reasons":["no source"]}"#;
        let read: CitationCounts = serde_json::from_str(old).unwrap();
        assert_eq!((read.found, read.not_found, read.supported, read.doubted), (2, 1, 0, 1));
        let again = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
        assert_eq!(read, again);
    }
}

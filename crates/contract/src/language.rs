//! Languages of runs, and the fixed sentences of answers in them. What models write is in the language of the run by
//! itself; what we add to it comes from this table, which falls back to English.

use crate::error::Checks;
use crate::text::fill_places;

/// A language that a run can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language {
    /// Its code in ISO 639-1, such as `de`.
    pub code: &'static str,
    /// Its code in ISO 639-3, such as `deu`.
    pub iso3: &'static str,
    /// Its English name.
    pub name: &'static str,
}

macro_rules! languages {
    ($($code:literal $iso3:literal $name:literal;)*) => {
        /// Every language that a run can have.
        pub const LANGUAGES: &[Language] = &[$(Language { code: $code, iso3: $iso3, name: $name },)*];
    };
}

languages! {
    "ar" "ara" "Arabic"; "bg" "bul" "Bulgarian"; "cs" "ces" "Czech"; "da" "dan" "Danish"; "de" "deu" "German";
    "el" "ell" "Greek"; "en" "eng" "English"; "es" "spa" "Spanish"; "et" "est" "Estonian"; "fi" "fin" "Finnish";
    "fr" "fra" "French"; "he" "heb" "Hebrew"; "hi" "hin" "Hindi"; "hr" "hrv" "Croatian"; "hu" "hun" "Hungarian";
    "id" "ind" "Indonesian"; "it" "ita" "Italian"; "ja" "jpn" "Japanese"; "ko" "kor" "Korean"; "lt" "lit" "Lithuanian";
    "lv" "lav" "Latvian"; "nb" "nob" "Norwegian"; "nl" "nld" "Dutch"; "pl" "pol" "Polish"; "pt" "por" "Portuguese";
    "ro" "ron" "Romanian"; "ru" "rus" "Russian"; "sk" "slk" "Slovak"; "sl" "slv" "Slovenian"; "sv" "swe" "Swedish";
    "th" "tha" "Thai"; "tr" "tur" "Turkish"; "uk" "ukr" "Ukrainian"; "vi" "vie" "Vietnamese"; "zh" "cmn" "Chinese";
}

/// The language with the ISO 639-1 code `code`.
pub fn language(code: &str) -> Option<&'static Language> {
    LANGUAGES.iter().find(|language| language.code == code)
}

/// Checks the language of a run, which may be unknown.
pub(crate) fn check(code: &str, checks: &mut Checks) {
    checks.require(code.is_empty() || language(code).is_some(), "language", || {
        let codes: Vec<&str> = LANGUAGES.iter().map(|language| language.code).collect();
        format!("{code:?} is no language that is known; use one of {}, or leave it out", codes.join(", "))
    });
}

macro_rules! sentences {
    ($($(#[$doc:meta])* $name:ident { en: $en:literal, de: $de:literal })*) => {
        /// A fixed sentence of an answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sentence { $($(#[$doc])* $name,)* }

        impl Sentence {
            /// Every sentence.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The English text, with its places to fill: what logs hold.
            pub const fn english(self) -> &'static str {
                match self {
                    $(Self::$name => $en,)*
                }
            }

            fn text(self, language: &str) -> &'static str {
                match (self, language) {
                    $((Self::$name, "de") => $de,)*
                    _ => self.english(),
                }
            }
        }
    };
}

sentences! {
    /// Why a list of parts stands in place of a synthesis. Filled with the error.
    PartsListed {
        en: "The results could not be put together ({}). They are listed as they are.",
        de: "Die Ergebnisse ließen sich nicht zusammenführen ({}). Sie stehen hier, wie sie sind."
    }
    /// Before the command that shows a document. Filled with the command.
    WholeDocument { en: "The whole document: {}", de: "Das ganze Dokument: {}" }
    /// Parts that a list leaves out. Filled with their number.
    PartsLeftOut { en: "Parts that are not listed: {}", de: "Teile, die hier fehlen: {}" }
    /// At the end of a text that was cut. Filled with the reason.
    TextEnds { en: "The text ends here: {}.", de: "Der Text endet hier: {}." }
    /// The text reached its limit.
    LengthLimit { en: "it reached the limit of its length", de: "Er ist so lang, wie er sein darf" }
    /// Nothing is cited.
    NothingCited { en: "Nothing is cited", de: "Es ist nichts belegt" }
    /// All that an answer quotes.
    OneFound { en: "1 quote, found in its source", de: "1 Zitat, in seiner Quelle gefunden" }
    /// The same, filled with another number.
    AllFound {
        en: "{} quotes, all found in their sources",
        de: "{} Zitate, alle in ihren Quellen gefunden"
    }
    /// The statements of an answer, filled with a list of the next five.
    Statements { en: "Statements: {}", de: "Aussagen: {}" }
    /// Filled with a number.
    WithSupport { en: "{} supported by their quotes", de: "{} von ihren Zitaten gestützt" }
    /// The same.
    WithOther { en: "{} contradicted by a quote", de: "{}, denen ein Zitat widerspricht" }
    /// The same.
    WithFound { en: "{} with quotes found in their sources", de: "{} mit Zitaten, die in ihren Quellen stehen" }
    /// The same.
    WithNotFound { en: "{} with quotes not found", de: "{} mit Zitaten, die dort fehlen" }
    /// The same.
    NotChecked { en: "{} not checked", de: "{} nicht geprüft" }
    /// The same.
    Doubted { en: "{} doubted by the verifier", de: "{} vom Prüfer bezweifelt" }
    /// An answer with quotes that were not found.
    QuotesMissing {
        en: "Some quotes were not found in their sources",
        de: "Manche Zitate stehen nicht in ihren Quellen"
    }
    /// In a footnote whose citations do not hold. Filled with one of the next three, or why a quote is not checked.
    Unverified { en: "(unverified: {})", de: "(nicht belegt: {})" }
    /// Why a citation does not hold.
    NoWords {
        en: "the document does not contain these words",
        de: "das Dokument enthält diese Worte nicht"
    }
    /// The same.
    NoDocument {
        en: "there is no document with this document_id",
        de: "es gibt kein Dokument mit dieser document_id"
    }
    /// The same.
    NoneNamed { en: "no source is named", de: "es ist keine Quelle genannt" }
    /// Why a statement is not checked.
    NoSource { en: "no source", de: "keine Quelle" }
    /// The same.
    Computed { en: "computed", de: "berechnet" }
    /// The same.
    OtherLanguage { en: "the source is in another language", de: "die Quelle ist in einer anderen Sprache" }
    /// Why a statement is doubted.
    SaysElse { en: "the quote says something else", de: "das Zitat sagt etwas anderes" }
    /// The same. Filled with what the quote says, and what the statement says.
    SaysOther { en: "the quote says {}, the statement {}", de: "das Zitat sagt {}, die Aussage {}" }
    /// Heading of the sources that disagree.
    Disagree { en: "Sources disagree", de: "Quellen widersprechen sich" }
    /// Behind two that disagree.
    NewerFirst { en: "The newer source comes first.", de: "Die neuere Quelle steht zuerst." }
    /// The same.
    NoneNewer { en: "Nothing says which is newer.", de: "Welche neuer ist, steht nirgends." }
    /// In a footnote whose quote says something else. Filled with what.
    DoubtedNote { en: "(doubted: {})", de: "(bezweifelt: {})" }
    /// An answer of which a quote says something else.
    QuotesDiffer {
        en: "Some quotes say something else than the answer",
        de: "Manche Zitate sagen etwas anderes als die Antwort"
    }
    /// In a footnote that the role service has added.
    FoundAfterwards { en: "(found afterwards)", de: "(nachträglich gefunden)" }
    /// The same.
    RateLimit { en: "rate limit", de: "Grenze des Anbieters" }
    /// The same.
    CitationLimit { en: "limit of citations", de: "Grenze der Belege" }
    /// The same.
    TooShort {
        en: "the quote or the statement is too short to identify a passage",
        de: "das Zitat oder die Aussage ist zu kurz für eine Stelle"
    }
    /// The same.
    NoClaim { en: "the text does not contain the statement", de: "die Aussage steht nicht im Text" }
    /// Heading of the list of documents.
    Documents { en: "Documents", de: "Dokumente" }
    /// Above an answer that has none. Filled with what was not found.
    NotFound { en: "Not found: {}.", de: "Nicht gefunden: {}." }
    /// What was not found: any answer to a question, with which this is filled.
    Unanswered {
        en: "no passage that was found answers “{}”",
        de: "keine gefundene Stelle beantwortet „{}“"
    }
    /// The same: a name, with which this is filled.
    NotNamed { en: "no passage that was found names “{}”", de: "keine gefundene Stelle nennt „{}“" }
    /// The same: a year.
    NoYear { en: "no passage that was found gives a year", de: "keine gefundene Stelle nennt ein Jahr" }
    /// The same: a month.
    NoMonth { en: "no passage that was found gives a month", de: "keine gefundene Stelle nennt einen Monat" }
    /// The same: when something began.
    NoDate { en: "no passage that was found says since when", de: "keine gefundene Stelle sagt, seit wann" }
    /// The same: a number.
    NoNumber { en: "no passage that was found gives a number", de: "keine gefundene Stelle nennt eine Zahl" }
    /// The same: anything at all.
    NothingQuoted { en: "nothing could be quoted", de: "nichts konnte zitiert werden" }
    /// Who wrote an answer of rules.
    ByRules {
        en: "By the offline model: it quotes and does not reason.",
        de: "Vom Modell offline: Es zitiert und folgert nicht."
    }
    /// Passages were found by words alone. Filled with the numbers of those that meaning can find, and of all.
    ByWords {
        en: "It searched by words alone: {} of {} passages can be found by meaning so far.",
        de: "Gesucht wurde nur nach Wörtern: Bisher sind {} von {} Stellen auch nach Bedeutung zu finden."
    }
    /// Above passages that do not answer.
    Nearest { en: "The nearest passages:", de: "Die nächsten Stellen:" }
    /// Heading of further places.
    MorePlaces { en: "More from the same sources", de: "Mehr aus denselben Quellen" }
    /// Items of a list that are not quoted. Filled with how many are, how many there are, and their names.
    OfAll { en: "{} of {} are quoted. The others: {}", de: "{} von {} sind zitiert. Die anderen: {}" }
    /// Heading of what is missing.
    Gaps { en: "Gaps", de: "Lücken" }
    /// A note on an older document. Filled with the path of the newer one.
    Older { en: "older than {}", de: "älter als {}" }
}

/// A text that may be a sentence of the table, in `language`. Logs hold English.
pub fn translate<'t>(language: &str, text: &'t str) -> &'t str {
    let known = Sentence::ALL.iter().find(|sentence| sentence.english() == text);
    known.map_or(text, |sentence| sentence.text(language))
}

impl Sentence {
    /// The sentence in `language`, with each `{}` filled in turn.
    pub fn of(self, language: &str, filled: &[&str]) -> String {
        fill_places(self.text(language), filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_the_same_places_to_fill() {
        for sentence in Sentence::ALL {
            let places = |language| sentence.text(language).matches("{}").count();
            assert_eq!(places("en"), places("de"), "{sentence:?}");
            assert_eq!(sentence.text("en"), sentence.text(""), "English is what there is otherwise");
        }
        assert_eq!(Sentence::TextEnds.of("de", &["es reicht"]), "Der Text endet hier: es reicht.");
    }
}

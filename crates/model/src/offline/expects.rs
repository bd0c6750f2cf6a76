//! What a question expects of an answer that can be seen without understanding it: names, years, and a word of the kind
//! that was asked for, such as a number or a date. *Not found* means that no quoted passage holds one of these. It says
//! nothing about what else the documents hold.

use tree_agent_contract::language::Sentence;
use tree_agent_retrieval::{Query, terms};
use unicode_segmentation::UnicodeSegmentation;

use super::question::{self, is_year};

/// A passage in which it is looked for.
pub(super) struct Held {
    /// Path, title and headings.
    pub(super) place: String,
    pub(super) text: String,
    /// It is code, in which what is asked for can be counted.
    pub(super) is_code: bool,
}

/// Words with which a question asks for something that can be seen. English, then German.
const ASKS_YEAR: &[&str] = &["which year", "what year", "welchem jahr", "welches jahr"];
const ASKS_MONTH: &[&str] = &["which month", "what month", "welchem monat", "welcher monat", "welchen monat"];
const ASKS_SINCE: &[&str] = &["since when", "seit wann"];
const ASKS_HOW_MANY: &[&str] = &["how many", "wie viele", "wieviele"];
const ASKS_AMOUNT: &[&str] = &[
    "how much",
    "how high",
    "how deep",
    "how far",
    "how large",
    "what does it cost",
    "wie viel",
    "wieviel",
    "wie hoch",
    "wie weit",
];

/// Words that are numbers. Some count no things: *once*, *half*.
const NUMBERS: &str = "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred \
    thousand zwei drei vier fünf sechs sieben acht neun zehn zwölf zwanzig dreißig hundert tausend";
const SOME_NUMBERS: &str = "one once twice half double no none unlimited ein eine einen einmal zweimal halb";
const MONTHS: &str = "jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august \
    september october november december januar februar märz mai juni juli oktober dezember okt dez";
/// With these words a sentence says when something ends.
const ENDS: &str = "until till ends end expires runs bis endet";

/// What no passage holds that `question` asks for, as a phrase in `language`. `is_known` says whether anything that was
/// searched holds a term.
pub(super) fn missing(
    question: &str,
    language: &str,
    passages: &[Held],
    is_known: impl Fn(&String) -> bool,
) -> Option<String> {
    let asked = question::asking(question);
    let own: Vec<String> =
        passages.iter().flat_map(|held| terms(&format!("{} {}", held.place, held.text))).collect();
    for name in question::names(&asked, language) {
        let (all, is_year) = (terms(name), is_year(name));
        let is_held = all
            .iter()
            .any(|term| own.iter().any(|held| if is_year { held == term } else { is_like(term, held) }));
        // A name that other passages hold may stand for all of the documents.
        if !all.is_empty() && !is_held && (is_year || !all.iter().any(&is_known)) {
            return Some(Sentence::NotNamed.of(language, &[name]));
        }
    }
    let asked = asked.to_lowercase();
    let asks = |phrases: &[&str]| phrases.iter().find_map(|phrase| asked.split_once(phrase));
    let texts = || passages.iter().flat_map(|held| lines(&held.text));
    let any = |is: &dyn Fn(&str) -> bool| texts().any(|line| line.split_whitespace().any(is));
    let no = |sentence: Sentence| Some(sentence.of(language, &[]));
    if asks(ASKS_YEAR).is_some() && !any(&is_date_with_year) {
        return no(Sentence::NoYear);
    }
    if asks(ASKS_MONTH).is_some() && !any(&is_month) {
        return no(Sentence::NoMonth);
    }
    let subject = Query::new(&asked).clauses;
    let says_since = |line: &str| {
        let words = || line.split_whitespace();
        let is_about = || terms(line).iter().any(|held| subject.iter().any(|word| is_like(&word.term, held)));
        words().any(|word| is_date_with_year(word) || is_month(word))
            && !words().any(|word| is_in(ENDS, word))
            && is_about()
    };
    if asks(ASKS_SINCE).is_some() && !texts().any(says_since) {
        return no(Sentence::NoDate);
    }
    if let Some((_, things)) = asks(ASKS_HOW_MANY) {
        let things = terms(&things.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        let is_counted = |line: &str| {
            let counts = || terms(line).iter().any(|held| things.iter().any(|thing| is_like(thing, held)));
            counted(line).is_some_and(|is_bare| is_bare || counts())
        };
        if !passages.iter().any(|held| held.is_code) && !texts().any(is_counted) {
            return no(Sentence::NoNumber);
        }
    }
    let is_amount = |word: &str| is_number(word) || is_in(SOME_NUMBERS, word);
    (asks(ASKS_AMOUNT).is_some() && !any(&is_amount)).then(|| Sentence::NoNumber.of(language, &[]))
}

/// What is missing of a whole question, if each of its clauses `lacks` something: the first of it.
pub(super) fn all(question: &str, lacks: impl Fn(&String) -> Option<String>) -> Option<String> {
    let lacking: Option<Vec<String>> = question::clauses(question).iter().map(lacks).collect();
    lacking?.into_iter().next()
}

/// The sentences and the rows of a text.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let starts = |line: &str| line.trim_start().starts_with(['|', '-', '*']);
    let parts = text.split("\n\n").flat_map(move |part| {
        let by_line = part.lines().any(starts);
        part.split(move |c| by_line && c == '\n')
    });
    parts.flat_map(UnicodeSegmentation::unicode_sentences)
}

/// Whether a sentence holds a number, and if so, whether one stands alone, with nothing behind it that it counts.
fn counted(line: &str) -> Option<bool> {
    let mut words = line.split_whitespace().peekable();
    let mut found = None;
    while let Some(word) = words.next() {
        if is_number(word) {
            let is_bare = !word.ends_with(char::is_alphanumeric)
                || words.peek().is_none_or(|next| !next.starts_with(char::is_alphanumeric));
            found = Some(found == Some(true) || is_bare);
        }
    }
    found
}

/// A number by itself, not the one in `config(5)` or `note[1]`.
fn is_number(word: &str) -> bool {
    let bare = word.trim_start_matches([
        '(', '"', '“', '\'', '*', '_', '`', '~', '<', '>', '≤', '≥', '$', '€', '£', '+', '-', '=',
    ]);
    bare.starts_with(|c: char| c.is_ascii_digit()) || is_in(NUMBERS, word)
}

fn is_date_with_year(word: &str) -> bool {
    word.split(|c: char| !c.is_ascii_digit()).any(is_year)
}

fn is_month(word: &str) -> bool {
    // 2024-06-17, 17.6.2024
    let is_date = || word.split(['-', '.', '/']).filter(|part| part.parse::<u16>().is_ok()).count() == 3;
    is_in(MONTHS, word) || is_date()
}

fn is_in(words: &str, word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    words.split_whitespace().any(|known| known == word)
}

/// Whether two terms may be the same word: with a letter wrong, with another ending, or one within the other.
fn is_like(a: &str, b: &str) -> bool {
    /// Shorter words are other words.
    const LONG: usize = 5;
    if a == b {
        return true;
    }
    if a.len() < LONG || b.len() < LONG || a.len().abs_diff(b.len()) > a.len().max(b.len()) / 2 {
        return false;
    }
    let shared = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let (longest, is_part) = (a.len().max(b.len()), a.contains(b) || b.contains(a));
    is_part || shared >= LONG && 5 * shared >= 3 * longest || strsim::osa_distance(a, b) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(question: &str, language: &str, text: &str, known: &[&str]) -> Option<String> {
        let held = Held { place: "docs/a.md A title".into(), text: text.into(), is_code: false };
        missing(question, language, &[held], |term| known.contains(&term.as_str()))
    }

    #[test]
    fn what_was_asked_for_and_stands_in_no_passage_is_said() {
        for (question, text, expected) in [
            ("Which pilots does the Braxtec crane need?", "The crane needs pilots.", "“Braxtec”"),
            ("How are Azure-hosted depots set up?", "Hosted depots are set up.", "“Azure”"),
            ("What does the --ionice option of push do?", "An option of push.", "“ionice”"),
            ("How much juice was pressed in 2022?", "In 2023 we pressed 40 l of juice.", "“2022”"),
            ("In Which Year Was The First Version Released?", "The first version was released.", "a year"),
            ("Which month is best for pruning?", "Prune it in the market, maybe.", "a month"),
            ("Since when has Ada been the chair?", "Ada is the chair until 2026.", "since when"),
            ("how many bales can a depot hold", "A depot waits for 3 hours, see push(1).", "a number"),
            ("How much does the pier cost?", "The pier costs something.", "a number"),
        ] {
            let found = said(question, "en", text, &[]);
            assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{question}: {found:?}");
        }
        let german = said(
            "Wie hoch ist das Entgelt im Kühlhaus Trossheim?",
            "de",
            "Das Entgelt im Kühlhaus: 3 Euro.",
            &[],
        );
        assert!(german.unwrap().contains("nennt „Trossheim“"));
    }

    #[test]
    fn other_words_a_preamble_and_capitals_are_no_evidence_of_absence() {
        for (question, language, text) in [
            ("When are surveys done?", "en", "Surveys take place between 1 July and 15 September."),
            ("Do Keldenau-based staff get it?", "en", "Those in Keldenau do not."),
            ("You are preparing a visit of Acme. What is the fee?", "en", "The charge is 3 euro."),
            ("How Many Members Must Be In The Room?", "en", "Valid with thirty."),
            ("How many streams does it open?", "en", "The default is 4."),
            ("how do i exlude a directory", "en", "Exclude it."),
            ("Was kostet die Rechnung?", "de", "Der Betrag ist offen."),
            ("Which visa do I need for Japan?", "en", "A trip to Japna needs none."),
            ("Since when is Ada the chair?", "en", "Ada was elected in May 2021."),
            (
                "Who leads sales, and since when?",
                "en",
                "Sales was moved on 1 October 2024 and is led by Ada.",
            ),
            ("forgotten passphrase", "en", "Nobody can help you if it is lost."),
            ("How often does the dredger come?", "en", "It comes each spring."),
            ("What does The North Pier cost?", "en", "It is free."),
        ] {
            assert_eq!(said(question, language, text, &["north", "pier"]), None, "{question}");
        }
    }
}

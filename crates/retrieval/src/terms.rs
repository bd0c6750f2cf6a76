//! Words as they are compared, in a text and in a query.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use caseless::Caseless;
use rust_stemmers::{Algorithm, Stemmer};
use tree_agent_contract::text::is_invisible;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_segmentation::UnicodeSegmentation;

/// Bytes of a term at the most. The rest of a longer one does not count: it is no word.
const TERM_BYTES: usize = 64;
/// Clauses of a query at the most; more say nothing new.
pub const QUERY_CLAUSES: usize = 48;
/// Letters that each half of a divided word has at the least.
const HALF: usize = 2;

/// Words that say nothing about a passage: those that join others, and verbs and pronouns of which questions are full.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "a about all also am an and any anybody anything are as at be been being between both but by can cannot come \
    comes could did do does each else everything exactly find for from get give go goes had happen happens has have \
    having he her him his how i if in into is it its just know let like make many may me mine much must my need \
    needs no not now of on one ones or other our own please put really s same say see shall she should so some \
    somebody someone something such t tell than that the their them then there these they thing this those to too us \
    use want was we were what when where whether which while who why will with without would you your"
        .split(' ')
        .collect()
});

/// The words of `text` as an index holds them, in their order: in one form however they are written (compatibility
/// forms, case, accents, invisible characters), and as English stems. Every term has letters and digits only.
///
/// A character of a script that puts no spaces between words is a term of its own, and so is a Korean syllable.
pub fn terms(text: &str) -> Vec<String> {
    let folded = folded(text);
    words(&folded).map(stem).collect()
}

/// `text` without the differences that a search does not see.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let plain = text.nfkd().filter(|c| !is_invisible(*c) && canonical_combining_class(*c) == 0);
    plain.default_case_fold().nfkc().map(|c| if c == '’' { '\'' } else { c }).collect()
}

/// The words of a folded text. An apostrophe belongs to its word; it tells the stemmer about a genitive.
fn words(folded: &str) -> impl Iterator<Item = &str> {
    let is_divider = |c: char| !c.is_alphanumeric() && c != '\'';
    folded
        .unicode_words()
        .flat_map(move |word| word.split(is_divider))
        .flat_map(|word| word.split_inclusive(is_syllable))
        .flat_map(|part| {
            let last =
                part.char_indices().next_back().filter(|(_, c)| is_syllable(*c)).map_or(part.len(), |l| l.0);
            [&part[..last], &part[last..]]
        })
        .filter(|word| word.contains(char::is_alphanumeric))
}

/// Korean words take endings, so they are compared by syllables.
const fn is_syllable(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

fn stem(word: &str) -> String {
    thread_local! {
        static STEMMER: Stemmer = Stemmer::create(Algorithm::English);
        static KNOWN: RefCell<HashMap<String, String>> = RefCell::default();
    }
    /// Words whose stems are remembered: most words of a text were there before.
    const REMEMBERED: usize = 20_000;
    if let Some(stem) = KNOWN.with_borrow(|known| known.get(word).cloned()) {
        return stem;
    }
    let cut = &word[..word.floor_char_boundary(TERM_BYTES)];
    let mut stem = STEMMER.with(|stemmer| stemmer.stem(cut).into_owned());
    stem.retain(char::is_alphanumeric);
    if stem.is_empty() {
        stem = cut.chars().filter(|c| c.is_alphanumeric()).collect();
    }
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(word.to_owned(), stem.clone());
    });
    stem
}

/// A part of a query that a passage holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The term.
    pub term: String,
    /// The same word written as two, which must stand one after the other.
    pub pairs: Vec<[String; 2]>,
}

/// What a query looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Its words that matter, each once, and words that two neighbours make together (`fail over`: `failov`).
    pub clauses: Vec<Clause>,
}

impl Query {
    /// The clauses of `text`, at most [`QUERY_CLAUSES`]; none if it holds no word. Words that say nothing are left out
    /// unless there is nothing else.
    pub fn new(text: &str) -> Self {
        let folded = folded(text);
        let words: Vec<&str> = words(&folded).collect();
        let all_stop = words.iter().all(|word| is_stop(word));
        let mut clauses: Vec<Clause> = Vec::new();
        let mut add = |clause: Clause| {
            if clauses.len() < QUERY_CLAUSES && !clauses.iter().any(|known| known.term == clause.term) {
                clauses.push(clause);
            }
        };
        for word in &words {
            if all_stop || !is_stop(word) {
                add(Clause { term: stem(word), pairs: halves(word) });
            }
        }
        for pair in words.windows(2) {
            if pair.iter().all(|half| is_half(half) && (all_stop || !is_stop(half))) {
                add(Clause { term: stem(&pair.concat()), pairs: Vec::new() });
            }
        }
        Self { clauses }
    }
}

/// Whether `word`, folded, says nothing about a passage.
pub(crate) fn is_stop(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

fn is_half(word: &str) -> bool {
    word.len() >= HALF && word.bytes().all(|b| b.is_ascii_lowercase())
}

/// The ways in which `word` can be written as two.
fn halves(word: &str) -> Vec<[String; 2]> {
    if word.len() > 24 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return Vec::new();
    }
    let divided = (HALF..).map_while(|at| word.split_at_checked(at)).filter(|(_, end)| end.len() >= HALF);
    // `in form` is not `inform`.
    divided.filter(|(start, _)| !is_stop(start)).map(|(start, end)| [stem(start), stem(end)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_the_same_are_the_same() {
        for (a, b) in [
            ("Leases", "lease"),
            ("cafe\u{301}s", "Cafés"),
            ("ｆｕｌｌ", "full"),
            ("Straße", "STRASSE"),
            ("im\u{ad}port", "import"),
            ("driver’s", "driver's drivers"),
            ("naïve", "naive"),
            ("كِتَابٌ", "كتاب"),
            ("हिन्दी", "हिन्दी"),
        ] {
            assert_eq!(terms(a)[0], terms(b)[0], "{a} {b}");
        }
        assert_eq!(terms("run_created tree.node 0.8.9"), ["run", "creat", "tree", "node", "0", "8", "9"]);
        assert_eq!(terms("don't 東京 서울에 "), ["dont", "東", "京", "서", "울", "에"]);
    }

    #[test]
    fn a_query_finds_words_in_one_piece_and_in_two() {
        let query = Query::new("How does the fail over work here?");
        let clauses: Vec<&str> = query.clauses.iter().map(|clause| &*clause.term).collect();
        assert_eq!(clauses, ["fail", "over", "work", "here", "failov", "overwork", "workher"]);
        let query = Query::new("failover");
        assert_eq!(query.clauses[0].term, "failov");
        assert!(query.clauses[0].pairs.contains(&["fail".to_owned(), "over".to_owned()]));
    }

    #[test]
    fn words_that_say_nothing_count_only_alone() {
        let clauses = |text| Query::new(text).clauses.len();
        assert_eq!(clauses("who"), 1);
        assert_eq!(clauses("the lease"), 1);
        assert_eq!(clauses(" ?! "), 0);
        let long: String = (0..500).map(|n| format!("w{n} ")).collect();
        assert_eq!(clauses(&long), QUERY_CLAUSES);
    }
}

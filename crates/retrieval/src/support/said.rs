//! What of a sentence can be compared: numbers, names, what it denies, and its words.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;

use crate::format::pattern;
use crate::support::numbers::{Number, is_amount, number};
use crate::terms::{Query, is_stop, terms};

pattern!(LINK, r"\]\([^)\s]*\)|https?://\S+|\[\^\d{1,4}\]");
pattern!(DATE, r"\b(\d{4})-(\d{2})-(\d{2})\b");

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Words that deny.
const DENIALS: &str = "not no never none nor neither nobody nothing nowhere without cannot nicht kein keine keinen \
    keiner keinem nie niemals ohne";
/// Words behind which a denial denies nothing.
const ONLY: &str = "only just merely solely least nur";
/// Words that join a sentence to the one before it.
const JOINTS: &str = "however additionally furthermore moreover overall therefore thus instead similarly specifically \
    finally first second third next meanwhile otherwise consequently notably conversely although despite according \
    unlike like under during after before until since because once upon within through over today currently";
/// Words with which another clause begins.
const CLAUSES: &str =
    "if but and or because when while that which until unless who where wenn aber und oder weil";
/// Words that nobody denies.
const SMALL: &str = "a an the to be been being of in any its own their your my our his her it that this these those very \
    so too as at on for with by ein eine einen einem einer der die das den dem zu im am";
/// Numbers that are read of one sentence.
const NUMBERS: usize = 64;
/// Words of a denial that say what is denied.
const DENIED: usize = 2;

/// A sentence, read once.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Its words as an index holds them.
    pub(super) words: HashSet<String>,
    /// Those that matter, each once.
    matter: Vec<String>,
    pub(super) numbers: Vec<Number>,
    /// Words of letters and digits, such as `u8`.
    pub(super) codes: Vec<String>,
    pub(super) names: Vec<String>,
    /// As they are written.
    written: Vec<(String, String)>,
    /// The word that it begins with, if that matters.
    pub(super) first: Option<String>,
    pub(super) denials: Vec<Denial>,
    /// It has more numbers than are read, so nothing can be said of it.
    pub(super) is_cut: bool,
}

/// A word that denies, and the words behind it.
#[derive(Clone, Debug)]
pub(super) struct Denial {
    /// Such as `not open`.
    pub(super) text: String,
    /// The word that it denies, such as `open`; empty if there is none behind it.
    pub(super) word: String,
    /// That word and the next, as an index holds them; else the word before it.
    pub(super) of: Vec<String>,
}

impl Denial {
    /// True if the other denies one of the same words, or nobody knows what this denies.
    pub(super) fn is_in(&self, other: &Said) -> bool {
        let denies = |denial: &Self| denial.of.iter().any(|word| self.of.contains(word));
        other.denials.iter().any(|denial| self.of.is_empty() || denies(denial))
    }

    /// True if the other says what this denies.
    pub(super) fn is_about(&self, other: &Said) -> bool {
        !self.word.is_empty() && self.of.first().is_some_and(|word| other.words.contains(word))
    }
}

/// A word as it is written, and what stands directly before it.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) before: &'a str,
}

impl Said {
    /// Reads a sentence.
    pub fn of(text: &str) -> Self {
        // Full-width digits are digits.
        let text: String = text.nfkc().collect();
        let text = LINK.replace_all(&text, "]");
        let text = DATE.replace_all(&text, |date: &regex::Captures<'_>| {
            let month = date[2].parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
            month.map_or_else(|| date[0].to_owned(), |month| format!("{} {month} {}", &date[3], &date[1]))
        });
        let own: HashSet<String> = terms(&text).into_iter().collect();
        let matter = Query::new(&text).clauses.into_iter().map(|clause| clause.term);
        // Words that two neighbours make together are no words of it.
        let matter = matter.filter(|term| own.contains(term)).collect();
        let mut said = Self { words: own, matter, ..Self::default() };
        let words = words(&text);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if said.numbers.len() == NUMBERS {
                said.is_cut = true;
                break;
            }
            let lower = word.text.to_lowercase();
            let next = words.get(at + 1).map(|next| next.text.to_lowercase()).unwrap_or_default();
            if is_in(DENIALS, &lower) && !is_in(ONLY, &next)
                || lower.ends_with("n't")
                || lower.ends_with("n’t")
            {
                said.denials.push(denial(&words, at));
            }
            if let Some((number, used)) = number(&words, at) {
                // Numbers are compared by their value.
                let written: Vec<String> =
                    words[at..at + used].iter().flat_map(|word| terms(word.text)).collect();
                said.matter.retain(|word| !written.contains(word));
                said.numbers.push(number);
                at += used;
                continue;
            }
            at += 1;
            if is_amount(&lower, &next) {
                said.codes.push(lower);
                continue;
            }
            if word.text.contains(char::is_numeric) {
                // 2FA
                let joined = words.get(at).filter(|next| next.before.is_empty() && next.text != "%");
                said.codes.push(lower + &joined.map(|next| next.text.to_lowercase()).unwrap_or_default());
                at += usize::from(joined.is_some());
                continue;
            }
            let begins = at == 1
                || word.before.contains(['.', '!', '?', ':', '\n', '“', '"', '|'])
                || word.before.trim() == "-";
            if has_inner_capital(word.text) || is_capital(word.text) && !begins {
                let own = terms(word.text);
                said.written.extend(own.iter().map(|name| (name.clone(), word.text.to_owned())));
                said.names.extend(own);
            } else if at == 1 && is_capital(word.text) && !is_stop(&lower) && !is_in(JOINTS, &lower) {
                said.first = terms(word.text).into_iter().next();
            }
        }
        said
    }

    /// Of 100 of its words that matter, how many are told elsewhere.
    pub fn share(&self, is_told: impl Fn(&str) -> bool) -> usize {
        let told = self.matter.iter().filter(|word| is_told(word)).count();
        // What has only numbers, says it with them.
        if self.matter.is_empty() { 100 } else { 100 * told / self.matter.len() }
    }

    /// A name as it is written.
    pub(super) fn written(&self, name: &str) -> String {
        let known = self.written.iter().find(|(known, _)| known == name);
        known.map_or(name, |(_, written)| written).to_owned()
    }

    /// The words that matter.
    pub fn words(&self) -> &[String] {
        &self.matter
    }

    /// True if it has the word.
    pub fn has(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// True if it has one of the words in `list`.
    pub(super) fn is_any(&self, list: &str) -> bool {
        terms(list).iter().any(|word| self.words.contains(word))
    }
}

pub(super) fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

fn is_capital(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.chars().count() > 1
}

fn has_inner_capital(word: &str) -> bool {
    word.chars().skip(1).any(char::is_uppercase)
}

/// The denial at `at`: it denies the words behind it that matter, or the last one before it.
fn denial(words: &[Word<'_>], at: usize) -> Denial {
    let matters = |word: &&Word<'_>| !is_in(SMALL, &word.text.to_lowercase());
    let is_on = |word: &&Word<'_>| {
        !word.before.contains([',', '.', ';', ':', '(', '|']) && !is_in(CLAUSES, &word.text.to_lowercase())
    };
    let behind = words[at + 1..].iter().take_while(is_on).filter(matters).take(DENIED);
    let mut of: Vec<&str> = behind.map(|word| word.text).collect();
    let denial = words[at].text;
    let text = of.first().map_or(denial.to_owned(), |word| format!("{denial} {word}"));
    let word = of.first().map(|word| (*word).to_owned()).unwrap_or_default();
    if of.is_empty() {
        of.extend(words[..at].iter().rev().find(matters).map(|word| word.text));
    }
    Denial { text, word, of: of.into_iter().filter_map(|word| terms(word).into_iter().next()).collect() }
}

/// The words of a text. What begins with a digit is a number, and what follows it at once is another word.
fn words(text: &str) -> Vec<Word<'_>> {
    let (mut words, mut end) = (Vec::new(), 0);
    let mut rest = text.char_indices().peekable();
    while let Some((begin, first)) = rest.next() {
        if !first.is_alphanumeric() && first != '%' {
            continue;
        }
        let mut last = begin + first.len_utf8();
        while let Some(&(at, c)) = rest.peek().filter(|_| first != '%') {
            let after = text[at + c.len_utf8()..].chars().next();
            let own = &text[begin..at];
            let goes_on = match c {
                c if first.is_ascii_digit() => {
                    c.is_ascii_digit() || ".,".contains(c) && after.is_some_and(|c| c.is_ascii_digit())
                }
                '\'' | '’' => after.is_some_and(char::is_alphanumeric),
                '_' => true,
                // v0.52
                '.' | '-' => {
                    own.contains(|c: char| c.is_ascii_digit()) && after.is_some_and(|c| c.is_ascii_digit())
                }
                c => c.is_alphanumeric(),
            };
            if !goes_on {
                break;
            }
            last = at + c.len_utf8();
            rest.next();
        }
        words.push(Word { text: &text[begin..last], before: &text[end..begin] });
        end = last;
    }
    words
}

//! What a question asks: its clauses, the two sides of a comparison, and the names in it.

use tree_agent_retrieval::{Query, terms};
use unicode_segmentation::UnicodeSegmentation;

/// An objective of more clauses is taken whole: it is a text and no question.
const CLAUSES: usize = 4;
/// Words with which a clause begins that asks by itself.
const ASKING: &str = "are can describe do does explain give how is list may must name should show tell what when \
                      where which who whose why";
/// Words that say what to do with a subject and nothing about it.
const DOING: &str =
    "compare describe everything explain find give list name show summarise summarize tell write";
/// Words that stand for what was named before.
const POINTING: &str = "it that them then these they this those";
/// What stands before and between the sides of a comparison.
const COMPARISONS: [(&str, &str); 9] = [
    ("compare ", " with "),
    ("compare ", " to "),
    ("compare ", " and "),
    ("between ", " and "),
    ("", " versus "),
    ("", " vs. "),
    ("", " vs "),
    ("", " compared "),
    ("", " differ from "),
];

/// The clauses of `question` that ask by themselves, in order; one if there are no several.
pub(super) fn clauses(question: &str) -> Vec<String> {
    let mut clauses: Vec<String> = Vec::new();
    for sentence in question.split(['?', ';', '\n']) {
        let mut clause = String::new();
        for word in sentence.split_whitespace() {
            if let Some(before) = clause.strip_suffix(" and ").filter(|_| is_of(ASKING, &word.to_lowercase()))
            {
                clauses.push(before.to_owned());
                clause.clear();
            }
            clause.push_str(word);
            clause.push(' ');
        }
        clauses.push(clause);
    }
    let telling = Query::new(question).clauses;
    let says = |clause: &String| {
        let own = terms(clause);
        telling.iter().any(|word| own.contains(&word.term) && !is_doing(&word.term))
    };
    clauses.iter_mut().for_each(|clause| *clause = clause.trim_matches([' ', ',']).to_owned());
    clauses.retain(says);
    if (2..=CLAUSES).contains(&clauses.len()) { clauses } else { vec![question.to_owned()] }
}

/// `question` without the words that only say what to do, where an order begins: `Compare`, `and list`. It is whole if
/// nothing else is there.
pub(super) fn subject(question: &str) -> String {
    let mut begins = true;
    let is_kept = |word: &&str| {
        let is_order = std::mem::take(&mut begins) && is_doing(&word.to_lowercase());
        begins = is_order || *word == "and" || word.ends_with(['.', ',', ';', ':', '?', '!']);
        !is_order
    };
    let subject = question.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ");
    if terms(&subject).is_empty() { question.to_owned() } else { subject }
}

/// What is searched for beside the whole `question`: each clause, and each side of a clause that compares. A clause
/// that speaks of what another one names says nothing alone.
pub(super) fn parts(question: &str) -> Vec<String> {
    let mut clauses = clauses(question);
    clauses.retain(|clause| !clause.split_whitespace().any(|word| is_of(POINTING, &word.to_lowercase())));
    clauses.into_iter().flat_map(|clause| sides(&clause).map_or(vec![clause], Vec::from)).collect()
}

/// A comparison without what only its second side says, and without what only its first one says.
fn sides(question: &str) -> Option<[String; 2]> {
    let text = question.to_lowercase();
    let text = text.split(['?', ';', '\n']).next().unwrap_or_default();
    let sides = |(before, between): &(&str, &str)| text.split_once(before)?.1.split_once(between);
    let (a, b) = COMPARISONS.iter().find_map(sides)?;
    let b = b.split([',', '.']).next().unwrap_or_default();
    let only = |own: &str, other: &str| -> Vec<String> {
        let (words, others) = (terms(own), terms(other));
        let telling = Query::new(own).clauses.into_iter().map(|clause| clause.term);
        telling.filter(|term| words.contains(term) && !others.contains(term)).collect()
    };
    let (a, b) = (only(a, b), only(b, a));
    // What stands before the first side or after the second one is of both.
    let each = a.len().min(b.len());
    let (a, b) = (&a[a.len() - each..], &b[..each]);
    let without = |left_out: &[String]| {
        let is_kept = |word: &&str| !terms(word).iter().any(|term| left_out.contains(term));
        question.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ")
    };
    (each > 0).then(|| [without(b), without(a)])
}

/// Beginnings of sentences that say for whom or how an answer is written, and nothing about what is asked.
const PREAMBLES: [&str; 14] = [
    "you are ",
    "you have ",
    "you will ",
    "i am preparing",
    "we are preparing",
    "internal documents",
    "documents are ",
    "the documents ",
    "please rely",
    "please use",
    "keep it ",
    "use only ",
    "answer in ",
    "du bist ",
];

/// `question` without sentences that only say for whom or how an answer is written; whole if nothing else is there.
pub(super) fn without_preamble(question: &str) -> String {
    let is_preamble = |sentence: &&str| {
        let text = sentence.trim().to_lowercase();
        PREAMBLES.iter().any(|beginning| text.starts_with(beginning)) && !text.ends_with('?')
    };
    let kept: String = question.split_sentence_bounds().filter(|sentence| !is_preamble(sentence)).collect();
    if terms(&kept).is_empty() { question.to_owned() } else { kept.trim().to_owned() }
}

/// Whether `question` asks for all of something.
pub(super) fn asks_for_all(question: &str) -> bool {
    const ALL: &str = "all every list alle jede liste";
    let question = question.to_lowercase();
    question.contains("how many") || question.split_whitespace().any(|word| is_of(ALL, word))
}

/// The sentences of `question` that ask; all of it if none ends with a question mark.
pub(super) fn asking(question: &str) -> String {
    let sentences = question.split_sentence_bounds().filter(|sentence| sentence.trim().ends_with('?'));
    let asking: String = sentences.collect();
    if asking.is_empty() { without_preamble(question) } else { asking }
}

/// The names in `asked`: options and code, years, and words with a capital where a capital means a name. In a title
/// most words have one, and in German every noun: there, a name stands behind another such word (`Kühlhaus Trossheim`).
pub(super) fn names<'a>(asked: &'a str, language: &str) -> Vec<&'a str> {
    let is_capital = |word: &str| word.starts_with(char::is_uppercase) && word.chars().nth(1).is_some();
    let words = || asked.split_whitespace();
    let capitals = words().filter(|word| is_capital(word)).count();
    let is_title = language != "de" && words().count() > 2 && 2 * capitals > words().count();
    let (mut begins, mut behind_capital) = (true, false);
    let mut names = Vec::new();
    for word in words() {
        let is_first = std::mem::replace(&mut begins, word.ends_with(['.', '?', '!', ':']));
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-' && c != '`');
        if is_year(bare)
            || bare.starts_with('-')
            || bare.len() > 2 && bare.starts_with('`') && bare.ends_with('`')
        {
            names.push(bare.trim_matches(['-', '`']));
            continue;
        }
        for part in bare.split(['-', '/']) {
            let name = part.strip_suffix("'s").or_else(|| part.strip_suffix("’s")).unwrap_or(part);
            // `MongoDB`, `IPv6`
            let is_odd = name.chars().skip(1).any(char::is_uppercase);
            let is_name = (!is_first && !is_title) && (language != "de" || behind_capital) || is_odd;
            if is_capital(name) && is_name {
                names.push(name);
            }
            behind_capital = is_capital(name) && !is_first;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// A year of the last or of this century.
pub(super) fn is_year(word: &str) -> bool {
    word.len() == 4 && (word.starts_with("19") || word.starts_with("20")) && word.parse::<u16>().is_ok()
}

/// Whether `word`, or the word of which it is the stem, only says what to do.
pub(super) fn is_doing(word: &str) -> bool {
    is_of(DOING, word) || terms(DOING).iter().any(|stem| stem == word)
}

fn is_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_ask_by_themselves() {
        for (question, expected) in [
            ("How does a lease end?", &["How does a lease end?"][..]),
            (
                "How does a lease end, and what does a driver do then?",
                &["How does a lease end", "what does a driver do then"],
            ),
            (
                "When may a pilot refuse? What does a crane cost?",
                &["When may a pilot refuse", "What does a crane cost"],
            ),
            (
                "Compare cats with dogs and list their limits",
                &["Compare cats with dogs", "list their limits"],
            ),
            ("Pilots, cranes and mooring lines", &["Pilots, cranes and mooring lines"]),
            ("Leases? And why?", &["Leases? And why?"]),
            ("and how do leases end", &["and how do leases end"]),
            ("", &[""]),
            ("a; b; c; d; e; f", &["a; b; c; d; e; f"]),
        ] {
            assert_eq!(clauses(question), expected, "{question}");
        }
    }

    #[test]
    fn an_order_is_no_subject() {
        for (question, expected) in [
            (
                "Compare cats with dogs, and list the limits of a run",
                "cats with dogs, and the limits of a run",
            ),
            ("How do I name a branch? Show it.", "How do I name a branch? it."),
            ("Show everything", "Show everything"),
            ("What does `git show` compare?", "What does `git show` compare?"),
        ] {
            assert_eq!(subject(question), expected);
        }
    }

    #[test]
    fn the_sides_of_a_comparison_are_parts() {
        for (question, expected) in [
            (
                "Compare what happens when Postgres is down with what happens when Redis is down, and list the limits",
                &[
                    "Compare what happens when Postgres is down with what happens when is down",
                    "Compare what happens when is down with what happens when Redis is down",
                    "list the limits",
                ][..],
            ),
            (
                "What is the difference between axum and warp in tests?",
                &[
                    "What is the difference between axum and in tests?",
                    "What is the difference between and warp in tests?",
                ],
            ),
            ("tokio vs. async-std", &["tokio vs.", "vs. async-std"]),
            ("Compare the crane", &["Compare the crane"]),
            ("Does Redis speak TLS?", &["Does Redis speak TLS?"]),
        ] {
            assert_eq!(parts(question), expected);
        }
    }

    #[test]
    fn names_have_a_capital_where_it_means_one() {
        for (asked, language, expected) in [
            ("Does Redis 7's cluster speak TLS? Which one?", "en", &["Redis", "TLS"][..]),
            (
                "Do Rotterdam-based staff of ACME's `lab` use --fast in 2024?",
                "en",
                &["Rotterdam", "ACME", "lab", "fast", "2024"],
            ),
            ("When Do Surveys Of MongoDB Take Place?", "en", &["MongoDB"]),
            ("Wie hoch ist das Entgelt im Kühlhaus Trossheim?", "de", &["Trossheim"]),
            ("港の船はいつ出ますか", "ja", &[]),
        ] {
            assert_eq!(names(asked, language), expected, "{asked}");
        }
    }

    #[test]
    fn a_preamble_asks_nothing() {
        let question =
            "You are preparing a meeting. Internal documents are available. How many came in 2024?";
        assert_eq!(without_preamble(question), "How many came in 2024?");
        assert_eq!(asking("We have a slow line. How is this set? Thanks."), "How is this set? ");
        assert_eq!(without_preamble("You are here."), "You are here.");
    }
}

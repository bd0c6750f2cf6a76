//! Words: which of them matter, and when two are the same.

use std::collections::HashSet;
use std::sync::LazyLock;

use tree_agent_contract::spelling;
use unicode_segmentation::UnicodeSegmentation;

/// Maximum of terms in one query, about one or two sentences.
pub(super) const TERMS: usize = 16;
/// Maximum of bytes of a term. Anything longer is not a word.
const TERM_BYTES: usize = 64;

/// Words that say nothing about a subject: function words of some languages, and verbs that questions use.
const STOP: &str = "\
    finally firstly lastly thorough thoroughly careful carefully
    a able about across actually after against all also although always an and any anyone anything are aren as at
    auch auf aus av avec be because become becomes been before bei being between both briefly but by called can
    cannot come comes comment compare con could cómo dans das dem den der des describe det detail details did
    difference differences do does doesn don du during each ein eine einem einen einer eines el eller else en ensure
    ensures er es est et ever every everything exactly explain find for from get give given go goes going got had
    happen happened happens has have he here how however hva hvordan hvorfor i if im in into is isn ist it its
    itself just kind kinds know known la las le les let lets like list look looks los made make makes making many
    may me mean means mit more most much my need needs never nicht no not nothing now o oder of og on one only or
    other ou our out over overview own para per please por pourquoi på que qui quién quoi qué rather really report
    said same say says several she should show sich since sind so som some someone something sont still such
    summarise summarize summary sur sure tell than that the their them themselves then there therefore these they
    thing things this those though through thus til to too un una und under une unos until up upon us use used uses
    using versus very via von vs want wants warum was way ways we welche welcher welches wenn wer werden were what
    when where whether which while who whom whose why wie will wird with within without won work works would write y
    yet you your zu zum zur
";

/// A word that matters, or a compound of several: `tree-agent`, `node_status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// The stems by which it is compared, part by part; never empty.
    pub(super) stems: Vec<String>,
    /// The original spelling.
    pub(super) shown: String,
}

/// The words of `text` that matter, in order, each once: the first [`TERMS`] of at most [`TERM_BYTES`].
pub(super) fn key_terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for term in words_that_matter(&spelling::joined(text)) {
        if terms.len() == TERMS {
            break;
        }
        if term.shown.len() <= TERM_BYTES && !terms.iter().any(|known| known.stems == term.stems) {
            terms.push(term);
        }
    }
    terms
}

/// The words that matter of a text as a reader sees it: a mark or an entity within a word does not divide it.
fn words_that_matter(joined: &str) -> impl Iterator<Item = Term> {
    compounds(joined).into_iter().filter_map(|word| {
        let stems = stems_of(&spelling::queried(word));
        let lower = spelling::comparable(word).to_lowercase();
        let tiny = word.chars().count() < 2 && word.is_ascii();
        (!tiny && !stems.is_empty() && !is_stop(&lower)).then(|| Term { stems, shown: word.to_owned() })
    })
}

/// Whether `word`, in lower case, says nothing about a subject.
pub(super) fn is_stop(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP.split_ascii_whitespace().collect());
    WORDS.contains(word)
}

/// The stems of every word of `text`, in order, however it is spelled. A compound counts as many words as it has parts.
/// A word that can also be read in one piece (`met**eor**`) is counted in its parts and, at the end, as a whole.
pub(super) fn stems(text: &str) -> std::vec::IntoIter<String> {
    // To Unicode `run_created` and `tree.node` are one word, but to a person who searches they are several.
    stems_of(&spelling::indexed(text)).into_iter()
}

/// The stems of a text that [`spelling`] has put into its form.
fn stems_of(text: &str) -> Vec<String> {
    words_of(text).map(stem).collect()
}

/// The words of such a text.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.unicode_words()
        .map(without_possessive)
        .flat_map(|w| w.split(|c: char| !c.is_alphanumeric()))
        .filter(|w| !w.is_empty())
}

/// The words of `text`. Words joined by a hyphen count as one.
fn compounds(text: &str) -> Vec<&str> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (at, word) in text.unicode_word_indices() {
        let word = without_possessive(word);
        match words.last_mut() {
            Some((from, last)) if text[*from + last.len()..at] == *"-" => {
                *last = &text[*from..at + word.len()]
            }
            _ => words.push((at, word)),
        }
    }
    words.into_iter().map(|(_, word)| word).collect()
}

/// `driver's` without its ending.
fn without_possessive(word: &str) -> &str {
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

/// Folds letter case and common English endings: `lease`, `leases` and `leasing` are the same word. The result need
/// not be a word, because it is only compared.
fn stem(word: &str) -> String {
    let mut s = word.to_lowercase();
    if !s.is_ascii() || s.len() <= 3 || s.ends_with(|c: char| c.is_ascii_digit()) {
        return s;
    }
    // `dies`, `died` and `dying`: words of at most four letters are not shortened further.
    match (s.as_str(), s.len()) {
        ("dying" | "lying" | "tying", _) => return format!("{}ie", &s[..1]),
        (short, 4) if short.ends_with("ies") || short.ends_with("ied") => return s[..3].to_owned(),
        _ => {}
    }
    if s.ends_with("ies") || s.ends_with("ied") {
        s.truncate(s.len() - 3);
        s.push('y');
    } else if s.ends_with('s') && !s.ends_with("ss") && !s.ends_with("us") && !s.ends_with("is") {
        s.truncate(s.len() - 1);
    }
    for (ending, rest) in [("ing", 3), ("ed", 3), ("tion", 5), ("ly", 4)] {
        if s.ends_with(ending) && s.len() - ending.len() >= rest {
            s.truncate(s.len() - ending.len());
            if ending == "tion" {
                s.push('t');
            }
            break;
        }
    }
    if s.len() > 3 && s.ends_with('e') {
        s.pop();
    }
    // `lost` and `loss` beside `lose`.
    if s.len() == 4 && s.ends_with("ost") {
        s.pop();
    }
    let b = s.as_bytes();
    if s.len() > 3 && b[s.len() - 1] == b[s.len() - 2] {
        s.pop();
    }
    s
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", rest.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_fold() {
        for group in [
            &["lease", "leases", "Leasing", "leased"][..],
            &["plan", "plans", "planning", "planned"],
            &["policy", "policies"],
            &["event", "events"],
            &["lose", "loses", "losing", "lost", "loss", "losses"],
            &["die", "dies", "died", "dying"],
            &["execute", "execution", "executed", "executions"],
            &["crash", "crashes", "crashed"],
        ] {
            let first = stem(group[0]);
            assert!(group.iter().all(|w| stem(w) == first), "{group:?} -> {first}");
        }
        assert_eq!(stem("status"), "status");
        assert_eq!(stem("1900"), "1900");
        assert_eq!(stem("Überläufe"), "überläufe");
    }

    #[test]
    fn words_that_look_the_same_are_the_same() {
        for written in
            ["cafés", "cafe\u{301}s", "ｃａｆéｓ", "ca\u{ad}fés", "caf&eacute;s", "**ca**fés", "ca<b>fés</b>"]
        {
            let terms = key_terms(&format!("Where is {written}?"));
            assert_eq!(terms.len(), 1, "{written:?}: {terms:?}");
            assert!(stems("the cafés here").any(|stem| stem == terms[0].stems[0]), "{written:?}: {terms:?}");
            assert!(stems(&format!("the {written} here")).any(|s| s == stem("cafés")), "{written:?}");
        }
    }

    #[test]
    fn only_words_that_matter_are_terms() {
        let shown: Vec<String> = key_terms("How does the driver keep its lease, and what are leases for?")
            .into_iter()
            .map(|t| t.shown)
            .collect();
        assert_eq!(shown, ["driver", "keep", "lease"]);
        let compound = &key_terms("Is a tree-agent's `node_status` full-text?");
        let shown: Vec<&str> = compound.iter().map(|t| t.shown.as_str()).collect();
        assert_eq!(shown, ["tree-agent", "node_status", "full-text"]);
        assert_eq!(compound[0].stems.len(), 2);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}

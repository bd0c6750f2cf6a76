//! Words: which of them matter, and when two are the same.

use std::collections::HashSet;
use std::sync::LazyLock;

use tree_agent_contract::spelling;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Maximum of terms in one query, about one or two sentences.
pub(super) const TERMS: usize = 16;
/// Maximum of bytes of a term. Anything longer is not a word.
const TERM_BYTES: usize = 64;
/// Other forms of a term that are searched for, too.
const FORMS: usize = 3;

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
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The stems by which it is compared, part by part; never empty.
    pub(super) stems: Vec<String>,
    /// The original spelling.
    pub(super) shown: String,
    /// Other words of the same text that have the same stems, at most [`FORMS`].
    pub(super) forms: Vec<String>,
}

impl Eq for Term {}

/// Two terms are the same in whatever forms a text has them.
impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        (&self.stems, &self.shown) == (&other.stems, &other.shown)
    }
}

impl Term {
    /// The word, and the others with the same stems, each as a term of its own.
    pub(super) fn in_all_forms(&self) -> impl Iterator<Item = Self> {
        let form = |shown: &String| Self { stems: self.stems.clone(), shown: shown.clone(), forms: vec![] };
        [&self.shown].into_iter().chain(&self.forms).map(form)
    }

    fn also_as(&mut self, form: String) {
        let same = |known: &String| known.to_lowercase() == form.to_lowercase();
        let is_known = same(&self.shown) || self.forms.iter().any(same);
        if !is_known && self.forms.len() < FORMS {
            self.forms.push(form);
        }
    }

    /// The words that it has, each once.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in words_of(&spelling::queried(&self.shown)) {
            if !words.iter().any(|known| known == word) {
                words.push(word.to_owned());
            }
        }
        words
    }
}

/// The words of `text` that matter, in order, each once: the first [`TERMS`] of at most [`TERM_BYTES`].
pub(super) fn key_terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for term in words_that_matter(&spelling::joined(text)) {
        if terms.len() == TERMS {
            break;
        }
        if term.shown.len() > TERM_BYTES {
            continue;
        }
        match terms.iter_mut().find(|known| known.stems == term.stems) {
            Some(known) => known.also_as(term.shown),
            None => terms.push(term),
        }
    }
    terms
}

/// All words of `text` that matter, in order.
pub(super) fn all_terms(text: &str) -> Vec<Term> {
    words_that_matter(&spelling::joined(text)).collect()
}

/// The words of `text` that matter and are not among `terms`, each once.
pub(super) fn left_out(text: &str, terms: &[Term]) -> Vec<String> {
    let mut known: HashSet<Vec<String>> = terms.iter().map(|term| term.stems.clone()).collect();
    let text = spelling::joined(text);
    words_that_matter(&text).filter(|term| known.insert(term.stems.clone())).map(|term| term.shown).collect()
}

/// The words that matter of a text as a reader sees it: a mark or an entity within a word does not divide it.
fn words_that_matter(joined: &str) -> impl Iterator<Item = Term> {
    compounds(joined).into_iter().filter_map(|word| {
        let stems = stems_of(&spelling::queried(word));
        let lower = spelling::comparable(word).to_lowercase();
        let tiny = word.chars().count() < 2 && word.is_ascii();
        (!tiny && !stems.is_empty() && !is_stop(&lower)).then(|| Term {
            stems,
            shown: word.to_owned(),
            forms: vec![],
        })
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

/// `word`, and what is left of it without each regular ending that it may have, as words of one search for
/// [similar](spelling::Similar) words, which may have other endings. It is for letters, so signs and accents are left
/// out: `pop-ups` may stand for `popup`.
pub(super) fn with_endings(word: &str) -> String {
    /// Shorter ones stand in too many texts.
    const LETTERS: usize = 2;
    let letters: String = word.nfkd().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    // A character may stand for many: what is too long is no word, and must fit into one search.
    if letters.len() > TERM_BYTES {
        return word.to_owned();
    }
    let without = |ending: &str, least: usize| {
        letters.strip_suffix(ending).filter(|rest| rest.len() >= least).map(str::to_owned)
    };
    let mut bases = vec![letters.clone(), stem(&letters)];
    // What the stem has lost, or what is too short to be stemmed: `cells`, `agreed`, `IDs`.
    bases.extend(
        [("s", LETTERS), ("es", 3), ("d", 3), ("ed", 3), ("ing", 3)]
            .iter()
            .filter_map(|(e, n)| without(e, *n)),
    );
    for base in bases.clone() {
        // `city` may stand as `cities`, and `die` as `dying`.
        let plural = base.strip_suffix('y').filter(|rest| !rest.ends_with(['a', 'e', 'o', 'u']));
        bases.extend(plural.map(|rest| format!("{rest}ie")));
        bases.extend(base.strip_suffix("ie").map(|rest| format!("{rest}y")));
    }
    let mut known = HashSet::from([letters.as_str()]);
    let is_word = |base: &&String| {
        let ends = base.ends_with(|c: char| c.is_ascii_alphanumeric());
        ends && base.len() >= LETTERS && base.contains(char::is_alphabetic)
    };
    let others = bases.iter().filter(is_word).filter(|base| known.insert(base.as_str()));
    others.fold(word.to_owned(), |all, other| format!("{all} {other}"))
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
    fn a_word_is_looked_for_with_endings() {
        for (word, with) in [
            ("email", "email"),
            ("cells", "cells cel cell"),
            ("rolling", "rolling rol roll"),
            ("family", "family fami familie"),
            ("CPUs", "CPUs cpu"),
            ("APIs", "APIs api"),
            ("skied", "skied sky skie ski"),
            ("die", "die dy"),
            ("Emails", "Emails email"),
            ("zeppelining", "zeppelining zeppelin"),
            ("gas", "gas ga"),
            ("party", "party partie"),
            ("IDs", "IDs id"),
            ("10000", "10000"),
            ("pipe", "pipe pip"),
            ("parties", "parties party partie parti"),
            ("mp3-files", "mp3-files mp3fil mp3file"),
            ("e-mails", "e-mails email"),
            ("e-mailed", "e-mailed email emaile"),
            ("x-rays", "x-rays xray"),
            ("add-ons", "add-ons addon"),
            ("cafés", "cafés caf cafe"),
            ("Überläufe", "Überläufe uberlauf"),
            ("Straße", "Straße"),
        ] {
            assert_eq!(with_endings(word), with);
        }
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
        let lease = &key_terms("A lease, Leases, leases, leasing, leased, leasings")[0];
        assert_eq!(
            (lease.shown.as_str(), &lease.forms[..]),
            ("lease", &["Leases", "leasing", "leased"].map(str::to_owned)[..])
        );
        let compound = &key_terms("Is a tree-agent's `node_status` full-text?");
        let shown: Vec<&str> = compound.iter().map(|t| t.shown.as_str()).collect();
        assert_eq!(shown, ["tree-agent", "node_status", "full-text"]);
        assert_eq!(compound[0].stems.len(), 2);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }
}

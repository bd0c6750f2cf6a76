//! Which passages answer a query: BM25 over passages, with exact arithmetic.

use std::collections::{BTreeSet, HashMap};

use tree_agent_contract::DocumentId;
use tree_agent_contract::text::one_line;

use super::words::{Term, stems};

/// A passage with fewer words than this scores lower.
const WHOLE_WORDS: f64 = 12.0;
/// A term that occurs in more than this share of the documents says little about any of them ...
const COMMON: f64 = 0.6;
/// ... if there are at least this many documents.
const MANY_DOCUMENTS: usize = 4;
/// A term that weighs less than this share of the heaviest is weak.
const WEAK: f64 = 0.3;
/// A term that weighs at least this share of the heaviest is rare.
const RARE: f64 = 0.7;
/// Terms that are at most this many words apart belong together and score higher.
const NEAR: usize = 3;
/// The only passage with a term is kept if its score is at least the best score divided by this.
pub(super) const ALONE: u64 = 10;

/// A quotation and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// The text, verbatim.
    pub(super) text: String,
    /// Path of the document.
    pub(super) path: String,
    /// The headings above it.
    pub(super) heading: String,
    /// Byte at which it begins.
    pub(super) position: u64,
    /// The document.
    pub(super) document_id: Option<DocumentId>,
}

impl Passage {
    /// `path › heading`.
    pub(super) fn source(&self) -> String {
        if self.heading.is_empty() {
            self.path.clone()
        } else {
            format!("{} › {}", self.path, self.heading)
        }
    }

    /// The text on one line, as it is shown: a line break within a paragraph is a space.
    pub(super) fn shown(&self) -> String {
        one_line(&self.text)
    }
}

/// A passage that answers a query.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) passage: Passage,
    /// Higher is better; comparable within one ranking.
    pub(super) score: u64,
    /// The terms of the query that it, or a heading above it, contains.
    pub(super) terms: BTreeSet<usize>,
}

/// Passages and how often each term of a query occurs in them.
pub(super) struct Counts {
    rows: Vec<Row>,
    /// The weight of each term: the fewer passages contain it, the higher; zero if none does.
    weights: Vec<f64>,
    /// For each term, the share of the documents that contain it; zero if there are too few documents to tell.
    shares: Vec<f64>,
}

struct Row {
    passage: Passage,
    text: Vec<u32>,
    around: Vec<bool>,
    /// The positions of each found term, counted in words.
    places: Vec<(usize, usize)>,
    length: f64,
}

/// Finds terms in texts.
struct Finder<'a> {
    terms: &'a [Term],
    /// Indexed by their first stems, so that each word needs one lookup.
    by_first: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Finder<'a> {
    fn new(terms: &'a [Term]) -> Self {
        let mut by_first: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, term) in terms.iter().enumerate() {
            by_first.entry(&term.stems[0]).or_default().push(i);
        }
        Self { terms, by_first }
    }

    /// Calls `found` with the index of a term and its position for each occurrence in `text`. Returns the number of
    /// words.
    fn find(&self, text: &str, mut found: impl FnMut(usize, usize)) -> usize {
        let words: Vec<String> = stems(text).collect();
        for (at, word) in words.iter().enumerate() {
            for &i in self.by_first.get(word.as_str()).into_iter().flatten() {
                if words[at..].starts_with(&self.terms[i].stems) {
                    found(i, at);
                }
            }
        }
        words.len()
    }
}

impl Counts {
    /// Counts `terms` in `passages`.
    pub(super) fn new(passages: Vec<Passage>, terms: &[Term]) -> Self {
        let finder = Finder::new(terms);
        let mut rows: Vec<Row> = Vec::with_capacity(passages.len());
        // Passages of the same section follow each other.
        let mut above: (String, Vec<bool>) = (String::new(), vec![false; terms.len()]);
        for passage in passages {
            let (mut text, mut places) = (vec![0; terms.len()], Vec::new());
            let length = finder.find(&passage.text, |i, at| {
                text[i] += 1;
                places.push((at, i));
            }) as f64;
            let source = passage.source();
            if above.0 != source {
                let mut around = vec![false; terms.len()];
                finder.find(&source, |i, _| around[i] = true);
                above = (source, around);
            }
            rows.push(Row { passage, text, around: above.1.clone(), places, length });
        }
        // A word that no text holds is lent by headings and paths: what stands below them is about it.
        for i in 0..terms.len() {
            if rows.iter().all(|row| row.text[i] == 0) {
                rows.iter_mut().for_each(|row| row.text[i] = u32::from(row.around[i]));
            }
        }
        let documents: BTreeSet<&str> = rows.iter().map(|r| r.passage.path.as_str()).collect();
        let (mut weights, mut shares) = (Vec::with_capacity(terms.len()), Vec::with_capacity(terms.len()));
        for i in 0..terms.len() {
            let holding = rows.iter().filter(|r| r.text[i] > 0);
            let passages = holding.clone().count() as f64;
            let within: BTreeSet<&str> = holding.map(|r| r.passage.path.as_str()).collect();
            let many = documents.len() >= MANY_DOCUMENTS;
            shares.push(if many { within.len() as f64 / documents.len() as f64 } else { 0.0 });
            weights.push(if passages > 0.0 { log2(1.0 + rows.len() as f64 / passages) } else { 0.0 });
        }
        Self { rows, weights, shares }
    }

    /// The terms that distinguish documents. The others occur in no document or nearly everywhere.
    pub(super) fn telling(&self) -> BTreeSet<usize> {
        self.telling_of(&(0..self.weights.len()).collect())
    }

    /// Those among the terms `of` that distinguish documents: the words of one part of a task.
    pub(super) fn telling_of(&self, of: &BTreeSet<usize>) -> BTreeSet<usize> {
        let weight = |i: usize| match self.shares[i] {
            share if share > COMMON => self.weights[i] * (1.0 - share).max(0.1),
            _ => self.weights[i],
        };
        let heaviest = of.iter().map(|&i| weight(i)).fold(0.0, f64::max);
        of.iter().copied().filter(|&i| weight(i) > 0.0 && weight(i) >= WEAK * heaviest).collect()
    }

    /// Those among `of` that are nearly as rare as the rarest: they tell what a question is about.
    pub(super) fn rarest(&self, of: &BTreeSet<usize>) -> BTreeSet<usize> {
        let heaviest = of.iter().map(|&i| self.weights[i]).fold(0.0, f64::max);
        of.iter().copied().filter(|&i| self.weights[i] >= RARE * heaviest).collect()
    }

    /// The terms, the heaviest first.
    pub(super) fn by_weight(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        order.sort_by(|&a, &b| self.weights[b].total_cmp(&self.weights[a]));
        order
    }

    /// The passages that contain any of the terms `of` in their own text, best first; ties by path and position.
    pub(super) fn ranked(self, of: &BTreeSet<usize>) -> Vec<Ranked> {
        let Self { rows, weights, .. } = self;
        let average = (rows.iter().map(|r| r.length).sum::<f64>() / (rows.len() as f64).max(1.0)).max(1.0);
        let all: f64 = of.iter().map(|&i| weights[i]).sum();
        let mut ranked: Vec<Ranked> = rows
            .into_iter()
            .filter(|row| of.iter().any(|&i| row.text[i] > 0))
            .map(|row| {
                let (mut score, mut weight) = (0.0, 0.0);
                let mut held = BTreeSet::new();
                for &i in of {
                    let times = f64::from(row.text[i]);
                    let mut part = times * 2.2 / (times + 1.2 * (0.5 + 0.5 * row.length / average));
                    if row.around[i] {
                        part += 0.5;
                    }
                    if part > 0.0 {
                        held.insert(i);
                        weight += weights[i];
                    }
                    score += weights[i] * part;
                }
                let near = row.places.windows(2).any(|pair| {
                    let [(a, one), (b, other)] = [pair[0], pair[1]];
                    one != other && b - a <= NEAR && of.contains(&one) && of.contains(&other)
                });
                let score = if near { score * 1.5 } else { score };
                let score = score
                    * (weight / all.max(f64::MIN_POSITIVE)).sqrt()
                    * substance(&row.passage.text, row.length);
                Ranked { passage: row.passage, score: (score * 1000.0) as u64, terms: held }
            })
            .collect();
        ranked.sort_by(|a, b| {
            let key = |r: &Ranked| r.passage.position;
            b.score
                .cmp(&a.score)
                .then_with(|| a.passage.path.cmp(&b.passage.path))
                .then_with(|| key(a).cmp(&key(b)))
                .then_with(|| a.passage.text.cmp(&b.passage.text))
        });
        ranked
    }
}

/// How informative a passage can be, from 0 to 1. A fragment says little however well it matches, a row of a table
/// lacks its column headings, and a line that ends in a colon says nothing yet.
fn substance(text: &str, words: f64) -> f64 {
    let mut substance = (words / WHOLE_WORDS).min(1.0);
    if text.contains(" | ") {
        substance /= 3.0;
    }
    if text.ends_with(':') {
        substance /= 8.0;
    } else if text.ends_with(|c: char| c.is_alphanumeric() || c == '`' || c == ',') {
        substance *= 0.8;
    }
    substance
}

/// The binary logarithm of a number that is at least 1, interpolated linearly between powers of two. IEEE 754 defines
/// every bit of the result; a library's logarithm differs between systems.
pub(super) fn log2(x: f64) -> f64 {
    let (mut whole, mut power) = (0.0, 1.0);
    while power * 2.0 <= x {
        power *= 2.0;
        whole += 1.0;
    }
    whole + x / power - 1.0
}

/// The passages that contain any of `terms` in their own text, best first. A term that no text holds is lent by
/// headings and paths.
pub(super) fn rank(passages: Vec<Passage>, terms: &[Term]) -> Vec<Ranked> {
    Counts::new(passages, terms).ranked(&(0..terms.len()).collect())
}

/// The score from which a passage is worth reading beside one that reaches `best`. The more terms a question has, the
/// larger is the lead of a passage that contains all of them over others that answer a part.
pub(super) fn floor(best: u64, terms: usize) -> u64 {
    best / (2 * terms as u64).clamp(4, 8)
}

/// Leaves out repeats: the same words, or nearly the same, as a better passage.
pub(super) fn without_repeats(ranked: Vec<Ranked>) -> Vec<Ranked> {
    let mut kept: Vec<(BTreeSet<String>, Ranked)> = Vec::new();
    for candidate in ranked {
        let words: BTreeSet<String> = stems(&candidate.passage.text).collect();
        let repeated = kept.iter().any(|(other, _)| {
            let shared = words.intersection(other).count();
            // The two share nine tenths of all their words.
            shared * 10 >= (words.len() + other.len() - shared) * 9
        });
        if !repeated {
            kept.push((words, candidate));
        }
    }
    kept.into_iter().map(|(_, ranked)| ranked).collect()
}

#[cfg(test)]
mod tests {
    use super::super::words::key_terms;
    use super::*;

    fn passage(text: &str, path: &str, heading: &str) -> Passage {
        Passage {
            text: text.into(),
            path: path.into(),
            heading: heading.into(),
            position: 0,
            document_id: None,
        }
    }

    #[test]
    fn rare_terms_and_coverage_lead() {
        let passages = vec![
            passage("A store keeps events.", "a.md", ""),
            passage("A driver holds the lease of a store.", "b.md", ""),
            passage("Nothing here.", "c.md", "Lease"),
            passage("The store, the store, the store.", "d.md", ""),
        ];
        let ranked = rank(passages, &key_terms("lease store"));
        let paths: Vec<&str> = ranked.iter().map(|r| r.passage.path.as_str()).collect();
        assert_eq!(paths[0], "b.md");
        assert!(!paths.contains(&"c.md"), "a heading alone is no answer");
    }

    #[test]
    fn what_stands_below_a_heading_is_about_it_when_no_text_holds_a_term() {
        let passages = || {
            vec![
                passage("Oil it once a week, and never in the rain.", "a.md", "Sprocket"),
                passage("The harbour is closed at night.", "b.md", "Harbour"),
            ]
        };
        let ranked = rank(passages(), &key_terms("Where is the sprocket?"));
        assert_eq!(ranked.iter().map(|r| r.passage.path.as_str()).collect::<Vec<_>>(), ["a.md"]);
        assert!(ranked[0].score > 0, "{ranked:?}");
        let ranked = rank(passages(), &key_terms("sprocket night"));
        assert_eq!(ranked.iter().map(|r| r.passage.path.as_str()).collect::<Vec<_>>(), ["a.md", "b.md"]);
    }

    #[test]
    fn headings_lend_their_words_to_the_passages_below_them() {
        let passages = vec![
            passage("Oil it once a week, and never in the rain or in the dark of night.", "a.md", "Bolt"),
            passage(
                "Oil it once a month, and never in the rain or in the dark of night.",
                "b.md",
                "Sprocket",
            ),
            passage("A sprocket is a wheel with teeth that a chain runs over, as on a bicycle.", "c.md", ""),
        ];
        let ranked = rank(passages, &key_terms("oil the sprocket"));
        assert_eq!(ranked[0].passage.path, "b.md", "{ranked:?}");
        assert_eq!(ranked[0].terms, [0, 1].into(), "{ranked:?}");
    }

    #[test]
    fn the_rarest_words_tell_what_a_question_is_about() {
        let passages = (0..6)
            .map(|i| passage("The harbour is here.", &format!("{i}.md"), ""))
            .chain([passage("The pilot of the harbour refuses.", "7.md", "")])
            .collect();
        let counts = Counts::new(passages, &key_terms("harbour pilot refuses submarine"));
        assert_eq!(counts.rarest(&[0, 1, 2].into()), [1, 2].into());
    }

    #[test]
    fn what_every_document_holds_tells_nothing() {
        let passages: Vec<Passage> = (0..6)
            .map(|i| passage("The harbour is here, and harbour means harbour.", &format!("{i}.md"), ""))
            .chain([passage("The pilot of the harbour refuses.", "7.md", "")])
            .collect();
        let counts = Counts::new(passages, &key_terms("harbour pilot refuses submarine"));
        assert_eq!(counts.telling(), [1, 2].into());
        assert_eq!(counts.by_weight(), [1, 2, 0, 3]);
        assert!([1.0, 2.0, 3.0, 8.0].map(log2) == [0.0, 1.0, 1.5, 3.0]);
    }

    #[test]
    fn a_compound_is_found_as_a_whole() {
        let passages = vec![
            passage("The agent sits in a tree, and says nothing more of it.", "a.md", ""),
            passage("A tree-agent runs, and that is all that there is.", "b.md", ""),
        ];
        let ranked = rank(passages, &key_terms("tree-agent"));
        assert_eq!(ranked.len(), 1);
        assert_eq!(ranked[0].passage.path, "b.md");
    }

    #[test]
    fn repeats_go_and_ties_break_by_path() {
        let passages = vec![
            passage("The lease ends after ten seconds.", "z.md", ""),
            passage("The  lease ends\nafter ten seconds!", "a.md", ""),
            passage("A lease can be renewed.", "a.md", ""),
        ];
        let kept = without_repeats(rank(passages, &key_terms("lease")));
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|r| r.passage.path == "a.md"));
    }
}

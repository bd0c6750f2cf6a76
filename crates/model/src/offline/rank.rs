//! Which passages answer a query: BM25 over passages, with exact arithmetic.

use std::collections::BTreeSet;

use tree_agent_contract::DocumentId;

use super::words::{Term, stems};

/// A passage of fewer words counts for less.
const WHOLE_WORDS: f64 = 10.0;

/// A quotation and where it stands.
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
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// A passage that answers a query.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) passage: Passage,
    /// Higher is better; comparable within one ranking.
    pub(super) score: u64,
    /// Which of the query's terms it, or a heading above it, holds.
    pub(super) terms: BTreeSet<usize>,
}

/// The passages that hold any of `terms` in their own text, best first; ties by path and position.
///
/// A term counts the more the fewer passages hold it. The root stands where the usual formula has a logarithm, because
/// IEEE 754 defines its every bit and a logarithm's differ between systems.
pub(super) fn rank(passages: Vec<Passage>, terms: &[Term]) -> Vec<Ranked> {
    struct Counted {
        text: Vec<u32>,
        around: Vec<bool>,
        length: f64,
    }
    let counted: Vec<Counted> = passages
        .iter()
        .map(|p| {
            let mut c = Counted { text: vec![0; terms.len()], around: vec![false; terms.len()], length: 0.0 };
            for stem in stems(&p.text) {
                c.length += 1.0;
                if let Some(i) = terms.iter().position(|t| t.stem == stem) {
                    c.text[i] += 1;
                }
            }
            for stem in stems(&p.heading).chain(stems(&p.path)) {
                if let Some(i) = terms.iter().position(|t| t.stem == stem) {
                    c.around[i] = true;
                }
            }
            c
        })
        .collect();
    let n = passages.len() as f64;
    let average = (counted.iter().map(|c| c.length).sum::<f64>() / n.max(1.0)).max(1.0);
    let rarity: Vec<f64> = (0..terms.len())
        .map(|i| (n / (counted.iter().filter(|c| c.text[i] > 0).count() as f64).max(1.0)).sqrt())
        .collect();
    let mut ranked: Vec<Ranked> = passages
        .into_iter()
        .zip(counted)
        .filter(|(_, c)| c.text.iter().any(|&n| n > 0))
        .map(|(passage, c)| {
            let mut score = 0.0;
            let mut held = BTreeSet::new();
            for (i, &times) in c.text.iter().enumerate() {
                let times = f64::from(times);
                let mut part = times * 2.2 / (times + 1.2 * (0.25 + 0.75 * c.length / average));
                if c.around[i] {
                    part += 0.5;
                }
                if part > 0.0 {
                    held.insert(i);
                }
                score += rarity[i] * part;
            }
            let coverage = held.len() as f64 / terms.len() as f64;
            // A fragment says little however well it matches, and a line that ends in a colon says nothing yet.
            let substance = (c.length / WHOLE_WORDS).min(1.0);
            let substance = if passage.text.ends_with(':') { substance / 4.0 } else { substance };
            Ranked { passage, score: (score * coverage * substance * 1000.0) as u64, terms: held }
        })
        .collect();
    ranked.sort_by(|a, b| {
        let key = |r: &Ranked| (r.passage.path.clone(), r.passage.position);
        b.score
            .cmp(&a.score)
            .then_with(|| key(a).cmp(&key(b)))
            .then_with(|| a.passage.text.cmp(&b.passage.text))
    });
    ranked
}

/// Leaves out repeats: the same words, or nearly the same, as a better passage.
pub(super) fn without_repeats(ranked: Vec<Ranked>) -> Vec<Ranked> {
    let mut kept: Vec<(BTreeSet<String>, Ranked)> = Vec::new();
    for candidate in ranked {
        let words: BTreeSet<String> = stems(&candidate.passage.text).collect();
        let repeated = kept.iter().any(|(other, _)| {
            let shared = words.intersection(other).count();
            // Nine tenths of all words of both are shared.
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

//! Plain BM25 over passages: the baseline that a tree must beat.

use std::collections::HashMap;

use crate::set::{Passage, QuestionSet};
use crate::text::words;

/// How soon more occurrences of a word stop to matter.
const K1: f64 = 1.2;
/// How much longer passages count less.
const B: f64 = 0.75;
/// Words that say nothing about a subject. Without them BM25 is a little better, so this makes the baseline stronger.
const STOP: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "in", "is", "it", "its", "of", "on", "or", "that", "the", "their", "they", "to", "was",
    "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "with",
];

/// An index over the passages of a set.
pub struct Bm25 {
    /// Word to the passages that hold it, with the number of times.
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    average: f64,
}

impl Bm25 {
    /// Indexes the title and the text of every passage.
    pub fn new(set: &QuestionSet) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (i, Passage { title, text, .. }) in set.passages.iter().enumerate() {
            let words = words(&format!("{title} {text}"));
            lengths.push(words.len() as f64);
            for word in words {
                let rows = postings.entry(word).or_default();
                match rows.last_mut() {
                    Some((last, times)) if *last == i => *times += 1.0,
                    _ => rows.push((i, 1.0)),
                }
            }
        }
        let average = lengths.iter().sum::<f64>() / (lengths.len() as f64).max(1.0);
        Self { postings, lengths, average }
    }

    /// The best `most` passages for `query`, best first; ties in the order of the set.
    pub fn best(&self, query: &str, most: usize) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut asked = words(query);
        asked.sort_unstable();
        asked.dedup();
        for word in asked.iter().filter(|w| !STOP.contains(&w.as_str())) {
            let Some(rows) = self.postings.get(word) else { continue };
            let (all, holding) = (self.lengths.len() as f64, rows.len() as f64);
            let weight = (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln();
            for &(i, times) in rows {
                let long = 1.0 - B + B * self.lengths[i] / self.average;
                *scores.entry(i).or_default() += weight * times * (K1 + 1.0) / (times + K1 * long);
            }
        }
        let mut found: Vec<(usize, f64)> = scores.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().take(most).map(|(i, _)| i).collect()
    }
}

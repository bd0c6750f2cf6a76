//! The order of passages by the words of a query.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tree_agent_contract::WordCount;
use tree_agent_contract::text::prefix;

use crate::chunk::Kind;
use crate::format::Format;
use crate::terms::{Clause, Query, terms};
use crate::visible::{self, Part};

/// BM25: how soon the repetition of a word stops to count.
const K1: f64 = 1.2;
/// BM25: how much a long passage must hold more words.
const B: f64 = 0.6;
/// Terms of a passage of usual length.
const MEAN_TERMS: f64 = 120.0;

/// How many times a word of a heading counts.
const HEADING_WEIGHT: usize = 3;
/// The passages of a document that speak for the others: a document with several good ones is about the query.
const DOCUMENT_BEST: usize = 4;
/// How much the mean score of these counts for each passage of the document. Measured: it takes a tenth more of the
/// quotations from documents that answer, and costs no answer.
const DOCUMENT_WEIGHT: f64 = 0.4;
/// Bytes of the head of a table that a model reads with its rows.
const EMBEDDED_HEAD_BYTES: usize = 200;

/// A passage with what is searched of it.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The path of its document.
    pub path: &'a str,
    /// The title of its document.
    pub title: &'a str,
    /// The headings above it.
    pub headings: &'a [String],
    /// What it is.
    pub kind: Kind,
    /// The head of the table that it goes on with.
    pub head: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The byte of the body at which it begins.
    pub offset: usize,
}

impl Passage<'_> {
    /// The terms of the passage, in their order: those of its path, of its titles, of its head and of its text as a
    /// reader sees it, without marks and addresses of links.
    pub fn terms(&self) -> Vec<String> {
        let (name, _) = self.path.rsplit_once('.').unwrap_or((self.path, ""));
        let mut all = terms(name);
        if self.headings.first().is_none_or(|first| first != self.title) {
            all.extend(terms(self.title));
        }
        for heading in self.headings.iter().flat_map(|heading| std::iter::repeat_n(heading, HEADING_WEIGHT)) {
            all.extend(terms(heading));
        }
        all.extend(terms(&self.shown(self.head)));
        all.extend(terms(&self.shown(self.text)));
        all
    }

    /// What a model reads to tell the meaning of the passage.
    pub fn embedded(&self) -> String {
        let title = Some(self.title).filter(|title| self.headings.first().is_none_or(|first| first != title));
        let heads: Vec<&str> = title.into_iter().chain(self.headings.iter().map(String::as_str)).collect();
        let text = self.shown(self.text);
        let head = self.shown(self.head).split_whitespace().collect::<Vec<_>>().join(" ");
        let head = match prefix(&head, EMBEDDED_HEAD_BYTES) {
            "" => String::new(),
            head => format!("{head}\n"),
        };
        format!("{}\n{head}{}", heads.join(" › "), text.trim())
    }

    /// A part of it as a reader sees it.
    fn shown<'b>(&self, text: &'b str) -> Cow<'b, str> {
        match self.kind != Kind::Code && Format::of(self.path, "") == Format::Markdown {
            true => Cow::Owned(shown(text)),
            false => Cow::Borrowed(text),
        }
    }
}

/// The text that a reader of Markdown sees.
fn shown(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    visible::read(markdown, false, |part, _| match part {
        Part::Text(text, _) => out.push_str(text),
        Part::Divider(_) => out.push('\n'),
    });
    out
}

/// How often the clauses of a query occur in the passages that are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All passages.
    pub passages: u64,
    /// The passages that hold each clause, in the order of the clauses.
    pub holding: Vec<u64>,
}

impl Counts {
    /// Counts in the terms of all passages that are searched.
    pub fn of(query: &Query, passages: &[Vec<String>]) -> Self {
        let holding = |clause| passages.iter().filter(|terms| occurrences(clause, terms) > 0).count() as u64;
        let holding = query.clauses.iter().map(holding).collect();
        Self { passages: passages.len() as u64, holding }
    }

    /// How many passages hold each clause of `query`, by its term.
    pub fn words(&self, query: &Query) -> Vec<WordCount> {
        let word = |(clause, passages): (&Clause, &u64)| WordCount {
            word: clause.term.clone(),
            passages: *passages,
        };
        query.clauses.iter().zip(&self.holding).map(word).collect()
    }

    /// How much each clause weighs: the rarer, the more. Whole numbers are added alike by every database.
    pub fn weights(&self) -> Vec<i64> {
        let all = self.passages as f64;
        let weight = |n: &u64| {
            let n = (*n as f64).min(all);
            (1_000.0 * (1.0 + (all - n + 0.5) / (n + 0.5)).ln()).round() as i64
        };
        self.holding.iter().map(weight).collect()
    }
}

/// The place of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Its index among the candidates.
    pub index: usize,
    /// Higher is better; comparable only within one ranking.
    pub score: f64,
}

/// The candidates that hold words of `query`, best first: by BM25, and by how well the best passages of their document
/// match. Equal ones are in the order of their paths and offsets.
pub fn rank(query: &Query, candidates: &[Passage<'_>], counts: &Counts) -> Vec<Ranked> {
    let weights = counts.weights();
    let mut ranked: Vec<Ranked> = candidates
        .iter()
        .enumerate()
        .map(|(index, passage)| Ranked { index, score: score(&query.clauses, &weights, &passage.terms()) })
        .filter(|ranked| ranked.score > 0.0)
        .collect();
    let mut documents: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for Ranked { index, score } in &ranked {
        documents.entry(candidates[*index].path).or_default().push(*score);
    }
    for scores in documents.values_mut() {
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.truncate(DOCUMENT_BEST);
    }
    for Ranked { index, score } in &mut ranked {
        let best: f64 = documents[candidates[*index].path].iter().sum();
        *score += DOCUMENT_WEIGHT * best / DOCUMENT_BEST as f64;
    }
    let place = |ranked: &Ranked| {
        let passage = &candidates[ranked.index];
        (passage.path, passage.offset)
    };
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| place(a).cmp(&place(b))));
    ranked
}

fn score(clauses: &[Clause], weights: &[i64], terms: &[String]) -> f64 {
    let norm = K1 * (1.0 - B + B * terms.len() as f64 / MEAN_TERMS);
    let mut sum = 0.0;
    for (clause, weight) in clauses.iter().zip(weights) {
        let found = occurrences(clause, terms) as f64;
        sum += *weight as f64 * found * (K1 + 1.0) / (found + norm);
    }
    sum
}

fn occurrences(clause: &Clause, terms: &[String]) -> usize {
    let whole = terms.iter().filter(|term| **term == clause.term).count();
    if clause.pairs.is_empty() {
        return whole;
    }
    whole + terms.windows(2).filter(|pair| clause.pairs.iter().any(|halves| halves[..] == **pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage<'a>(path: &'a str, headings: &'a [String], text: &'a str) -> Passage<'a> {
        Passage { path, title: "", headings, kind: Kind::Text, head: "", text, offset: 0 }
    }

    fn order(query: &str, passages: &[Passage<'_>]) -> Vec<usize> {
        let query = Query::new(query);
        let all: Vec<Vec<String>> = passages.iter().map(Passage::terms).collect();
        let counts = Counts::of(&query, &all);
        rank(&query, passages, &counts).iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn rare_words_and_short_passages_come_first() {
        let passages = [
            passage(
                "a.md",
                &[],
                "A driver renews its lease, in time, and long before anybody can see it end.",
            ),
            passage("b.md", &[], "A driver renews its lease."),
            passage("c.md", &[], "A driver quarantines a run."),
            passage("d.md", &[], "Nothing of it."),
        ];
        assert_eq!(order("Which driver was quarantined?", &passages), [2, 1, 0]);
    }

    #[test]
    fn headings_and_paths_are_found_and_equal_passages_keep_the_order_of_their_paths() {
        let headings = ["Leases".to_owned()];
        let passages = [
            passage("z.md", &headings, "It ends."),
            passage("a.md", &headings, "It ends."),
            passage("lease.md", &[], "It ends."),
        ];
        assert_eq!(order("lease", &passages), [1, 0, 2]);
    }

    #[test]
    fn words_are_found_in_one_piece_and_in_two() {
        let texts = ["a failover", "a fail-over", "to fail over", "over the fail"];
        let passages = texts.map(|text| passage("x.md", &[], text));
        assert_eq!(order("failover", &passages), [0, 1, 2]);
        assert_eq!(order("fail over", &passages).len(), 4);
    }

    #[test]
    fn addresses_and_marks_are_no_text() {
        let text =
            "[the **met**eor](http://x.example/secret) <b title='y'>falls</b> `fast`\n\n<p>far&amp;wide</p>";
        assert_eq!(passage("", &[], text).terms(), ["the", "meteor", "fall", "fast", "far", "wide"]);
        let code = Passage { kind: Kind::Code, ..passage("", &[], "Vec<String>") };
        assert_eq!(code.terms(), ["vec", "string"]);
    }
}

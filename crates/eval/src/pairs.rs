//! Pairs of a statement and a quote that are made of the sentences of documents: whether `support` tells those that say
//! the same from those in which a number, a name or a denial is another, or that only stand beside each other.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use tree_agent_retrieval::{Said, Support, sentences, support};

/// The ways in which a pair is made. In the first three the quote supports the statement.
const WAYS: [&str; 7] = [
    "the same",
    "its beginning",
    "two quotes",
    "a number changed",
    "a name changed",
    "a denial added",
    "the neighbour",
];
/// Of these, those that are supported.
const GOLD: usize = 3;
/// Every so many sentences one is taken.
const STEP: usize = 5;
/// Verbs behind which a denial is put.
const VERBS: [&str; 10] = ["is", "are", "was", "were", "can", "will", "does", "must", "has", "may"];

/// What was found: for each way pairs, and those of them that are supported, contradicted, computed and open.
#[derive(Debug, Default)]
pub struct Pairs([[usize; 5]; WAYS.len()]);

impl Pairs {
    /// Makes pairs of all text files below `folder`.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn of_folder(folder: &Path) -> anyhow::Result<Self> {
        let (mut pairs, mut open) = (Self::default(), vec![folder.to_owned()]);
        while let Some(folder) = open.pop() {
            let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if let Ok(text) = std::fs::read_to_string(&path) {
                    pairs.add(&text);
                }
            }
        }
        Ok(pairs)
    }

    /// Makes pairs of the prose of a text.
    pub fn add(&mut self, text: &str) {
        let is_prose = |part: &&str| {
            !part.contains(['|', '{', '}', '<', '[']) && !part.contains("```") && !part.contains("://")
        };
        let prose =
            text.split("\n\n").filter(is_prose).filter(|part| !part.starts_with(['#', '-', '*', ' ']));
        let parts: Vec<String> =
            prose.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let all: Vec<&str> =
            parts.iter().flat_map(|part| part.split_inclusive(". ")).map(str::trim).collect();
        let of_size = |text: &&str| (8..40).contains(&text.split(' ').count()) && text.ends_with('.');
        let all: Vec<&str> = all.into_iter().filter(of_size).collect();
        for (one, next) in all.windows(2).map(|pair| (pair[0], pair[1])).step_by(STEP) {
            self.pair(0, one, &[one]);
            let words: Vec<&str> = one.split(' ').collect();
            self.pair(1, &words[..words.len() * 3 / 4].join(" "), &[one]);
            self.pair(2, one, &[next, one]);
            if let Some(at) = one.find(|c: char| c.is_ascii_digit()) {
                let digit = if one[at..].starts_with('9') { "3" } else { "9" };
                self.pair(3, &format!("{}{digit}{}", &one[..at], &one[at + 1..]), &[one]);
            }
            let is_name = |at: &usize| {
                let is_long = words[*at].len() > 3 && words[*at].starts_with(char::is_uppercase);
                is_long && !words[*at - 1].ends_with([':', '"', '('])
            };
            if let Some(at) = (1..words.len()).find(is_name) {
                self.pair(4, &[&words[..at], &["Zanzibar"], &words[at + 1..]].concat().join(" "), &[one]);
            }
            let denies = |text: &str| [" not ", " no ", "n't "].iter().any(|denial| text.contains(denial));
            let verb = words.iter().position(|word| VERBS.contains(word));
            if let Some(at) = verb.filter(|_| !denies(one) && !one.contains("only")) {
                self.pair(5, &[&words[..=at], &["not"], &words[at + 1..]].concat().join(" "), &[one]);
            }
            self.pair(6, next, &[one]);
        }
    }

    fn pair(&mut self, way: usize, statement: &str, quotes: &[&str]) {
        let quotes: Vec<Said> = quotes.iter().flat_map(|quote| sentences(quote)).collect();
        let found = support(&Said::of(statement), &quotes.iter().collect::<Vec<_>>(), &Said::default());
        let column = match found {
            Support::Supported => 1,
            Support::Contradicted { .. } => 2,
            Support::Computed => 3,
            Support::Open => 4,
        };
        self.0[way][0] += 1;
        self.0[way][column] += 1;
    }

    /// All pairs.
    pub fn total(&self) -> usize {
        self.0.iter().map(|way| way[0]).sum()
    }

    /// Of the pairs that are called supported, the share that is.
    pub fn precision(&self) -> f64 {
        let supported = |ways: &[[usize; 5]]| ways.iter().map(|way| way[1]).sum::<usize>() as f64;
        supported(&self.0[..GOLD]) / supported(&self.0)
    }

    /// Of the pairs that are supported, the share that is called so.
    pub fn recall(&self) -> f64 {
        let gold = &self.0[..GOLD];
        gold.iter().map(|way| way[1]).sum::<usize>() as f64
            / gold.iter().map(|way| way[0]).sum::<usize>() as f64
    }

    /// Pairs with a changed number that are called supported: there must be none.
    pub fn wrong_numbers(&self) -> usize {
        self.0[GOLD][1]
    }

    /// As a table of Markdown.
    pub fn table(&self) -> String {
        let mut table = "| pair | pairs | supported | contradicted | computed | open |\n".to_owned();
        table.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
        for (way, [pairs, supported, contradicted, computed, open]) in WAYS.iter().zip(self.0) {
            let _ =
                writeln!(table, "| {way} | {pairs} | {supported} | {contradicted} | {computed} | {open} |");
        }
        let _ = writeln!(table, "\nprecision {:.3}, recall {:.3}", self.precision(), self.recall());
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_their_quotes_support_are_told_from_others() {
        let pairs = Pairs::of_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")).unwrap();
        assert!(pairs.total() > 300, "{}", pairs.table());
        assert_eq!(pairs.wrong_numbers(), 0, "{}", pairs.table());
        assert!(pairs.precision() >= 0.95 && pairs.recall() >= 0.9, "{}", pairs.table());
    }
}

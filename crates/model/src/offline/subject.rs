//! What a node looks for, and the documents that speak of it.

use std::collections::{BTreeMap, BTreeSet};

use super::rank::{ALONE, Counts, Passage, floor};
use super::step;
use super::words::{Term, listed};

/// Passages of a document that count towards its weight: one long document must not outweigh several good ones.
const WEIGHED: usize = 3;
/// Terms that a title names.
pub(super) const NAMED: usize = 3;

/// A document and what it has to say.
pub(super) struct Found {
    pub(super) path: String,
    pub(super) score: u64,
    /// Score of its best passage.
    pub(super) best: u64,
    pub(super) passages: usize,
    /// The most terms that one of its passages holds.
    pub(super) covers: usize,
    pub(super) terms: BTreeSet<usize>,
}

/// What a node looks for, as far as its documents know of it.
pub(super) struct Subject {
    pub(super) terms: Vec<Term>,
    /// Those that tell where the answer stands, the heaviest first.
    pub(super) telling: Vec<usize>,
    /// Those of them that are rare.
    rare: BTreeSet<usize>,
}

impl Subject {
    /// `terms` by weight, at most [`NAMED`] of them, in the order of the objective.
    pub(super) fn heaviest(&self, among: &BTreeSet<usize>) -> Vec<&str> {
        let mut chosen: Vec<usize> =
            self.telling.iter().copied().filter(|i| among.contains(i)).take(NAMED).collect();
        chosen.sort_unstable();
        self.shown(&chosen)
    }

    pub(super) fn shown<'a>(&self, indices: impl IntoIterator<Item = &'a usize>) -> Vec<&str> {
        indices.into_iter().map(|&i| self.terms[i].shown.as_str()).collect()
    }

    /// The few words that say what it is about.
    pub(super) fn what(&self) -> String {
        match self.telling.as_slice() {
            [] => listed(&shown(&self.terms, NAMED)),
            some => listed(&self.heaviest(&some.iter().copied().collect())),
        }
    }

    /// What the executor and the aggregator of the same node need to know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.telling.is_empty() {
            let telling: BTreeSet<usize> = self.telling.iter().copied().collect();
            notes.push(step::quotes(&self.shown(&telling)));
        }
        if !self.rare.is_empty() {
            notes.push(step::rare(&self.shown(&self.rare)));
        }
        notes
    }
}

/// The documents that are worth a step, best first, and what they are asked for.
pub(super) fn weigh(passages: Vec<Passage>, terms: Vec<Term>) -> (Vec<Found>, Subject) {
    let counts = Counts::new(passages, &terms);
    let telling = counts.telling();
    let by_weight = counts.by_weight().into_iter().filter(|i| telling.contains(i)).collect();
    let subject = Subject { terms, telling: by_weight, rare: counts.rarest(&telling) };
    let mut by_path: BTreeMap<String, Found> = BTreeMap::new();
    for ranked in counts.ranked(&telling) {
        let path = ranked.passage.path;
        let found = by_path.entry(path.clone()).or_insert_with(|| Found {
            path,
            score: 0,
            best: ranked.score,
            passages: 0,
            covers: 0,
            terms: BTreeSet::new(),
        });
        if found.passages < WEIGHED {
            found.score += ranked.score;
        }
        found.passages += 1;
        found.covers = found.covers.max(ranked.terms.len());
        found.terms.extend(ranked.terms);
    }
    let mut found: Vec<Found> = by_path.into_values().collect();
    // Stable: ties keep the order of paths.
    found.sort_by_key(|f| std::cmp::Reverse(f.score));
    let (most, best) =
        (found.first().map_or(0, |f| f.score), found.iter().map(|f| f.best).max().unwrap_or(0));
    // Many weak passages do not make up for a good one; a document that alone knows of a term is kept with less.
    let (mut known, broad) = (BTreeSet::new(), telling.len());
    found.retain(|f| {
        let adds = !f.terms.is_subset(&known);
        let keep =
            f.score >= floor(most, broad) && f.best >= floor(best, broad) || adds && f.best * ALONE >= best;
        if keep {
            known.extend(&f.terms);
        }
        keep
    });
    (found, subject)
}

/// The first `most` of `terms`.
pub(super) fn shown(terms: &[Term], most: usize) -> Vec<&str> {
    terms.iter().take(most).map(|t| t.shown.as_str()).collect()
}

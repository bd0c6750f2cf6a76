//! Trails: passages one after the other, each of which holds a name that the one before brought up.
//!
//! A question of several steps has no passage that answers it. Its first passage holds what the question names; what
//! that passage names, and the question does not, leads to the next one. A trail is the better, the more of the
//! question's words its passages hold together, and the rarer the names that link them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::names::{key, names};
use super::rank::{Passage, log2};
use super::words::{Term, key_terms, stems};

/// Passages of a trail at the most.
const HOPS: usize = 4;
/// Passages from which trails begin.
const SEEDS: usize = 10;
/// Trails that are followed further.
const BEAM: usize = 20;
/// Passages with the same name that are tried, the most promising first.
const TRIED: usize = 30;
/// Names of one passage that are followed: more of them are a list.
const NAMES: usize = 64;
/// A name whose rarest word stands in more passages than this leads nowhere: it tells little, and would cost much.
const COMMON: usize = 1_000;
/// Passages to which one passage leads before others have had their turn.
const BRANCHES: usize = 5;
/// The best passages by the question's own words that are returned whatever trails are worth.
const FIRST: usize = 1;
/// Passages of one document that are returned.
const PER_DOCUMENT: usize = 3;

// The weights below were tuned on one half of the questions of docs/evaluation.md. Amounts are for a context in which a
// word that stands in one passage has a rarity of REFERENCE; in others they grow and shrink with the rarity of such a
// word.

/// The rarity of a word that stands in one of 2,000 passages.
const REFERENCE: f64 = 7.0;

/// Weight of a word that is part of no name.
const COMMON_WORD: f64 = 0.3;
/// Weight of the words of headings beside those of the text.
const HEADING: f64 = 1.5;
/// Weight of a name that links two passages, for each unit of its rarity.
const LINK: f64 = 1.1;
/// The rarest name counts no more than this.
const RAREST: f64 = 7.0;
/// A passage whose title is the name that leads to it.
const TITLED: f64 = 4.0;
/// A passage whose title holds that name: the share of the title times this.
const PART_OF_TITLE: f64 = 2.0;
/// Weight of a name of the question that stands in a passage as a whole, for each unit of its rarity.
const WHOLE_NAME: f64 = 0.7;
/// A passage whose title is a name of the question.
const ASKED_TITLE: f64 = 3.0;
/// What a further passage must bring.
const COST: f64 = 3.0;
/// What each passage after the second must bring in addition, as long as the question's grammar asks for as many.
const NEAR: f64 = 4.0;
/// The same beyond that.
const FAR: f64 = 8.0;
/// What a passage must bring in addition if it holds no further word of the question.
const NO_WORD: f64 = 1.0;

/// Words that lead from one thing to the next.
const LEADING: &[&str] = &["of", "which", "that", "who", "whom", "whose", "where", "when"];

/// A question by its words and names.
pub(super) struct Question {
    terms: Vec<Term>,
    /// Whether a term is part of a name.
    is_name: Vec<bool>,
    names: Vec<Vec<String>>,
    /// Passages that it takes, as far as its grammar tells.
    steps: usize,
}

impl Question {
    /// Reads `text`.
    pub(super) fn of(text: &str) -> Self {
        let terms = key_terms(text);
        let mut keys: Vec<Vec<String>> = Vec::new();
        for name in names(text).iter().filter_map(|name| key(name)) {
            if !keys.contains(&name) {
                keys.push(name);
            }
        }
        let is_name =
            terms.iter().map(|t| keys.iter().any(|k| t.stems.iter().all(|s| k.contains(s)))).collect();
        Self { terms, is_name, names: keys, steps: steps(text) }
    }

    /// The names that it holds, by their stems.
    pub(super) fn names(&self) -> &[Vec<String>] {
        &self.names
    }

    /// Whether every stem of `name` stands in the question.
    fn has(&self, name: &[String]) -> bool {
        name.iter().all(|stem| self.terms.iter().any(|term| term.stems.contains(stem)))
    }
}

/// How many things a question goes through: each `of`, `which` or `'s` leads from one to the next.
fn steps(text: &str) -> usize {
    let words = text.split_whitespace().skip(1);
    let leads = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        LEADING.contains(&word) || word.ends_with("'s") || word.ends_with("’s")
    };
    words.filter(|word| leads(word)).count()
}

/// A passage that a trail leads to.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Index of the passage.
    pub(super) passage: usize,
    /// Its place in its trail: 0 for the first.
    pub(super) hop: usize,
    /// The name that led to it; none for the first.
    pub(super) by: Option<String>,
}

#[derive(Clone)]
struct Trail {
    rows: Vec<usize>,
    /// The names that lead from each of them to the next.
    by: Vec<String>,
    score: f64,
}

struct Row {
    words: Vec<u32>,
    title: Vec<u32>,
    /// How much of each term it holds, saturated.
    holds: Vec<f64>,
    /// What it gains from whole names of the question.
    bonus: f64,
}

/// Passages, indexed for trails.
pub(super) struct Trails<'a> {
    passages: &'a [Passage],
    question: &'a Question,
    ids: HashMap<String, u32>,
    rows: Vec<Row>,
    postings: Vec<Vec<usize>>,
    /// Documents that hold a name, as search counted them.
    counted: &'a BTreeMap<Vec<String>, u64>,
    all: f64,
    /// By how much amounts grow; see [`REFERENCE`].
    unit: f64,
    weights: Vec<f64>,
    names: HashMap<usize, Vec<(String, Vec<u32>)>>,
    holders: HashMap<Vec<u32>, Vec<usize>>,
}

impl<'a> Trails<'a> {
    /// Indexes `passages` of a context of `documents` documents. `counted` says how many documents hold a name, by its
    /// stems, where that is known.
    pub(super) fn new(
        passages: &'a [Passage],
        question: &'a Question,
        documents: usize,
        counted: &'a BTreeMap<Vec<String>, u64>,
    ) -> Self {
        let mut trails = Self {
            passages,
            question,
            ids: HashMap::new(),
            rows: Vec::new(),
            postings: Vec::new(),
            counted,
            all: passages.len().max(documents) as f64,
            unit: 1.0,
            weights: Vec::new(),
            names: HashMap::new(),
            holders: HashMap::new(),
        };
        trails.unit = trails.rarity(1.0) / REFERENCE;
        let mut lengths = Vec::with_capacity(passages.len());
        for (row, passage) in passages.iter().enumerate() {
            let mut words = trails.interned(&passage.text);
            lengths.push(words.len() as f64);
            let heading = trails.interned(&passage.heading);
            let title = trails.interned(title(passage));
            let count = |part: &[u32], term: &[u32]| {
                part.windows(term.len().max(1)).filter(|w| *w == term).count() as f64
            };
            let holds = question.terms.iter().map(|term| match trails.known(&term.stems) {
                Some(term) => count(&words, &term) + HEADING * count(&heading, &term),
                None => 0.0,
            });
            let holds = holds.collect();
            // A mark that no word has keeps names from running on into the heading.
            words.push(u32::MAX);
            words.extend(&heading);
            let distinct: BTreeSet<u32> = words.iter().copied().filter(|id| *id != u32::MAX).collect();
            distinct.into_iter().for_each(|id| trails.postings[id as usize].push(row));
            trails.rows.push(Row { words, title, holds, bonus: 0.0 });
        }
        let average = (lengths.iter().sum::<f64>() / (lengths.len() as f64).max(1.0)).max(1.0);
        for (row, length) in trails.rows.iter_mut().zip(&lengths) {
            for times in row.holds.iter_mut().filter(|times| **times > 0.0) {
                *times = *times * 2.2 / (*times + 1.2 * (0.25 + 0.75 * length / average));
            }
        }
        for (i, term) in question.terms.iter().enumerate() {
            let holding = trails.rows.iter().filter(|row| row.holds[i] > 0.0).count() as f64;
            let known = trails.counted.get(&term.stems).copied().unwrap_or_default() as f64;
            let share = if question.is_name[i] { 1.0 } else { COMMON_WORD };
            trails.weights.push(if holding > 0.0 { share * trails.rarity(holding.max(known)) } else { 0.0 });
        }
        for name in &question.names {
            let Some(ids) = trails.known(name) else { continue };
            if trails.is_common(&ids) {
                continue;
            }
            let rarity = trails.rarity_of(&ids, name);
            for row in trails.holding(&ids) {
                let is_title = trails.rows[row].title == ids;
                let whole = if name.len() > 1 { WHOLE_NAME * rarity } else { 0.0 };
                trails.rows[row].bonus += whole + if is_title { ASKED_TITLE * trails.unit } else { 0.0 };
            }
        }
        trails
    }

    fn interned(&mut self, text: &str) -> Vec<u32> {
        stems(text)
            .map(|stem| {
                let next = self.ids.len() as u32;
                let id = *self.ids.entry(stem).or_insert(next);
                if id == next {
                    self.postings.push(Vec::new());
                }
                id
            })
            .collect()
    }

    fn known(&self, name: &[String]) -> Option<Vec<u32>> {
        name.iter().map(|stem| self.ids.get(stem).copied()).collect()
    }

    /// How much it tells that a passage holds what `holding` of all hold.
    fn rarity(&self, holding: f64) -> f64 {
        log2(1.0 + (self.all - holding + 0.5).max(0.0) / (holding + 0.5)) * 0.7
    }

    fn rarity_of(&mut self, ids: &[u32], name: &[String]) -> f64 {
        let here = self.holding(ids).len() as f64;
        let known = self.counted.get(name).copied().unwrap_or_default() as f64;
        self.rarity(here.max(known))
    }

    /// True for a name of which every word stands in many passages.
    fn is_common(&self, name: &[u32]) -> bool {
        name.iter().all(|id| self.postings[*id as usize].len() > COMMON)
    }

    /// The passages that hold a name, its words one after the other.
    fn holding(&mut self, name: &[u32]) -> Vec<usize> {
        if let Some(known) = self.holders.get(name) {
            return known.clone();
        }
        let rarest = name.iter().map(|id| &self.postings[*id as usize]).min_by_key(|rows| rows.len());
        let rows = rarest.into_iter().flatten().copied();
        let found: Vec<usize> =
            rows.filter(|row| self.rows[*row].words.windows(name.len()).any(|w| w == name)).collect();
        self.holders.insert(name.to_vec(), found.clone());
        found
    }

    /// The names that a passage brings up: its title and those in its text that the question does not hold.
    fn names_of(&mut self, row: usize) -> Vec<(String, Vec<u32>)> {
        if let Some(known) = self.names.get(&row) {
            return known.clone();
        }
        let passage = &self.passages[row];
        let mut found: Vec<(String, Vec<u32>)> = Vec::new();
        for name in std::iter::once(title(passage).to_owned()).chain(names(&passage.text)) {
            if found.len() == NAMES {
                break;
            }
            let Some(stems) = key(&name).filter(|stems| !self.question.has(stems)) else { continue };
            if let Some(ids) = self.known(&stems)
                && !found.iter().any(|(_, known)| *known == ids)
            {
                found.push((name, ids));
            }
        }
        self.names.insert(row, found.clone());
        found
    }

    /// The trails of one passage, best first.
    fn seeds(&self) -> Vec<Trail> {
        let score =
            |row: &Row| row.holds.iter().zip(&self.weights).map(|(h, w)| h * w).sum::<f64>() + row.bonus;
        let all = self.rows.iter().enumerate().map(|(i, row)| Trail {
            rows: vec![i],
            by: Vec::new(),
            score: score(row),
        });
        let mut seeds: Vec<Trail> = all.filter(|trail| trail.score > 0.0).collect();
        sort(&mut seeds);
        seeds.truncate(4 * SEEDS);
        seeds
    }

    /// `trails`, each with one more passage, best first.
    fn further(&mut self, trails: &[Trail]) -> Vec<Trail> {
        let mut longer = Vec::new();
        for trail in trails {
            let Some(&end) = trail.rows.last() else { continue };
            let terms = self.weights.len();
            let covered: Vec<f64> = (0..terms)
                .map(|t| trail.rows.iter().map(|&row| self.rows[row].holds[t]).fold(0.0, f64::max))
                .collect();
            let mut best: BTreeMap<usize, (f64, String)> = BTreeMap::new();
            for (name, ids) in self.names_of(end) {
                if self.is_common(&ids) {
                    continue;
                }
                let stems: Vec<String> = key(&name).unwrap_or_default();
                let rarity = LINK * self.rarity_of(&ids, &stems).min(RAREST * self.unit);
                let mut holding = self.holding(&ids);
                if holding.len() > 2 * TRIED {
                    let worth = |row| self.gain(row, &covered) + self.titled(row, &ids);
                    let mut by_worth: Vec<(f64, usize)> =
                        holding.into_iter().map(|row| (worth(row), row)).collect();
                    by_worth.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                    holding = by_worth.into_iter().take(TRIED).map(|(_, row)| row).collect();
                }
                for row in holding.into_iter().filter(|row| !trail.rows.contains(row)) {
                    let link = rarity + self.titled(row, &ids);
                    if best.get(&row).is_none_or(|(known, _)| link > *known) {
                        best.insert(row, (link, name.clone()));
                    }
                }
            }
            for (row, (link, name)) in best {
                let gain = self.gain(row, &covered);
                let nothing = if gain > 0.0 { 0.0 } else { NO_WORD };
                let far = if trail.rows.len() < self.question.steps { NEAR } else { FAR };
                let cost = (COST + far * (trail.rows.len() - 1) as f64 + nothing) * self.unit;
                let rows = trail.rows.iter().copied().chain([row]).collect();
                let by = trail.by.iter().cloned().chain([name]).collect();
                longer.push(Trail { rows, by, score: trail.score + gain + link - cost });
            }
        }
        sort(&mut longer);
        longer.truncate(15 * BEAM);
        longer
    }

    /// The words of the question that a passage adds to those that are covered.
    fn gain(&self, row: usize, covered: &[f64]) -> f64 {
        let row = &self.rows[row];
        let adds = row.holds.iter().zip(covered).zip(&self.weights).map(|((h, c), w)| (h - c).max(0.0) * w);
        adds.sum::<f64>() + row.bonus / 2.0
    }

    /// What it tells that a name stands in the title of a passage.
    fn titled(&self, row: usize, name: &[u32]) -> f64 {
        let title = &self.rows[row].title;
        if title.as_slice() == name {
            TITLED * self.unit
        } else if title.windows(name.len()).any(|w| w == name) {
            PART_OF_TITLE * self.unit * name.len() as f64 / title.len() as f64
        } else {
            0.0
        }
    }

    /// All trails, best first.
    fn all(&mut self) -> Vec<Trail> {
        let mut all = self.seeds();
        let mut open = all.clone();
        open.truncate(SEEDS);
        for _ in 1..HOPS {
            let longer = self.further(&open);
            open = longer.iter().take(BEAM).cloned().collect();
            all.extend(longer);
        }
        sort(&mut all);
        all
    }

    /// The passages of the best trails, at most `most` of them. A trail that is worth less than `floor` of the best one
    /// is no evidence, except for the best passages that hold the question's own words. First no passage leads to more
    /// than [`BRANCHES`] others: a passage with many names would leave no room for the rest.
    pub(super) fn best(&mut self, most: usize, floor: f64) -> Vec<Found> {
        let all = self.all();
        let least = all.first().map_or(0.0, |trail| trail.score * floor);
        let seeds: Vec<&Trail> = all.iter().filter(|trail| trail.rows.len() == 1).take(FIRST).collect();
        let worth: Vec<&Trail> = all.iter().filter(|trail| trail.score >= least).collect();
        let mut chosen: Vec<&Trail> = Vec::new();
        let mut branches: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        let mut later: Vec<&Trail> = Vec::new();
        for trail in worth {
            let from = trail.rows.len().checked_sub(2).map(|at| trail.rows[at]);
            let used = branches.entry(from).or_default();
            *used += 1;
            if *used <= BRANCHES { chosen.push(trail) } else { later.push(trail) }
        }
        let mut found: Vec<Found> = Vec::new();
        let mut documents: BTreeMap<&str, usize> = BTreeMap::new();
        let kept = most.saturating_sub(seeds.len());
        // A place that is left goes to those that had to wait.
        let groups = [(&chosen, kept), (&seeds, most), (&later, most), (&chosen, most)];
        for (trail, most) in groups.iter().flat_map(|(trails, most)| trails.iter().map(move |t| (t, *most))) {
            for (hop, &passage) in trail.rows.iter().enumerate() {
                if found.len() >= most {
                    break;
                }
                let room = documents.entry(&self.passages[passage].path).or_default();
                if found.iter().any(|f| f.passage == passage) || *room == PER_DOCUMENT {
                    continue;
                }
                *room += 1;
                let by = hop.checked_sub(1).and_then(|before| trail.by.get(before).cloned());
                found.push(Found { passage, hop, by });
            }
        }
        found
    }

    /// The heaviest terms of the question that are part of no name, as they are written.
    pub(super) fn heaviest_words(&self, most: usize) -> Vec<String> {
        let question = self.question;
        let mut plain: Vec<usize> = (0..self.weights.len()).filter(|&i| !question.is_name[i]).collect();
        plain.sort_by(|&a, &b| self.weights[b].total_cmp(&self.weights[a]).then(a.cmp(&b)));
        plain.into_iter().take(most).map(|i| question.terms[i].shown.clone()).collect()
    }

    /// The names that the ends of the best trails bring up, best trail first: `ends` of them with `each` names.
    pub(super) fn open_names(&mut self, ends: usize, each: usize, hop: usize) -> Vec<String> {
        let mut trails = self.seeds();
        trails.truncate(SEEDS);
        for _ in 0..hop {
            trails = self.further(&trails);
            trails.truncate(BEAM);
        }
        let mut rows: Vec<usize> = Vec::new();
        for row in trails.iter().filter_map(|trail| trail.rows.last()) {
            if rows.len() < ends && !rows.contains(row) {
                rows.push(*row);
            }
        }
        let mut open: Vec<String> = Vec::new();
        for row in rows {
            for (name, _) in self.names_of(row).into_iter().take(each) {
                if !open.contains(&name) {
                    open.push(name);
                }
            }
        }
        open
    }
}

/// The title of the document of a passage, without what stands in brackets: `Brand (play)` is about Brand.
fn title(passage: &Passage) -> &str {
    let heading = passage.heading.split(" › ").next().unwrap_or_default();
    let title = match heading {
        "" => {
            let name = passage.path.rsplit_once('/').map_or(passage.path.as_str(), |(_, name)| name);
            name.rsplit_once('.').map_or(name, |(stem, _)| stem)
        }
        heading => heading,
    };
    title.split_once(" (").map_or(title, |(name, _)| name)
}

fn sort(trails: &mut [Trail]) {
    trails.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.rows.cmp(&b.rows)));
}

#[cfg(test)]
mod tests;

//! The passages that speak of a question, best first, and whether they answer it.

use std::collections::BTreeSet;

use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{CallContext, RoleError};

use super::expects::{self, Held};
use super::hits::{Hit, number, search, words};
use super::{question, vintage};
use crate::io::RoleIo;

/// Passages that one answer quotes.
const PASSAGES: usize = 8;
/// Passages that a reader reads first.
const FIRST: usize = 3;
/// Hits of a search from which they are chosen.
const HITS: usize = 20;
/// The nearest passages that are shown if nothing was found.
pub(super) const NEAREST: usize = 3;
/// Seconds that the first search of a run waits until all passages can be found by meaning.
const WAIT: u8 = 30;
/// A passage of this similarity speaks of the question, whatever its words.
const SIMILAR: f64 = 0.5;

/// How long the first search of a node waits. A run goes by meaning only if all passages can be found so, and its root
/// decides: then the same documents give the same answer.
pub(super) fn wait(call: &CallContext) -> u8 {
    if call.depth == 0 { WAIT } else { 0 }
}

/// What is quoted as the answer to a question.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// What is quoted, best first.
    pub(super) quoted: Vec<Hit>,
    /// What follows, best first.
    pub(super) further: Vec<Hit>,
    /// What was not found, as a phrase; then the passages are only the nearest ones.
    pub(super) missing: Option<String>,
    /// Clauses of the question that nothing answers, as sentences, if something answers others.
    pub(super) gaps: Vec<String>,
    /// The terms of the question that some passage holds.
    pub(super) known: BTreeSet<String>,
    /// Why meaning did not count, as a sentence, if it could.
    pub(super) by_words: Option<String>,
}

/// The passages that answer `question`, which is searched for as a whole, in so many `words`. `limit` is the number of
/// hits. See [`wait`].
pub(super) async fn gather(
    io: &RoleIo,
    question: &str,
    limit: Option<usize>,
    wait: u8,
    words: usize,
) -> Result<Evidence, RoleError> {
    let (limit, language) = (limit.unwrap_or(HITS), io.language());
    let question = &question::without_preamble(question);
    let mut found = search(io, &question::subject(question), "", limit, wait).await?;
    if let Some(unable) = found.unable {
        let missing = Some(unable.trim_end_matches('.').to_owned());
        return Ok(Evidence { missing, ..Evidence::default() });
    }
    let counts = found.counts(question);
    let known: BTreeSet<String> = counts.into_iter().filter(|(_, n)| *n > 0).map(|(term, _)| term).collect();
    let by_words = found.embedded.filter(|_| !found.vectors).map(|embedded| {
        Sentence::ByWords.of(language, &[&embedded.to_string(), &found.passages.to_string()])
    });
    let is_near = |hit: &Hit| hit.similarity.is_some_and(|similarity| similarity >= SIMILAR);
    let mut missing =
        (known.is_empty() && !found.hits.iter().any(is_near)).then(|| unanswered(question, language));
    let mut hits = std::mem::take(&mut found.hits);
    // The order of the whole question is the best one. The best hits of its parts follow the second, if they stand
    // further down.
    let parts = question::parts(question);
    let mut place = FIRST - 1;
    for part in parts.iter().filter(|_| parts.len() > 1) {
        let own = search(io, &question::subject(part), "", limit, 0).await?.hits;
        let Some(best) = own.into_iter().next() else { continue };
        if !hits.iter().take(FIRST + 1).any(|hit| hit.is_at(&best)) {
            hits.retain(|hit| !hit.is_at(&best));
            hits.insert(hits.len().min(place), best);
            place += 1;
        }
    }
    hits = vintage::newest_first(io, question, hits).await?;
    number(&mut hits);
    let (mut quoted, mut further) = best(hits, words);
    let held: Vec<Held> = quoted.iter().map(Hit::as_held).collect();
    let clauses = question::clauses(question);
    let lacks = |clause| expects::missing(clause, language, &held, |term| found.holds(term) != Some(false));
    let lacking: Vec<(&String, String)> =
        clauses.iter().filter_map(|clause| Some((clause, lacks(clause)?))).collect();
    let mut gaps = Vec::new();
    if lacking.len() == clauses.len() {
        missing = missing.or_else(|| lacking.into_iter().next().map(|(_, why)| why));
    } else {
        let gap = |(clause, why): (&String, String)| format!("“{}”: {why}.", super::short(clause, 300));
        gaps.extend(lacking.into_iter().map(gap));
    }
    if missing.is_some() && quoted.len() > NEAREST {
        let mut rest = quoted.split_off(NEAREST);
        rest.append(&mut further);
        further = rest;
    }
    Ok(Evidence { quoted, further, missing, gaps, known, by_words })
}

/// That nothing answers `question`, as a phrase.
pub(super) fn unanswered(question: &str, language: &str) -> String {
    Sentence::Unanswered.of(language, &[&super::headline(question)])
}

/// The first of `hits` that one answer of so many `words` has room for, and the others.
pub(super) fn best(mut hits: Vec<Hit>, most: usize) -> (Vec<Hit>, Vec<Hit>) {
    let fits = within(hits.iter().take(PASSAGES), |hit| &hit.text, most).len();
    let further = hits.split_off(fits);
    (hits, further)
}

/// The first of `quotes` that one answer of so many words has room for.
pub(super) fn within<T>(
    quotes: impl IntoIterator<Item = T>,
    text: impl Fn(&T) -> &str,
    most: usize,
) -> Vec<T> {
    let mut used = 0;
    let fits = |quote: &T| {
        let is_first = used == 0;
        used += words(text(quote));
        is_first || used <= most
    };
    quotes.into_iter().take_while(fits).collect()
}

//! What the planner and the steps of a node tell its aggregator of the words of the task, and of steps that were not
//! done.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use tree_agent_contract::NodeStatus;
use tree_agent_contract::role::{AggregateInput, ChildOutcome, RoleError};
use tree_agent_contract::text::ELLIPSIS;

use super::findings::{self, NOT_DONE, SEARCHED};
use super::plan::{self, Task};
use super::rank::Ranked;
use super::step::{self, Brief, Notes};
use super::words::{Term, key_terms, stems};
use super::{document, homework, hunt, missing};
use crate::io::RoleIo;

/// The words by which the findings are ranked, and those that occur in no document, in each of their forms. The
/// children know both, because they searched for what distinguishes their documents. What one of them found in no
/// document of the context is true for all.
pub(super) fn terms_and_absent(
    input: &AggregateInput,
    brief: &Brief,
    notes: &Notes,
) -> (Vec<Term>, Vec<String>) {
    let all = |key: &'static str| payloads(input).flat_map(move |p| findings::words(p, key));
    let asked = key_terms(&all("terms").collect::<Vec<_>>().join(" "));
    let (telling, rest): (Vec<Term>, Vec<Term>) = brief.terms().into_iter().partition(|t| asked.contains(t));
    let mut known = HashSet::new();
    let absent = notes.absent.iter().map(String::as_str).chain(all("absent"));
    let absent = absent.filter(|word| known.insert(*word)).map(str::to_owned).collect();
    (if telling.is_empty() { rest } else { telling }, absent)
}

/// The steps that answer parts of the task. None if its plan was another one, or if it is homework.
pub(super) fn planned(input: &AggregateInput, brief: &Brief) -> Vec<Task> {
    let bands = plan::bands_of_parts(&input.call, brief).filter(|_| input.homework.is_none());
    let tasks: Vec<Task> = bands.into_iter().flatten().flat_map(|(_, tasks)| tasks).collect();
    let begun = begun(input);
    let is_plan = tasks.iter().any(|task| begun.contains(task.id.as_str()));
    if is_plan { tasks } else { Vec::new() }
}

/// The ids of the steps of which a node was created.
fn begun(input: &AggregateInput) -> HashSet<&str> {
    input.children.iter().map(|child| child.step_id.as_str()).collect()
}

/// The words of the task that were searched for: by the planner of the node, unless its `steps_search`, and by steps
/// that have completed. None if nobody can tell.
pub(super) fn searched(
    input: &AggregateInput,
    brief: &Brief,
    notes: &Notes,
    planned: &[Task],
    steps_search: bool,
) -> Option<Vec<String>> {
    let mut searched = if steps_search { Vec::new() } else { notes.searched(&brief.terms()) };
    for child in input.children.iter().filter(|child| child.status == NodeStatus::Completed) {
        match searched_by(child, planned) {
            Some(words) => searched.extend(words),
            None if steps_search => return None,
            None => {}
        }
    }
    let mut left_out: BTreeSet<String> = brief.not_searched(&searched).into_iter().collect();
    // Each once, and no others.
    Some(brief.not_searched(&[]).into_iter().filter(|word| !left_out.remove(word)).collect())
}

/// The words that a step has searched for. If it was another model, or if there was no room for its data, these are the
/// words that it was asked for.
fn searched_by(child: &ChildOutcome, planned: &[Task]) -> Option<Vec<String>> {
    let payload = child.result.as_ref().and_then(|result| result.json_payload.as_ref());
    if let Some(payload) = payload.filter(|payload| payload.contains_key(SEARCHED)) {
        return Some(findings::words(payload, SEARCHED).map(str::to_owned).collect());
    }
    let task = planned.iter().find(|task| task.id == child.step_id.as_str());
    let asked = match task {
        Some(task) => task.criteria.first().and_then(|criterion| step::answered(criterion))?,
        None if child.title.contains(ELLIPSIS) => return None,
        None => &child.title,
    };
    Some(key_terms(asked).into_iter().map(|term| term.shown).collect())
}

/// The gap for words of the task that are not among those `searched` for and in no `quoted` passage either.
pub(super) fn not_searched(brief: &Brief, searched: &[String], quoted: &Held, steps: bool) -> Option<String> {
    let words = brief.not_searched(searched).into_iter().filter(|word| !quoted.holds(word));
    document::not_searched(&words.collect::<Vec<_>>(), steps)
}

/// The titles of steps that were planned and not done, here and below.
pub(super) fn not_done(input: &AggregateInput, notes: &Notes, planned: &[Task]) -> Vec<String> {
    let begun = begun(input);
    let mut titles: Vec<String> = match &input.homework {
        Some(brief) => homework::not_done(brief, &input.children),
        None => {
            let missing = planned.iter().filter(|task| !begun.contains(task.id.as_str()));
            missing.map(|task| task.title.clone()).collect()
        }
    };
    let is_other_plan = planned.is_empty() && input.homework.is_none();
    if is_other_plan && notes.steps > begun.len() {
        titles.push(format!("{} of {} planned steps", notes.steps - begun.len(), notes.steps));
    }
    titles.extend(payloads(input).flat_map(|p| findings::words(p, NOT_DONE)).map(str::to_owned));
    titles
}

/// What is said of the words that only search finds, by the planner of the node or by its steps.
pub(super) fn unquoted(input: &AggregateInput, notes: &Notes) -> Vec<String> {
    let mut known = HashSet::new();
    let of_steps = payloads(input).flat_map(|p| findings::words(p, "unquoted"));
    let sentences = notes.unquoted.iter().map(String::as_str).chain(of_steps);
    sentences.filter(|sentence| known.insert(*sentence)).map(str::to_owned).collect()
}

/// The words that occur in no document and the sentences about others, without those that are `held` by passages:
/// documents may be added while the steps work.
pub(super) fn consistent(
    mut absent: Vec<String>,
    mut unquoted: Vec<String>,
    held: &Held,
) -> (Vec<String>, Vec<String>) {
    let contained: HashSet<&str> =
        unquoted.iter().filter_map(|sentence| missing::contained(sentence)).collect();
    let similar: HashSet<Vec<Vec<String>>> =
        unquoted.iter().filter_map(|sentence| missing::similarly_spelled(sentence)).map(stems_of).collect();
    absent.retain(|word| {
        !held.holds(word) && !contained.contains(word.as_str()) && !similar.contains(&stems_of(word))
    });
    unquoted.retain(|sentence| {
        missing::word_of(sentence)
            .is_none_or(|word| !held.holds(word) && !absent.iter().any(|known| known == word))
    });
    (absent, unquoted)
}

/// What a step says of its result, without what it or a step below has said of missing words that are not `absent` any
/// more, and without the `former` sentences.
pub(super) fn still_true(said: &str, absent: &[String], former: &[String]) -> String {
    let said = document::without_absence(said, |word| absent.iter().any(|known| known == word));
    former.iter().fold(said, |said, sentence| document::without_sentence(&said, sentence))
}

/// The first form of each of `words`: several steps may have used different ones.
pub(super) fn first_forms(words: &[String]) -> Vec<String> {
    let mut known = HashSet::new();
    words.iter().filter(|word| known.insert(stems_of(word))).cloned().collect()
}

/// What a word is compared by, in whatever form.
fn stems_of(word: &str) -> Vec<Vec<String>> {
    key_terms(word).into_iter().map(|term| term.stems).collect()
}

/// The words of passages.
pub(super) struct Held {
    passages: Vec<Vec<String>>,
    /// The passages that hold a stem.
    by_stem: HashMap<String, Vec<usize>>,
}

impl Held {
    pub(super) fn of(found: &[Ranked]) -> Self {
        let passages: Vec<Vec<String>> = found.iter().map(|r| stems(&r.passage.text).collect()).collect();
        let mut by_stem: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, stems) in passages.iter().enumerate() {
            for stem in stems {
                let of_stem = by_stem.entry(stem.clone()).or_default();
                if of_stem.last() != Some(&i) {
                    of_stem.push(i);
                }
            }
        }
        Self { passages, by_stem }
    }

    /// Whether a passage holds `word`, or all words of it.
    pub(super) fn holds(&self, word: &str) -> bool {
        let terms = key_terms(word);
        let Some(first) = terms.first().and_then(|term| term.stems.first()) else { return false };
        let may = self.by_stem.get(first).map(Vec::as_slice).unwrap_or_default();
        may.iter().any(|&i| hunt::all_held(&self.passages[i], &terms))
    }
}

/// What the steps of the node returned.
fn payloads(input: &AggregateInput) -> impl Iterator<Item = &Map<String, Value>> {
    input.children.iter().filter_map(|c| c.result.as_ref()?.json_payload.as_ref())
}

/// What the planner of the node noted. If some of it is lost, the words that no step quotes are looked for again,
/// unless the `steps_search` for their words.
pub(super) async fn notes(
    input: &AggregateInput,
    brief: &Brief,
    steps_search: bool,
    io: &RoleIo,
) -> Result<Notes, RoleError> {
    if let Some(homework) = &input.homework {
        return Ok(homework::notes(homework));
    }
    let mut notes = Notes::of(&input.call);
    if notes.is_cut && !steps_search {
        let terms = brief.terms();
        let quoted = payloads(input).flat_map(findings::scored);
        let held: BTreeSet<usize> = quoted.flat_map(|(p, _)| hunt::held(&p.text, &terms)).collect();
        let missing = missing::look_for(io, &terms, (0..terms.len()).filter(|i| !held.contains(i))).await?;
        notes.unsearched = missing.unsearched.into_iter().map(|i| terms[i].shown.clone()).collect();
        (notes.absent, notes.unquoted) = (missing.absent, missing.unquoted);
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::rank::Passage;

    /// A document was added after one of the steps had searched.
    #[test]
    fn what_a_passage_holds_is_not_missing() {
        let passage = Passage {
            text: "The boiler-valves of the barge.".to_owned(),
            path: "a.md".to_owned(),
            heading: String::new(),
            position: 0,
            document_id: None,
        };
        let found = [Ranked { passage, score: 1, terms: BTreeSet::new() }];
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let absent =
            words(&["barges", "zeppelin", "Boiler-Valve", "valve-boiler", "frobnix", "gizmos", "rotor"]);
        let (contained, similar) = (
            "1 document contains the word “frobnix”, but no passage of it was quoted: b.md.",
            "Search found no document with the word “gizmo” as such. Similar spellings stand in b.md.",
        );
        let incomplete = "Search found no document with the word “rotor”, but not every document could be searched \
                          for other spellings of it.";
        let held = "1 document contains the word “barge”, but no passage of it was quoted: a.md.";
        let (absent, unquoted) =
            consistent(absent, words(&[contained, similar, incomplete, held]), &Held::of(&found));
        assert_eq!(absent, ["zeppelin", "valve-boiler", "rotor"]);
        assert_eq!(unquoted, [contained, similar]);
    }
}

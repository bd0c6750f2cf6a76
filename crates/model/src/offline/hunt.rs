//! Looks for what answers a question of several steps: what a first passage names becomes the next search.

use std::collections::BTreeSet;

use tree_agent_contract::role::{PlanInput, PlannerOutput, RoleError};

use super::corpus::{self, Corpus};
use super::document::common_folder;
use super::plan::{TITLE, Task, delegate, task, width};
use super::rank::Passage;
use super::step;
use super::subject::Subject;
use super::trail::{Question, Trails};
use super::words::{Term, stems};
use super::{count, short};
use crate::io::RoleIo;

/// Passages that a question leads to at the most.
const MOST: usize = 9;
/// A trail that is worth less than this share of the best one is no evidence.
const FLOOR: f64 = 0.75;
/// Bytes of passages that are looked at together: what one sentence names, the next may say more of.
const SECTION_BYTES: usize = 1_200;
/// Rounds of searches for names.
const ROUNDS: usize = 2;
/// Passages whose names are searched for in a round, and names of each.
const ENDS: usize = 8;
/// See [`ENDS`].
const EACH: usize = 8;
/// Plain words of the question that are searched for beside a name.
const BESIDE: usize = 2;

/// A passage that the question leads to.
#[derive(Clone, Debug)]
pub(super) struct Lead {
    pub(super) passage: Passage,
    /// The name that led to it; none if the question itself did.
    pub(super) by: Option<String>,
    /// Passages before it on its trail.
    pub(super) hop: usize,
}

/// The passages to which `text` leads, best first. In a context that is not read whole, `corpus` grows by what is found
/// on the way, unless the tool calls of the run are `limited`.
pub(super) async fn hunt(
    io: &RoleIo,
    text: &str,
    limited: bool,
    corpus: &mut Corpus,
) -> Result<Vec<Lead>, RoleError> {
    let question = Question::of(text);
    if question.names().is_empty() {
        return Ok(Vec::new());
    }
    // A run with few tool calls needs them for its steps.
    let rounds = if corpus.is_whole || limited { 0 } else { ROUNDS };
    for round in 0..rounds {
        let passages = sections(corpus.passages());
        let mut trails = Trails::new(&passages, &question, corpus.documents, &corpus.counted);
        // Heartbeats and the deadline of the call have their turn.
        tokio::task::yield_now().await;
        let (names, words) = (trails.open_names(ENDS, EACH, round), trails.heaviest_words(BESIDE));
        corpus::follow(io, corpus, &names, &words).await?;
    }
    let passages = sections(corpus.passages());
    tokio::task::yield_now().await;
    let mut trails = Trails::new(&passages, &question, corpus.documents, &corpus.counted);
    tokio::task::yield_now().await;
    let found = trails.best(MOST, FLOOR);
    let lead = |f: super::trail::Found| Lead { passage: passages[f.passage].clone(), by: f.by, hop: f.hop };
    Ok(found.into_iter().map(lead).collect())
}

/// Passages of the same section that follow each other, together as long as a person reads in one look.
fn sections(passages: Vec<Passage>) -> Vec<Passage> {
    let mut sections: Vec<Passage> = Vec::new();
    for passage in passages {
        match sections.last_mut() {
            Some(last)
                if last.path == passage.path
                    && last.heading == passage.heading
                    && last.document_id == passage.document_id
                    && last.text.len() + passage.text.len() <= SECTION_BYTES =>
            {
                last.text.push('\n');
                last.text.push_str(&passage.text);
            }
            _ => sections.push(passage),
        }
    }
    sections
}

/// The terms that stand in `text`, as indices.
pub(super) fn held(text: &str, terms: &[Term]) -> Vec<usize> {
    let words: Vec<String> = stems(text).collect();
    let stands = |term: &Term| words.windows(term.stems.len()).any(|part| part == term.stems);
    (0..terms.len()).filter(|&i| stands(&terms[i])).collect()
}

/// The path of a document, and what leads to it.
pub(super) type Document<'a> = (&'a str, Vec<&'a Lead>);

/// The documents of `leads`, in their order.
pub(super) fn documents(leads: &[Lead]) -> Vec<Document<'_>> {
    let mut documents: Vec<Document<'_>> = Vec::new();
    for lead in leads {
        match documents.iter_mut().find(|(path, _)| *path == lead.passage.path) {
            Some((_, leads)) => leads.push(lead),
            None => documents.push((&lead.passage.path, vec![lead])),
        }
    }
    documents
}

/// The step that quotes `documents`, of which all documents of the plan stand in the folder `common`.
pub(super) fn task_of(documents: &[Document<'_>], common: &str, subject: &Subject) -> Task {
    let leads = || documents.iter().flat_map(|(_, leads)| leads.iter());
    let mut by: Vec<&str> = Vec::new();
    for name in leads().filter_map(|lead| lead.by.as_deref()) {
        if !by.contains(&name) {
            by.push(name);
        }
    }
    // Only words that stand there: others would be looked for in vain.
    let held: BTreeSet<usize> = leads().flat_map(|lead| held(&lead.passage.text, &subject.terms)).collect();
    let words: Vec<&str> = by.iter().copied().chain(subject.shown(&held)).collect();
    let reason = match by.first() {
        Some(name) => format!("A passage that the task leads to names {}.", short(name, TITLE)),
        None => "The words of the task lead to it.".to_owned(),
    };
    let named = match by.is_empty() {
        true if held.is_empty() => subject.heaviest(&subject.telling.iter().copied().collect()),
        true => words.clone(),
        false => by,
    };
    let paths: Vec<String> = documents.iter().map(|(path, _)| (*path).to_owned()).collect();
    Task { reason, ..task(&paths, common, &words, &named, None) }
}

/// One step for each document that the question leads to, as many bands as it takes. None if there is no room.
pub(super) fn plan(input: &PlanInput, leads: &[Lead], subject: &Subject) -> Option<PlannerOutput> {
    let budgets = &input.call.budgets;
    let width = width(&input.call);
    let most = (width * budgets.max_bands_per_plan as usize).min(budgets.max_children_per_node as usize);
    if width < 2 || most < 3 {
        return None;
    }
    let mut documents = documents(leads);
    documents.truncate(most);
    // What a passage names comes after it. Stable: the best first.
    documents.sort_by_key(|(_, leads)| leads.iter().map(|lead| lead.hop).min());
    let folder = common_folder(documents.iter().map(|(path, _)| *path));
    let split = documents.partition_point(|(_, leads)| leads.iter().any(|lead| lead.hop == 0));
    let (first, further) = documents.split_at(split);
    let goals = [("Read what the task leads to", first), ("Follow what is named there", further)];
    let task_of = |document: &Document<'_>| task_of(std::slice::from_ref(document), folder, subject);
    let in_bands = |(goal, documents): (&str, &[Document<'_>])| -> Vec<(String, Vec<Task>)> {
        documents.chunks(width).map(|some| (goal.to_owned(), some.iter().map(task_of).collect())).collect()
    };
    let mut bands: Vec<(String, Vec<Task>)> = goals.into_iter().flat_map(in_bands).collect();
    if bands.len() > budgets.max_bands_per_plan as usize {
        bands = in_bands(("Follow the names from one document to the next", &documents));
    }
    let n = count(documents.len(), "document");
    let reason = format!("No passage holds all of {}, but what some of them name leads on.", subject.what());
    let summary = format!("Quote {n} along the names that lead from one to the next, then merge.");
    let notes = [vec![step::FOLLOWS.to_owned()], subject.notes()].concat();
    Some(delegate(input, &reason, &summary, bands, &notes))
}

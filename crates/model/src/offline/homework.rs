//! The planner of homework: what there is to read becomes the steps of its plan document, and each iteration takes the
//! next one of each branch.
//!
//! A part of the objective is a branch of its own. Of an objective in one part, each folder of documents that speak of
//! it is a branch, and each document a task. When all of them have been read, the planner follows words that the
//! results share and the objective does not name. It is done when these have been followed, too.
//!
//! It keeps no state but the plan document: the same documents and the same plan give the same tasks.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::homework::{
    BranchBrief, BranchEntry, BranchNote, HomeworkBrief, HomeworkDraft, ItemState, PlanItem,
};
use tree_agent_contract::role::{
    BandDraft, ChildOutcome, PlanDraft, PlanInput, PlannerMode, PlannerOutput, RoleError, ScratchpadDraft,
    StepDraft,
};
use tree_agent_contract::search::slug;
use tree_agent_contract::text::{prefix, suffix};
use tree_agent_contract::{NodeStatus, StepId, limits};

use super::document::{self, common_folder};
use super::hunt::{self, Lead};
use super::objective::{Parts, parts};
use super::plan::{Task, part_task, task, width};
use super::rank::{Ranked, rank};
use super::step::{self, Brief};
use super::subject::{Found, Subject, weigh};
use super::words::{Term, key_terms, listed};
use super::{corpus, count, short};
use crate::io::RoleIo;

/// Steps of the plan that come from the objective. The others are for words that the results share.
const FACETS: usize = 48;
/// Passages in which such words are looked for.
const PASSAGES: usize = 40;
/// Letters of a word that is worth a task.
const LETTERS: usize = 4;
/// Words that are followed at the most.
const WORDS: usize = 4;
/// Bytes of what is said about one task in a roll-up.
const TASK_BYTES: usize = 300;
/// Bytes of what is said about a branch.
const BRANCH_BYTES: usize = 1_500;
/// The branch of the documents that the question leads to ...
const ASKED: &str = "names-asked";
/// ... and that of documents which follow from a name in another.
const FOLLOWED: &str = "names-followed";
/// The beginning of the note of a step that the engine refused.
const REFUSED: &str = "refused: ";
/// The note of a step that follows a word.
const OPENED: &str = "opened by the results";

/// A task and the branch that it belongs to.
struct Facet {
    branch: String,
    task: Task,
}

/// What the objective asks for.
struct Asked {
    facets: Vec<Facet>,
    /// Titles of tasks for which the plan has no room.
    beyond: Vec<String>,
    /// The passages that speak of it, best first.
    ranked: Vec<Ranked>,
    /// Its words.
    terms: Vec<Term>,
}

/// Whether the tasks of `brief` followed names from one document to the next.
pub(super) fn follows(brief: &HomeworkBrief) -> bool {
    brief.branches.iter().any(|branch| branch.branch_id == FOLLOWED)
}

/// Answers about the iteration that `brief` names.
pub(super) async fn plan(
    input: &PlanInput,
    brief: &HomeworkBrief,
    io: &RoleIo,
) -> Result<PlannerOutput, RoleError> {
    let mut items = brief.last.items.clone();
    settle(&mut items, brief);
    let Asked { mut facets, beyond, ranked, terms } = asked(input, brief, io).await?;
    add(&mut items, &facets, "");
    if next(&items, &facets, usize::MAX).is_empty() || items.iter().any(|item| item.note == OPENED) {
        let words = opened(&ranked, &terms, &facets);
        add(&mut items, &words, OPENED);
        facets.extend(words);
    }
    // What nobody can read any more is not wanted any more.
    let can_look = !io.ran_out_of_tool_calls();
    for item in items.iter_mut().filter(|item| can_look && item.state == ItemState::Todo) {
        if !facets.iter().any(|facet| facet.task.title == item.title) {
            item.state = ItemState::Dropped;
        }
    }
    let chosen = match brief.is_last() {
        true => Vec::new(),
        false => next(&items, &facets, width(&input.call)),
    };
    for &at in &chosen {
        let title = &facets[at].task.title;
        items.iter_mut().filter(|item| item.title == *title).for_each(|item| item.state = ItemState::Doing);
    }
    let steps: Vec<StepDraft> = chosen.iter().enumerate().map(|(i, &at)| draft(i, &facets[at])).collect();
    Ok(answer(brief, items, steps, beyond))
}

fn answer(
    brief: &HomeworkBrief,
    items: Vec<PlanItem>,
    steps: Vec<StepDraft>,
    beyond: Vec<String>,
) -> PlannerOutput {
    let todo = items.iter().filter(|item| item.state == ItemState::Todo);
    let left: Vec<String> = todo.map(|item| item.title.clone()).chain(beyond).collect();
    let reason = match (steps.len(), left.len()) {
        (0, 0) => "Nothing new is left to look at.".to_owned(),
        (0, n) => format!("No iteration is left for {}.", count(n, "further task")),
        (n, 0) => format!("{} to do, none after that.", count(n, "task")),
        (n, more) => format!("{} to do, {more} after that.", count(n, "task")),
    };
    let iteration = brief.iteration;
    let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
    let summary = short(&format!("{}.", titles.join("; ")), limits::TEXT_BYTES);
    let mode = if steps.is_empty() { PlannerMode::Done } else { PlannerMode::Plan };
    let goal = "Look at what is not covered yet".to_owned();
    let band = BandDraft { index: 0, goal, parallelizable: true, steps };
    let homework = HomeworkDraft {
        rollup: rollup(brief),
        branches: branch_notes(brief),
        remaining: document::first_of(left, limits::HOMEWORK_NOTES),
        questions: questions(&items),
        items,
    };
    PlannerOutput {
        mode,
        leaf_decision: None,
        plan: (mode == PlannerMode::Plan).then(|| PlanDraft { summary, bands: vec![band] }),
        homework: Some(Box::new(homework)),
        scratchpad: ScratchpadDraft::of(format!("**Iteration {iteration}.** {reason}\n")),
        mode_reason: reason,
    }
}

fn draft(i: usize, facet: &Facet) -> StepDraft {
    let Task { title, reason, criteria, .. } = &facet.task;
    StepDraft {
        reason: reason.clone(),
        success_criteria: criteria.clone(),
        step_index: i as u32,
        branch_id: Some(facet.branch.clone()),
        ..StepDraft::new(StepId::new(format!("task-{}", i + 1)), title.clone())
    }
}

/// What became of the steps that the last iteration was for.
fn settle(items: &mut [PlanItem], brief: &HomeworkBrief) {
    for item in items.iter_mut().filter(|item| item.state == ItemState::Doing) {
        let ended = entries(brief).find(|entry| entry.title == item.title);
        let (state, note) = match ended {
            Some(entry) if entry.status == NodeStatus::Completed => (ItemState::Done, String::new()),
            Some(entry) => {
                (ItemState::Dropped, format!("{}: {}", entry.status, short(&entry.summary, TASK_BYTES)))
            }
            None => match brief.refused.iter().find(|refusal| refusal.title == item.title) {
                Some(refusal) => {
                    (ItemState::Dropped, format!("{REFUSED}{}", short(&refusal.reason, TASK_BYTES)))
                }
                // It was not begun.
                None => (ItemState::Todo, String::new()),
            },
        };
        item.state = state;
        // This note tells that words have been followed.
        if item.note != OPENED {
            item.note = note;
        }
    }
}

/// The tasks of the last iteration.
fn entries(brief: &HomeworkBrief) -> impl Iterator<Item = &BranchEntry> {
    let ended = brief.iteration - 1;
    let all = brief.branches.iter().flat_map(|branch| &branch.entries);
    all.filter(move |entry| entry.iteration == ended)
}

/// Adds a step to the plan for each task that it does not have yet.
fn add(items: &mut Vec<PlanItem>, facets: &[Facet], note: &str) {
    for title in facets.iter().map(|facet| &facet.task.title) {
        if items.len() < limits::PLAN_ITEMS && !items.iter().any(|item| item.title == *title) {
            items.push(PlanItem { title: title.clone(), state: ItemState::Todo, note: note.to_owned() });
        }
    }
}

/// The next tasks, as indices of `facets`: one for each branch, `most` at the most.
fn next(items: &[PlanItem], facets: &[Facet], most: usize) -> Vec<usize> {
    let todo: BTreeSet<&str> =
        items.iter().filter(|item| item.state == ItemState::Todo).map(|item| item.title.as_str()).collect();
    let mut branches = BTreeSet::new();
    let mut chosen = Vec::new();
    for (at, facet) in facets.iter().enumerate() {
        if chosen.len() < most
            && todo.contains(facet.task.title.as_str())
            && branches.insert(facet.branch.as_str())
        {
            chosen.push(at);
        }
    }
    chosen
}

async fn asked(input: &PlanInput, homework: &HomeworkBrief, io: &RoleIo) -> Result<Asked, RoleError> {
    let brief = Brief::of(&input.call);
    let terms = brief.terms();
    let whole = || {
        let criteria = vec![step::answers(&brief.subject)];
        let task = Task::new(short(&brief.subject, 160), "It is the whole task.".to_owned(), criteria);
        vec![Facet { branch: "objective".to_owned(), task }]
    };
    if terms.is_empty() {
        let (beyond, ranked) = Default::default();
        return Ok(Asked { facets: whole(), beyond, ranked, terms });
    }
    let mut corpus = corpus::gather(io, &input.call, &terms).await?;
    let limited = input.call.budgets.max_tool_calls.is_some();
    let leads = match parts(&brief.subject) {
        Parts::One => hunt::hunt(io, &brief.subject, limited, &mut corpus).await?,
        _ => Vec::new(),
    };
    let passages = || corpus.docs.iter().flat_map(corpus::Doc::passages).collect();
    let mut facets = match parts(&brief.subject) {
        Parts::Several(parts) => of_parts(&parts),
        Parts::Compare(comparison) => {
            let mut facets = of_parts(&comparison.asked());
            let (a, b) = (comparison.a, comparison.b);
            let title = format!("What is said about both {} and {}", short(&a, 80), short(&b, 80));
            let criteria = vec![step::answers(&format!("{a} and {b}"))];
            let task = Task::new(title, "The task compares the two.".to_owned(), criteria);
            facets.push(Facet { branch: "both".to_owned(), task });
            facets
        }
        Parts::One => {
            let (found, subject) = weigh(passages(), terms.clone());
            // One iteration is left for what the results open up.
            let rounds = (homework.max_iterations as usize).saturating_sub(1).max(1);
            match leads.iter().any(|lead| lead.hop > 0) {
                true => of_trail(&leads, &subject, rounds),
                false => of_documents(&found, &subject, rounds),
            }
        }
    };
    if facets.is_empty() {
        facets = whole();
    }
    make_distinct(&mut facets);
    let beyond = facets.split_off(facets.len().min(FACETS));
    let beyond = beyond.into_iter().map(|facet| facet.task.title).collect();
    Ok(Asked { facets, beyond, ranked: rank(passages(), &terms), terms })
}

/// Leaves one of the tasks that ask for the same. Others may only be titled alike, because a title is cut.
fn make_distinct(facets: &mut Vec<Facet>) {
    let mut criteria = BTreeSet::new();
    facets.retain(|facet| criteria.insert(facet.task.criteria.clone()));
    let mut titles: BTreeMap<String, usize> = BTreeMap::new();
    for title in facets.iter_mut().map(|facet| &mut facet.task.title) {
        let n = titles.entry(title.clone()).or_default();
        *n += 1;
        if *n > 1 {
            *title = format!("{title} ({n})");
        }
    }
}

fn of_parts(parts: &[String]) -> Vec<Facet> {
    let mut facets: Vec<Facet> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        // There may be thousands of parts. Those for which the plan has no room need no branch of their own.
        let taken = |branch: &str| i < FACETS && facets.iter().any(|facet| facet.branch == branch);
        let branch = slug::unique(&short(part, 60), taken);
        facets.push(Facet { branch, task: part_task(part, i + 1, parts.len()) });
    }
    facets
}

/// A branch for the documents that the question leads to, and one for those that follow from a name in another. Each is
/// shared out among `rounds` tasks.
fn of_trail(leads: &[Lead], subject: &Subject, rounds: usize) -> Vec<Facet> {
    let (first, further): (Vec<_>, Vec<_>) =
        hunt::documents(leads).into_iter().partition(|(_, leads)| leads.iter().any(|lead| lead.hop == 0));
    let common = common_folder(leads.iter().map(|lead| lead.passage.path.as_str()));
    let mut facets = Vec::new();
    for (branch, documents) in [(ASKED, first), (FOLLOWED, further)] {
        let share = documents.len().div_ceil(rounds).clamp(1, limits::CRITERIA - 1);
        for some in documents.chunks(share) {
            let task = hunt::task_of(some, common, subject);
            facets.push(Facet { branch: branch.to_owned(), task });
        }
    }
    facets
}

/// A branch for each folder; for each document if all stand in one folder. Its documents are shared out among `rounds`
/// tasks.
fn of_documents(found: &[Found], subject: &Subject, rounds: usize) -> Vec<Facet> {
    let common = common_folder(found.iter().map(|f| f.path.as_str()));
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let by_folder = found.iter().map(|f| folder(&f.path)).collect::<BTreeSet<_>>().len() > 1;
    let mut branches: Vec<(String, Vec<&Found>)> = Vec::new();
    for f in found {
        let name = if by_folder { folder(&f.path) } else { f.path.clone() };
        let branch = slug::of(if name.is_empty() { "documents" } else { &name });
        match branches.iter_mut().find(|(known, _)| *known == branch) {
            Some((_, documents)) => documents.push(f),
            None => branches.push((branch, vec![f])),
        }
    }
    let mut facets = Vec::new();
    for (branch, documents) in branches {
        let share = documents.len().div_ceil(rounds).clamp(1, limits::CRITERIA - 1);
        for group in documents.chunks(share) {
            let paths: Vec<String> = group.iter().map(|f| f.path.clone()).collect();
            let held: BTreeSet<usize> = group.iter().flat_map(|f| f.terms.iter().copied()).collect();
            let passages = group.iter().map(|f| f.passages).sum();
            let task = task(&paths, common, &subject.shown(&held), &subject.heaviest(&held), Some(passages));
            facets.push(Facet { branch: branch.clone(), task });
        }
    }
    facets
}

/// Words that the best passages of several documents share and the objective does not name, each as a task of a branch
/// of its own.
fn opened(ranked: &[Ranked], terms: &[Term], facets: &[Facet]) -> Vec<Facet> {
    let asked: BTreeSet<&String> = terms.iter().flat_map(|term| &term.stems).collect();
    let mut words: BTreeMap<Vec<String>, (String, BTreeSet<&str>)> = BTreeMap::new();
    for passage in ranked.iter().take(PASSAGES).map(|r| &r.passage) {
        for term in key_terms(&passage.text) {
            let is_word =
                term.shown.chars().count() >= LETTERS && term.shown.chars().all(char::is_alphabetic);
            if is_word && !term.stems.iter().any(|stem| asked.contains(stem)) {
                let (_, documents) = words.entry(term.stems).or_insert_with(|| (term.shown, BTreeSet::new()));
                documents.insert(&passage.path);
            }
        }
    }
    let mut words: Vec<(String, usize)> = words.into_values().map(|(word, in_)| (word, in_.len())).collect();
    words.retain(|(_, documents)| *documents > 1);
    words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    words.truncate(WORDS);
    // Words that no passage holds lead nowhere.
    let held: BTreeSet<usize> = ranked.iter().flat_map(|r| r.terms.iter().copied()).collect();
    let subject: Vec<&str> = held.iter().take(2).map(|&i| terms[i].shown.as_str()).collect();
    let taken = |branch: &str| facets.iter().any(|facet| facet.branch == branch);
    let facet = |(word, documents): (String, usize)| {
        let title = format!("What is said about {word} beside {}", listed(&subject));
        let reason = format!("{} mention it where they speak of the task.", count(documents, "document"));
        let criteria = vec![step::answers(&format!("{word} {}", subject.join(" ")))];
        Facet { branch: slug::unique(&word, taken), task: Task::new(title, reason, criteria) }
    };
    words.into_iter().map(facet).collect()
}

/// What the last iteration has led to; empty before the first one.
fn rollup(brief: &HomeworkBrief) -> String {
    if brief.iteration == 1 {
        return String::new();
    }
    let completed = entries(brief).filter(|entry| entry.status == NodeStatus::Completed).count();
    let mut text = format!("{completed} of {} completed.", count(entries(brief).count(), "task"));
    for entry in entries(brief) {
        let said = short(&entry.summary, TASK_BYTES);
        text.push_str(&format!("\n- {} ({}): {said}", short(&entry.title, TASK_BYTES), entry.status));
    }
    for refusal in &brief.refused {
        let why = short(&refusal.reason, TASK_BYTES);
        text.push_str(&format!("\n- {} was refused: {why}", short(&refusal.title, TASK_BYTES)));
    }
    prefix(&text, limits::TEXT_BYTES).to_owned()
}

/// What each branch has found so far: what was said before, and what its last task adds.
fn branch_notes(brief: &HomeworkBrief) -> Vec<BranchNote> {
    let ended = brief.iteration - 1;
    let note = |branch: &BranchBrief| {
        let mut summary = branch.summary.clone();
        for entry in branch.entries.iter().filter(|entry| entry.iteration == ended) {
            let said = format!("{}: {}", short(&entry.title, TASK_BYTES), short(&entry.summary, TASK_BYTES));
            summary = if summary.is_empty() { said } else { format!("{summary}\n{said}") };
        }
        if summary.len() > BRANCH_BYTES {
            summary = format!("…{}", suffix(&summary, BRANCH_BYTES));
        }
        (!summary.is_empty()).then(|| BranchNote { branch_id: branch.branch_id.clone(), summary })
    };
    // If there are too many, the latest branches matter most.
    let too_many = brief.branches.len().saturating_sub(limits::BRANCH_NOTES);
    brief.branches.iter().skip(too_many).filter_map(note).collect()
}

/// What could not be found out: the tasks that failed.
fn questions(items: &[PlanItem]) -> Vec<String> {
    let failed = format!("{}: ", NodeStatus::Failed);
    let failed = items.iter().filter(|item| item.note.starts_with(&failed));
    failed.map(|item| short(&item.title, TASK_BYTES)).take(limits::HOMEWORK_NOTES).collect()
}

/// The titles of the tasks that the plan of homework which has ended leaves undone. Its tasks were `begun`.
pub(super) fn not_done(brief: &HomeworkBrief, begun: &[ChildOutcome]) -> Vec<String> {
    let HomeworkDraft { items, remaining, .. } = &brief.last;
    let is_begun = |item: &PlanItem| begun.iter().any(|task| task.title == item.title);
    let not_begun = |item: &&PlanItem| item.state == ItemState::Doing && !is_begun(item);
    let not_begun = items.iter().filter(not_begun).map(|item| &item.title);
    remaining.iter().chain(not_begun).cloned().collect()
}

/// What is said of the tasks that the engine refused.
pub(super) fn refusals(brief: &HomeworkBrief) -> impl Iterator<Item = String> {
    brief.last.items.iter().filter(|item| item.state == ItemState::Dropped).filter_map(|item| {
        let why = item.note.strip_prefix(REFUSED)?;
        Some(format!("“{}” was refused: {why}.", short(&item.title, TASK_BYTES)))
    })
}

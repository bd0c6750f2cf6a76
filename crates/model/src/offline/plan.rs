//! The planner: by the parts of the objective, then by the documents that speak of it.

use std::collections::BTreeSet;

use tree_agent_contract::StepId;
use tree_agent_contract::limits;
use tree_agent_contract::role::{
    BandDraft, CallContext, Complexity, LeafDecision, PlanDraft, PlanInput, PlannerMode, PlannerOutput,
    PriorStep, RoleError, ScratchpadDraft, StepDraft,
};

use tree_agent_contract::text::suffix;

use super::chain;
use super::document::common_folder;
use super::homework;
use super::hunt;
use super::objective::{Parts, parts};
use super::step::{self, Brief};
use super::subject::{Found, NAMED, Subject, shown, weigh};
use super::words::{key_terms, listed};
use super::{corpus, count, short};
use crate::io::RoleIo;

/// A node whose step names at most this many documents reads them itself.
const DIRECT_READS: usize = 3;
/// Bytes of a title beyond which it is cut.
pub(super) const TITLE: usize = 160;
/// The id of the step that compares two things.
const COMPARE: &str = "compare";
/// Words that a thing may begin with.
const ARTICLES: &[&str] = &["a", "an", "the", "our", "your", "its", "their", "my", "all"];

/// Decides for a node, and plans if need be.
pub(super) async fn plan(input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
    let call = &input.call;
    if let Some(homework) = &input.homework {
        return homework::plan(input, homework, io).await;
    }
    let brief = Brief::of(call);
    let leaf = call.depth >= call.budgets.max_depth;
    if brief.compares.is_some() {
        return Ok(execute("The step compares what earlier steps have found.", &[], &[]));
    }
    if !brief.reads.is_empty() {
        if leaf || brief.reads.len() <= DIRECT_READS {
            let reason = format!("The step names {}.", count(brief.reads.len(), "document"));
            return Ok(execute(&reason, &[], &[]));
        }
        return Ok(by_named_documents(input, &brief));
    }
    if !leaf && let Some(output) = by_parts(input, &brief) {
        return Ok(output);
    }
    let terms = brief.terms();
    if terms.is_empty() {
        return Ok(execute("The task holds no word to look for.", &[], &[]));
    }
    if let Parts::Several(_) = parts(&brief.subject) {
        // Its executor shares out what it reads among the parts.
        return Ok(execute("The task has several parts, and the budget allows no deeper level.", &[], &[]));
    }
    let mut corpus = corpus::gather(io, call, &terms).await?;
    if corpus.is_empty {
        return Ok(execute("There is no document in the context of this run.", &[], &[]));
    }
    // A node without children quotes what it can find in one look.
    let limited = call.budgets.max_tool_calls.is_some();
    let leads = if leaf { Vec::new() } else { hunt::hunt(io, &brief.subject, limited, &mut corpus).await? };
    let read = corpus.docs.len();
    let (found, subject) = weigh(corpus.docs.iter().flat_map(corpus::Doc::passages).collect(), terms);
    let asked = subject.telling.len();
    let alone = match found.as_slice() {
        [_] => true,
        [first, rest @ ..] if asked <= NAMED => {
            // Nobody else answers the whole question, or hardly anybody any of it.
            first.covers == asked && rest.iter().all(|f| f.covers < asked)
                || first.score >= 4 * rest.iter().map(|f| f.score).sum::<u64>()
        }
        _ => false,
    };
    let what = subject.what();
    let notes = subject.notes();
    // The passages before a name and behind it hold more of the question together than any does alone.
    let is_trail = leads.iter().any(|lead| lead.hop > 0);
    if is_trail && let Some(output) = hunt::plan(input, &leads, &subject) {
        return Ok(output);
    }
    let is_whole = found.iter().any(|f| f.covers == asked);
    if !leaf
        && !found.is_empty()
        && !is_whole
        && let Some(output) = chain::plan(input, &brief, &subject)
    {
        return Ok(output);
    }
    match found.as_slice() {
        [] => Ok(execute(&format!("No passage about {what} was found."), &[], &notes)),
        [first, ..] if alone => {
            Ok(execute(&format!("What there is about {what} stands in {}.", first.path), &found[..1], &notes))
        }
        some if leaf || width(call) < 2 => {
            let reason = format!(
                "{} speak of {what}, and the budget allows no deeper level.",
                count(some.len(), "document")
            );
            Ok(execute(&reason, &some[..some.len().min(DIRECT_READS)], &notes))
        }
        some => Ok(by_found_documents(input, some, &subject, read)),
    }
}

/// Steps that one band may hold.
pub(super) fn width(call: &CallContext) -> usize {
    call.budgets.max_steps_per_band.min(call.budgets.max_children_per_node) as usize
}

fn execute(reason: &str, read: &[Found], notes: &[String]) -> PlannerOutput {
    let reads = read.iter().map(|f| step::reads(&f.path));
    let notes = step::written(&reads.chain(notes.iter().cloned()).collect::<Vec<_>>());
    PlannerOutput {
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: reason.to_owned(),
        leaf_decision: Some(LeafDecision {
            can_execute_directly: true,
            complexity: Complexity::Low,
            blockers: Vec::new(),
        }),
        plan: None,
        scratchpad: ScratchpadDraft::of(format!("**Plan.** {reason} No steps are needed.\n{notes}")),
    }
}

/// A step before it has an id.
pub(super) struct Task {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) reason: String,
    pub(super) criteria: Vec<String>,
}

impl Task {
    /// One whose id nobody needs.
    pub(super) fn new(title: String, reason: String, criteria: Vec<String>) -> Self {
        Self { id: String::new(), title, reason, criteria }
    }
}

/// Parts that a plan has room for.
fn most_parts(call: &CallContext) -> usize {
    let budgets = &call.budgets;
    (width(call) * budgets.max_bands_per_plan as usize).min(budgets.max_children_per_node as usize)
}

/// One step for each part of the objective.
fn by_parts(input: &PlanInput, brief: &Brief) -> Option<PlannerOutput> {
    let bands = bands_of_parts(&input.call, brief)?;
    let n = bands.iter().flat_map(|(_, tasks)| tasks).filter(|task| task.id != COMPARE).count();
    let reason = format!("The task has {n} parts.");
    Some(delegate(input, &reason, &format!("Answer {n} parts, then merge."), bands, &[]))
}

/// The bands of a task that is divided into parts, each with its goal. What does not fit goes with the last part that
/// does. None if there is only one part, or room for only one.
pub(super) fn bands_of_parts(call: &CallContext, brief: &Brief) -> Option<Vec<(String, Vec<Task>)>> {
    let budgets = &call.budgets;
    let (width, most) = (width(call), most_parts(call));
    if most < 2 || width < 2 {
        return None;
    }
    let asked = parts(&brief.subject);
    let compare = match &asked {
        Parts::Compare(comparison) => Some((comparison.a.clone(), comparison.b.clone())),
        _ => None,
    };
    let compare = compare.filter(|_| budgets.max_bands_per_plan >= 2 && most >= 3);
    let mut parts = asked.asked()?;
    let rest = parts.split_off(parts.len().min(most));
    if let Some(last) = parts.last_mut() {
        rest.iter().for_each(|part| last.push_str(&format!("; {part}")));
    }
    let n = parts.len();
    let tasks: Vec<Task> = parts.iter().enumerate().map(|(i, part)| part_task(part, i + 1, n)).collect();
    let mut bands: Vec<(String, Vec<Task>)> = Vec::new();
    for task in tasks {
        match bands.last_mut() {
            Some((_, tasks)) if tasks.len() < width => tasks.push(task),
            _ => bands.push(("Answer each part by itself".to_owned(), vec![task])),
        }
    }
    if let Some((a, b)) = compare {
        let task = Task {
            id: COMPARE.to_owned(),
            title: format!("How {} and {} compare", short(&a, TITLE / 2), short(&b, TITLE / 2)),
            reason: "Sets side by side what the steps before have found.".to_owned(),
            criteria: vec![step::compares(&a, &b)],
        };
        bands.push(("Set the answers side by side".to_owned(), vec![task]));
    }
    Some(bands)
}

/// A step that answers `part`, which is number `i` of `n`.
pub(super) fn part_task(part: &str, i: usize, n: usize) -> Task {
    Task {
        id: format!("part-{i}"),
        title: if part.ends_with('?') || asks(part) {
            capital(&short(part, TITLE))
        } else {
            format!("What is said about {}", short(part, TITLE))
        },
        reason: format!("Part {i} of {n} of the task."),
        criteria: vec![step::answers(part)],
    }
}

/// Whether `part` is a request by itself (`how it ends`, `Describe it`) and no mere thing (`the end`).
fn asks(part: &str) -> bool {
    let first = part.split_whitespace().next().unwrap_or_default();
    !ARTICLES.contains(&first.to_lowercase().as_str()) && key_terms(first).is_empty()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// One step for each document that a step named, or for an even share of them.
fn by_named_documents(input: &PlanInput, brief: &Brief) -> PlannerOutput {
    let terms = brief.terms();
    let shares = brief.reads.len().div_ceil(width(&input.call).max(1));
    let words = shown(&terms, terms.len());
    let folder = common_folder(brief.reads.iter().map(String::as_str));
    let tasks = brief.reads.chunks(shares).map(|paths| task(paths, folder, &words, &words, None)).collect();
    let n = count(brief.reads.len(), "document");
    let summary = format!("Quote {n} on {}, then merge.", listed(&shown(&terms, NAMED)));
    let bands = vec![("Read the documents".to_owned(), tasks)];
    delegate(input, &format!("The step names {n}."), &summary, bands, &[])
}

/// One step for each document that speaks of the subject; for each folder when there are too many.
fn by_found_documents(input: &PlanInput, found: &[Found], subject: &Subject, read: usize) -> PlannerOutput {
    let width = width(&input.call);
    let mut groups: Vec<Vec<&Found>> = found.iter().map(|f| vec![f]).collect();
    // A few more than there is room for share the last step; many more go by folder.
    if groups.len() > 2 * width {
        let mut folders: Vec<(&str, Vec<&Found>)> = Vec::new();
        for f in found {
            let folder = f.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            match folders.iter_mut().find(|(name, _)| *name == folder) {
                Some((_, group)) => group.push(f),
                None => folders.push((folder, vec![f])),
            }
        }
        if folders.len() > 1 {
            groups = folders.into_iter().map(|(_, group)| group).collect();
        }
    }
    if groups.len() > width {
        let rest = groups.split_off(width - 1).into_iter().flatten().collect();
        groups.push(rest);
    }
    let folder = common_folder(found.iter().map(|f| f.path.as_str()));
    let tasks: Vec<Task> = groups
        .iter()
        .map(|group| {
            // As many as a step has room for beside the other criterion; they are in order of weight.
            let paths: Vec<String> =
                group.iter().take(limits::CRITERIA - 1).map(|f| f.path.clone()).collect();
            let held: BTreeSet<usize> = group.iter().flat_map(|f| f.terms.iter().copied()).collect();
            task(
                &paths,
                folder,
                &subject.shown(&held),
                &subject.heaviest(&held),
                Some(group.iter().map(|f| f.passages).sum()),
            )
        })
        .collect();
    let what = subject.what();
    let reason = format!("{} of {} speak of {what}.", count(found.len(), "document"), read);
    let summary = format!("Quote {} on {what}, then merge.", count(found.len(), "document"));
    let bands = vec![("Read the documents that speak of it".to_owned(), tasks)];
    delegate(input, &reason, &summary, bands, &subject.notes())
}

/// A step that quotes what `paths` say of `words`; `named` stand in its title. The title leaves out the folder `common`
/// that all documents of the plan stand in.
pub(super) fn task(
    paths: &[String],
    common: &str,
    words: &[&str],
    named: &[&str],
    passages: Option<usize>,
) -> Task {
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let what = listed(&named[..named.len().min(NAMED)]);
    let shown: Vec<&str> = paths.iter().map(|p| p.strip_prefix(common).unwrap_or(p)).collect();
    let subject = match shown.as_slice() {
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} and {other}"),
        [first, rest @ ..] => {
            match folder(first).filter(|f| rest.iter().all(|p| folder(p).as_ref() == Some(f))) {
                Some(folder) => format!("{} in {folder}/", count(paths.len(), "document")),
                None => format!("{first} and {} more", rest.len()),
            }
        }
        [] => "the documents".to_owned(),
    };
    let verb = if paths.len() == 1 { "says" } else { "say" };
    let mut criteria: Vec<String> = vec![step::quotes(words)];
    criteria.extend(paths.iter().map(|path| step::reads(path)));
    Task {
        id: slug(paths.first().map_or("documents", String::as_str)),
        title: short(format!("What {subject} {verb} about {what}").trim_end_matches(" about "), TITLE * 2),
        reason: match passages {
            Some(1) => format!("1 passage there mentions {what}."),
            Some(n) => format!("{n} passages there mention {what}."),
            None => "The step above names it.".to_owned(),
        },
        criteria,
    }
}

/// A step id that is the same whenever the same document is named.
fn slug(path: &str) -> String {
    let name: String = path.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    format!("read-{}", suffix(&name, 96))
}

pub(super) fn delegate(
    input: &PlanInput,
    reason: &str,
    summary: &str,
    bands: Vec<(String, Vec<Task>)>,
    notes: &[String],
) -> PlannerOutput {
    let mut used = BTreeSet::new();
    let bands: Vec<BandDraft> = bands
        .into_iter()
        .enumerate()
        .map(|(index, (goal, tasks))| BandDraft {
            index: index as u32,
            goal,
            parallelizable: true,
            steps: tasks
                .into_iter()
                .enumerate()
                .map(|(i, task)| step_of(task, i as u32, &mut used, &input.prior_steps))
                .collect(),
        })
        .collect();
    let steps: usize = bands.iter().map(|b| b.steps.len()).sum();
    let notes: Vec<String> = [step::steps(steps)].into_iter().chain(notes.iter().cloned()).collect();
    let notes = step::written(&notes);
    let lines: String = bands.iter().flat_map(|b| &b.steps).map(|s| format!("- {}\n", s.title)).collect();
    PlannerOutput {
        homework: None,
        mode: PlannerMode::Plan,
        mode_reason: reason.to_owned(),
        leaf_decision: Some(LeafDecision {
            can_execute_directly: false,
            complexity: if steps > 4 { Complexity::High } else { Complexity::Medium },
            blockers: Vec::new(),
        }),
        plan: Some(PlanDraft { summary: summary.to_owned(), bands }),
        scratchpad: ScratchpadDraft::of(format!("**Plan.** {reason} {summary}\n{lines}{notes}")),
    }
}

fn step_of(task: Task, step_index: u32, used: &mut BTreeSet<String>, prior: &[PriorStep]) -> StepDraft {
    let mut id = task.id.clone();
    let mut n = 2;
    while !used.insert(id.clone()) {
        id = format!("{}-{n}", task.id);
        n += 1;
    }
    // A step of an earlier plan keeps its title, whatever has been found since.
    let title = prior.iter().find(|p| p.id.as_str() == id).map_or(task.title, |p| p.title.clone());
    let step = StepDraft::new(StepId::new(id), title);
    StepDraft { reason: task.reason, success_criteria: task.criteria, step_index, ..step }
}

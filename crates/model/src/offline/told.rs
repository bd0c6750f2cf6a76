//! What the planner and the steps of a node tell its aggregator: the words that count, and steps that were not done.

use std::collections::HashSet;

use serde_json::{Map, Value};
use tree_agent_contract::role::AggregateInput;

use super::findings::{self, NOT_DONE};
use super::homework;
use super::plan::{self, Task};
use super::step::{Brief, Notes};
use super::words::{Term, key_terms};

/// The words by which the findings are ranked. The children know them, because they searched for what distinguishes
/// their documents.
pub(super) fn terms(input: &AggregateInput, brief: &Brief) -> Vec<Term> {
    let asked = payloads(input).flat_map(|p| findings::words(p, "terms")).collect::<Vec<_>>().join(" ");
    let asked = key_terms(&asked);
    let (telling, rest): (Vec<Term>, Vec<Term>) = brief.terms().into_iter().partition(|t| asked.contains(t));
    if telling.is_empty() { rest } else { telling }
}

/// The titles of steps that were planned and not done, here and below.
pub(super) fn not_done(input: &AggregateInput, brief: &Brief, notes: &Notes) -> Vec<String> {
    let begun: HashSet<&str> = input.children.iter().map(|child| child.step_id.as_str()).collect();
    let mut titles = match &input.homework {
        Some(homework) => homework::not_done(homework, &input.children),
        None => {
            let planned = parts_planned(input, brief, &begun);
            let missing = planned.iter().filter(|task| !begun.contains(task.id.as_str()));
            let mut titles: Vec<String> = missing.map(|task| task.title.clone()).collect();
            if planned.is_empty() && notes.steps > begun.len() {
                titles.push(format!("{} of {} planned steps", notes.steps - begun.len(), notes.steps));
            }
            titles
        }
    };
    titles.extend(payloads(input).flat_map(|p| findings::words(p, NOT_DONE)).map(str::to_owned));
    titles
}

/// The steps that answer parts of the task. None if its plan was another one.
fn parts_planned(input: &AggregateInput, brief: &Brief, begun: &HashSet<&str>) -> Vec<Task> {
    let bands = plan::bands_of_parts(&input.call, brief);
    let tasks: Vec<Task> = bands.into_iter().flatten().flat_map(|(_, tasks)| tasks).collect();
    let is_plan = tasks.iter().any(|task| begun.contains(task.id.as_str()));
    if is_plan { tasks } else { Vec::new() }
}

/// What the steps of the node returned.
fn payloads(input: &AggregateInput) -> impl Iterator<Item = &Map<String, Value>> {
    input.children.iter().filter_map(|c| c.result.as_ref()?.json_payload.as_ref())
}

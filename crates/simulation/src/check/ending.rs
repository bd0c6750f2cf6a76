//! What must hold when a world has ended.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::document::DocumentKind;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunStatus, SessionId, Timestamp};
use tree_agent_engine::Graph;
use tree_agent_store::{PlacedDocument, PlanRow, Projection};

use super::forks::check_fork;
use super::sums::check_sums;
use super::{View, unrelated};
use crate::store::{Model, StoredRun};
use crate::world::{World, run_name};

/// Checks every run, row, document and view.
pub(crate) fn check_ending(world: &World, views: &[View]) -> Vec<String> {
    let mut found = Vec::new();
    let model = world.model();
    let mut checks = world.checks();
    let checks = &mut *checks;
    let quiet = world.plan.faults.is_empty();
    for (id, run) in &model.runs {
        let name = run_name(*id);
        let mut note = |text: String| found.push(format!("{name}: {text}"));
        if !run.row.status.is_final() {
            note(format!("has not ended: {} at event {}", run.row.status, run.head()));
        }
        if checks.log.of(*id).map(|log| &log.events) != Some(&run.log) {
            note("the log changed after it was written".into());
        }
        check_rows(*id, run, &mut note);
        check_documents(&model, *id, run, &mut note);
        check_tree(&model, *id, run, &mut note);
        check_sessions(&model, *id, run, &mut note);
        let (compared, changed) = unrelated::check(&run.log, checks.calls.given());
        checks.compared += compared;
        changed.into_iter().for_each(&mut note);
        if let Some(of) = &run.fork {
            check_fork(&model, *id, run, of, &mut note);
        }
        let quiet = quiet && run.fork.is_none() && checks.commands.of(*id) == 0;
        if quiet && run.row.status != RunStatus::Completed {
            note(format!("ended as {} though nothing went wrong", run.row.status));
        }
        // One that has waited for a person is claimed again.
        if quiet && run.spec.review.is_none() && run.log.iter().any(|(epoch, _)| *epoch > 1) {
            note("changed hands though nothing went wrong".into());
        }
    }
    found.extend(checks.commands.check(&checks.log));
    for (run, id) in model.commands.keys() {
        found.push(format!("{}: command {id} is left in its inbox", run_name(*run)));
    }
    for view in views {
        let head = model.runs.get(&view.run).map_or(0, StoredRun::head);
        if !view.ended || view.cursor != head {
            let (who, cursor) = (&view.who, view.cursor);
            found.push(format!("{}: {who} ended at {cursor} of {head}", run_name(view.run)));
        }
    }
    found
}

/// The rows equal those that are derived from what the run wrote itself.
fn check_rows(id: RunId, run: &StoredRun, note: &mut impl FnMut(String)) {
    let mut graph = Graph::new(id);
    let events: Vec<_> = run.log.iter().map(|(_, event)| event.clone()).collect();
    if !events.iter().all(|event| graph.apply(event).is_ok()) {
        return note("the log does not replay".into());
    }
    check_sums(run, &graph, note);
    let shared = run.fork.as_ref().map_or(0, |of| of.parent_seq as usize);
    let rebuilt = Projection::of(&events[shared..], &graph);
    if rebuilt.run.as_ref() != Some(&run.row) {
        note(format!("its row is {:?}, the log gives {:?}", run.row, rebuilt.run));
    }
    let given: BTreeMap<_, _> = rebuilt.nodes.iter().map(|row| (row.id, row)).collect();
    for id in given.keys().chain(run.nodes.keys()).collect::<BTreeSet<_>>() {
        let (kept, given) = (run.nodes.get(id), given.get(id).copied());
        if kept != given {
            note(format!("the row of node {id} is {kept:?}, the log gives {given:?}"));
        }
    }
    // Only the latest plan of a node can be told from the graph.
    for row in &rebuilt.plans {
        let timeless = |row: &PlanRow| PlanRow { created_at: Timestamp::default(), ..row.clone() };
        if run.plans.get(&row.id).map(timeless) != Some(timeless(row)) {
            note(format!("the row of plan {} is not what the log gives", row.id));
        }
    }
    let given: BTreeSet<_> = rebuilt.artifacts.iter().map(|row| row.id).collect();
    let kept: BTreeSet<_> = run.artifacts.keys().copied().collect();
    if given != kept {
        note(format!("has {} artifacts, the log gives {}", kept.len(), given.len()));
    }
}

/// Of every topic that was researched, the conversation is there, and it was written with the answer that the log
/// holds.
fn check_sessions(model: &Model, id: RunId, run: &StoredRun, note: &mut impl FnMut(String)) {
    let mut forked: BTreeMap<NodeId, SessionId> = BTreeMap::new();
    for (_, event) in &run.log {
        match &event.body {
            EventBody::SessionForked(e) => {
                forked.insert(event.node_id, SessionId::new(e.session_id.clone()));
            }
            EventBody::NodeResult(e) => {
                let Some(session) = forked.remove(&event.node_id) else { continue };
                let number = e.result.summary.strip_prefix("did ").unwrap_or_default();
                let said =
                    model.sessions.get(&(id, session.clone())).map(|session| session.messages.as_slice());
                let last = said.and_then(<[_]>::last).map_or("", |message| message.text.as_str());
                if last != format!("written {number}") {
                    note(format!("conversation {session} ends with {last:?}, the log has answer {number}"));
                }
            }
            _ => {}
        }
    }
}

/// What a run with a workspace wrote is below it, and every document is at the end what its history says.
fn check_tree(model: &Model, id: RunId, run: &StoredRun, note: &mut impl FnMut(String)) {
    let documents = model.documents_of(id);
    // The documents of a fork have the names that they have in the run which began its log.
    let above =
        |run: &RunId| model.runs.get(run).and_then(|run| run.fork.as_ref()).map(|of| of.parent_run_id);
    let origin = std::iter::successors(Some(id), above).last().unwrap_or(id);
    let workspace = DocumentId::workspace(origin);
    let has_workspace = documents.contains_key(&workspace);
    for (document, placed) in &documents {
        let above = |at: &DocumentId| documents.get(at).and_then(|placed| placed.parent_id);
        let top = std::iter::successors(Some(*document), above).last();
        if has_workspace && top != Some(workspace) {
            note(format!("document {document} is not below the workspace"));
        }
        let then = model.document_of(id, *document, Some(run.head())).map(|placed| placed.document.body);
        if !run.deleted && then.ok().as_ref() != Some(&placed.document.body) {
            note(format!("the history of document {document} ends with another text"));
        }
    }
}

/// How the lines begin that roles write when they answer.
const SAID: &str = "answer ";

/// Every line that roles wrote is in its scratchpad once: one per `tree.scratchpad_updated`. The last event matches the
/// end of the scratchpad.
fn check_documents(model: &Model, id: RunId, run: &StoredRun, note: &mut impl FnMut(String)) {
    let documents = model.documents_of(id);
    let mut pads: BTreeMap<DocumentId, (usize, &str)> = BTreeMap::new();
    for (_, event) in &run.log {
        match &event.body {
            EventBody::ScratchpadUpdated(e) => {
                let pad = pads.entry(e.scratchpad_doc_id).or_default();
                *pad = (pad.0 + 1, e.tail_preview.as_str());
            }
            EventBody::ArtifactCreated(e) if e.document_id.is_some_and(|id| !documents.contains_key(&id)) => {
                note(format!("artifact {} has no document", e.artifact_id));
            }
            _ => {}
        }
    }
    for (id, (mut lines, tail)) in pads {
        let Some(PlacedDocument { document, .. }) = documents.get(&id) else {
            note(format!("scratchpad {id} does not exist"));
            continue;
        };
        // It begins with what its node was asked, up to an empty line.
        let grown = document.body.rsplit_once("\n\n").map_or(document.body.as_str(), |(_, grown)| grown);
        let mut written: Vec<&str> = grown.lines().collect();
        if matches!(document.kind, DocumentKind::HomeworkScratchpad | DocumentKind::HomeworkBranch) {
            // The engine writes roll-ups and tasks among what roles wrote.
            written = document.body.lines().filter(|line| line.starts_with(SAID)).collect();
            lines = written.len();
        }
        let distinct: BTreeSet<&&str> = written.iter().collect();
        if written.len() != lines || distinct.len() != lines || !document.body.ends_with(tail) {
            let text =
                format!("has {} lines, {} distinct; the log says {lines}", written.len(), distinct.len());
            note(format!("scratchpad {id} {text}"));
        }
    }
}

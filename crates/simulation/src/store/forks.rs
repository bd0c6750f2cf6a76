//! Forks of the simulated store. A fork gets a copy of all that it shares, which is what the adapters must look like.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::{DocumentId, Event, EventBody, ForkOf, RunId};
use tree_agent_store::{
    Created, DocumentTail, DocumentVersion, Forks, NewFork, Page, PlacedDocument, Segment, StoreError,
};

use super::documents::{History, Place};
use super::{Model, SimStore, StoredRun};
use crate::flaw::Flaw;
use crate::world::run_name;

/// The documents of a fork, those that it shares included.
pub(crate) type ForkDocuments = BTreeMap<DocumentId, (History, Option<Place>)>;

impl Model {
    /// [`Forks::fork_run`](tree_agent_store::Forks::fork_run).
    pub fn fork_run(&mut self, fork: NewFork) -> Result<Created, StoreError> {
        let same_request = |run: &StoredRun| {
            !fork.request_id.is_empty()
                && (&run.request_id, &run.spec.user_id) == (&fork.request_id, &fork.spec.user_id)
        };
        let of_request = || self.runs.iter().find(|(_, run)| same_request(run));
        if let Some((id, run)) = self.runs.get_key_value(&fork.run_id).or_else(of_request) {
            let first = run.log.get(fork.parent_seq as usize).map(|(_, event)| &event.body);
            let parent = run.fork.as_ref().map(|of| (of.parent_run_id, of.parent_seq));
            let is_same = run.spec == fork.spec
                && parent == Some((fork.parent_run_id, fork.parent_seq))
                && first == Some(&fork.event.body);
            return match is_same {
                true => Ok(Created::Existing(*id)),
                false => Err(StoreError::Conflict(format!("run {id} of the request is another one"))),
            };
        }
        let names_it = match &fork.event.body {
            EventBody::RunForked(e) => (e.source_run_id, e.at_seq) == (fork.parent_run_id, fork.parent_seq),
            _ => false,
        };
        if !names_it || (fork.event.run_id, fork.event.seq) != (fork.run_id, fork.parent_seq + 1) {
            return Err(StoreError::Conflict(format!("the fork {} begins with another event", fork.run_id)));
        }
        let parent = self.stored(fork.parent_run_id)?;
        if parent.deleted {
            return Err(StoreError::not_found("run", fork.parent_run_id));
        }
        let shared = parent.fork.as_ref().map_or(0, |of| of.parent_seq);
        if fork.parent_seq > parent.head() || fork.parent_seq <= shared {
            return Err(StoreError::Conflict(format!(
                "run {} did not write event {}",
                fork.parent_run_id, fork.parent_seq
            )));
        }
        let mut run = StoredRun {
            spec: fork.spec,
            request_id: fork.request_id,
            created_at: fork.event.timestamp,
            updated_at: fork.event.timestamp,
            row: fork.row,
            fork: Some(ForkOf {
                parent_run_id: fork.parent_run_id,
                parent_seq: fork.parent_seq,
                edits: fork.edits,
            }),
            ..StoredRun::new(parent.root)
        };
        let shared = parent.log.iter().take(fork.parent_seq as usize);
        // It has had no driver so far.
        run.log = shared.map(|(_, e)| (0, Event { run_id: fork.run_id, ..e.clone() })).collect();
        run.log.push((0, fork.event));
        let documents = self.shared_documents(fork.parent_run_id, fork.parent_seq);
        let sessions: Vec<_> = self
            .sessions
            .range((fork.parent_run_id, tree_agent_contract::SessionId::new(""))..)
            .take_while(|((run, _), _)| *run == fork.parent_run_id)
            .map(|((_, id), session)| ((fork.run_id, id.clone()), session.clone()))
            .collect();
        self.sessions.extend(sessions);
        self.fork_documents.insert(fork.run_id, documents);
        self.runs.insert(fork.run_id, run);
        Ok(Created::New(fork.run_id))
    }

    fn shared_documents(&self, run: RunId, seq: u64) -> ForkDocuments {
        let own = || {
            let of_run = self.documents.iter().filter(|(_, document)| document.run_id == Some(run));
            let ids = of_run.map(|(id, _)| *id);
            ids.filter_map(|id| Some((id, (self.histories.get(&id)?.clone(), self.places.get(&id).copied()))))
        };
        let all = self.fork_documents.get(&run).cloned().unwrap_or_else(|| own().collect());
        let seq = if self.has(Flaw::ForksOfToday) { u64::MAX } else { seq };
        let until = |(id, (history, place)): (DocumentId, (History, Option<Place>))| {
            Some((id, (history.until(seq)?, place.filter(|place| place.1 <= seq))))
        };
        all.into_iter().filter_map(until).collect()
    }

    /// Writes the documents of a fork.
    pub(super) fn write_fork_documents(&mut self, run: RunId, ops: Vec<DocumentOp>, first: u64, head: u64) {
        let Some(documents) = self.fork_documents.get_mut(&run) else { return };
        let placed: BTreeMap<DocumentId, Place> = ops
            .iter()
            .filter_map(|op| match op {
                DocumentOp::Link { parent, child, seq, .. } => Some((*child, (*parent, *seq))),
                _ => None,
            })
            .collect();
        for op in ops {
            match &op {
                DocumentOp::Create(document) => {
                    let (id, place) = (document.id, placed.get(&document.id).copied());
                    let (created, base) = place.map_or((first, head), |place| (place.1, place.1));
                    documents.insert(id, (History::new(created, base, op), place));
                }
                DocumentOp::Append { id, .. } | DocumentOp::Replace { id, .. } => {
                    if let Some((history, _)) = documents.get_mut(id) {
                        history.push(op);
                    }
                }
                DocumentOp::Link { .. } => {}
            }
        }
    }

    fn history_of(&self, run: RunId, id: DocumentId) -> Result<&(History, Option<Place>), StoreError> {
        let found = self.fork_documents.get(&run).and_then(|documents| documents.get(&id));
        found.ok_or_else(|| StoreError::not_found("document", id))
    }

    /// The documents of a run, those that it shares included.
    pub(crate) fn documents_of(&self, run: RunId) -> BTreeMap<DocumentId, PlacedDocument> {
        let own = self.documents.iter().filter(|(_, document)| document.run_id == Some(run));
        let ids: Vec<DocumentId> = match self.fork_documents.get(&run) {
            Some(documents) => documents.keys().copied().collect(),
            None => own.map(|(id, _)| *id).collect(),
        };
        ids.into_iter().filter_map(|id| Some((id, self.document_of(run, id, None).ok()?))).collect()
    }

    /// A document as a run has it.
    pub(crate) fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        if !self.fork_documents.contains_key(&run) {
            return self.document_at(id, seq).and_then(|placed| of_run(placed, run, id));
        }
        let (history, place) = self.history_of(run, id)?;
        let seq = seq.unwrap_or(u64::MAX);
        let mut document = history.at(seq).ok_or_else(|| StoreError::not_found("document", id))?;
        document.run_id = Some(run);
        Ok(PlacedDocument { document, parent_id: place.filter(|place| place.1 <= seq).map(|place| place.0) })
    }
}

fn of_run(placed: PlacedDocument, run: RunId, id: DocumentId) -> Result<PlacedDocument, StoreError> {
    match placed.document.run_id == Some(run) {
        true => Ok(placed),
        false => Err(StoreError::not_found("document", id)),
    }
}

#[async_trait]
impl Forks for SimStore {
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError> {
        let world = self.node.world.clone();
        self.call("fork", &[], move |model, _| {
            let id = fork.run_id;
            let created = model.fork_run(fork)?;
            if created == Created::New(id) {
                world.note("ann", format_args!("{} is a fork", run_name(id)));
                let log = model.runs.get(&id).map(|run| run.log.as_slice()).unwrap_or_default();
                let problems = world.checks().log.wrote(id, log);
                problems.into_iter().for_each(|problem| world.violation(problem));
            }
            Ok(created)
        })
        .await
    }

    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError> {
        self.call("segments", &[], move |model, _| {
            let mut segments = Vec::new();
            let mut next = model.runs.get(&run).and_then(|run| run.fork.as_ref());
            while let Some(of) = next {
                let writer = of.parent_run_id;
                let epoch = model.runs.get(&writer).map_or(0, |run| run.epoch);
                segments.push(Segment { run: writer, writer, epoch, until: of.parent_seq });
                next = model.runs.get(&writer).and_then(|run| run.fork.as_ref());
            }
            segments.reverse();
            Ok(segments)
        })
        .await
    }

    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError> {
        self.call("document_of", &[], move |model, _| model.document_of(run, id, at_seq)).await
    }

    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.call("document_versions_of", &[], move |model, _| {
            match model.fork_documents.contains_key(&run) {
                true => Ok(model.history_of(run, id)?.0.versions(after, limit)),
                false => model.document_versions(id, after, limit),
            }
        })
        .await
    }

    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError> {
        self.call("document_tail_of", &[], move |model, _| match model.fork_documents.contains_key(&run) {
            true => model.history_of(run, id)?.0.tail(from, max, id),
            false => model.document_tail(id, from, max),
        })
        .await
    }
}

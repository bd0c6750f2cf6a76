//! The ports. Each method is a call over the simulated network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::document::{Document, DocumentSummary};
use tree_agent_contract::session::Session;
use tree_agent_contract::{
    Command, DocumentId, Event, EventBody, MemberRole, NodeId, ProjectId, Reply, RunContext, RunId,
    RunSummary, SessionId, Timestamp,
};
use tree_agent_store::*;
use uuid::Uuid;

use super::{Model, SimStore, StoredRun};
use crate::world::{World, run_name};

#[async_trait]
impl EventLog for SimStore {
    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        let runs: Vec<RunId> = appends.iter().map(|append| append.run_id).collect();
        let (world, who) = (self.node.world.clone(), self.node.name.clone());
        let outcomes = self.call("append", &runs, move |model, _| {
            let parts: Vec<_> =
                appends.iter().map(|a| (a.run_id, a.epoch, a.expected_head, a.events.len())).collect();
            let before: Vec<u64> =
                parts.iter().map(|p| model.runs.get(&p.0).map_or(0, |run| run.head())).collect();
            let outcomes = model.append(appends.to_vec())?;
            for (((run, epoch, head, events), outcome), before) in
                parts.into_iter().zip(&outcomes).zip(before)
            {
                let name = run_name(run);
                world.note(
                    &who,
                    format_args!("append {name} epoch {epoch} after {head}: {events} {outcome:?}"),
                );
                let log = model.runs.get(&run).map(|run| run.log.as_slice()).unwrap_or_default();
                let problems = world.checks().log.wrote(run, &log[(before as usize).min(log.len())..]);
                problems.into_iter().for_each(|problem| world.violation(problem));
            }
            Ok(outcomes)
        });
        let outcomes = outcomes.await?;
        let fenced = outcomes.iter().filter(|outcome| **outcome == AppendOutcome::Fenced).count();
        self.node.world.checks().fenced(&self.node.name, fenced as u64);
        Ok(outcomes)
    }

    async fn read(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.call("read", &[run], move |model, _| Ok(model.read(run, after_seq, limit))).await
    }

    async fn heads(&self, runs: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
        let runs = runs.to_vec();
        self.call("heads", &[], move |model, _| {
            Ok(runs.iter().filter_map(|id| Some((*id, model.runs.get(id)?.head()))).collect())
        })
        .await
    }
}

#[async_trait]
impl Leases for SimStore {
    async fn begin_term(&self, driver: &str, ttl: Duration) -> Result<Term, StoreError> {
        let (world, store, driver) = (self.node.world.clone(), self.clone(), driver.to_owned());
        let term = self
            .call("begin term", &[], move |model, now| {
                let term = model.begin_term(&driver, store.lease_clock(now), ttl);
                world.checks().log.renewed(&driver, now.plus_millis(ttl.as_millis() as u64));
                let (number, owned) = (term.number, term.owned.len());
                world.note(&driver, format_args!("begins term {number} with {owned} run(s)"));
                Ok(term)
            })
            .await?;
        let mut checks = self.node.world.checks();
        term.owned.iter().for_each(|claim| checks.calls.claimed(&self.node.name, claim));
        Ok(term)
    }

    async fn claim(
        &self,
        driver: &str,
        term: u64,
        limit: usize,
        unowned: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let (world, store, driver) = (self.node.world.clone(), self.clone(), driver.to_owned());
        let claims = self
            .call("claim", &[], move |model, now| {
                let claims = model.claim(&driver, term, store.lease_clock(now), limit, unowned, called);
                let unowned = model.runs.iter().filter(|(_, run)| run.owner.is_none());
                unowned.for_each(|(id, run)| world.checks().log.released(*id, run.epoch));
                for claim in &claims {
                    let (name, epoch) = (run_name(claim.run_id), claim.epoch);
                    world.note(&driver, format_args!("claims {name} epoch {epoch} head {}", claim.head_seq));
                    let problem = world.checks().log.claimed(claim, &driver, now);
                    problem.into_iter().for_each(|problem| world.violation(problem));
                }
                Ok(claims)
            })
            .await?;
        // From here on the driver knows that it holds the runs.
        let mut checks = self.node.world.checks();
        claims.iter().for_each(|claim| checks.calls.claimed(&self.node.name, claim));
        Ok(claims)
    }

    async fn renew(
        &self,
        driver: &str,
        term: u64,
        ttl: Duration,
        spare: usize,
    ) -> Result<Renewed, StoreError> {
        let (world, store, driver) = (self.node.world.clone(), self.clone(), driver.to_owned());
        self.call("renew", &[], move |model, now| {
            let renewed = model.renew(&driver, term, store.lease_clock(now), ttl, spare);
            if model.drivers.get(&driver).is_some_and(|row| row.term == term) {
                world.checks().log.renewed(&driver, now.plus_millis(ttl.as_millis() as u64));
            }
            Ok(renewed)
        })
        .await
    }

    async fn release(&self, held: &[(RunId, u64)]) -> Result<Vec<RunId>, StoreError> {
        let (world, who, held) = (self.node.world.clone(), self.node.name.clone(), held.to_vec());
        self.call("release", &[], move |model, _| {
            for (run, epoch) in &held {
                world.note(&who, format_args!("releases {} epoch {epoch}", run_name(*run)));
                world.checks().log.released(*run, *epoch);
            }
            model.release(&held);
            Ok(Vec::new())
        })
        .await
    }

    async fn fail(
        &self,
        run: RunId,
        epoch: u64,
        reason: &str,
        lease: Duration,
    ) -> Result<Option<Failed>, StoreError> {
        let (world, who, reason) = (self.node.world.clone(), self.node.name.clone(), reason.to_owned());
        self.call("fail", &[], move |model, now| {
            world.note(&who, format_args!("cannot drive {} epoch {epoch}: {reason}", run_name(run)));
            world.checks().log.released(run, epoch);
            Ok(model.fail(run, epoch, &reason, now, lease))
        })
        .await
    }

    async fn last_failure(&self, run: RunId) -> Result<String, StoreError> {
        self.call("last failure", &[], move |model, _| Ok(model.stored(run)?.failures.1.clone())).await
    }

    async fn quarantine(&self, run: RunId, epoch: u64, wait: Duration) -> Result<(), StoreError> {
        let (world, who) = (self.node.world.clone(), self.node.name.clone());
        self.call("quarantine", &[], move |model, now| {
            let (name, ms) = (run_name(run), wait.as_millis());
            world.note(&who, format_args!("puts {name} epoch {epoch} in quarantine for {ms} ms"));
            world.checks().log.released(run, epoch);
            model.quarantine(run, epoch, now, wait);
            Ok(())
        })
        .await
    }
}

/// Creates a run and informs the checks.
pub(crate) fn create(world: &World, model: &mut Model, run: NewRun) -> Result<Created, StoreError> {
    let (id, created) = (run.run_id, model.create_run(run)?);
    if created == Created::New(id) {
        world.note("user", format_args!("creates {}", run_name(id)));
        let log = model.runs.get(&id).map(|run| run.log.as_slice()).unwrap_or_default();
        let problems = world.checks().log.wrote(id, log);
        problems.into_iter().for_each(|problem| world.violation(problem));
    }
    Ok(created)
}

#[async_trait]
impl Runs for SimStore {
    async fn create_run(&self, run: NewRun) -> Result<Created, StoreError> {
        let world = self.node.world.clone();
        self.call("create", &[], move |model, _| create(&world, model, run)).await
    }

    async fn run_of_request(&self, user_id: &str, request_id: &str) -> Result<Option<RunId>, StoreError> {
        let (user_id, request_id) = (user_id.to_owned(), request_id.to_owned());
        self.call("run_of_request", &[], move |model, _| {
            let asked = |run: &StoredRun| {
                !request_id.is_empty() && run.request_id == request_id && run.spec.user_id == user_id
            };
            Ok(model.runs.iter().find(|(_, run)| asked(run)).map(|(id, _)| *id))
        })
        .await
    }

    async fn used_by(&self, user_id: &str, now: Timestamp) -> Result<UsedBy, StoreError> {
        let user_id = user_id.to_owned();
        self.call("used_by", &[], move |model, _| {
            let mut used = UsedBy::default();
            for id in model.runs.keys() {
                let run = model.summary(*id)?;
                if run.spec.user_id == user_id {
                    used.live += u64::from(!run.status.is_final());
                    let age = now.millis_since(run.created_at);
                    if run.created_at <= now && age < 86_400_000 {
                        used.new += u64::from(age < 60_000);
                        let budgets = run.spec.budgets;
                        let may =
                            |budget: Option<u64>| budget.filter(|_| !run.status.is_final()).unwrap_or(0);
                        used.tokens += run.usage.tokens().max(may(budgets.max_tokens));
                        used.cost_micros += run.usage.cost_micros.max(may(budgets.max_cost_micros));
                    }
                }
            }
            Ok(used)
        })
        .await
    }

    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        self.call("run", &[], move |model, _| model.summary(run)).await
    }

    async fn node_parents(&self, run: RunId) -> Result<Vec<(NodeId, Option<NodeId>)>, StoreError> {
        self.call("node_parents", &[], move |model, _| {
            if let Some(run) = model.runs.get(&run).filter(|run| run.fork.is_none()) {
                let mut nodes: Vec<_> = run.nodes.values().collect();
                nodes.sort_by_key(|node| (node.depth, node.id));
                return Ok(nodes.iter().map(|node| (node.id, node.parent_node_id)).collect());
            }
            let events = model.runs.get(&run).into_iter().flat_map(|run| &run.log);
            let mut nodes: Vec<_> = events
                .filter(|(_, event)| matches!(event.body, EventBody::NodeCreated(_)))
                .map(|(_, event)| (0, event.node_id, event.parent_node_id))
                .collect();
            let parents: BTreeMap<_, _> = nodes.iter().map(|(_, id, parent)| (*id, *parent)).collect();
            for (depth, id, _) in &mut nodes {
                let above = |id: &NodeId| parents.get(id).copied().flatten();
                *depth = std::iter::successors(Some(*id), above).count();
            }
            nodes.sort_by_key(|(depth, id, _)| (*depth, *id));
            Ok(nodes.into_iter().map(|(_, id, parent)| (id, parent)).collect())
        })
        .await
    }

    async fn send_command(&self, run: RunId, command: Command) -> Result<Sent, StoreError> {
        self.call("command", &[], move |model, _| model.send_command(run, command)).await
    }

    async fn reply(&self, run: RunId, request_id: &str) -> Result<Option<Reply>, StoreError> {
        let request_id = request_id.to_owned();
        self.call("reply", &[], move |model, _| Ok(model.reply(run, &request_id))).await
    }

    async fn answer(&self, run: RunId, epoch: u64, answers: Vec<Answer>) -> Result<bool, StoreError> {
        self.call("answer", &[], move |model, _| Ok(model.answer(run, epoch, answers))).await
    }

    async fn commands(&self, driver: &str) -> Result<Vec<PendingCommand>, StoreError> {
        let driver = driver.to_owned();
        self.call("commands", &[], move |model, _| Ok(model.pending(&driver))).await
    }
}

#[async_trait]
impl RunLists for SimStore {
    async fn list_runs(&self, _: RunQuery) -> Result<Page<RunSummary>, StoreError> {
        Err(absent("lists"))
    }

    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError> {
        self.call("delete_run", &[], move |model, _| model.delete_run(run)).await
    }

    async fn last_list_change(&self) -> Result<Timestamp, StoreError> {
        Err(absent("lists"))
    }

    async fn list_changes(
        &self,
        _: (Timestamp, RunId),
        _: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError> {
        Err(absent("lists"))
    }

    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError> {
        Err(absent("lists"))
    }

    async fn listed_runs(&self, _: &[RunId]) -> Result<Vec<ListedRun>, StoreError> {
        Err(absent("lists"))
    }
}

#[async_trait]
impl Sessions for SimStore {
    async fn session_chain(&self, run: RunId, id: &SessionId) -> Result<Vec<Session>, StoreError> {
        let id = id.clone();
        self.call("session_chain", &[], move |model, _| Ok(model.session_chain(run, &id))).await
    }

    async fn run_sessions(
        &self,
        _: RunId,
        _: Option<SessionId>,
        _: usize,
    ) -> Result<Vec<Session>, StoreError> {
        Err(absent("archives"))
    }
}

#[async_trait]
impl Documents for SimStore {
    async fn document(&self, id: DocumentId) -> Result<Document, StoreError> {
        self.call("document", &[], move |model, _| model.document(id).cloned()).await
    }

    async fn document_at(&self, id: DocumentId, at_seq: Option<u64>) -> Result<PlacedDocument, StoreError> {
        self.call("document_at", &[], move |model, _| model.document_at(id, at_seq)).await
    }

    async fn document_versions(
        &self,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError> {
        self.call("document_versions", &[], move |model, _| model.document_versions(id, after, limit)).await
    }

    async fn document_tail(&self, id: DocumentId, from: u64, max: usize) -> Result<DocumentTail, StoreError> {
        self.call("document_tail", &[], move |model, _| model.document_tail(id, from, max)).await
    }

    async fn list_documents(&self, _: DocumentQuery) -> Result<Page<DocumentSummary>, StoreError> {
        Err(absent("lists"))
    }

    async fn documents_changed(
        &self,
        _: &RunContext,
        _: Timestamp,
        _: usize,
    ) -> Result<ChangedDocuments, StoreError> {
        Err(absent("sources"))
    }

    async fn put_document(&self, _: Document) -> Result<(), StoreError> {
        Err(absent("sources"))
    }

    async fn put_tool_document(&self, _: Document) -> Result<bool, StoreError> {
        Err(absent("sources"))
    }

    async fn delete_source(&self, _: DocumentId, _: Option<&str>) -> Result<bool, StoreError> {
        Err(absent("sources"))
    }
}

#[async_trait]
impl Passages for SimStore {
    async fn find_passages(&self, _: PassageQuery) -> Result<FoundPassages, StoreError> {
        Err(absent("search"))
    }

    async fn passages(&self, _: &[PassageId]) -> Result<Vec<StoredPassage>, StoreError> {
        Err(absent("search"))
    }

    async fn check_passages(
        &self,
        _: Option<DocumentId>,
        _: usize,
        _: bool,
    ) -> Result<CheckedPassages, StoreError> {
        Err(absent("search"))
    }
}

#[async_trait]
impl Vectors for SimStore {
    async fn find_unembedded(&self, _: &str) -> Result<(), StoreError> {
        Err(absent("search"))
    }

    async fn take_unembedded(&self, _: &str, _: usize, _: Duration) -> Result<Vec<Unembedded>, StoreError> {
        Err(absent("search"))
    }

    async fn count_unembedded(&self) -> Result<u64, StoreError> {
        Err(absent("search"))
    }

    async fn put_vectors(&self, _: &str, _: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreError> {
        Err(absent("search"))
    }

    async fn vector_marks(&self, _: &str, _: &RunContext) -> Result<VectorMarks, StoreError> {
        Err(absent("search"))
    }

    async fn vectors(
        &self,
        _: &str,
        _: ProjectId,
        _: Option<PassageId>,
        _: usize,
    ) -> Result<Vec<(PassageId, Option<Vec<i8>>)>, StoreError> {
        Err(absent("search"))
    }

    async fn embedded(&self, _: &str, _: &RunContext, _: &str) -> Result<u64, StoreError> {
        Err(absent("search"))
    }

    async fn documents_below(&self, _: &RunContext, _: &str) -> Result<Vec<DocumentId>, StoreError> {
        Err(absent("search"))
    }
}

#[async_trait]
impl Projects for SimStore {
    async fn create_project(&self, _: NewProject) -> Result<Project, StoreError> {
        Err(absent("projects"))
    }

    async fn project(&self, id: ProjectId) -> Result<Project, StoreError> {
        Err(StoreError::not_found("project", id))
    }

    async fn list_projects(&self, _: ProjectQuery) -> Result<Page<Project>, StoreError> {
        Err(absent("projects"))
    }

    async fn update_project(&self, id: ProjectId, _: ProjectChange) -> Result<Project, StoreError> {
        Err(StoreError::not_found("project", id))
    }

    async fn delete_project(&self, id: ProjectId, _: bool) -> Result<ProjectDeletion, StoreError> {
        Err(StoreError::not_found("project", id))
    }
}

#[async_trait]
impl Members for SimStore {
    async fn memberships(&self, _: &str) -> Result<BTreeMap<ProjectId, MemberRole>, StoreError> {
        Err(absent("projects"))
    }

    async fn members(&self, _: ProjectId, _: &str, _: usize) -> Result<Page<Member>, StoreError> {
        Err(absent("projects"))
    }

    async fn set_member(&self, id: ProjectId, _: Member, _: bool) -> Result<MemberChange, StoreError> {
        Err(StoreError::not_found("project", id))
    }

    async fn remove_member(&self, id: ProjectId, _: &str, _: bool) -> Result<MemberChange, StoreError> {
        Err(StoreError::not_found("project", id))
    }
}

#[async_trait]
impl Operations for SimStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.call("ping", &[], |_, _| Ok(())).await
    }

    async fn run_ids(&self, _: Option<RunId>, _: usize) -> Result<Vec<RunId>, StoreError> {
        Err(absent("operators"))
    }

    async fn stored(&self, _: RunId) -> Result<Stored, StoreError> {
        Err(absent("operators"))
    }

    async fn stored_events(&self, _: RunId, _: u64, _: usize) -> Result<Vec<StoredEvent>, StoreError> {
        Err(absent("operators"))
    }

    async fn document_chunks(
        &self,
        _: RunId,
        _: Option<(DocumentId, u64)>,
        _: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        Err(absent("operators"))
    }

    async fn replace_projection(&self, _: RunId, _: u64, _: WholeProjection) -> Result<bool, StoreError> {
        Err(absent("operators"))
    }
}

/// The simulated world does not have this, and nothing in it asks for it.
fn absent(what: &str) -> StoreError {
    StoreError::Broken { message: format!("the simulated store has no {what}"), source: None }
}

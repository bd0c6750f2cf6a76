//! `ForkRun`, and `RetryNode` of a run that has ended: a run that continues another one with edits.

use tonic::Status;
use tree_agent_contract::command::Action;
use tree_agent_contract::error::{Checks, Invalid};
use tree_agent_contract::event::RunForked;
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::{
    Budgets, Event, FieldError, ModelChoice, Preview, Refusal, RefusalKind, RunId, RunSpec, RunStatus,
    RunSummary, Scope, Strategy, Timestamp, limits,
};
use tree_agent_engine::Run;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid;
use tree_agent_store::{ChangedDocuments, NewFork, RunRow, StoreError};
use uuid::Uuid;

use crate::errors;
use crate::fields::{id, now};
use crate::gateway::Gateway;
use crate::maxima::Maxima;
use crate::places::Place;
use crate::steering::preview::{preview_to_wire, replayed};
use crate::steering::{Asked, edits, steer};
use crate::view::View;

/// Changed documents that a preview names.
const CHANGED: usize = 100;
/// Events that are looked at to find the end of a decision.
const PAGE: usize = 1_000;

/// A fork that is asked for, checked as far as that can be done without the run.
struct Wanted {
    run: RunId,
    edits: Vec<Action>,
    /// The request, apart from its edits.
    request: pb::ForkRunRequest,
}

/// The run at the moment from which the fork goes on.
struct Moment {
    run: Run,
    at: Timestamp,
}

impl Moment {
    /// When the fork begins: now, but not before what it shares, whose planner's clock may have been ahead.
    fn next(&self) -> Timestamp {
        now().max(self.at)
    }
}

/// What the fork would do to the run at that moment. The state of a large run takes much memory, so whoever holds it
/// holds a permit, too.
struct Judged {
    moment: Moment,
    preview: Preview,
    goes_on: bool,
    place: Place,
}

/// Forks a run, or says what the fork would do.
pub(crate) async fn fork(
    gateway: &Gateway,
    view: &View,
    request: pb::ForkRunRequest,
) -> Result<pb::ForkRunResponse, Status> {
    let validate_only = request.validate_only;
    let wanted = asked(request, view.user(), &gateway.maxima)?;
    if validate_only {
        let Judged { moment, preview, place, .. } = judged(gateway, view, &wanted).await?;
        let (spec, at) = (spec_of(&wanted, view, &moment.run), moment.at);
        drop((moment, place));
        gateway.require(view, &spec).await?;
        let changed = match view.narrowed(&spec.context) {
            Some(context) => {
                gateway.store.documents_changed(&context, at, CHANGED).await.map_err(errors::store)?
            }
            None => ChangedDocuments::default(),
        };
        return Ok(pb::ForkRunResponse {
            fork_run_id: String::new(),
            preview: Some(preview_to_wire(preview)),
            changed_document_ids: changed.ids.to_wire(),
            changed_document_count: u32::try_from(changed.total).unwrap_or(u32::MAX),
        });
    }
    let fork_run_id = forked(gateway, view, wanted).await?.to_wire();
    Ok(pb::ForkRunResponse { fork_run_id, ..Default::default() })
}

/// Does a node again: in the run itself, or in a fork if it has ended.
pub(crate) async fn retry(
    gateway: &Gateway,
    view: &View,
    request: pb::RetryNodeRequest,
) -> Result<pb::RetryNodeResponse, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let summary = view.run(&*gateway.store, run).await?;
    let known = gateway.store.reply(run, &request.request_id).await.map_err(errors::store)?;
    if !summary.status.is_final() || known.is_some() {
        let outcome = Some(steer(gateway, view, Asked::from(request)).await?);
        return Ok(pb::RetryNodeResponse { outcome, fork_run_id: None });
    }
    // Nothing follows the end of a run. Whoever has not seen it expects the node to be done again there, not in a
    // fork.
    if let Some(seen) = request.expected_seq.filter(|seen| *seen < summary.head_seq) {
        let message = format!(
            "run {run} has ended with event {}, after event {seen}: a retry makes a fork; look again and repeat",
            summary.head_seq
        );
        let refusal = Refusal::of_field(RefusalKind::Changed, "expected_seq", message);
        return Err(edits::refused(&Action::Cancel { reason: String::new() }, refusal));
    }
    let pb::RetryNodeRequest { node_id, guidance, model, budget, .. } = request;
    let edit = pb::RetryEdit { node_id, guidance, model, budget };
    let fork = pb::ForkRunRequest {
        run_id: request.run_id,
        edits: vec![pb::ForkEdit { edit: Some(pb::fork_edit::Edit::Retry(edit)) }],
        request_id: request.request_id,
        validate_only: request.validate_only,
        ..Default::default()
    };
    let pb::ForkRunResponse { fork_run_id, preview, .. } = self::fork(gateway, view, fork).await?;
    let outcome = Some(pb::CommandOutcome { seq: 0, preview });
    Ok(pb::RetryNodeResponse { outcome, fork_run_id: Some(fork_run_id).filter(|id| !id.is_empty()) })
}

fn asked(mut request: pb::ForkRunRequest, user: &str, maxima: &Maxima) -> Result<Wanted, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let mut checks = Checks::default();
    checks.require(request.at_seq != Some(0), "at_seq", || {
        "is 0; a fork shares at least the first event".to_owned()
    });
    checks.at_most("request_id", &request.request_id, limits::REQUEST_ID_BYTES);
    let named = RunSpec {
        display_name: request.display_name.clone(),
        labels: request.labels.clone(),
        ..RunSpec::new("a fork")
    };
    if let Err(Invalid(wrong)) = named.validate() {
        wrong.into_iter().for_each(|error| checks.push(error));
    }
    // Requests to fork are those of one user. Without an id, each is another one.
    let name = match request.request_id.as_str() {
        "" => Uuid::now_v7().to_string(),
        id => format!("fork/{user}/{id}"),
    };
    checks.range("edits", request.edits.len() as u64, 0..=limits::FORK_EDITS as u64);
    let mut edits = Vec::new();
    for (i, edit) in std::mem::take(&mut request.edits).into_iter().enumerate() {
        let mut own = Checks::default();
        let action = edit_of(edit, run, &format!("{name}/{i}"), maxima, &mut own);
        if let Some(action) = &action {
            edits::check(action, &mut own);
        }
        edits::note_all(own.finish(), &mut checks, |field| format!("edits[{i}].{field}"));
        edits.extend(action);
    }
    checks.finish().map_err(|errors| invalid(&errors))?;
    Ok(Wanted { run, edits, request })
}

fn edit_of(
    edit: pb::ForkEdit,
    run: RunId,
    request_id: &str,
    maxima: &Maxima,
    checks: &mut Checks,
) -> Option<Action> {
    use pb::fork_edit::Edit;
    match edit.edit {
        Some(Edit::Guide(edit)) => edits::guide(edit, false, checks),
        Some(Edit::Retry(edit)) => edits::retry(edit, checks),
        Some(Edit::Plan(edit)) => edits::plan(edit, run, request_id, maxima, checks),
        Some(Edit::Budget(edit)) => edits::budget(edit, maxima, checks),
        Some(Edit::Model(model)) => {
            if let Err(problem) = ModelChoice::parse(&model) {
                checks.push(FieldError::new("model", problem.message));
            }
            Some(Action::SetModel { model })
        }
        None => {
            checks.push(FieldError::new("edit", "must be one of guide, retry, plan, budget, model"));
            None
        }
    }
}

/// The run as it was after the event, and what was decided with it: that was written at once.
async fn moment(gateway: &Gateway, view: &View, wanted: &Wanted) -> Result<Moment, Status> {
    let (store, id) = (&gateway.store, wanted.run);
    let head = view.run(&**store, id).await?.head_seq;
    let seq = wanted.request.at_seq.unwrap_or(head);
    if seq > head {
        return Err(errors::beyond_head("at_seq", seq, head));
    }
    let mut run = replayed(&**store, id, seq).await?;
    let last = store.read(id, seq - 1, 1).await.map_err(errors::store)?;
    let at = last.first().map_or_else(now, |event| event.timestamp);
    // The rest of the decision comes right behind, often in the same page.
    loop {
        let mut page = store.read(id, run.graph().seq(), PAGE).await.map_err(errors::store)?;
        page.truncate(page.iter().take_while(|event| event.timestamp == at).count());
        if page.is_empty() {
            return Ok(Moment { run, at });
        }
        page.iter().try_for_each(|event| run.apply(event)).map_err(errors::replay)?;
    }
}

/// What the fork would do, with the run at that moment.
async fn judged(gateway: &Gateway, view: &View, wanted: &Wanted) -> Result<Judged, Status> {
    gateway.require_models(&wanted.edits).await?;
    let place = gateway.replays.take().await;
    let (moment, edits) = (moment(gateway, view, wanted).await?, wanted.edits.clone());
    let done =
        place.blocking(move || judge(&moment, &edits).map(|(preview, goes_on)| (moment, preview, goes_on)));
    let (moment, preview, goes_on) = done.await??;
    require_maxima(&gateway.maxima, &moment, &wanted.edits, goes_on)?;
    Ok(Judged { moment, preview, goes_on, place })
}

/// A fork has the budgets of its run, which may be older than the server's maxima. One that stays ended uses
/// nothing.
fn require_maxima(maxima: &Maxima, moment: &Moment, edits: &[Action], goes_on: bool) -> Result<(), Status> {
    if moment.run.is_final() && !goes_on {
        return Ok(());
    }
    let spec = moment.run.spec();
    let budgets = edited_budgets(spec, edits);
    let mut checks = Checks::default();
    let search = spec.search();
    let search = (spec.strategy == Strategy::Search).then_some(&*search);
    maxima.check_fork(&budgets, search, &mut checks);
    checks.finish().map_err(|errors| invalid(&errors))
}

/// The budgets that the fork begins with.
fn edited_budgets(spec: &RunSpec, edits: &[Action]) -> Budgets {
    let changes = edits.iter().filter_map(|edit| match edit {
        Action::SetBudget { node_id: None, change } => Some(change),
        _ => None,
    });
    changes.fold(spec.budgets.clone(), |budgets, change| change.apply(&budgets))
}

/// What a fork asks for: what it has no limit of, it may use without one.
fn unlimited_as_asked(budgets: &Budgets) -> pb::Budgets {
    pb::Budgets {
        max_tokens: Some(budgets.max_tokens.unwrap_or(u64::MAX)),
        max_cost_micros: Some(budgets.max_cost_micros.unwrap_or(u64::MAX)),
        ..Default::default()
    }
}

/// Writes the fork, unless its request did that before.
async fn forked(gateway: &Gateway, view: &View, wanted: Wanted) -> Result<RunId, Status> {
    let (store, user) = (&gateway.store, view.user());
    // Before the look-up: the same request may be under way.
    let turn = gateway.users.turn(user).await?;
    let earlier = store.run_of_request(user, &wanted.request.request_id).await.map_err(errors::store)?;
    if let Some(earlier) = earlier {
        return same_fork(gateway, earlier, &wanted).await;
    }
    let judged = judged(gateway, view, &wanted).await?;
    if judged.goes_on || !judged.moment.run.is_final() {
        // It keeps the budgets of its run, unless its edits change them.
        let mut budgets = edited_budgets(judged.moment.run.spec(), &wanted.edits);
        let asked = unlimited_as_asked(&budgets);
        gateway.users.admit_run(&**store, user, now(), &asked, &mut budgets).await?;
    }
    let fork = new_fork(gateway, view, &wanted, &judged.moment, judged.goes_on).await?;
    drop(judged);
    gateway.require(view, &fork.spec).await?;
    let batch = pb::EventBatch { events: vec![fork.event.to_wire()] };
    let created = store.fork_run(fork).await.map_err(errors::conflict("request_id"))?;
    drop(turn);
    Ok(gateway.announce(created, batch).await)
}

/// The fork that the request made before.
async fn same_fork(gateway: &Gateway, earlier: RunId, wanted: &Wanted) -> Result<RunId, Status> {
    let other = || {
        let message = format!("was used before, for run {earlier}; use a new request_id");
        errors::already_exists("request_id", message)
    };
    let store = &gateway.store;
    let summary: RunSummary = store.run(earlier).await.map_err(|e| match e {
        StoreError::NotFound { .. } => other(),
        e => errors::store(e),
    })?;
    let of = summary.fork.ok_or_else(other)?;
    let first = store.read(earlier, of.parent_seq, 1).await.map_err(errors::store)?;
    let is_same = first.first().is_some_and(|event| match &event.body {
        tree_agent_contract::EventBody::RunForked(e) => {
            e.edits == wanted.edits
                && e.display_name == wanted.request.display_name
                && e.labels == wanted.request.labels
                && wanted.request.at_seq.is_none_or(|seq| seq <= of.parent_seq)
        }
        _ => false,
    });
    let line = store.segments(earlier).await.map_err(errors::store)?;
    let writes = |run: RunId| line.iter().any(|part| part.writer == run);
    // A run that wrote none of what it shares is named by those that did.
    let shared = store.segments(wanted.run).await.map_err(errors::store)?;
    let of_line = writes(wanted.run) || shared.iter().any(|part| writes(part.writer));
    if !is_same || !of_line {
        return Err(other());
    }
    gateway.wake().await;
    Ok(earlier)
}

async fn new_fork(
    gateway: &Gateway,
    view: &View,
    wanted: &Wanted,
    moment: &Moment,
    goes_on: bool,
) -> Result<NewFork, Status> {
    let run = &moment.run;
    let (graph, seq, now) = (run.graph(), run.graph().seq(), moment.next());
    let parts = gateway.store.segments(wanted.run).await.map_err(errors::store)?;
    let parent = parts.iter().find(|part| seq <= part.until).map_or(wanted.run, |part| part.writer);
    // What is shared may end before the run itself was forked, so its log does not tell.
    let origin = parts.first().map_or_else(|| run.origin(), |part| part.writer);
    let run_id = RunId::from(Uuid::now_v7());
    let spec = spec_of(wanted, view, run);
    let body = RunForked {
        source_run_id: parent,
        at_seq: seq,
        origin_run_id: Some(origin),
        author: spec.user_id.clone(),
        by_administrator: spec.by_administrator,
        request_id: wanted.request.request_id.clone(),
        display_name: wanted.request.display_name.clone(),
        labels: wanted.request.labels.clone(),
        edits: wanted.edits.clone(),
        goes_on,
    };
    let node_id = graph.nodes().first().map(|root| root.id).ok_or_else(|| Status::internal("no root"))?;
    let event =
        Event { run_id, seq: seq + 1, node_id, parent_node_id: None, timestamp: now, body: body.into() };
    let row = RunRow {
        status: if goes_on { RunStatus::Running } else { graph.status() },
        partial: graph.partial() && !goes_on,
        error: graph.error().filter(|_| !goes_on).map(str::to_owned),
        node_count: graph.nodes().len() as u64,
        ended_nodes: graph.ended_nodes(),
        usage: Default::default(),
        models: Vec::new(),
        started_at: graph.started_at().map(|_| now),
        ended_at: graph.ended_at().filter(|_| !goes_on).map(|_| now),
    };
    Ok(NewFork {
        run_id,
        parent_run_id: parent,
        parent_seq: seq,
        spec,
        request_id: wanted.request.request_id.clone(),
        event,
        row,
        edits: wanted.edits.iter().map(Action::words).collect(),
    })
}

/// What the fork is asked for: what the run is, with what is different.
fn spec_of(wanted: &Wanted, view: &View, run: &Run) -> RunSpec {
    let mut spec = RunSpec {
        user_id: view.user().to_owned(),
        // Somebody else's words do not get an administrator's rights in every project.
        by_administrator: view.by_administrator()
            && (run.spec().user_id == view.user() || run.spec().context.scope != Scope::Global),
        display_name: wanted.request.display_name.clone(),
        labels: wanted.request.labels.clone(),
        ..run.spec().clone()
    };
    for edit in &wanted.edits {
        if let Action::SetModel { model } = edit {
            spec.model.clone_from(model);
        }
    }
    spec
}

/// What the fork would do, and whether it goes on although the run has ended.
fn judge(moment: &Moment, wanted: &[Action]) -> Result<(Preview, bool), Status> {
    moment.run.fork(wanted, moment.next()).map_err(|refusal| {
        let none = Action::Cancel { reason: String::new() };
        let field = name_in_request(&refusal.field, wanted).unwrap_or_else(|| refusal.field.clone());
        edits::refused(&none, Refusal { field, ..refusal })
    })
}

/// What the field of an edit is called in the request.
fn name_in_request(field: &str, wanted: &[Action]) -> Option<String> {
    let (i, inner) = field.strip_prefix("edits[")?.split_once("].")?;
    let action = wanted.get(i.parse::<usize>().ok()?)?;
    Some(format!("edits[{i}].{}", edits::field_name(action, inner)))
}

//! `ListRuns`, and the filters that `WatchRuns` shares with it.

use tonic::Status;
use tree_agent_contract::error::Checks;
use tree_agent_contract::{
    FieldError, LabelFilter, ProjectId, RunId, RunStatus, RunSummary, Strategy, Timestamp, limits,
};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid;
use tree_agent_store::{IdPart, RunFilter, RunQuery, Store};

use crate::errors;
use crate::fields::{at_most, distinct, from_wire, taken};
use crate::pages::{self, Pages};
use crate::view::View;

/// A page of runs, newest first.
pub(crate) async fn list(
    store: &dyn Store,
    view: &View,
    request: pb::ListRunsRequest,
) -> Result<pb::ListRunsResponse, Status> {
    let (page_size, page_token) = (request.page_size, request.page_token.clone());
    let pages = pages_of("runs", &request);
    let filter = filter(view, request)?;
    let before = pages.cursor(&page_token, |cursor| {
        let (micros, run) = cursor.split_once(':')?;
        Some((Timestamp(micros.parse().ok()?), run.parse().ok()?))
    })?;
    let query = RunQuery { filter, before, limit: pages::size(page_size) };
    let page = store.list_runs(query).await.map_err(errors::store)?;
    let cursor = |run: &RunSummary| format!("{}:{}", run.created_at.micros(), run.run_id);
    let (runs, next_page_token) = pages.answer(&page, Wire::to_wire, cursor);
    Ok(pb::ListRunsResponse { runs, next_page_token })
}

/// The tokens of the list `name` with the filters of `request`.
pub(crate) fn pages_of(name: &str, request: &pb::ListRunsRequest) -> Pages {
    Pages::of_request(
        name,
        &pb::ListRunsRequest { page_size: 0, page_token: String::new(), ..request.clone() },
    )
}

/// The list that is watched, and the token to resume from.
pub(crate) fn of_watch(request: pb::WatchRunsRequest) -> (pb::ListRunsRequest, String) {
    let list = pb::ListRunsRequest {
        page_size: request.page_size,
        page_token: String::new(),
        statuses: request.statuses,
        project_id: request.project_id,
        objective_contains: request.objective_contains,
        user_id: request.user_id,
        created_after: request.created_after,
        created_before: request.created_before,
        labels: request.labels,
        model: request.model,
        strategies: request.strategies,
        id_part: request.id_part,
        copy_of: request.copy_of,
        parent_run_id: request.parent_run_id,
        global: request.global,
    };
    (list, request.resume_token)
}

/// Which runs are meant, of those that the caller may read.
pub(crate) fn filter(view: &View, request: pb::ListRunsRequest) -> Result<RunFilter, Status> {
    let mut checks = Checks::default();
    let statuses = distinct::<RunStatus>(&mut checks, "statuses", request.statuses);
    let strategies = distinct::<Strategy>(&mut checks, "strategies", request.strategies);
    at_most(&mut checks, "labels", request.labels.len(), limits::RUN_LABELS);
    let labels = request.labels.iter().enumerate();
    let labels = labels
        .filter_map(|(i, text)| taken(&mut checks, LabelFilter::parse_field(&format!("labels[{i}]"), text)));
    let labels = labels.collect();
    let project_id = given("project_id", &request.project_id, ProjectId::parse_field, &mut checks);
    let id_part = given("id_part", &request.id_part, IdPart::parse_field, &mut checks);
    let copy_of = given("copy_of", &request.copy_of, RunId::parse_field, &mut checks);
    let parent_run_id = given("parent_run_id", &request.parent_run_id, RunId::parse_field, &mut checks);
    let mut time = |field: &str, time: Option<<Timestamp as Wire>::Pb>| {
        time.and_then(|time| taken(&mut checks, from_wire::<Timestamp>(field, time)))
    };
    let created_after = time("created_after", request.created_after);
    let created_before = time("created_before", request.created_before);
    checks.at_most("objective_contains", &request.objective_contains, limits::OBJECTIVE_BYTES);
    checks.at_most("user_id", &request.user_id, limits::LABEL_BYTES);
    checks.at_most("model", &request.model, limits::LABEL_BYTES);
    checks.finish().map_err(|e| invalid(&e))?;
    Ok(RunFilter {
        statuses,
        project_id,
        objective_contains: request.objective_contains,
        user_id: request.user_id,
        created_after,
        created_before,
        labels,
        model: request.model,
        strategies,
        id_part,
        copy_of,
        parent_run_id,
        global: request.global,
        readable_by: view.reader(),
    })
}

/// What `text` names; none if it is empty or wrong.
fn given<T>(
    field: &str,
    text: &str,
    parse: impl FnOnce(&str, &str) -> Result<T, FieldError>,
    checks: &mut Checks,
) -> Option<T> {
    (!text.is_empty()).then(|| taken(checks, parse(field, text))).flatten()
}

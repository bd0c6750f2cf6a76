//! Runs that take what they do not say from another: from the run that they copy, or from the one that the same request
//! made before.

use prost::Message;
use tonic::Status;
use tree_agent_contract::{EventBody, RunId, RunSpec};
use tree_agent_proto::{Wire, request_of, v1 as pb};
use tree_agent_store::{Store, StoreError};

use crate::errors;
use crate::fields::id;
use crate::view::View;

/// What the run is for that this request of the user has made before; none if it is new.
pub(crate) async fn accepted(
    store: &dyn Store,
    user_id: &str,
    request_id: &str,
) -> Result<Option<RunSpec>, Status> {
    let Some(run) = store.run_of_request(user_id, request_id).await.map_err(errors::store)? else {
        return Ok(None);
    };
    match whole_spec(store, run).await {
        Ok(spec) => Ok(Some(spec)),
        Err(StoreError::NotFound { .. }) => Err(deleted(run)),
        Err(error) => Err(errors::store(error)),
    }
}

/// A request that made a run which is gone.
pub(crate) fn deleted(run: RunId) -> Status {
    errors::already_exists("request_id", format!("was used before, for run {run}, which was deleted"))
}

/// The request with everything that it leaves out, if it asks for a copy of a run of which everything is known.
pub(crate) async fn completed(
    store: &dyn Store,
    view: &View,
    request: pb::CreateRunRequest,
    accepted: Option<&RunSpec>,
) -> Result<pb::CreateRunRequest, Status> {
    if request.copy_of.is_empty() {
        return Ok(request);
    }
    let copied = id(RunId::parse_field("copy_of", &request.copy_of))?;
    // What was accepted once stays accepted, whatever has become of the run that was copied.
    match accepted.filter(|spec| spec.copy_of == Some(copied)) {
        Some(spec) => Ok(complete(request, spec, view.user())),
        None => {
            view.run_in(store, "copy_of", copied).await?;
            let spec = whole_spec(store, copied).await.map_err(errors::missing("copy_of"))?;
            Ok(complete(request, &spec, view.user()))
        }
    }
}

/// The request with what this server gave it when it was accepted: its settings may be others by now.
pub(crate) fn as_accepted(request: pb::CreateRunRequest, accepted: &RunSpec) -> pb::CreateRunRequest {
    let is_search = request.strategy == pb::Strategy::Search as i32;
    let search = accepted.search.as_ref().filter(|_| is_search).map(|kept| pb::SearchConfig {
        max_depth: Some(kept.max_depth),
        concurrency: Some(kept.concurrency),
        ..Default::default()
    });
    let given = pb::CreateRunRequest {
        budgets: Some(accepted.budgets.to_wire()),
        verify: Some(accepted.verify),
        keep_prompts: Some(accepted.keep_prompts),
        // What such a run might write was another question in 0.2.
        write: (request.read_only != Some(true)).then_some(!accepted.read_only),
        search,
        ..Default::default()
    };
    merged(given, &request)
}

/// `base` with everything that `over` says, as protobuf merges messages: fields that are set are taken, messages field
/// by field, and lists are joined.
fn merged(mut base: pb::CreateRunRequest, over: &pb::CreateRunRequest) -> pb::CreateRunRequest {
    base.merge(over.encode_to_vec().as_slice()).expect("a message that was just encoded");
    base
}

/// The specification of a run with its texts, which only its first event has.
async fn whole_spec(store: &dyn Store, run: RunId) -> Result<RunSpec, StoreError> {
    let listed = store.run(run).await?.spec;
    if listed.search.is_none() {
        return Ok(listed);
    }
    let first = store.read(run, 0, 1).await?.into_iter().next();
    match first.map(|event| event.body) {
        Some(EventBody::RunCreated(created)) => Ok(created.spec),
        _ => Err(StoreError::not_found("run", run)),
    }
}

fn complete(request: pb::CreateRunRequest, copied: &RunSpec, user: &str) -> pb::CreateRunRequest {
    let mut base = request_of(copied);
    // Of these, all is taken or nothing.
    if request.context.is_some() {
        (base.context, base.write) = (None, None);
    }
    if !request.labels.is_empty() {
        base.labels.clear();
    }
    if request.review.is_some() {
        base.review = None;
    }
    match (request.read_only, request.write) {
        (Some(true), _) => base.write = None,
        (None, Some(true)) => base.read_only = None,
        _ => {}
    }
    // Somebody else's words ask for what their user may write, and not for what the caller may.
    if copied.user_id != user {
        base.write = None;
    }
    // The options of a search mean nothing to another strategy.
    let is_same_strategy = [pb::Strategy::Unspecified as i32, base.strategy].contains(&request.strategy);
    if request.search.is_some() || !is_same_strategy {
        base.search = None;
    }
    // Another model may be verified by default, and this one not.
    if !request.model.is_empty() && request.model != copied.model {
        base.verify = None;
    }
    merged(base, &request)
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::{Budgets, ProjectId, RunContext, SearchConfig, Strategy};

    use super::*;

    fn copied() -> RunSpec {
        RunSpec {
            strategy: Strategy::Search,
            context: RunContext::project(ProjectId(uuid::Uuid::from_u128(7))),
            budgets: Budgets { max_nodes: 9, max_tokens: Some(5), ..Budgets::default() },
            model: "offline".into(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            search: Some(Box::new(SearchConfig { concurrency: 2, ..SearchConfig::default() })),
            read_only: true,
            ..RunSpec::new("why?")
        }
    }

    #[test]
    fn a_copy_takes_what_it_does_not_say() {
        let spec = copied();
        let whole = complete(pb::CreateRunRequest::default(), &spec, "");
        assert_eq!((whole.objective.as_str(), whole.model.as_str()), ("why?", "offline"));
        assert_eq!((whole.strategy(), whole.read_only), (pb::Strategy::Search, Some(true)));
        assert_eq!(
            (whole.context, whole.budgets),
            (Some(spec.context.to_wire()), Some(spec.budgets.to_wire()))
        );
        assert_eq!((whole.search, &whole.labels), (spec.search.to_wire(), &spec.labels));
    }

    #[test]
    fn what_a_copy_says_is_taken() {
        let spec = copied();
        let asked = pb::CreateRunRequest {
            context: Some(pb::RunContext { scope: pb::Scope::Global as i32, project_ids: vec![] }),
            budgets: Some(pb::Budgets { max_nodes: Some(3), ..Default::default() }),
            strategy: pb::Strategy::Tree as i32,
            read_only: Some(false),
            ..Default::default()
        };
        let whole = complete(asked.clone(), &spec, "");
        assert_eq!((whole.context, whole.read_only), (asked.context, Some(false)));
        let budgets = whole.budgets.unwrap();
        assert_eq!((budgets.max_nodes, budgets.max_tokens), (Some(3), Some(5)));
        // The options of a search mean nothing to another strategy.
        assert_eq!((whole.strategy, whole.search), (pb::Strategy::Tree as i32, None));
    }

    #[test]
    fn a_repeated_request_says_of_writing_what_it_says() {
        let accepted = RunSpec { read_only: false, ..copied() };
        let says = |read_only| {
            let request = pb::CreateRunRequest { read_only, ..Default::default() };
            let whole = as_accepted(request, &accepted);
            (whole.read_only, whole.write)
        };
        assert_eq!(says(None), (None, Some(true)));
        assert_eq!(says(Some(true)), (Some(true), None), "another request, which contradicts nothing");
    }
}

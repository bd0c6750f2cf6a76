//! Runs that take what they do not say from another: from the run that they copy, or from the one that the same request
//! made before.

use prost::Message;
use tonic::Status;
use tree_agent_contract::{Budgets, EventBody, RunId, RunSpec};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{Store, StoreError};

use crate::errors;
use crate::fields::id;

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
    request: pb::CreateRunRequest,
    accepted: Option<&RunSpec>,
) -> Result<pb::CreateRunRequest, Status> {
    if request.copy_of.is_empty() {
        return Ok(request);
    }
    let copied = id(RunId::parse_field("copy_of", &request.copy_of))?;
    // What was accepted once stays accepted, whatever has become of the run that was copied.
    match accepted.filter(|spec| spec.copy_of == Some(copied)) {
        Some(spec) => Ok(complete(request, spec)),
        None => {
            let spec = whole_spec(store, copied).await.map_err(errors::missing("copy_of"))?;
            Ok(complete(request, &spec))
        }
    }
}

/// The request with what this server gave it when it was accepted: its settings may be others by now.
pub(crate) fn as_accepted(mut request: pb::CreateRunRequest, accepted: &RunSpec) -> pb::CreateRunRequest {
    request.budgets = Some(with(&accepted.budgets, request.budgets));
    request.verify.get_or_insert(accepted.verify);
    request.keep_prompts.get_or_insert(accepted.keep_prompts);
    if request.strategy == pb::Strategy::Search as i32
        && let Some(kept) = &accepted.search
    {
        let search = request.search.get_or_insert_default();
        search.max_depth.get_or_insert(kept.max_depth);
        search.concurrency.get_or_insert(kept.concurrency);
    }
    request
}

/// The budgets, but for those that are given.
fn with(budgets: &Budgets, given: Option<pb::Budgets>) -> pb::Budgets {
    let mut budgets = budgets.to_wire();
    if let Some(given) = given {
        // Protobuf's merge: what is set there is taken.
        budgets.merge(given.encode_to_vec().as_slice()).expect("a message that was just encoded");
    }
    budgets
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

fn complete(request: pb::CreateRunRequest, copied: &RunSpec) -> pb::CreateRunRequest {
    let or = |given: String, copied: &str| if given.is_empty() { copied.to_owned() } else { given };
    let same_strategy =
        request.strategy == pb::Strategy::Unspecified as i32 || request.strategy == copied.strategy.to_wire();
    let copied_search = copied.search.as_ref().filter(|_| same_strategy).map(|search| search.to_wire());
    let same_model = request.model.is_empty() || request.model == copied.model;
    pb::CreateRunRequest {
        objective: or(request.objective, &copied.objective),
        strategy: if same_strategy { copied.strategy.to_wire() } else { request.strategy },
        context: request.context.or_else(|| Some(copied.context.to_wire())),
        budgets: Some(with(&copied.budgets, request.budgets)),
        model: or(request.model, &copied.model),
        request_id: request.request_id,
        display_name: or(request.display_name, &copied.display_name),
        labels: if request.labels.is_empty() { copied.labels.clone() } else { request.labels },
        search: request.search.or(copied_search),
        read_only: request.read_only.or(Some(copied.read_only)),
        copy_of: request.copy_of,
        // Another model may be verified by default, and this one not.
        verify: request.verify.or(same_model.then_some(copied.verify)),
        language: or(request.language, &copied.language),
        review: request.review.or_else(|| copied.review.to_wire()),
        keep_prompts: request.keep_prompts.or(Some(copied.keep_prompts)),
    }
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
        let whole = complete(pb::CreateRunRequest::default(), &spec);
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
        let whole = complete(asked.clone(), &spec);
        assert_eq!((whole.context, whole.read_only), (asked.context, Some(false)));
        let budgets = whole.budgets.unwrap();
        assert_eq!((budgets.max_nodes, budgets.max_tokens), (Some(3), Some(5)));
        // The options of a search mean nothing to another strategy.
        assert_eq!((whole.strategy, whole.search), (pb::Strategy::Tree as i32, None));
    }
}

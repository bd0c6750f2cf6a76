//! What a request asks for, as a run.

use serde_json::Value;
use tonic::Status;
use tree_agent_contract::error::{Checks, Invalid};
use tree_agent_contract::language::LANGUAGES;
use tree_agent_contract::search::SearchPrompts;
use tree_agent_contract::{
    FieldError, ModelChoice, RunContext, RunId, RunSpec, Scope, SearchConfig, Strategy, limits,
};
use tree_agent_frontmatter::Schema;
use tree_agent_proto::{budgets_of, v1 as pb};
use tree_agent_runtime::errors::invalid;
use tree_agent_store::storable;

use crate::fields::{from_wire, taken};
use crate::maxima::Maxima;
use crate::view::View;

/// What is asked for, checked as far as it can be without the store. Within the maxima, unless it was before.
pub(crate) fn spec(
    request: pb::CreateRunRequest,
    view: &View,
    maxima: Option<&Maxima>,
) -> Result<RunSpec, Status> {
    let mut checks = Checks::default();
    checks.at_most("request_id", &request.request_id, limits::REQUEST_ID_BYTES);
    let strategy = match pb::Strategy::try_from(request.strategy) {
        Ok(pb::Strategy::Unspecified) => Strategy::Tree,
        _ => taken(&mut checks, from_wire("strategy", request.strategy)).unwrap_or(Strategy::Tree),
    };
    let context = taken(&mut checks, from_wire("context", request.context.unwrap_or_default()));
    checks.require(!(request.read_only == Some(true) && request.write == Some(true)), "write", || {
        "contradicts read_only; leave one of them out".to_owned()
    });
    let is_global = context.as_ref().is_none_or(|context: &RunContext| context.scope == Scope::Global);
    let asked = request.budgets.unwrap_or_default();
    let budgets = budgets_of(strategy, asked);
    let is_search = strategy == Strategy::Search;
    checks.require(request.search.is_none() || is_search, "search", || {
        "is only for the strategy STRATEGY_SEARCH; leave it out".to_owned()
    });
    let asked_search = request.search.unwrap_or_default();
    let mut search: SearchConfig =
        taken(&mut checks, from_wire("search", asked_search.clone())).unwrap_or_default();
    let SearchPrompts { root, document, children, picker } = &mut search.prompts;
    for prompt in [root, document, children, picker].into_iter().flatten() {
        *prompt = storable(prompt).into_owned();
    }
    let copy_of = match request.copy_of.as_str() {
        "" => None,
        text => taken(&mut checks, RunId::parse_field("copy_of", text)),
    };
    let mut spec = RunSpec {
        // What is told at once and what is read from the log later are the same.
        objective: storable(&request.objective).into_owned(),
        strategy,
        context: context.unwrap_or_default(),
        budgets,
        model: request.model.trim().to_owned(),
        user_id: view.user().to_owned(),
        by_administrator: view.by_administrator(),
        display_name: request.display_name,
        labels: request.labels,
        search: is_search.then(|| Box::new(search.clone())),
        read_only: request.read_only.unwrap_or_default() || is_global && request.write != Some(true),
        verify: request.verify.unwrap_or_default(),
        language: match request.language.as_str() {
            "" => language_of(&request.objective).unwrap_or_default().to_owned(),
            given => given.to_owned(),
        },
        review: taken(&mut checks, from_wire("review", request.review)).flatten(),
        keep_prompts: request.keep_prompts.unwrap_or_default(),
        copy_of,
    };
    match spec.validate() {
        Ok(()) => {
            if let Some(maxima) = maxima {
                maxima.apply(&asked, &mut spec.budgets, &mut checks);
                maxima.apply_to_search(&asked_search, &mut search, &mut checks);
            }
            if is_search {
                check_schema(&search, &mut checks);
                spec.search = (search != SearchConfig::default()).then(|| Box::new(search));
            }
        }
        Err(Invalid(errors)) => errors.into_iter().for_each(|error| checks.push(error)),
    }
    if let Err(problem) = ModelChoice::parse(&spec.model) {
        checks.push(FieldError::new("model", problem.message));
    }
    checks.finish().map_err(|e| invalid(&e))?;
    Ok(spec)
}

/// The schema of the frontmatter is one, and a store can keep it as it is.
fn check_schema(search: &SearchConfig, checks: &mut Checks) {
    let Some(schema) = &search.frontmatter_schema else { return };
    let problem = match schema.iter().any(|(name, value)| name.contains('\0') || has_nul(value)) {
        true => Some("must not contain NUL characters".to_owned()),
        false => Schema::new(schema).err(),
    };
    if let Some(problem) = problem {
        checks.push(FieldError::new("search.frontmatter_schema", problem));
    }
}

/// True if a text in `value` holds a NUL character. Messages nest no deeper than their decoder allows.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A run with what an estimate is asked for. The objective does not matter to it, and may be absent.
pub(crate) fn as_run(request: pb::EstimateRunRequest) -> pb::CreateRunRequest {
    let pb::EstimateRunRequest { mut objective, strategy, context, budgets, model, search, verify } = request;
    if objective.is_empty() {
        objective.push_str("estimate");
    }
    pb::CreateRunRequest {
        objective,
        strategy,
        context,
        budgets,
        model,
        search,
        verify,
        ..Default::default()
    }
}

/// The language of `text`, if that is plain.
fn language_of(text: &str) -> Option<&'static str> {
    let found = whatlang::detect(text).filter(whatlang::Info::is_reliable)?;
    let known = LANGUAGES.iter().find(|language| language.iso3 == found.lang().code());
    known.map(|language| language.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_an_objective_is_found_if_it_is_plain() {
        assert_eq!(
            language_of("Wie übernimmt ein Planer die Läufe eines anderen, der gestorben ist?"),
            Some("de")
        );
        assert_eq!(
            language_of("How does a planner take over the runs of another one that has died?"),
            Some("en")
        );
        assert_eq!(language_of("42"), None);
    }
}

//! Fields of requests, parsed.

use std::time::{SystemTime, UNIX_EPOCH};

use tonic::Status;
use tree_agent_contract::error::Checks;
use tree_agent_contract::{EventBody, FieldError, Timestamp, limits};
use tree_agent_proto::Wire;
use tree_agent_runtime::errors::invalid;

/// A parsed id, or `INVALID_ARGUMENT`.
pub(crate) fn id<T>(parsed: Result<T, FieldError>) -> Result<T, Status> {
    parsed.map_err(|error| invalid(&error.into()))
}

/// The parsed id in `field`; none if that is empty.
pub(crate) fn optional<T>(
    field: &str,
    text: &str,
    parse: impl FnOnce(&str, &str) -> Result<T, FieldError>,
) -> Result<Option<T>, Status> {
    if text.is_empty() { Ok(None) } else { id(parse(field, text)).map(Some) }
}

/// A value from the wire; an error gets `field` before its path.
pub(crate) fn from_wire<T: Wire>(field: &str, pb: T::Pb) -> Result<T, FieldError> {
    T::from_wire(pb).map_err(|mut error| {
        error.field = match error.field.as_str() {
            "" => field.to_owned(),
            inner if inner.starts_with('[') => format!("{field}{inner}"),
            inner => format!("{field}.{inner}"),
        };
        error
    })
}

/// A parsed value; an error goes to the others.
pub(crate) fn taken<T>(checks: &mut Checks, parsed: Result<T, FieldError>) -> Option<T> {
    parsed.map_err(|error| checks.push(error)).ok()
}

/// The values of a repeated enum, each once.
pub(crate) fn distinct<T: Wire<Pb = i32> + Ord>(
    checks: &mut Checks,
    field: &str,
    values: Vec<i32>,
) -> Vec<T> {
    if !at_most(checks, field, values.len(), limits::FILTER_VALUES) {
        return Vec::new();
    }
    let mut values: Vec<T> = taken(checks, from_wire(field, values)).unwrap_or_default();
    values.sort_unstable();
    values.dedup();
    values
}

/// Adds an error unless a filter has at most `most` values.
pub(crate) fn at_most(checks: &mut Checks, field: &str, values: usize, most: usize) -> bool {
    if values > most {
        checks.push(FieldError::new(field, format!("has {values} values; at most {most} are allowed")));
    }
    values <= most
}

/// Refuses what is no event type.
pub(crate) fn check_types(types: &[String]) -> Result<(), Status> {
    let mut checks = Checks::default();
    at_most(&mut checks, "types", types.len(), limits::FILTER_VALUES);
    for (i, name) in types.iter().take(limits::FILTER_VALUES).enumerate() {
        checks.require(EventBody::TYPES.contains(&name.as_str()), format!("types[{i}]"), || {
            format!("{name:?} is no event type; expected one such as tree.node_created")
        });
    }
    checks.finish().map_err(|e| invalid(&e))
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

//! What models turned out to be unable to do, and their requests therefore do without for a while.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a concession holds. Then it is tried again: the server may have been updated, or the refusal was odd.
const HOLDS: Duration = Duration::from_secs(600);
/// Concessions that are kept.
const KEPT: usize = 1_024;

/// What a request does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Concession {
    /// What the model thinks is not shown.
    Thoughts,
    /// The schema has no bounds.
    Bounds,
    /// No schema is enforced.
    Schema,
    /// Not even a JSON object is enforced.
    JsonObject,
    /// No tools.
    Tools,
    /// A parameter of the request.
    Parameter(&'static str),
}

impl std::fmt::Display for Concession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thoughts => f.write_str("its thoughts"),
            Self::Bounds => f.write_str("bounds in the schema of its answers"),
            Self::Schema => f.write_str("an enforced schema"),
            Self::JsonObject => f.write_str("enforced JSON"),
            Self::Tools => f.write_str("tools"),
            Self::Parameter(name) => write!(f, "the parameter {name}"),
        }
    }
}

/// The concessions to the models of a provider.
#[derive(Default)]
pub(super) struct Concessions(Mutex<HashMap<(String, Concession), Instant>>);

impl Concessions {
    /// What was conceded to `model` and still holds.
    pub(super) fn of(&self, model: &str) -> BTreeSet<Concession> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = all.iter().filter(|((name, _), at)| name == model && at.elapsed() < HOLDS);
        holds.map(|((_, concession), _)| *concession).collect()
    }

    /// Concedes it to `model` from now on. Says so in the log, with the refusal that asked for it.
    pub(super) fn add(&self, model: &str, concession: Concession, refusal: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT {
            all.retain(|_, at| at.elapsed() < HOLDS);
        }
        let before = all.insert((model.to_owned(), concession), Instant::now());
        if before.is_none_or(|at| at.elapsed() >= HOLDS) {
            tracing::warn!(model, "does without {concession} for ten minutes: {refusal}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_concession_is_to_one_model_and_ends() {
        let concessions = Concessions::default();
        concessions.add("m", Concession::Schema, "no schemas here");
        assert_eq!(concessions.of("m"), BTreeSet::from([Concession::Schema]));
        assert!(concessions.of("other").is_empty());
        tokio::time::advance(HOLDS).await;
        assert!(concessions.of("m").is_empty(), "it is tried again");
    }
}

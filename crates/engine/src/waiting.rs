//! Nodes that wait for something outside the run: which cause the log last named, and how long a run waits for a
//! language model that has never answered.
//!
//! | what cannot be reached | before a model has answered in this run | after that |
//! | --- | --- | --- |
//! | a role service | wait until it is back or the run is out of time | the same |
//! | the provider of the language model | wait for a while ([`Behaviour`](crate::behaviour::Behaviour)), then fail | wait until it is back or the run is out of time |
//!
//! A provider that has worked may work again. One that has never answered in this run is most likely configured wrongly
//! (its address, its port, its quota), and waiting would only hide that from the user.

use std::collections::BTreeSet;

use tree_agent_contract::event::NodeStatusChanged;
use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{NodeStatus, limits};

/// How the message of a status begins that names a cause.
const BLOCKED: &str = "blocked:";
/// What follows when the cause is a provider of language models.
const PROVIDER: &str = "provider:";

/// What the log says about waiting.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Waiting {
    /// A model call of this run has succeeded.
    model_answered: bool,
    /// When a node was first blocked by a provider, in milliseconds on the run's clock, which a pause can stop.
    provider_blocked_ms: Option<u64>,
    /// The places of the nodes that a provider blocks, as the log says.
    by_provider: BTreeSet<usize>,
    /// The cause that the log named last, unless its node has moved on since.
    cause: Option<Cause>,
}

#[derive(Clone, Debug, serde::Serialize)]
struct Cause {
    /// Place of the node.
    at: usize,
    text: String,
}

/// The message of a node that is blocked by `error`.
pub(crate) fn message(error: &RoleError) -> String {
    let kind = if is_provider(error) { PROVIDER } else { "" };
    prefix(&format!("{BLOCKED}{kind}{}", error.message), limits::TEXT_BYTES).to_owned()
}

/// True if the role works, but the provider of its language model cannot be reached.
pub(crate) fn is_provider(error: &RoleError) -> bool {
    error.kind == RoleErrorKind::ProviderUnreachable
}

impl Waiting {
    /// A status of the node at `at`, from the log, at `clock_ms` on the run's clock.
    pub(crate) fn status_changed(&mut self, at: usize, e: &NodeStatusChanged, clock_ms: u64) {
        let Some(text) = e.message.as_deref().and_then(|m| m.strip_prefix(BLOCKED)) else { return };
        if e.status != NodeStatus::Blocked {
            return;
        }
        let (is_provider, text) = match text.strip_prefix(PROVIDER) {
            Some(text) => (true, text),
            None => (false, text),
        };
        if is_provider {
            self.provider_blocked_ms.get_or_insert(clock_ms);
            self.by_provider.insert(at);
        } else {
            self.by_provider.remove(&at);
        }
        self.cause = Some(Cause { at, text: text.to_owned() });
    }

    /// A model answered for the node at `at`.
    pub(crate) fn model_answered(&mut self, at: usize) {
        self.model_answered = true;
        self.moved_on(at);
    }

    /// The call that the node at `at` waited for was answered.
    pub(crate) fn moved_on(&mut self, at: usize) {
        self.by_provider.remove(&at);
        if self.cause.as_ref().is_some_and(|cause| cause.at == at) {
            self.cause = None;
        }
    }

    /// True if the log says that a provider blocks the node at `at`.
    pub(crate) fn names_provider(&self, at: usize) -> bool {
        self.by_provider.contains(&at)
    }

    /// True when a provider that has never answered in this run has been waited for `patience_ms`.
    pub(crate) fn gives_up_on_provider(&self, clock_ms: u64, patience_ms: u64) -> bool {
        let blocked_ms = self.provider_blocked_ms.filter(|_| !self.model_answered);
        blocked_ms.is_some_and(|since| clock_ms.saturating_sub(since) >= patience_ms)
    }

    /// A fork begins, or a node goes on with another model: neither what answered before nor what blocked the run
    /// counts.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::default();
    }

    /// `error` of the node at `at`, with what blocked it last.
    pub(crate) fn explain_node(&self, at: usize, error: String) -> String {
        explain(error, self.cause_of(at))
    }

    /// `error` of the run, with what last blocked a node of it.
    pub(crate) fn explain_run(&self, error: String) -> String {
        explain(error, self.cause.as_ref())
    }

    fn cause_of(&self, at: usize) -> Option<&Cause> {
        self.cause.as_ref().filter(|cause| cause.at == at)
    }
}

/// `error` with the cause that the log last named, unless it says that already.
fn explain(error: String, cause: Option<&Cause>) -> String {
    match cause {
        Some(cause) if !error.contains(&cause.text) => {
            prefix(&format!("{error}; it was blocked by: {}", cause.text), limits::TEXT_BYTES).to_owned()
        }
        _ => error,
    }
}

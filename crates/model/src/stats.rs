//! The counters of a role service.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::role::RoleErrorKind;
use tree_agent_runtime::Metrics;

/// Maximum of models that are counted separately. A run may name any model, and each name stays a time series for ever.
const MODELS: usize = 100;

/// Counters of the calls of one service.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    made: AtomicU64,
    in_flight: AtomicU64,
    answered: AtomicU64,
    cancelled: AtomicU64,
    /// By the index of the kind in [`RoleErrorKind::ALL`].
    failed: [AtomicU64; RoleErrorKind::ALL.len()],
    models: Mutex<BTreeMap<String, Used>>,
}

/// The use of one model.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    calls: u64,
    input: u64,
    cached: u64,
    written: u64,
    output: u64,
    micros: u64,
    milliseconds: u64,
}

/// Counts one call, which is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    stats: Arc<Stats>,
    ended: bool,
}

impl Stats {
    /// A call begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Counted {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Counted { stats: self.clone(), ended: false }
    }

    fn models(&self) -> MutexGuard<'_, BTreeMap<String, Used>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the metrics.
    pub(crate) fn measure(self: &Arc<Self>, metrics: &mut Metrics) {
        let stats = self.clone();
        let read = move |field: fn(&Self) -> &AtomicU64| {
            let stats = stats.clone();
            move || field(&stats).load(Ordering::Relaxed) as f64
        };
        metrics.counter("tree_agent_role_calls", "Role calls begun", read(|s| &s.made));
        metrics.gauge("tree_agent_role_calls_in_flight", "Role calls under way", read(|s| &s.in_flight));
        metrics.counter("tree_agent_role_calls_answered", "Role calls answered", read(|s| &s.answered));
        metrics.counter(
            "tree_agent_role_calls_cancelled",
            "Role calls whose caller went away before the end",
            read(|s| &s.cancelled),
        );
        let stats = self.clone();
        metrics.counters("tree_agent_role_call_failures", "Role calls that ended with an error", move || {
            let kinds = RoleErrorKind::ALL.iter().zip(&stats.failed);
            let sample = |(kind, n): (&RoleErrorKind, &AtomicU64)| {
                (vec![("kind", kind.as_str().to_owned())], n.load(Ordering::Relaxed) as f64)
            };
            kinds.map(sample).collect()
        });
        type Read = fn(&Used) -> Vec<(Option<&'static str>, f64)>;
        let by_model: [(&'static str, &'static str, Read); 4] = [
            ("tree_agent_model_answers", "Answers of models", |u| vec![(None, u.calls as f64)]),
            (
                "tree_agent_model_tokens",
                "Tokens used; those read from a cache or written to it are part of the input",
                |u| {
                    let kinds = [
                        ("input", u.input),
                        ("cached", u.cached),
                        ("cache_write", u.written),
                        ("output", u.output),
                    ];
                    kinds.map(|(kind, n)| (Some(kind), n as f64)).to_vec()
                },
            ),
            ("tree_agent_model_cost_dollars", "What answers cost by the prices that are known", |u| {
                vec![(None, u.micros as f64 / 1e6)]
            }),
            ("tree_agent_model_seconds", "Time that answers took", |u| {
                vec![(None, u.milliseconds as f64 / 1e3)]
            }),
        ];
        for (name, help, read) in by_model {
            let stats = self.clone();
            metrics.counters(name, help, move || {
                let mut samples = Vec::new();
                for (model, used) in &*stats.models() {
                    for (kind, value) in read(used) {
                        let mut labels = vec![("model", model.clone())];
                        labels.extend(kind.map(|kind| ("kind", kind.to_owned())));
                        samples.push((labels, value));
                    }
                }
                samples
            });
        }
    }
}

impl Counted {
    /// The call ended.
    pub(crate) fn ended(&mut self, failure: Option<RoleErrorKind>) {
        self.ended = true;
        let counter = match failure {
            None => &self.stats.answered,
            Some(kind) => &self.stats.failed[kind as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The call used a model.
    pub(crate) fn used(&self, usage: &UsageRecorded) {
        let mut models = self.stats.models();
        let name = match models.len() < MODELS || models.contains_key(&usage.model) {
            true => usage.model.as_str(),
            false => "other",
        };
        if !models.contains_key(name) {
            models.insert(name.to_owned(), Used::default());
        }
        if let Some(used) = models.get_mut(name) {
            used.calls += 1;
            used.input = used.input.saturating_add(usage.input_tokens);
            used.cached = used.cached.saturating_add(usage.cached_tokens);
            used.written = used.written.saturating_add(usage.cache_write_tokens);
            used.output = used.output.saturating_add(usage.output_tokens);
            used.micros = used.micros.saturating_add(usage.cost_micros);
            used.milliseconds = used.milliseconds.saturating_add(usage.duration_ms);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.stats.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_tokens_are_counted_and_models_beyond_a_hundred_are_others() {
        let stats = Arc::new(Stats::default());
        let mut metrics = Metrics::new(&tree_agent_runtime::Readiness::new());
        stats.measure(&mut metrics);
        let (mut answered, mut failed, dropped) = (stats.begin(), stats.begin(), stats.begin());
        for n in 0..MODELS + 20 {
            answered.used(&UsageRecorded {
                model: format!("openai:m{n:03}"),
                input_tokens: 10,
                output_tokens: 4,
                cached_tokens: 1,
                cache_write_tokens: 2,
                cost_micros: 500_000,
                duration_ms: 250,
                purpose: "plan".into(),
                documents: Vec::new(),
                prompt: None,
            });
        }
        answered.ended(None);
        failed.ended(Some(RoleErrorKind::Timeout));
        drop((answered, dropped));
        let text = metrics.text();
        for line in [
            "tree_agent_role_calls_total 3.0",
            "tree_agent_role_calls_in_flight 1.0",
            "tree_agent_role_calls_answered_total 1.0",
            "tree_agent_role_calls_cancelled_total 1.0",
            "tree_agent_role_call_failures_total{kind=\"timeout\"} 1.0",
            "tree_agent_model_tokens_total{model=\"openai:m007\",kind=\"output\"} 4.0",
            "tree_agent_model_tokens_total{model=\"openai:m007\",kind=\"cache_write\"} 2.0",
            "tree_agent_model_cost_dollars_total{model=\"openai:m007\"} 0.5",
            "tree_agent_model_answers_total{model=\"other\"} 20.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
        }
    }
}

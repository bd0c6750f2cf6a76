//! The metrics of a driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_engine::CallKind;
use tree_agent_runtime::Metrics;

use crate::driver::Driver;

/// A counter as a metric.
fn count(n: &AtomicU64) -> f64 {
    n.load(Ordering::Relaxed) as f64
}

impl Driver {
    /// Adds what it counts.
    pub fn measure(&self, metrics: &mut Metrics) {
        let (stats, commits) = (self.stats(), self.commits());
        macro_rules! of {
            ($stats:ident.$field:ident) => {{
                let $stats = $stats.clone();
                move || count(&$stats.$field)
            }};
        }
        metrics.gauge("tree_agent_driver_runs", "Runs that this driver owns now", of!(stats.active));
        let scheduler = self.scheduler.clone();
        metrics.gauge(
            "tree_agent_driver_waiting_calls",
            "Role calls that are due and wait for a permit of this driver",
            move || scheduler.waiting() as f64,
        );
        metrics.counter("tree_agent_driver_claims", "Runs claimed", of!(stats.claimed));
        metrics.counter(
            "tree_agent_driver_takeovers",
            "Claimed runs that had a driver before, which died, hung or shut down",
            of!(stats.takeovers),
        );
        metrics.counter("tree_agent_driver_finished_runs", "Runs driven to their end", of!(stats.finished));
        metrics.counter(
            "tree_agent_driver_handed_over_runs",
            "Runs released because other drivers had permits to spare",
            of!(stats.handed_over),
        );
        metrics.counter("tree_agent_driver_lost_runs", "Runs that another driver took over", of!(stats.lost));
        metrics.counter(
            "tree_agent_driver_broken_runs",
            "Times that a run's log could not be read, written or replayed",
            of!(stats.broken),
        );
        metrics.counter(
            "tree_agent_driver_newer_runs",
            "Runs released because their logs hold events of types that this version does not know",
            of!(stats.newer),
        );
        metrics.counter(
            "tree_agent_driver_stale_answers",
            "Updates and answers of role calls that were refused because nothing waited for them",
            of!(stats.stale_answers),
        );
        metrics.counter("tree_agent_driver_appends", "Appends, of one run or many", of!(commits.appends));
        metrics.counter("tree_agent_driver_events", "Events written", of!(commits.events));
        metrics.counter(
            "tree_agent_driver_append_repeats",
            "Appends repeated because their outcome was unknown",
            of!(commits.repeats),
        );
        metrics.counter(
            "tree_agent_driver_fenced_appends",
            "Appends refused because another driver owned the run",
            of!(commits.fenced),
        );
        metrics.histogram(
            "tree_agent_driver_append_seconds",
            "Duration of an append at the store",
            &commits.append_seconds,
        );
    }
}

const ROLES: [(CallKind, &str); 6] = [
    (CallKind::Plan, "plan"),
    (CallKind::Execute, "execute"),
    (CallKind::Aggregate, "aggregate"),
    (CallKind::Research, "research"),
    (CallKind::Pick, "pick"),
    (CallKind::Verify, "verify"),
];

/// Role calls made, by role.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleStats(Arc<[Counts; ROLES.len()]>);

#[derive(Debug, Default)]
struct Counts {
    made: AtomicU64,
    in_flight: AtomicU64,
    /// By the index of the kind in [`RoleErrorKind::ALL`].
    failed: [AtomicU64; RoleErrorKind::ALL.len()],
}

/// A call in flight.
pub(crate) struct Counted<'a>(&'a Counts);

impl RoleStats {
    /// A call begins. It is in flight until the returned guard is dropped.
    pub(crate) fn begin(&self, kind: CallKind) -> Counted<'_> {
        let counts = &self.0[kind as usize];
        counts.made.fetch_add(1, Ordering::Relaxed);
        counts.in_flight.fetch_add(1, Ordering::Relaxed);
        Counted(counts)
    }

    /// Registers the metrics.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        let role = |name: &str| ("role", name.to_owned());
        let stats = self.0.clone();
        metrics.gauges("tree_agent_driver_role_calls_in_flight", "Role calls in flight", {
            move || {
                ROLES.map(|(kind, name)| (vec![role(name)], count(&stats[kind as usize].in_flight))).to_vec()
            }
        });
        let stats = self.0.clone();
        metrics.counters("tree_agent_driver_role_calls", "Role calls made", move || {
            ROLES.map(|(kind, name)| (vec![role(name)], count(&stats[kind as usize].made))).to_vec()
        });
        let stats = self.0.clone();
        metrics.counters(
            "tree_agent_driver_role_call_failures",
            "Role calls that ended without an output; cancelled calls do not count",
            move || {
                let each = ROLES.iter().flat_map(|(kind, name)| {
                    let failed = &stats[*kind as usize].failed;
                    RoleErrorKind::ALL
                        .iter()
                        .zip(failed)
                        .map(|(kind, n)| (vec![role(name), ("kind", kind.as_str().to_owned())], count(n)))
                });
                each.collect()
            },
        );
    }
}

impl Counted<'_> {
    /// Records how the call ended.
    pub(crate) fn ended<T>(self, outcome: Result<T, RoleError>) -> Result<T, RoleError> {
        if let Err(error) = &outcome {
            self.0.failed[error.kind as usize].fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_role_and_failure() {
        let stats = RoleStats::default();
        let mut metrics = Metrics::new(&tree_agent_runtime::Readiness::new());
        stats.measure(&mut metrics);
        let (first, second) = (stats.begin(CallKind::Execute), stats.begin(CallKind::Execute));
        let failed = second.ended::<()>(Err(RoleError::new(RoleErrorKind::Overloaded, "busy")));
        assert!(failed.is_err());
        let text = metrics.text();
        for line in [
            "tree_agent_driver_role_calls_in_flight{role=\"execute\"} 1.0",
            "tree_agent_driver_role_calls_total{role=\"execute\"} 2.0",
            "tree_agent_driver_role_calls_total{role=\"plan\"} 0.0",
            "tree_agent_driver_role_call_failures_total{role=\"execute\",kind=\"overloaded\"} 1.0",
            "tree_agent_driver_role_call_failures_total{role=\"execute\",kind=\"timeout\"} 0.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
        }
        drop(first);
        assert!(metrics.text().contains("in_flight{role=\"execute\"} 0.0\n"));
    }
}

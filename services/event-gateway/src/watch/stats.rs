//! What streams count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tree_agent_fanout::Fanout;
use tree_agent_runtime::Metrics;

/// What a stream is of.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Run,
    Document,
    List,
}

const KINDS: [&str; 3] = ["run", "document", "list"];
/// Why streams are closed with a resume hint.
const REASONS: [&str; 3] = ["drain", "age", "token"];

/// Counters of all streams of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    open: [AtomicU64; 3],
    opened: AtomicU64,
    delivered: AtomicU64,
    /// Reads of the log for all watchers of a run, after something was missed.
    pub(super) catch_ups: AtomicU64,
    /// Published messages that did not fit their run.
    pub(super) unfit_messages: AtomicU64,
    /// Reads of the log for one watcher.
    pub(super) log_reads: AtomicU64,
    /// Watchers that were live and fell behind the recent events of their run.
    pub(super) moved_back: AtomicU64,
    hints: [AtomicU64; 3],
}

impl Stats {
    /// A resume hint is sent.
    pub(super) fn hint(&self, reason: &str) {
        if let Some(at) = REASONS.iter().position(|known| *known == reason) {
            self.hints[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds what was counted.
    pub(crate) fn measure(self: &Arc<Self>, fanout: &Arc<dyn Fanout>, metrics: &mut Metrics) {
        let read = |field: fn(&Self) -> &AtomicU64| {
            let stats = self.clone();
            move || field(&stats).load(Ordering::Relaxed) as f64
        };
        let each = |name: &'static str, values: [&'static str; 3], field: fn(&Self) -> &[AtomicU64; 3]| {
            let stats = self.clone();
            move || {
                let counted = values.into_iter().zip(field(&stats));
                counted.map(|(v, n)| (vec![(name, v.to_owned())], n.load(Ordering::Relaxed) as f64)).collect()
            }
        };
        let open = each("kind", KINDS, |s| &s.open);
        metrics.gauges("tree_agent_gateway_streams", "Streams that are open", open);
        metrics.counter("tree_agent_gateway_streams_opened", "Streams opened", read(|s| &s.opened));
        metrics.counter(
            "tree_agent_gateway_events_delivered",
            "Events sent to watchers",
            read(|s| &s.delivered),
        );
        metrics.counter(
            "tree_agent_gateway_catch_ups",
            "Reads of the log for all watchers of a run: a hint was lost, or the run has just been subscribed to",
            read(|s| &s.catch_ups),
        );
        let unfit = read(|s| &s.unfit_messages);
        let fanout = fanout.clone();
        let help =
            "Messages over fan-out that were dropped: not signed with the key, or not fit for their run";
        metrics.counters("tree_agent_fanout_dropped_messages", help, move || {
            vec![
                (vec![("reason", "unsigned".to_owned())], fanout.dropped() as f64),
                (vec![("reason", "unfit".to_owned())], unfit()),
            ]
        });
        metrics.counter(
            "tree_agent_gateway_watcher_log_reads",
            "Reads of the log for one watcher that is behind the recent events",
            read(|s| &s.log_reads),
        );
        metrics.counter(
            "tree_agent_gateway_slow_watchers_moved_back",
            "Times that a live watcher was too slow and had to go on from the log",
            read(|s| &s.moved_back),
        );
        let hints = each("reason", REASONS, |s| &s.hints);
        metrics.counters("tree_agent_gateway_resume_hints", "Streams closed with a resume hint", hints);
    }
}

/// One stream, counted while it is there.
pub(crate) struct Stream {
    stats: Arc<Stats>,
    kind: Kind,
    /// Events that were sent and are not yet counted: counting each one would make all streams of a busy gateway
    /// write to the same few bytes.
    delivered: u64,
}

impl Stream {
    pub(crate) fn new(stats: &Arc<Stats>, kind: Kind) -> Self {
        stats.open[kind as usize].fetch_add(1, Ordering::Relaxed);
        stats.opened.fetch_add(1, Ordering::Relaxed);
        Self { stats: stats.clone(), kind, delivered: 0 }
    }

    /// The counters of all streams.
    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// An event is sent.
    pub(super) fn deliver(&mut self) {
        self.delivered += 1;
    }

    /// Counts what was delivered.
    pub(super) fn settle(&mut self) {
        if self.delivered > 0 {
            self.stats.delivered.fetch_add(std::mem::take(&mut self.delivered), Ordering::Relaxed);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.settle();
        self.stats.open[self.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_while_they_are_there_and_events_once() {
        let stats = Arc::new(Stats::default());
        let mut metrics = Metrics::new(&tree_agent_runtime::Readiness::new());
        let fanout: Arc<dyn Fanout> = Arc::new(tree_agent_fanout::InProcessFanout::new());
        stats.measure(&fanout, &mut metrics);
        let has = |metrics: &Metrics, line: &str| {
            let text = metrics.text();
            assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
        };
        let (mut run, document) = (Stream::new(&stats, Kind::Run), Stream::new(&stats, Kind::Document));
        run.deliver();
        run.deliver();
        run.settle();
        run.deliver();
        has(&metrics, "tree_agent_gateway_streams{kind=\"run\"} 1.0");
        has(&metrics, "tree_agent_gateway_events_delivered_total 2.0");
        drop((run, document));
        stats.hint("age");
        for line in [
            "tree_agent_gateway_streams{kind=\"run\"} 0.0",
            "tree_agent_gateway_streams{kind=\"document\"} 0.0",
            "tree_agent_gateway_streams_opened_total 2.0",
            "tree_agent_gateway_events_delivered_total 3.0",
            "tree_agent_gateway_resume_hints_total{reason=\"age\"} 1.0",
        ] {
            has(&metrics, line);
        }
    }
}

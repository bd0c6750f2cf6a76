//! What streams count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tree_agent_fanout::Fanout;
use tree_agent_runtime::Metrics;

/// Counters of all streams of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    run_streams: AtomicU64,
    document_streams: AtomicU64,
    list_streams: AtomicU64,
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
    drained: AtomicU64,
    aged: AtomicU64,
    expired: AtomicU64,
}

impl Stats {
    /// A resume hint is sent.
    pub(super) fn hint(&self, reason: &str) {
        let counter = match reason {
            "drain" => &self.drained,
            "token" => &self.expired,
            _ => &self.aged,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds what was counted.
    pub(crate) fn measure(self: &Arc<Self>, fanout: &Arc<dyn Fanout>, metrics: &mut Metrics) {
        let read = |field: fn(&Self) -> &AtomicU64| {
            let stats = self.clone();
            move || field(&stats).load(Ordering::Relaxed) as f64
        };
        let (runs, documents) = (read(|s| &s.run_streams), read(|s| &s.document_streams));
        let lists = read(|s| &s.list_streams);
        metrics.gauges("tree_agent_gateway_streams", "Streams that are open", move || {
            vec![
                (vec![("kind", "run".to_owned())], runs()),
                (vec![("kind", "document".to_owned())], documents()),
                (vec![("kind", "list".to_owned())], lists()),
            ]
        });
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
        let (drained, aged, expired) = (read(|s| &s.drained), read(|s| &s.aged), read(|s| &s.expired));
        metrics.counters("tree_agent_gateway_resume_hints", "Streams closed with a resume hint", move || {
            vec![
                (vec![("reason", "drain".to_owned())], drained()),
                (vec![("reason", "age".to_owned())], aged()),
                (vec![("reason", "token".to_owned())], expired()),
            ]
        });
    }
}

/// One stream, counted while it is there.
pub(crate) struct Stream {
    stats: Arc<Stats>,
    open: fn(&Stats) -> &AtomicU64,
    /// Events that were sent and are not yet counted: counting each one would make all streams of a busy gateway
    /// write to the same few bytes.
    delivered: u64,
}

impl Stream {
    /// A stream of `WatchRun`.
    pub(crate) fn of_a_run(stats: &Arc<Stats>) -> Self {
        Self::new(stats, |stats| &stats.run_streams)
    }

    /// A stream of `WatchDocument`.
    pub(crate) fn of_a_document(stats: &Arc<Stats>) -> Self {
        Self::new(stats, |stats| &stats.document_streams)
    }

    /// A stream of `WatchRuns`.
    pub(crate) fn of_the_list(stats: &Arc<Stats>) -> Self {
        Self::new(stats, |stats| &stats.list_streams)
    }

    fn new(stats: &Arc<Stats>, open: fn(&Stats) -> &AtomicU64) -> Self {
        open(stats).fetch_add(1, Ordering::Relaxed);
        stats.opened.fetch_add(1, Ordering::Relaxed);
        Self { stats: stats.clone(), open, delivered: 0 }
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
        (self.open)(&self.stats).fetch_sub(1, Ordering::Relaxed);
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
        let (mut run, document) = (Stream::of_a_run(&stats), Stream::of_a_document(&stats));
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

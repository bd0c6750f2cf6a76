//! Prometheus metrics of a service: `GET /metrics`, in the OpenMetrics text format.
//!
//! Nothing is counted here. Each component keeps its own atomics and registers how to read them. They are read when
//! somebody asks for the metrics. So a metric costs as much as its atomic, and two services in one process have two
//! sets of metrics. docs/operations.md explains each metric.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

pub use prometheus_client::metrics::histogram::Histogram;

use crate::readiness::Readiness;

/// The path at which metrics are served.
pub const PATH: &str = "/metrics";

/// One of several values of a metric, with its labels.
pub type Sample = (Vec<(&'static str, String)>, f64);

/// Collects the metrics of one service, including those of its process.
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// The metrics that every service has: its version, its process, and whether it and its dependencies are up.
    pub fn new(readiness: &Readiness) -> Self {
        let mut metrics = Self { registry: Registry::default() };
        metrics.gauges("tree_agent_build_info", "Always 1; the label says which version runs", || {
            vec![(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)]
        });
        let levels = readiness.clone();
        metrics.gauge("tree_agent_ready", "1 while the service takes work, else 0", move || {
            f64::from(u8::from(levels.levels()[""]))
        });
        let levels = readiness.clone();
        metrics.gauges(
            "tree_agent_dependency_up",
            "1 while what the service needs works, else 0",
            move || {
                let levels = levels.levels().into_iter().filter(|(name, _)| !name.is_empty());
                levels
                    .map(|(name, up)| (vec![("dependency", name.to_owned())], f64::from(u8::from(up))))
                    .collect()
            },
        );
        #[cfg(target_os = "linux")]
        process::add(&mut metrics);
        metrics
    }

    /// Adds a number that only grows. `_total` is added to `name`.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        self.counters(name, help, move || vec![(Vec::new(), read())]);
    }

    /// Adds numbers that only grow, one for each set of labels. `_total` is added to `name`.
    pub fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) {
        self.registry.register(name, help, ReadMetric { kind: MetricType::Counter, read: Box::new(read) });
    }

    /// Adds a number that goes up and down.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        self.gauges(name, help, move || vec![(Vec::new(), read())]);
    }

    /// Adds numbers that go up and down, one for each set of labels.
    pub fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) {
        self.registry.register(name, help, ReadMetric { kind: MetricType::Gauge, read: Box::new(read) });
    }

    /// Adds numbers that go up and down, one for each value of a label.
    pub fn levels(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(&'static str, usize)> + Send + Sync + 'static,
    ) {
        let sample = move |(value, n): (&str, usize)| (vec![(label, value.to_owned())], n as f64);
        self.gauges(name, help, move || read().into_iter().map(sample).collect());
    }

    /// Adds a histogram, in seconds if its name says so.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, histogram: &Histogram) {
        self.registry.register(name, help, histogram.clone());
    }

    /// The current values of all metrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }

    /// The route of [`PATH`].
    pub(crate) fn router(self: Arc<Self>) -> Router {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let answer = move || async move { ([(CONTENT_TYPE, OPEN_METRICS)], self.text()).into_response() };
        Router::new().route(PATH, get(answer))
    }
}

/// A metric that is read from its source.
struct ReadMetric {
    kind: MetricType,
    read: Box<dyn Fn() -> Vec<Sample> + Send + Sync>,
}

impl fmt::Debug for ReadMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadMetric").finish_non_exhaustive()
    }
}

impl EncodeMetric for ReadMetric {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let write = |mut encoder: MetricEncoder<'_>, value: f64| match self.kind {
            MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            _ => encoder.encode_gauge(&value),
        };
        for (labels, value) in (self.read)() {
            if labels.is_empty() {
                return write(encoder, value);
            }
            write(encoder.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

/// The metrics of the process, under the names of Prometheus' own client libraries.
#[cfg(target_os = "linux")]
mod process {
    use procfs::process::{Process, Stat};

    use super::Metrics;

    pub(super) fn add(metrics: &mut Metrics) {
        let ticks = procfs::ticks_per_second() as f64;
        metrics.counter("process_cpu_seconds", "Processor time used, user and system", move || {
            stat(|s| (s.utime + s.stime) as f64 / ticks)
        });
        metrics.gauge("process_resident_memory_bytes", "Memory that is resident", || {
            stat(|s| (s.rss * procfs::page_size()) as f64)
        });
        metrics.gauge("process_virtual_memory_bytes", "Address space in use", || stat(|s| s.vsize as f64));
        metrics.gauge("process_threads", "Threads", || stat(|s| s.num_threads as f64));
        metrics.gauge("process_start_time_seconds", "When the process began, since 1970", move || {
            let boot = procfs::boot_time_secs().unwrap_or_default() as f64;
            stat(|s| boot + s.starttime as f64 / ticks)
        });
        metrics.gauge("process_open_fds", "Open files and sockets", || {
            Process::myself().and_then(|p| p.fd_count()).map_or(f64::NAN, |n| n as f64)
        });
        metrics.gauge("process_max_fds", "Files and sockets that may be open", || {
            let soft = Process::myself().and_then(|p| p.limits()).map(|l| l.max_open_files.soft_limit);
            match soft {
                Ok(procfs::process::LimitValue::Value(n)) => n as f64,
                Ok(procfs::process::LimitValue::Unlimited) => f64::INFINITY,
                Err(_) => f64::NAN,
            }
        });
    }

    /// A value of the process, or "not a number" where /proc cannot be read.
    fn stat(value: impl Fn(Stat) -> f64) -> f64 {
        Process::myself().and_then(|p| p.stat()).map_or(f64::NAN, value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_counted_elsewhere_is_read_when_it_is_asked_for() {
        let readiness = Readiness::new();
        readiness.require("store").await;
        let (count, seconds) = (Arc::new(AtomicU64::new(0)), Histogram::new([0.1, 1.0]));
        let mut metrics = Metrics::new(&readiness);
        let read = count.clone();
        metrics.counter("tree_agent_things", "Things", move || read.load(Ordering::Relaxed) as f64);
        metrics.gauges("tree_agent_places", "Places", || vec![(vec![("role", "p\"lan".to_owned())], 2.0)]);
        metrics.histogram("tree_agent_thing_seconds", "Time per thing", &seconds);
        count.store(7, Ordering::Relaxed);
        seconds.observe(0.5);
        let text = metrics.text();
        for line in [
            "# TYPE tree_agent_things counter",
            "tree_agent_things_total 7.0",
            "tree_agent_places{role=\"p\\\"lan\"} 2.0",
            "tree_agent_thing_seconds_bucket{le=\"1.0\"} 1",
            "tree_agent_ready 0.0",
            "tree_agent_dependency_up{dependency=\"store\"} 0.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        readiness.set("store", Ok(())).await;
        assert!(metrics.text().contains("\ntree_agent_ready 1.0\n"));
        #[cfg(target_os = "linux")]
        {
            let memory = text.lines().find_map(|l| l.strip_prefix("process_resident_memory_bytes "));
            assert!(memory.and_then(|n| n.parse::<f64>().ok()).is_some_and(|n| n > 100_000.0), "{text}");
        }
    }
}

//! Logs on stderr, and OpenTelemetry traces if a collector is configured.
//!
//! Traces are exported over OTLP/gRPC when `OTEL_EXPORTER_OTLP_ENDPOINT` is set, over TLS if it is an https:// URL;
//! trace context travels between services in W3C `traceparent` metadata, which channels write and servers read. A run
//! outlives the request that created it and the drivers that drive it, so no span can be the parent of all its work.
//! Its trace id is the run's id instead ([`join_run`]), so the run's id leads to its trace.

pub mod metrics;
mod writer;

use std::io::IsTerminal;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_otlp::WithTonicConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use tree_agent_contract::RunId;

use self::writer::PlainWriter;
use crate::client::channel::{ConnectError, Connector};

/// The variables that name the collector, the one that counts first.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// The variables of what is sent to it with each call, such as a token.
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?} is neither text nor json")),
        }
    }
}

/// Why telemetry did not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is malformed.
    #[error("TREE_AGENT_LOG: {filter:?} is not a filter such as info or tree_agent_driver=debug,info")]
    Filter {
        /// What was given.
        filter: String,
        /// What the parser said.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The collector cannot be connected to.
    #[error("{variable}")]
    Collector {
        /// The variable that names the collector.
        variable: &'static str,
        /// Why.
        source: ConnectError,
    },
    /// The exporter cannot be built.
    #[error("traces cannot be exported")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// Something in this process logs already.
    #[error("logging was started twice in one process")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Keeps telemetry alive; dropping it sends what is still buffered.
#[must_use = "dropping it ends the export of traces"]
#[derive(Debug)]
pub struct Telemetry(Option<SdkTracerProvider>);

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown_with_timeout(Duration::from_secs(2))
        {
            tracing::warn!("the last traces were not exported: {error}");
        }
    }
}

/// What is logged and traced, by the value of `TREE_AGENT_LOG`.
pub fn env_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    // The client library of the language models logs the bodies of refusals, and some providers repeat the refused key
    // in them. That of the MCP servers logs their whole addresses, and some have a key in the query. We log what
    // matters, without keys.
    let off = |library: &str| format!("{library}=off").parse().expect("a constant that parses");
    let parsed = EnvFilter::try_new(filter)
        .map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })?;
    let parsed = parsed.add_directive(off("genai"));
    // Those of Postgres say of each connection what we say of all of them.
    let quiet =
        ["rmcp", "deadpool", "tokio_postgres"].into_iter().filter(|library| !filter.contains(library));
    Ok(quiet.fold(parsed, |parsed, library| parsed.add_directive(off(library))))
}

/// Starts logging and tracing for `service`, within a tokio runtime, once per process. `filter` is the value of
/// `TREE_AGENT_LOG`. Traces go to a collector over `connector`.
pub fn init(
    service: &'static str,
    filter: &str,
    format: LogFormat,
    connector: &Connector,
) -> Result<Telemetry, TelemetryError> {
    init_to(service, filter, format, connector, BoxMakeWriter::new(std::io::stderr))
}

/// The same with log lines written to `writer`, for a program that draws on stderr.
pub fn init_to(
    service: &'static str,
    filter: &str,
    format: LogFormat,
    connector: &Connector,
    writer: BoxMakeWriter,
) -> Result<Telemetry, TelemetryError> {
    let env_filter = env_filter(filter)?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let first = match format {
        LogFormat::Text => String::new(),
        LogFormat::Json => identity(service),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(PlainWriter { to: writer, first })
        .with_ansi(std::io::stderr().is_terminal() && !no_color);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let provider = exporting_provider(service, connector)?;
    let spans = provider.as_ref().map(|provider| exported_spans(provider, service));
    tracing_subscriber::registry().with(env_filter).with(lines).with(spans).try_init()?;
    Ok(Telemetry(provider))
}

/// Which process a line is of: the first fields of a JSON object. In Kubernetes the host is the name of the pod.
fn identity(service: &str) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    let instance = serde_json::Value::from(format!("{host}-{}", std::process::id()));
    let version = env!("CARGO_PKG_VERSION");
    format!(r#""service":"{service}","instance":{instance},"version":"{version}","#)
}

static EXPORTING: AtomicBool = AtomicBool::new(false);

/// Whether traces are exported. If not, spans that serve only traces need not be created.
pub fn exporting() -> bool {
    EXPORTING.load(Ordering::Relaxed)
}

/// Moves `span`, which must be new, to the trace of `run`. A link points to the trace that it came from.
pub fn join_run(span: &tracing::Span, run: RunId) {
    let from = tracing::Span::current().context().span().span_context().clone();
    let bytes = run.0.into_bytes();
    let [.., a, b, c, d, e, f, g, h] = bytes;
    let parent = SpanContext::new(
        TraceId::from_bytes(bytes),
        SpanId::from_bytes([a, b, c, d, e, f, g, h]),
        TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    // Fails only if traces are not exported; then there is no trace to join.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent));
    if from.is_valid() {
        span.add_link(from);
    }
}

/// The layer that sends our own spans to the exporter, and no others. The exporter itself uses h2, hyper and tonic: at
/// level `trace`, exporting their spans would create more of them without end.
fn exported_spans<S>(provider: &SdkTracerProvider, service: &'static str) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let ours = filter_fn(|metadata| metadata.target().starts_with("tree_agent"));
    tracing_opentelemetry::layer().with_tracer(provider.tracer(service)).with_filter(ours)
}

fn exporting_provider(
    service: &'static str,
    connector: &Connector,
) -> Result<Option<SdkTracerProvider>, TelemetryError> {
    let Some((variable, url)) = first_set(&COLLECTOR) else { return Ok(None) };
    let secret = first_set(&HEADERS).map(|(variable, _)| variable);
    let channel =
        connector.lent(&url, secret).map_err(|source| TelemetryError::Collector { variable, source })?;
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_channel(channel).build()?;
    let resource = Resource::builder().with_service_name(format!("tree-agent-{service}")).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    EXPORTING.store(true, Ordering::Relaxed);
    Ok(Some(provider))
}

/// The first of these variables that has a value.
fn first_set(variables: &[&'static str]) -> Option<(&'static str, String)> {
    let value = |variable| std::env::var(variable).ok().filter(|value| !value.trim().is_empty());
    variables.iter().find_map(|variable| Some((*variable, value(variable)?)))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SpanData, SpanExporter};

    use super::*;

    /// Keeps the names of spans, and how many events each has.
    #[derive(Clone, Debug, Default)]
    struct Exported(Arc<Mutex<Vec<(String, usize)>>>);

    impl SpanExporter for Exported {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let spans = batch.into_iter().map(|span| (span.name.into_owned(), span.events.len()));
            self.0.lock().unwrap().extend(spans);
            Ok(())
        }
    }

    #[test]
    fn what_the_exporter_does_is_not_exported() {
        let exported = Exported::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build();
        let subscriber = tracing_subscriber::registry()
            .with(env_filter("trace").unwrap())
            .with(exported_spans(&provider, "test"));
        tracing::subscriber::with_default(subscriber, || {
            let ours = tracing::info_span!(target: "tree_agent_driver", "role call").entered();
            tracing::info!(target: "tree_agent_driver::calls", "ours");
            let _h2 = tracing::trace_span!(target: "h2::proto::connection", "poll").entered();
            let _hyper = tracing::trace_span!(target: "hyper::client", "dispatch").entered();
            let _tonic = tracing::error_span!(target: "tonic::transport", "connect").entered();
            let _sdk = tracing::error_span!(target: "opentelemetry_sdk", "export").entered();
            tracing::error!(target: "opentelemetry-otlp", "cannot export");
            drop((_sdk, _tonic, _hyper, _h2));
            drop(ours);
        });
        assert_eq!(*exported.0.lock().unwrap(), [("role call".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn a_bad_filter_names_its_variable() {
        let error = init("test", "a=b=c", LogFormat::Text, &Connector::default()).unwrap_err();
        assert!(error.to_string().contains("TREE_AGENT_LOG"), "{error}");
    }
}

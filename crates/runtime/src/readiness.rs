//! Readiness of a service: not ready until every required dependency works.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, HealthService};

/// The state behind `grpc.health.v1`. The overall status (service "") is SERVING while every required dependency works
/// and the service does not drain. Each dependency has a status under its own name. Clones share state.
#[derive(Clone, Debug)]
pub struct Readiness {
    reporter: HealthReporter,
    state: Arc<Mutex<State>>,
    /// The last report, for callers that cannot await the lock.
    levels: Arc<std::sync::Mutex<BTreeMap<&'static str, bool>>>,
}

/// Health whose watches end. Whoever still watches calls again.
struct Aged(HealthService);

/// How long a watch of the health may last.
const WATCH_AGE: Duration = Duration::from_secs(15 * 60);

#[tonic::async_trait]
impl Health for Aged {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watched = self.0.watch(request).await?;
        Ok(watched.map(|statuses| statuses.take_until(tokio::time::sleep(WATCH_AGE)).boxed()))
    }
}

#[derive(Debug, Default)]
struct State {
    dependencies: BTreeMap<&'static str, Dependency>,
    draining: bool,
}

#[derive(Debug)]
struct Dependency {
    required: bool,
    /// Why it does not work, and since when; `None` if it works.
    down: Option<(String, Instant)>,
}

/// The reason for as long as nobody has looked.
const UNKNOWN: &str = "not connected yet";

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// Ready, without dependencies.
    pub fn new() -> Self {
        Self { reporter: HealthReporter::new(), state: Arc::default(), levels: Arc::default() }
    }

    /// Adds a dependency that the service cannot work without. It counts as down until [`set`](Self::set) says
    /// otherwise.
    pub async fn require(&self, dependency: &'static str) {
        self.register(dependency, true).await;
    }

    /// Adds a dependency that is reported but does not affect readiness.
    pub async fn observe(&self, dependency: &'static str) {
        self.register(dependency, false).await;
    }

    async fn register(&self, name: &'static str, required: bool) {
        let mut state = self.state.lock().await;
        let unknown = || Dependency { required, down: Some((UNKNOWN.into(), Instant::now())) };
        state.dependencies.entry(name).or_insert_with(unknown).required = required;
        self.report(&state).await;
    }

    /// Sets the state of `dependency`: `Err` is the reason why it is down. Changes are logged.
    pub async fn set(&self, dependency: &'static str, outcome: Result<(), String>) {
        let mut state = self.state.lock().await;
        let entry = state.dependencies.entry(dependency);
        let known = entry.or_insert_with(|| Dependency { required: false, down: None });
        // At the start nothing was down before, and nothing was up: it may only need a moment.
        let is_first = known.down.as_ref().is_some_and(|(reason, _)| reason == UNKNOWN);
        let was_down = known.down.take().filter(|(reason, _)| reason != UNKNOWN);
        known.down = match (was_down, outcome) {
            (None, Ok(())) => None,
            (None, Err(reason)) if is_first => {
                tracing::info!(dependency, reason, "dependency is not there yet");
                Some((reason, Instant::now()))
            }
            (None, Err(reason)) => {
                tracing::warn!(dependency, reason, "dependency is down");
                Some((reason, Instant::now()))
            }
            (Some((_, since)), Ok(())) => {
                let seconds = since.elapsed().as_secs_f64();
                tracing::info!(dependency, "dependency is up after {seconds:.1} s");
                None
            }
            (Some((_, since)), Err(reason)) => Some((reason, since)),
        };
        self.report(&state).await;
    }

    /// The service takes no new work: the overall status is NOT_SERVING from now on.
    pub async fn drain(&self) {
        let mut state = self.state.lock().await;
        state.draining = true;
        self.report(&state).await;
    }

    /// Why the service is not ready; `None` when it is.
    pub async fn reason(&self) -> Option<String> {
        self.state.lock().await.reason()
    }

    /// Whether the service (under the name "") and each dependency works.
    pub fn levels(&self) -> BTreeMap<&'static str, bool> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        levels.entry("").or_insert(true);
        levels
    }

    /// The `grpc.health.v1` service. Nobody needs a token for it, so it takes only what a probe sends, and what it
    /// watches ends with an age.
    pub fn service(&self) -> HealthServer<impl Health> {
        const MESSAGE_BYTES: usize = 4 * 1024;
        let service = HealthService::from_health_reporter(self.reporter.clone());
        HealthServer::new(Aged(service)).max_decoding_message_size(MESSAGE_BYTES)
    }

    async fn report(&self, state: &State) {
        let greens = state.dependencies.iter().map(|(name, d)| (*name, d.down.is_none()));
        let levels: BTreeMap<_, _> = greens.chain([("", state.reason().is_none())]).collect();
        let before = std::mem::replace(
            &mut *self.levels.lock().unwrap_or_else(PoisonError::into_inner),
            levels.clone(),
        );
        // Dependencies are checked every second or two; only changes wake watchers.
        for (name, green) in levels.into_iter().filter(|(name, green)| before.get(name) != Some(green)) {
            let status = if green { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.reporter.set_service_status(name, status).await;
        }
    }
}

impl State {
    fn reason(&self) -> Option<String> {
        if self.draining {
            return Some("draining".into());
        }
        let red = self.dependencies.iter().filter(|(_, d)| d.required);
        let reasons: Vec<_> =
            red.filter_map(|(n, d)| d.down.as_ref().map(|(reason, _)| format!("{n}: {reason}"))).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_the_health_ends_with_an_age() {
        let readiness = Readiness::new();
        let service = Aged(HealthService::from_health_reporter(readiness.reporter.clone()));
        let began = Instant::now();
        let watched = service.watch(Request::new(HealthCheckRequest::default())).await.unwrap();
        assert_eq!(watched.into_inner().count().await, 1);
        assert!(began.elapsed() >= WATCH_AGE);
    }

    #[tokio::test]
    async fn only_required_dependencies_count() {
        let readiness = Readiness::new();
        assert_eq!(readiness.reason().await, None);
        readiness.require("store").await;
        readiness.observe("fanout").await;
        assert!(readiness.reason().await.unwrap().starts_with("store: "));
        readiness.set("store", Ok(())).await;
        readiness.set("fanout", Err("refused".into())).await;
        assert_eq!(readiness.reason().await, None);
        readiness.drain().await;
        assert_eq!(readiness.reason().await.as_deref(), Some("draining"));
    }
}

//! `grpc.health.v1` with limits. A watch costs its client nothing, so their number is limited, each sends only changes,
//! and each ends after a while.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::sync::Semaphore;
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, HealthService};

use crate::errors;

/// Maximum of open watches on a port.
const WATCHES: usize = 256;
/// Age at which a watch ends, plus or minus a tenth. The client can call again.
const AGE: Duration = Duration::from_secs(600);

/// The health service of a port.
#[derive(Debug)]
pub(crate) struct BoundedHealth {
    inner: HealthService,
    watches: Arc<Semaphore>,
}

impl BoundedHealth {
    pub(crate) fn new(reporter: HealthReporter) -> Self {
        let inner = HealthService::from_health_reporter(reporter);
        Self { inner, watches: Arc::new(Semaphore::new(WATCHES)) }
    }
}

#[tonic::async_trait]
impl Health for BoundedHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.inner.check(request).await
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let Ok(permit) = self.watches.clone().try_acquire_owned() else {
            let text = format!("there are {WATCHES} health watches already; use Check, or try again later");
            return Err(errors::status(Code::ResourceExhausted, "HEALTH_WATCHES", text));
        };
        let watch = self.inner.watch(request).await?;
        let age = AGE.mul_f64(fastrand::f64().mul_add(0.2, 0.9));
        let mut last = None;
        Ok(watch.map(|statuses| {
            let changes = statuses.filter(move |status| {
                let _held = &permit;
                let status = status.as_ref().ok().map(|response| response.status);
                ready(status.is_none() || std::mem::replace(&mut last, status) != status)
            });
            changes.take_until(tokio::time::sleep(age)).boxed()
        }))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tonic_health::ServingStatus;

    use super::*;

    fn health() -> (HealthReporter, BoundedHealth) {
        let reporter = HealthReporter::new();
        (reporter.clone(), BoundedHealth::new(reporter))
    }

    async fn watch(health: &BoundedHealth) -> Result<<BoundedHealth as Health>::WatchStream, Status> {
        Ok(health.watch(Request::new(HealthCheckRequest::default())).await?.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_says_only_what_changes_and_ends_at_its_age() {
        let (reporter, health) = health();
        let mut changes = watch(&health).await.unwrap();
        let begin = Instant::now();
        let serving = ServingStatus::Serving;
        assert_eq!(changes.next().await.unwrap().unwrap().status, serving as i32);
        let repeating = reporter.clone();
        let repeated = tokio::spawn(async move {
            loop {
                repeating.set_service_status("", serving).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let again = tokio::time::timeout(Duration::from_secs(100), changes.next()).await;
        assert!(again.is_err(), "the same status was sent again");
        repeated.abort();
        reporter.set_service_status("", ServingStatus::NotServing).await;
        assert_eq!(changes.next().await.unwrap().unwrap().status, ServingStatus::NotServing as i32);
        assert!(changes.next().await.is_none());
        assert!((540..=660).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn there_are_only_so_many_watches() {
        let (_reporter, health) = health();
        let mut open = Vec::new();
        for _ in 0..WATCHES {
            open.push(watch(&health).await.unwrap());
        }
        let refused = watch(&health).await.err().unwrap();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        health.check(Request::new(HealthCheckRequest::default())).await.unwrap();
        open.pop();
        assert!(watch(&health).await.is_ok());
    }
}

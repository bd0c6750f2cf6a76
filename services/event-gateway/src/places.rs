//! Places for work that takes much memory or time, of which only some is done at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// So many callers may work at the same time; the others wait.
#[derive(Clone)]
pub(crate) struct Places(Arc<Semaphore>);

impl Places {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// A place, once there is one.
    pub(crate) async fn take(&self) -> Place {
        Place(Arc::new(self.0.clone().acquire_owned().await.expect("it is never closed")))
    }
}

/// One place. It is free again when the request and all of its work are done.
#[derive(Clone)]
pub(crate) struct Place(#[allow(dead_code)] Arc<OwnedSemaphorePermit>);

impl Place {
    /// Does `work` where it holds up no request. It goes on when its request is given up, so it holds the place, too:
    /// else callers who give up at once could have any amount of it done at the same time.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let place = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        done.await.map_err(|_| Status::internal("the work for the answer broke off"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_keeps_its_place_when_its_request_is_given_up() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let places = Places::new(1);
        let (go_on, waits) = mpsc::channel::<()>();
        let place = places.take().await;
        let mut request = Box::pin(async move { place.blocking(move || waits.recv()).await });
        assert!((&mut request).now_or_never().is_none(), "it has begun");
        drop(request);
        assert!(places.take().now_or_never().is_none(), "the work is not done");
        go_on.send(()).unwrap();
        tokio::time::timeout(PATIENCE, places.take()).await.expect("it is done");
    }
}

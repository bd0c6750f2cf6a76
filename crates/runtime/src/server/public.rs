//! Limits of health checks, which need no token, and of reflection, whose requests are as small. They are apart from the
//! limits of other requests, so that a stranger can use up neither the memory nor the budget of request bodies.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tonic::{Code, Status};

use crate::errors;

/// Maximum of open public requests of a port. With their buffers they take some 20 MB.
const OPEN: usize = 1_024;

/// Maximum bytes of one message of a public request.
pub(super) const MESSAGE_BYTES: usize = 4 * 1024;

/// Whether a call of this path is limited here.
pub(crate) fn is_public(path: &str) -> bool {
    path.starts_with("/grpc.health.") || path.starts_with("/grpc.reflection.")
}

/// The error of a request whose place went to a newer one.
pub(crate) fn evicted() -> Status {
    let text = format!("more than {OPEN} health checks and reflection streams are open; try again");
    errors::status(Code::ResourceExhausted, "PUBLIC_REQUESTS", text)
}

/// The open public requests of a port. A new one is always admitted: if there are too many, the oldest ends. A probe
/// that is answered at once therefore succeeds however many requests a stranger holds open. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublicRequests(Arc<Mutex<VecDeque<oneshot::Sender<()>>>>);

impl PublicRequests {
    /// Admits a request, which is open until the returned place is dropped.
    pub(crate) fn enter(&self) -> Place {
        let (evict, evicted) = oneshot::channel();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN {
            open.retain(|place| !place.is_closed());
        }
        if open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back(evict);
        Place(evicted)
    }
}

/// The place of one open request. As a future it completes when the request has to end.
#[derive(Debug)]
pub(crate) struct Place(oneshot::Receiver<()>);

impl Future for Place {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_oldest_open_request_ends_when_there_are_too_many() {
        let requests = PublicRequests::default();
        let mut open: Vec<Place> = (0..OPEN).map(|_| requests.enter()).collect();
        assert!(open.iter_mut().all(|place| place.now_or_never().is_none()));
        let mut newest = requests.enter();
        let ended: Vec<bool> = open.iter_mut().map(|place| place.now_or_never().is_some()).collect();
        assert!(ended[0] && !ended[1..].contains(&true), "another request ended");
        assert!((&mut newest).now_or_never().is_none(), "the new request ended");
    }

    #[test]
    fn requests_that_are_answered_end_no_other() {
        let requests = PublicRequests::default();
        let mut slow = requests.enter();
        for _ in 0..10 * OPEN {
            drop(requests.enter());
        }
        assert!((&mut slow).now_or_never().is_none());
    }
}

//! Whether a connection has open requests.

use std::time::Duration;

use tokio::sync::watch;

/// Returns when no request has been open for too long: `first` before the next request, then `further`.
pub(super) async fn idle(mut open: watch::Receiver<usize>, first: Duration, further: Duration) {
    let mut patience = first;
    loop {
        let is_open = *open.borrow() > 0;
        // The connection holds the sender: this ends only with a change, also one of before.
        let changed = open.changed();
        if is_open {
            let _ = changed.await;
        } else if tokio::time::timeout(patience, changed).await.is_err() {
            return;
        }
        patience = further;
    }
}

/// Counts among the open requests of its connection.
#[derive(Debug)]
pub(super) struct OpenRequest(watch::Sender<usize>);

impl OpenRequest {
    pub(super) fn new(open: watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const FIRST: Duration = Duration::from_secs(10);
    const FURTHER: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_while_no_request_is_open() {
        let open = watch::Sender::new(0);
        let begin = Instant::now();
        idle(open.subscribe(), FIRST, FURTHER).await;
        assert_eq!(begin.elapsed(), FIRST);
        let (is_idle, begin) = (idle(open.subscribe(), FIRST, FURTHER), Instant::now());
        drop(OpenRequest::new(open.clone()));
        is_idle.await;
        assert_eq!(begin.elapsed(), FURTHER, "after a request that was over at once");
        let is_idle = tokio::spawn(idle(open.subscribe(), FIRST, FURTHER));
        tokio::task::yield_now().await;
        let (first, second) = (OpenRequest::new(open.clone()), OpenRequest::new(open.clone()));
        drop(first);
        tokio::time::sleep(100 * FURTHER).await;
        assert!(!is_idle.is_finished(), "idle with an open request");
        drop(second);
        tokio::time::sleep(FURTHER - FIRST).await;
        // One that begins and ends at once counts as well.
        drop(OpenRequest::new(open.clone()));
        let begin = Instant::now();
        is_idle.await.unwrap();
        assert_eq!(begin.elapsed(), FURTHER);
    }
}

//! The accept loop: a limit of connections, and backoff when accepting fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::retry::backoff_within;

/// Pauses after accept errors.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Accepts the connections of one port.
pub(super) struct Acceptor<'a> {
    listener: &'a TcpListener,
    free: Arc<Semaphore>,
    /// All permits were taken when one was last asked for.
    full: bool,
}

impl<'a> Acceptor<'a> {
    /// At most `total` connections are open at the same time, and fewer if the process may not open so many files.
    pub(super) fn new(listener: &'a TcpListener, total: usize) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(connections(total))), full: false }
    }

    /// Returns the next connection, which is open until its permit is dropped. While all permits are taken, clients
    /// wait in the listener's queue.
    pub(super) async fn next(&mut self) -> (TcpStream, OwnedSemaphorePermit) {
        let permit = self.permit().await;
        let (stream, _) = accept(|| self.listener.accept()).await;
        (stream, permit)
    }

    async fn permit(&mut self) -> OwnedSemaphorePermit {
        let permit = self.free.clone().try_acquire_owned();
        if permit.is_err() && !self.full {
            tracing::warn!(
                "all connections are in use; further clients wait (TREE_AGENT_MAX_CONNECTIONS, limit of open files)"
            );
        }
        self.full = permit.is_err();
        match permit {
            Ok(permit) => permit,
            Err(_) => self.free.clone().acquire_owned().await.expect("the semaphore is never closed"),
        }
    }
}

/// A quarter of the files that this process may open is left to everything else.
fn connections(total: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok());
    files.map_or(total, |files| total.min((files / 4 * 3).max(1)))
}

/// Accepts a connection, with backoff: a lack of files or memory lasts for a while, and a loop without a pause would
/// use a whole core.
async fn accept<T, F>(mut next: impl FnMut() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    let mut failures = 0;
    loop {
        match next().await {
            Ok(accepted) => return accepted,
            // This client left before it was accepted.
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {
            }
            Err(error) => {
                failures += 1;
                tracing::warn!("cannot accept connections: {error}; trying again with growing pauses");
                tokio::time::sleep(backoff_within(FIRST_PAUSE, LAST_PAUSE, failures)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_files_is_waited_for_with_growing_pauses() {
        let mut tries = 0;
        let until = Instant::now() + Duration::from_secs(60);
        accept(|| {
            tries += 1;
            // EMFILE, and in between clients that left before they were accepted.
            std::future::ready(match tries % 3 {
                0 => Err(io::ErrorKind::ConnectionAborted.into()),
                _ if Instant::now() < until => Err(io::Error::from_raw_os_error(24)),
                _ => Ok(()),
            })
        })
        .await;
        assert!((60..240).contains(&tries), "{tries} tries within a minute");
    }

    #[test]
    fn there_are_fewer_connections_than_files() {
        assert_eq!(connections(7), 7);
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        assert!(files.is_none_or(|files| connections(usize::MAX >> 3) as u64 <= files / 4 * 3));
    }
}

//! The store in one SQLite file, for one process.
//!
//! One connection writes. Reads use other connections and see the last commit. A commit is on disk before it is
//! acknowledged. All work happens on tokio's blocking threads.

mod append;
mod archives;
mod commands;
mod connection;
mod db;
mod leases;
mod migrate;
mod projection;
mod run_documents;
mod values;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tree_agent_security::private_files;

use crate::error::StoreError;
use connection::map_error;

/// Maximum of concurrent reads.
const READERS: usize = 4;
/// After so many of its steps SQLite asks whether anybody still waits for a read.
const STEPS: i32 = 10_000;

/// A store in one SQLite file. Clones share it.
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Mutex<Connection>,
    /// Free connections for reads.
    readers: Mutex<Vec<Connection>>,
    reading: Arc<Semaphore>,
    /// The database; none if it is in memory, where reads share the writer's connection.
    file: Option<PathBuf>,
    /// Locked while the store is open.
    _lock: Option<File>,
}

/// The file that the process holds which has a data directory open. It may write there how it can be reached.
pub const LOCK: &str = "tree-agent.lock";

impl EmbeddedStore {
    /// Opens the store in the folder `data_dir`, making and migrating it as needed.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another process has it open; [`StoreError::Broken`] when it was written by a
    /// newer version or cannot be used; both say what to do.
    pub async fn open(data_dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let data_dir = data_dir.into();
        blocking(move || {
            let unusable = |e: std::io::Error| {
                let shown = data_dir.display();
                StoreError::broken(format!("the data directory {shown} cannot be used; choose another"), e)
            };
            private_files::create_folder(&data_dir).map_err(unusable)?;
            let lock = private_files::open(&data_dir.join(LOCK)).map_err(unusable)?;
            match lock.try_lock() {
                // What the process before had written there is not true any more.
                Ok(()) => lock.set_len(0).map_err(unusable)?,
                Err(TryLockError::Error(e)) => return Err(unusable(e)),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Conflict(format!(
                        "the data directory {} is in use by another tree-agent process; stop it, or choose another \
                         data directory",
                        data_dir.display()
                    )));
                }
            }
            let file = data_dir.join("tree-agent.db");
            // Made before SQLite would make it: its -wal and -shm get the same permissions.
            private_files::open(&file).map_err(unusable)?;
            let mut writer = connection::open(&file)?;
            migrate::run(&mut writer, &data_dir)?;
            Ok(Self::new(writer, Some(file), Some(lock)))
        })
        .await
    }

    /// A store in memory, which is lost when it is dropped.
    ///
    /// # Errors
    /// If SQLite cannot be used at all.
    pub async fn open_in_memory() -> Result<Self, StoreError> {
        blocking(|| {
            let mut writer = connection::open_in_memory()?;
            migrate::run(&mut writer, Path::new(":memory:"))?;
            Ok(Self::new(writer, None, None))
        })
        .await
    }

    fn new(writer: Connection, file: Option<PathBuf>, lock: Option<File>) -> Self {
        Self {
            inner: Arc::new(Inner {
                writer: Mutex::new(writer),
                readers: Mutex::default(),
                reading: Arc::new(Semaphore::new(READERS)),
                file,
                _lock: lock,
            }),
        }
    }

    /// Runs `work` in a transaction. An error rolls it back.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(|_| true, work).await
    }

    /// Runs `work` in a transaction, which is rolled back after an error and if `is_kept` is false for what it returns.
    async fn write_if<T: Send + 'static>(
        &self,
        is_kept: fn(&T) -> bool,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = self.inner.clone();
        blocking(move || {
            let mut writer = locked(&inner.writer);
            let transaction = Transaction::begin(&mut writer, "BEGIN IMMEDIATE")?;
            let value = work(transaction.0)?;
            if is_kept(&value) {
                transaction.0.execute_batch("COMMIT").map_err(map_error)?;
            }
            Ok(value)
        })
        .await
    }

    /// Runs `work` on a connection that sees the last commit. It is interrupted when nobody waits for it any more.
    async fn query<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = self.inner.clone();
        // The semaphore is never closed.
        let permit = self.inner.reading.clone().acquire_owned().await;
        let wanted = Wanted::default();
        let is_left = wanted.0.clone();
        let watched = move |connection: &mut Connection| work(Watched::new(connection, is_left)?.0);
        blocking(move || {
            let _permit = permit;
            let Some(file) = &inner.file else {
                return watched(&mut locked(&inner.writer));
            };
            let free = locked(&inner.readers).pop();
            let mut reader = match free {
                Some(reader) => reader,
                None => connection::open(file)?,
            };
            let result = watched(&mut reader);
            locked(&inner.readers).push(reader);
            result
        })
        .await
    }
}

/// Tells the work whether anybody still waits for it: true once this is dropped.
#[derive(Default)]
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection whose statements end once nobody waits for them.
struct Watched<'a>(&'a mut Connection);

impl<'a> Watched<'a> {
    fn new(connection: &'a mut Connection, is_left: Arc<AtomicBool>) -> Result<Self, StoreError> {
        let left = move || is_left.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(left)).map_err(map_error)?;
        Ok(Self(connection))
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        // Refused only to a connection that is not its own, such as one of an extension.
        let _ = self.0.progress_handler(0, None::<fn() -> bool>);
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("file", &self.inner.file).finish_non_exhaustive()
    }
}

/// A transaction, which is rolled back unless it was committed.
struct Transaction<'a>(&'a mut Connection);

impl<'a> Transaction<'a> {
    fn begin(connection: &'a mut Connection, begin: &str) -> Result<Self, StoreError> {
        connection.execute_batch(begin).map_err(map_error)?;
        Ok(Self(connection))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit()
            && let Err(error) = self.0.execute_batch("ROLLBACK")
        {
            tracing::error!("a transaction could not be rolled back: {error}");
        }
    }
}

/// A panic elsewhere leaves no half-done work behind, because its transaction was rolled back.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => Err(StoreError::broken("the store's work panicked", e)),
        Err(e) => Err(StoreError::unavailable("the store's work was interrupted", e)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_ends_and_its_permit_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path()).await.unwrap();
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        for _ in 0..3 {
            let reads = (0..READERS).map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    let work = move |db: &mut Connection| {
                        let begun = Transaction::begin(db, "BEGIN")?;
                        begun.0.query_row(endless, [], |_| Ok(())).map_err(map_error)
                    };
                    store.query(work).await
                })
            });
            let reads: Vec<_> = reads.collect();
            let reading = &store.inner.reading;
            while reading.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            reads.iter().for_each(tokio::task::JoinHandle::abort);
            let all = tokio::time::timeout(Duration::from_secs(20), reading.acquire_many(READERS as u32));
            drop(all.await.expect("they have ended").unwrap());
            let readers = locked(&store.inner.readers);
            assert!(readers.len() <= READERS && readers.iter().all(Connection::is_autocommit));
        }
        let one =
            store.query(|db| db.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).map_err(map_error));
        assert_eq!(one.await.unwrap(), 1);
    }
}

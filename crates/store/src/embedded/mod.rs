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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tree_agent_security::private_files;

use crate::error::StoreError;
use connection::map_error;

/// Maximum of concurrent reads.
const READERS: usize = 4;

/// A store in one SQLite file. Clones share it.
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Mutex<Connection>,
    /// Free connections for reads.
    readers: Mutex<Vec<Connection>>,
    reading: Semaphore,
    /// The database; none if it is in memory, where reads share the writer's connection.
    file: Option<PathBuf>,
    /// Locked while the store is open.
    _lock: Option<File>,
}

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
            let lock = private_files::open(&data_dir.join("tree-agent.lock")).map_err(unusable)?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Conflict(format!(
                        "the data directory {} is in use by another tree-agent process; stop it, or choose another \
                         data directory",
                        data_dir.display()
                    )));
                }
                Err(TryLockError::Error(e)) => return Err(unusable(e)),
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
                reading: Semaphore::new(READERS),
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

    /// Runs `work` on a connection that sees the last commit.
    async fn query<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = self.inner.clone();
        let _permit = self.inner.reading.acquire().await;
        blocking(move || {
            let Some(file) = &inner.file else {
                return work(&mut locked(&inner.writer));
            };
            let free = locked(&inner.readers).pop();
            let mut reader = match free {
                Some(reader) => reader,
                None => connection::open(file)?,
            };
            let result = work(&mut reader);
            locked(&inner.readers).push(reader);
            result
        })
        .await
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

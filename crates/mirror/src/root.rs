//! The folder of a search, locked.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use tree_agent_contract::text::one_line;

use crate::error::MirrorError;
use crate::layout::{CHILDREN_JSON, STATE_DIR};
use crate::read::{Folder, read};

/// The file that is locked; it says who holds the lock.
const LOCK: &str = "lock";
/// Names that an error quotes.
const QUOTED_NAMES: usize = 3;

/// A folder that this process alone uses, until it is dropped.
#[derive(Debug)]
pub struct Root {
    dir: PathBuf,
    /// Holds the lock while it is open.
    _lock: File,
}

impl Root {
    /// Locks the folder `dir` for `holder`, which is told to others who want it (`process 17 on host a`). Makes the
    /// folder if it does not exist. One that holds something other than a search is refused and stays as it is.
    ///
    /// # Errors
    /// If `dir` cannot be used; the error says why and what would help.
    pub fn open(dir: &Path, holder: &str) -> Result<Self, MirrorError> {
        match std::fs::create_dir_all(dir) {
            // The path, or one above it, is a file.
            Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) => {
                return Err(MirrorError::NotAFolder(dir.to_owned()));
            }
            made => made.map_err(MirrorError::io("make the folder", dir))?,
        }
        let dir = dir.canonicalize().map_err(MirrorError::io("open the folder", dir))?;
        check_ours(&dir)?;
        let lock = lock(&dir, holder)?;
        Ok(Self { dir, _lock: lock })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder in it for the log.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join(STATE_DIR)
    }

    /// Reads what the folder holds.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(&self) -> Result<Folder, MirrorError> {
        read(&self.dir)
    }
}

/// Refuses a folder with anything in it, unless a search wrote it.
fn check_ours(dir: &Path) -> Result<(), MirrorError> {
    let is_a = |name: &str, right: fn(&std::fs::Metadata) -> bool| {
        std::fs::symlink_metadata(dir.join(name)).is_ok_and(|meta| right(&meta))
    };
    if is_a(STATE_DIR, |meta| meta.is_dir()) || is_a(CHILDREN_JSON, |meta| meta.is_file()) {
        return Ok(());
    }
    let entries = std::fs::read_dir(dir).map_err(MirrorError::io("list", dir))?;
    let names = entries.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()));
    let mut found = names.collect::<io::Result<Vec<_>>>().map_err(MirrorError::io("list", dir))?;
    if found.is_empty() {
        return Ok(());
    }
    found.sort_unstable();
    found.truncate(QUOTED_NAMES);
    Err(MirrorError::NotOurs { dir: dir.to_owned(), found })
}

fn lock(dir: &Path, holder: &str) -> Result<File, MirrorError> {
    let state = dir.join(STATE_DIR);
    match private_folder().create(&state) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let meta = std::fs::symlink_metadata(&state).map_err(MirrorError::io("open", &state))?;
            if !meta.is_dir() {
                return Err(MirrorError::InTheWay(state));
            }
        }
        made => made.map_err(MirrorError::io("make the folder", &state))?,
    }
    let path = state.join(LOCK);
    if std::fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        return Err(MirrorError::InTheWay(path));
    }
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(MirrorError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(MirrorError::InUse { dir: dir.to_owned(), holder: holder_in(&path) });
        }
        Err(TryLockError::Error(e)) => return Err(MirrorError::io("lock", &path)(e)),
    }
    let written =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
    written.map_err(MirrorError::io("write", &path))?;
    Ok(file)
}

/// Makes folders for their owner alone: a log holds what nobody put into the documents.
fn private_folder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there is nothing to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Who holds the lock, as the file says.
fn holder_in(lock: &Path) -> String {
    let text = one_line(&std::fs::read_to_string(lock).unwrap_or_default());
    // It has the lock and has not yet written its name.
    if text.is_empty() { "another process".to_owned() } else { text }
}

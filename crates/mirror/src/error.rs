//! What can be wrong with a folder.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tree_agent_contract::text::count;

/// Something wrong, or worth knowing, in one file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or folder, relative to the root; empty for the root itself.
    pub file: PathBuf,
    /// Line and column, both from 1, if the place is known.
    pub place: Option<(usize, usize)>,
    /// What it is and what would help.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { file: file.into(), place: None, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.as_os_str().is_empty() { ".".into() } else { self.file.to_string_lossy() };
        match self.place {
            // The name of a file may hold anything.
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", file.escape_debug(), self.message),
            None => write!(f, "{}: {}", file.escape_debug(), self.message),
        }
    }
}

/// Everything that is wrong with a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Problems that are named; further ones are counted.
        const NAMED: usize = 10;
        for problem in self.0.iter().take(NAMED) {
            write!(f, "\n  {problem}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            further => write!(f, "\n  and {further} more"),
        }
    }
}

/// Why a folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// It is not a folder.
    #[error("{} is not a folder; name a folder that is empty, new or of an earlier search", .0.display())]
    NotAFolder(PathBuf),
    /// It holds something else.
    #[error(
        "{} is not empty and holds no search ({}); name a folder that is empty, new or of an earlier search",
        .dir.display(), found_in(.found)
    )]
    NotOurs {
        /// The folder.
        dir: PathBuf,
        /// Some of what it holds.
        found: Vec<String>,
    },
    /// Another process uses it.
    #[error("{} is in use by {holder}; wait for it to end, or name another folder", .dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
        /// Who holds the lock.
        holder: String,
    },
    /// Its files are malformed.
    #[error("{} cannot be read ({}); correct or remove the files, nothing was changed:{problems}",
        .dir.display(), count(.problems.0.len(), "problem"))]
    Malformed {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        problems: Problems,
    },
    /// Something else stands where a node belongs.
    #[error("{} is not part of this search, so nothing is written there; move it away", .0.display())]
    InTheWay(PathBuf),
    /// A step of writing failed.
    #[error("cannot {what} {}{}", .path.display(), hint(.source))]
    Io {
        /// What was to be done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl MirrorError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

fn found_in(found: &[String]) -> String {
    found.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and run the command again, which continues the search"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make it writable, or name another folder"
        }
        _ => "",
    }
}

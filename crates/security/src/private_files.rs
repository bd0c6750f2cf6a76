//! Files that only their owner may read: databases, archives, tokens.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};

/// Makes the folder at `path`, and those above it, for the owner alone (0700). One that exists stays as it is, with a
/// warning in the log when others may enter it.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        warn_if_shared(path);
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder.create(path)
}

/// Opens the file at `path` for writing, without truncating it, and makes it for the owner alone (0600) if it is not
/// there. One that exists stays as it is, with a warning in the log when others may read it.
pub fn open(path: &Path) -> io::Result<File> {
    options().truncate(false).open(path).inspect(|_| warn_if_shared(path))
}

/// Makes an empty file at `path` for the owner alone (0600). One that exists is replaced, so that it gets these
/// permissions too.
pub fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => options().create_new(true).open(path),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

/// Warns in the log, once, when others than its owner may read the file or enter the folder at `path`.
pub fn warn_if_shared(path: &Path) {
    static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let Some(mode) = std::fs::metadata(path).ok().as_ref().and_then(shared_mode) else { return };
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        let (shown, wanted) = (path.display(), if path.is_dir() { "700" } else { "600" });
        tracing::warn!(
            "other users of this machine have access to {shown} (mode {mode:o}); run `chmod {wanted} {shown}`"
        );
    }
}

/// The permission bits, if they let others in than the owner. The group may read what root owns: that is how a Secret
/// is mounted for a service that does not run as root.
#[cfg(unix)]
fn shared_mode(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.permissions().mode() & 0o777;
    let allowed = if metadata.uid() == 0 && metadata.is_file() { 0o740 } else { 0o700 };
    (mode & !allowed & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn shared_mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_folder(&inner).unwrap();
        assert_eq!((mode(&inner), mode(&folder.path().join("a"))), (0o700, 0o700));
        open(&inner.join("opened")).unwrap();
        create(&inner.join("created")).unwrap();
        assert_eq!((mode(&inner.join("opened")), mode(&inner.join("created"))), (0o600, 0o600));
        let loose = inner.join("loose");
        std::fs::write(&loose, "old").unwrap();
        std::fs::set_permissions(&loose, PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(open(&loose).unwrap().metadata().unwrap().len(), 3, "what exists is kept");
        create(&loose).unwrap();
        assert_eq!((mode(&loose), std::fs::metadata(&loose).unwrap().len()), (0o600, 0));
    }

    #[test]
    fn what_others_may_read_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let shared = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            shared_mode(&std::fs::metadata(path).unwrap())
        };
        assert_eq!(shared(&file, 0o600), None);
        assert_eq!(shared(&file, 0o400), None);
        assert_eq!(shared(&file, 0o644), Some(0o644));
        assert_eq!(shared(folder.path(), 0o750), Some(0o750));
        assert_eq!(shared(folder.path(), 0o700), None);
    }
}

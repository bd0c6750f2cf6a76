//! The steps that change a folder, so that tests can fail or crash at each of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What the mirror does to a file system.
pub trait Disk: Send {
    /// Makes the folder `path`, which must not exist.
    fn create_dir(&mut self, path: &Path) -> io::Result<()>;
    /// Makes the file `path`, which must not exist. If it is `lasting`, waits until its content is on the disk.
    fn write_new(&mut self, path: &Path, content: &[u8], lasting: bool) -> io::Result<()>;
    /// Gives the file `from` the name `to`, instead of a file that has it.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes the file `path`.
    fn remove_file(&mut self, path: &Path) -> io::Result<()>;
    /// Waits until the names in the folder `path` are on the disk.
    fn sync_dir(&mut self, path: &Path) -> io::Result<()>;
}

/// The file systems of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn write_new(&mut self, path: &Path, content: &[u8], lasting: bool) -> io::Result<()> {
        // `create_new` follows no symbolic link.
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(content)?;
        // Otherwise a power failure could leave an empty file under the new name.
        if lasting { file.sync_all() } else { Ok(()) }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

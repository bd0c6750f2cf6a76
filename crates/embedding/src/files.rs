//! The files of the local model.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

/// A model that is known file by file.
pub(crate) struct KnownModel {
    /// Its name, also that of its folder.
    pub(crate) name: &'static str,
    /// SHA-256 of `model.onnx`.
    pub(crate) model: &'static str,
    /// SHA-256 of `tokenizer.json`.
    pub(crate) tokenizer: &'static str,
}

/// What `scripts/models` installs, which names the same checksums.
pub(crate) const MINILM: KnownModel = KnownModel {
    name: "minilm-l6-v2-int8",
    model: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    tokenizer: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
};

/// The contents of both files.
pub(crate) struct ModelFiles {
    pub(crate) model: Vec<u8>,
    pub(crate) tokenizer: Vec<u8>,
}

/// Why the files of the local model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file is not there.
    #[error("{} is missing; `make models` installs it", .0.display())]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is another one than expected.
    #[error(
        "{} is damaged or of another model (SHA-256 {found} instead of {expected}); `make models` replaces it",
        .path.display()
    )]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Its SHA-256.
        found: String,
        /// The SHA-256 that it should have.
        expected: &'static str,
    },
}

/// Whether the local model is installed in `folder` and whole.
pub fn check_files(folder: &Path) -> Result<(), FilesError> {
    MINILM.read(folder).map(drop)
}

impl KnownModel {
    /// Reads the files below `folder` and compares their checksums.
    pub(crate) fn read(&self, folder: &Path) -> Result<ModelFiles, FilesError> {
        let read = |name: &str, expected| {
            let path = folder.join(self.name).join(name);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(FilesError::Missing(path));
                }
                Err(source) => return Err(FilesError::Unreadable { path, source }),
            };
            let found = sha256(&bytes);
            if found == expected { Ok(bytes) } else { Err(FilesError::Wrong { path, found, expected }) }
        };
        Ok(ModelFiles {
            model: read("model.onnx", self.model)?,
            tokenizer: read("tokenizer.json", self.tokenizer)?,
        })
    }

    /// The name of its vectors: other weights make other vectors.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.name, &self.model[..8])
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

//! The token that our own clients (the roles' tools and the command line) send to a gateway that requires one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use tree_agent_security::private_files;

use crate::problems::Problems;

/// How long the content of a token file is cached. A new token is in use after that at the latest.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Where the token comes from. The variable `TREE_AGENT_TOKEN` holds a token itself. There is no flag for it, because
/// other users of a machine can see command lines.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TokenArgs {
    /// A file with the token for gateways that require one; a changed file is read again. TREE_AGENT_TOKEN holds a
    /// token itself
    #[arg(long, global = true, env = "TREE_AGENT_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The credentials from the file, else from the variable, else none. Problems are added to `problems`.
    pub fn check(&self, problems: &mut Problems) -> Credentials {
        if let Some(path) = self.token_file.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            private_files::warn_if_shared(path);
            return Credentials::file(path).unwrap_or_else(|error| {
                problems
                    .add("TREE_AGENT_TOKEN_FILE", format_args!("{} cannot be used: {error}", path.display()));
                Credentials::default()
            });
        }
        match std::env::var("TREE_AGENT_TOKEN") {
            Ok(token) if !token.trim().is_empty() => Credentials::fixed(&token).unwrap_or_else(|error| {
                problems.add("TREE_AGENT_TOKEN", error);
                Credentials::default()
            }),
            _ => Credentials::default(),
        }
    }
}

/// The token that a client sends; none by default. Cheap to clone: clones share a cached file. As an interceptor it
/// adds the token to every call.
#[derive(Clone, Default)]
pub struct Credentials(Option<Arc<Source>>);

enum Source {
    Fixed(MetadataValue<Ascii>),
    File { path: PathBuf, cached: Mutex<CachedToken> },
}

struct CachedToken {
    value: MetadataValue<Ascii>,
    read_at: Instant,
    /// The last read failed, and was logged.
    failed: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.as_deref() {
            None => "Credentials(none)",
            Some(Source::Fixed(_)) => "Credentials(fixed)",
            Some(Source::File { .. }) => "Credentials(file)",
        })
    }
}

impl Credentials {
    /// A token that never changes.
    pub fn fixed(token: &str) -> io::Result<Self> {
        Ok(Self(Some(Arc::new(Source::Fixed(value(token)?)))))
    }

    /// The token in the file at `path`, which must hold one now. A changed file is read again.
    pub fn file(path: &Path) -> io::Result<Self> {
        let cached = CachedToken { value: read(path)?, read_at: Instant::now(), failed: false };
        Ok(Self(Some(Arc::new(Source::File { path: path.to_owned(), cached: Mutex::new(cached) }))))
    }

    /// True if there is no token.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// True if the token comes from a file, which can change.
    pub fn can_change(&self) -> bool {
        matches!(self.0.as_deref(), Some(Source::File { .. }))
    }

    /// The value of `authorization`. A file is read again after a second. If that fails, the previous token stays in
    /// use.
    pub fn current(&self) -> Option<MetadataValue<Ascii>> {
        self.cached_for(CACHE_TIME)
    }

    /// Like [`current`](Self::current), but reads the file now.
    pub fn latest(&self) -> Option<MetadataValue<Ascii>> {
        self.cached_for(Duration::ZERO)
    }

    fn cached_for(&self, age: Duration) -> Option<MetadataValue<Ascii>> {
        match self.0.as_deref()? {
            Source::Fixed(value) => Some(value.clone()),
            Source::File { path, cached } => {
                let mut cached = lock(cached);
                if cached.read_at.elapsed() >= age {
                    cached.refresh(path);
                }
                Some(cached.value.clone())
            }
        }
    }
}

impl CachedToken {
    fn refresh(&mut self, path: &Path) {
        self.read_at = Instant::now();
        match read(path) {
            Ok(value) => (self.value, self.failed) = (value, false),
            Err(error) => {
                if !std::mem::replace(&mut self.failed, true) {
                    let path = path.display();
                    tracing::warn!(
                        "TREE_AGENT_TOKEN_FILE: {path} cannot be used: {error}; the previous token stays in use"
                    );
                }
            }
        }
    }
}

fn lock(cached: &Mutex<CachedToken>) -> MutexGuard<'_, CachedToken> {
    cached.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> io::Result<MetadataValue<Ascii>> {
    value(&std::fs::read_to_string(path)?)
}

fn value(token: &str) -> io::Result<MetadataValue<Ascii>> {
    let token = token.trim();
    let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if token.is_empty() {
        return Err(bad("it holds no token"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("it must hold one token and nothing else"));
    }
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {token}").parse().map_err(|_| bad("it holds what cannot be sent"))?;
    // Printed as "Sensitive", and kept out of the tables of header compression.
    value.set_sensitive(true);
    Ok(value)
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = self.current() {
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_followed_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(Credentials::file(&path).is_err());
        std::fs::write(&path, "first\n").unwrap();
        let credentials = Credentials::file(&path).unwrap();
        assert_eq!(credentials.current().unwrap(), "Bearer first");
        std::fs::write(&path, "second").unwrap();
        assert_eq!(credentials.latest().unwrap(), "Bearer second");
        for bad in ["", "two tokens", "a\nb"] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(credentials.latest().unwrap(), "Bearer second", "{bad:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(credentials.latest().unwrap(), "Bearer second");
    }

    #[test]
    fn a_token_is_shown_to_the_server_only() {
        let mut credentials = Credentials::fixed("very-secret").unwrap();
        let request = credentials.call(Request::new(())).unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer very-secret");
        assert!(!format!("{request:?} {credentials:?}").contains("very-secret"));
        let none = Credentials::default().call(Request::new(())).unwrap();
        assert!(!none.metadata().contains_key("authorization"));
    }

    #[test]
    fn a_file_that_is_not_there_names_its_variable() {
        let mut problems = Problems::default();
        TokenArgs { token_file: Some("/does/not/exist".into()) }.check(&mut problems);
        let text = problems.finish().unwrap_err().to_string();
        assert!(text.contains("TREE_AGENT_TOKEN_FILE: /does/not/exist cannot be used"), "{text}");
    }
}

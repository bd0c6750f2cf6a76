//! Finds the files of a folder that are imported. Everything else is passed over, or reported with the reason.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};
use serde::Serialize;

use tree_agent_contract::text::nfc;
use tree_agent_convert::{FILE_BYTES, Fault, Kind, by_name};

use crate::error::CliError;

/// Folders of generated or downloaded files.
const SKIPPED_FOLDERS: &[&str] = &["node_modules", "target", "__pycache__", "venv"];

/// Which files of the folder are imported
///
/// A file must pass all of these: it is not hidden, not in a folder of generated files (node_modules, target,
/// __pycache__, venv), not ignored by git, and selected by --include and --exclude. Symbolic links are not followed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Import only files that match, as in .gitignore: '*.md', 'docs/' or '/src/**/*.rs'. What matches is read as text
    /// if its type is not known; can be repeated
    #[arg(long, value_name = "GLOB", requires = "dir")]
    include: Vec<String>,
    /// Leave out what matches, as in .gitignore; can be repeated
    #[arg(long, value_name = "GLOB", requires = "dir")]
    exclude: Vec<String>,
    /// Import also what .gitignore files and .git/info/exclude leave out
    #[arg(long, requires = "dir")]
    no_ignore: bool,
}

/// What is in a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files to import, in a stable order.
    pub(super) candidates: Vec<Candidate>,
    /// Everything else that was not passed over.
    pub(super) skipped: Vec<Skipped>,
    /// Paths of folders within it that could not be read, so that nobody knows what is in them.
    pub(super) unknown: Vec<String>,
}

/// A file whose name says that it can be imported.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    file: PathBuf,
    /// Path within the folder, `/`-separated.
    pub(super) path: String,
    /// Its type.
    pub(super) kind: Kind,
}

/// Something that is not imported, and why.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Skipped {
    /// As the user would find it.
    pub(super) path: String,
    /// The sort of reason, which is counted.
    pub(super) reason: Reason,
    /// Why, in words.
    pub(super) why: String,
}

/// Why something is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reason {
    /// Its name says that it is no document.
    OtherType,
    /// A symbolic link.
    SymbolicLink,
    /// A pipe, a socket or a device.
    NotAFile,
    /// Its name is not valid UTF-8.
    Name,
    /// The server does not accept it.
    Refused,
    /// It could not be read this time.
    Unreadable,
    /// It gives no text.
    #[serde(untagged)]
    NoText(tree_agent_convert::Reason),
}

impl Reason {
    /// The reason in words, after a number of files.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::OtherType => "of other types",
            Self::SymbolicLink => "symbolic links",
            Self::NotAFile => "no regular files",
            Self::Name => "with names that cannot be kept",
            Self::Refused => "refused by the server",
            Self::Unreadable => "unreadable",
            Self::NoText(reason) => reason.words(),
        }
    }

    /// True if the file may hold what was imported from it before: it could not be seen this time.
    pub(super) const fn is_uncertain(self) -> bool {
        use tree_agent_convert::Reason::{Broken, Expands, Password};
        matches!(self, Self::Unreadable | Self::Refused | Self::NoText(Broken | Expands | Password))
    }
}

/// Globs of `--include` or `--exclude`.
fn globs(flag: &str, globs: &[String]) -> Result<Gitignore, CliError> {
    let wrong = |e: ignore::Error| CliError::Usage(format!("--{flag}: {e}"));
    let mut builder = GitignoreBuilder::new("");
    // Git takes an unclosed [ for itself; here it is a slip.
    builder.allow_unclosed_class(false);
    for glob in globs {
        if glob.starts_with('!') {
            return Err(CliError::Usage(format!("--{flag} {glob}: a glob must not begin with !")));
        }
        builder.add_line(None, &nfc(glob)).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

impl Selection {
    /// An error if a glob cannot be read.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        globs("include", &self.include)?;
        globs("exclude", &self.exclude).map(drop)
    }

    /// Everything in `folder`, in a stable order. The folder `except` is passed over.
    pub(super) fn find(&self, folder: &Path, except: Option<&Path>) -> Result<Found, CliError> {
        let (include, exclude) = (globs("include", &self.include)?, globs("exclude", &self.exclude)?);
        let (root, except) = (folder.to_owned(), except.map(Path::to_owned));
        let filter_root = root.clone();
        let walk = WalkBuilder::new(folder)
            .hidden(true)
            .ignore(false)
            .git_global(false)
            .git_ignore(!self.no_ignore)
            .git_exclude(!self.no_ignore)
            // The files above the folder count only within its repository.
            .parents(!self.no_ignore && is_in_repository(folder))
            .require_git(false)
            .follow_links(false)
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .filter_entry(move |entry| {
                let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
                let relative = relative(entry, &filter_root);
                entry.depth() == 0
                    || except.as_deref() != Some(entry.path())
                        && !(is_dir && SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name))
                        && !exclude.matched(&relative, is_dir).is_ignore()
            })
            .build();
        let (mut found, mut paths) = (Found::default(), HashSet::new());
        for entry in walk {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    found.not_walked(&root, &error);
                    continue;
                }
            };
            if entry.depth() == 0 || entry.file_type().is_some_and(|kind| kind.is_dir()) {
                continue;
            }
            let relative = relative(&entry, &root);
            if !include.is_empty() && !include.matched_path_or_any_parents(&relative, false).is_ignore() {
                continue;
            }
            match sort_out(&entry, &relative, !include.is_empty()) {
                Ok(candidate) if !paths.insert(candidate.path.clone()) => {
                    let why = "another file has this name, with its letters encoded otherwise";
                    found.skipped.push(candidate.skip(Reason::Name, why.to_owned()));
                }
                Ok(candidate) => found.candidates.push(candidate),
                Err(skipped) => found.skipped.push(skipped),
            }
        }
        Ok(found)
    }
}

impl Found {
    /// Notes a folder or file that could not be looked at.
    fn not_walked(&mut self, root: &Path, error: &ignore::Error) {
        let path = path_of(error).unwrap_or(root);
        let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let why = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
        self.unknown.push(relative.clone());
        self.skipped.push(Skipped { path: relative, reason: Reason::Unreadable, why });
    }

    /// True if `path` may be in a folder that could not be read.
    pub(super) fn may_hold(&self, path: &str) -> bool {
        self.unknown.iter().any(|folder| {
            folder.is_empty() || path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

/// Where an entry is within the folder. Names are composed, as people type them, though file systems may keep them
/// otherwise.
fn relative(entry: &DirEntry, root: &Path) -> PathBuf {
    let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
    relative.to_str().map_or_else(|| relative.to_owned(), |path| PathBuf::from(nfc(path)))
}

/// The path that an error of the walk is about.
fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Partial(errors) => errors.iter().find_map(path_of),
        _ => None,
    }
}

/// True if the folder or one above it is the root of a git repository.
fn is_in_repository(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|whole| whole.ancestors().any(|above| above.join(".git").exists()))
}

/// A file to import, or why it is none. With `is_named` the user has asked for it, so it is read as text if its type is
/// not known.
fn sort_out(entry: &DirEntry, relative: &Path, is_named: bool) -> Result<Candidate, Skipped> {
    let skip = |reason, why: &str| {
        Err(Skipped { path: relative.display().to_string(), reason, why: why.to_owned() })
    };
    if entry.path_is_symlink() {
        return skip(Reason::SymbolicLink, "symbolic link, which is not followed");
    }
    if !entry.file_type().is_some_and(|kind| kind.is_file()) {
        return skip(Reason::NotAFile, "no regular file");
    }
    let Some(kind) = Kind::of(entry.path()).or(is_named.then_some(Kind::Text)) else {
        let (why, glob) = by_name(entry.path());
        let hint = glob.map_or_else(String::new, |glob| format!(", include it with --include '{glob}'"));
        return skip(Reason::OtherType, &(why + &hint));
    };
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    match parts {
        Some(parts) => Ok(Candidate { file: entry.path().to_owned(), path: parts.join("/"), kind }),
        None => skip(Reason::Name, "its name is not valid UTF-8"),
    }
}

impl Candidate {
    /// Its title, if it is a document of a search that was written as a folder.
    pub(super) fn title(&self) -> Option<String> {
        tree_agent_mirror::title_beside(&self.file)
    }

    /// The bytes of the file.
    pub(super) fn read(&self) -> Result<Vec<u8>, Skipped> {
        let mut bytes = Vec::new();
        // Reading one byte more than is allowed detects a file that is too large, whatever its metadata say.
        let size = fs::File::open(&self.file)
            .and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|e| self.skip(Reason::Unreadable, format!("cannot be read: {e}")))?;
        if size > FILE_BYTES {
            let why = format!("too large: more than {} MiB", FILE_BYTES >> 20);
            return Err(self.skip(Reason::NoText(tree_agent_convert::Reason::TooLarge), why));
        }
        Ok(bytes)
    }

    /// This file as one that is not imported.
    pub(super) fn skip(&self, reason: Reason, why: impl Into<String>) -> Skipped {
        Skipped { path: self.path.clone(), reason, why: why.into() }
    }

    /// This file as one that gives no text.
    pub(super) fn fault(&self, fault: Fault) -> Skipped {
        self.skip(Reason::NoText(fault.reason), fault.why)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn put(dir: &Path, path: &str, bytes: &[u8]) {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    fn paths(selection: &Selection, dir: &Path) -> Vec<String> {
        selection.find(dir, None).unwrap().candidates.into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn documents_are_found_and_everything_else_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| put(dir.path(), path, bytes);
        put("a.md", b"# A");
        put("deep/er/b.TXT", b"text");
        put("name with spaces & u\u{308}nicode.markdown", b"text");
        put("README", b"read me");
        put("main.rs", b"fn main() {}");
        put("large.txt", &vec![b'x'; FILE_BYTES + 1]);
        put("full.txt", &vec![b'x'; FILE_BYTES]);
        put("picture.png", &[0x89, b'P']);
        put("plan.xyz", b"plan");
        put(".env", b"SECRET=1");
        put(".git/x.md", b"no");
        put("node_modules/x.md", b"no");
        put("deep/target/x.md", b"no");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("deep/loop")).unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"odd\xff.md")), b"x").unwrap();

        let found = Selection::default().find(dir.path(), None).unwrap();
        let mut skipped = found.skipped;
        let mut good = Vec::new();
        for candidate in found.candidates {
            match candidate.read() {
                Ok(_) => good.push(candidate.path),
                Err(why) => skipped.push(why),
            }
        }
        let expected = [
            "README",
            "a.md",
            "deep/er/b.TXT",
            "full.txt",
            "main.rs",
            "name with spaces & \u{fc}nicode.markdown",
        ];
        assert_eq!(good, expected);
        let mut reasons: Vec<_> = skipped.iter().map(|s| (s.path.as_str(), s.why.as_str())).collect();
        reasons.sort();
        let expected = [
            ("deep/loop", "symbolic link, which is not followed"),
            ("large.txt", "too large: more than 10 MiB"),
            ("odd\u{fffd}.md", "its name is not valid UTF-8"),
            ("picture.png", "no text: image"),
            ("plan.xyz", "unknown type .xyz, include it with --include '*.xyz'"),
        ];
        assert_eq!(reasons, expected, "hidden and generated files are passed over");
        let named = Selection { include: vec!["*.xyz".into()], ..Selection::default() };
        assert_eq!(paths(&named, dir.path()), ["plan.xyz"]);
    }

    #[test]
    fn what_git_ignores_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| put(dir.path(), path, bytes);
        put(".gitignore", b"drafts/\n*.log.md\n!kept.log.md\n");
        put(".ignore", b"a.md\n");
        put("a.md", b"a");
        put("b.log.md", b"b");
        put("kept.log.md", b"k");
        put("drafts/d.md", b"d");
        put("sub/.gitignore", b"/c.md\n");
        put("sub/c.md", b"c");
        put("sub/deep/c.md", b"c");
        let all = ["a.md", "b.log.md", "drafts/d.md", "kept.log.md", "sub/c.md", "sub/deep/c.md"];
        let kept = ["a.md", "kept.log.md", "sub/deep/c.md"];
        assert_eq!(paths(&Selection::default(), dir.path()), kept);
        let everything = Selection { no_ignore: true, ..Selection::default() };
        assert_eq!(paths(&everything, dir.path()), all);
        // The files above a folder count only if it is in a repository.
        put("sub/x.log.md", b"x");
        assert_eq!(paths(&Selection::default(), &dir.path().join("sub")), ["deep/c.md", "x.log.md"]);
        put(".git/info/exclude", b"deep/\n");
        assert_eq!(paths(&Selection::default(), &dir.path().join("sub")), [] as [&str; 0]);
        assert_eq!(paths(&Selection::default(), dir.path()), ["a.md", "kept.log.md"]);
    }

    #[test]
    fn globs_select_as_those_of_git_do() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a.md", "b.txt", "docs/c.md", "docs/old/d.md", "src/e.rs", "src/docs/f.md"] {
            put(dir.path(), path, b"x");
        }
        let select = |include: &[&str], exclude: &[&str]| {
            let strings = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
            let selection =
                Selection { include: strings(include), exclude: strings(exclude), ..Selection::default() };
            selection.check().unwrap();
            paths(&selection, dir.path())
        };
        assert_eq!(select(&["*.md"], &[]), ["a.md", "docs/c.md", "docs/old/d.md", "src/docs/f.md"]);
        assert_eq!(select(&["docs/"], &[]), ["docs/c.md", "docs/old/d.md", "src/docs/f.md"]);
        assert_eq!(select(&["/docs/", "*.txt"], &["old"]), ["b.txt", "docs/c.md"]);
        assert_eq!(select(&[], &["*.md", "/src"]), ["b.txt"]);
        for bad in ["a[", "!a"] {
            let selection = Selection { include: vec![bad.into()], ..Selection::default() };
            assert!(selection.check().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_read_may_hold_anything() {
        let closed = |path: &str| ignore::Error::WithDepth {
            depth: 1,
            err: Box::new(ignore::Error::WithPath {
                path: path.into(),
                err: Box::new(ignore::Error::Io(std::io::ErrorKind::PermissionDenied.into())),
            }),
        };
        let mut found = Found::default();
        found.not_walked(Path::new("docs"), &closed("docs/closed"));
        assert_eq!(
            (found.skipped[0].reason, &*found.skipped[0].why),
            (Reason::Unreadable, "permission denied")
        );
        assert_eq!(found.unknown, ["closed"]);
        assert!(
            found.may_hold("closed/b.md") && !found.may_hold("closedness.md") && !found.may_hold("open/a.md")
        );
    }
}

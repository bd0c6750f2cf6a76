//! Finds the documents in a folder: Markdown and plain text. Everything else is reported and left out.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tree_agent_contract::limits::DOCUMENT_BYTES;
use walkdir::{DirEntry, WalkDir};

/// Extensions of Markdown and plain text.
const EXTENSIONS: &[&str] = &[
    "md", "markdown", "mdown", "mkd", "mkdn", "mdx", "txt", "text", "rst", "adoc", "asciidoc", "org",
    "textile",
];
/// Names of documents that usually have no extension.
const NAMES: &[&str] = &[
    "README",
    "CHANGELOG",
    "CHANGES",
    "NEWS",
    "LICENSE",
    "COPYING",
    "NOTICE",
    "AUTHORS",
    "CONTRIBUTING",
    "TODO",
];
/// Folders of generated or downloaded files.
const SKIPPED_FOLDERS: &[&str] = &["node_modules", "target", "__pycache__", "venv"];

/// What was found at a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// A document, not yet read.
    Document(Candidate),
    /// Something that is not imported.
    Skipped(Skipped),
}

/// A file whose name says that it is a document.
#[derive(Debug)]
pub(crate) struct Candidate {
    file: PathBuf,
    /// Path within the folder, `/`-separated.
    pub(crate) path: String,
}

/// Something that is not imported, and why.
#[derive(Debug)]
pub(crate) struct Skipped {
    /// As the user would find it.
    pub(crate) path: String,
    /// Why not.
    pub(crate) why: String,
    /// True for files whose name says that they are no documents.
    pub(crate) other_type: bool,
}

/// Everything in `folder`, in a stable order. Hidden files and folders of generated files are skipped without a report.
/// Symbolic links are not followed, so that there are no loops and no files from outside the folder. The folder `except`
/// is passed over.
pub(crate) fn find(folder: &Path, except: Option<&Path>) -> impl Iterator<Item = Found> + use<> {
    let (root, except) = (folder.to_owned(), except.map(Path::to_owned));
    WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(move |entry| {
            let is_excepted = except.as_deref().is_some_and(|except| entry.path() == except);
            entry.depth() == 0 || !is_excepted && !is_passed_over(entry)
        })
        .filter_map(move |entry| match entry {
            Ok(entry) if entry.file_type().is_dir() => None,
            Ok(entry) => Some(sort_out(&root, &entry)),
            Err(error) => {
                let path = error.path().map(|p| p.display().to_string()).unwrap_or_default();
                let why = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                Some(Found::Skipped(Skipped { path, why, other_type: false }))
            }
        })
}

fn is_passed_over(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    name.starts_with('.') || (entry.file_type().is_dir() && SKIPPED_FOLDERS.contains(&name.as_ref()))
}

fn sort_out(root: &Path, entry: &DirEntry) -> Found {
    let file = entry.path();
    let relative = file.strip_prefix(root).unwrap_or(file);
    let shown = relative.display().to_string();
    let skip =
        |why: &str, other_type| Found::Skipped(Skipped { path: shown.clone(), why: why.into(), other_type });
    if entry.file_type().is_symlink() {
        return skip("is a symbolic link, which is not followed", false);
    }
    if !entry.file_type().is_file() {
        return skip("is not a regular file", false);
    }
    if !is_document(file) {
        return skip("is neither Markdown nor plain text", true);
    }
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    match parts {
        Some(parts) => Found::Document(Candidate { file: file.to_owned(), path: parts.join("/") }),
        None => skip("has a name that is not valid UTF-8", false),
    }
}

fn is_document(file: &Path) -> bool {
    match file.extension() {
        Some(extension) => {
            let extension = extension.to_string_lossy().to_ascii_lowercase();
            EXTENSIONS.contains(&extension.as_str())
        }
        None => file.file_name().is_some_and(|name| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            NAMES.contains(&name.as_str())
        }),
    }
}

impl Candidate {
    /// Its title, if it is a document of a search that was written as a folder; empty for a title from the text.
    pub(crate) fn title(&self) -> String {
        tree_agent_mirror::title_beside(&self.file).unwrap_or_default()
    }

    /// The text, without a byte order mark.
    pub(crate) fn read(&self) -> Result<String, Skipped> {
        let skip = |why: String| Skipped { path: self.path.clone(), why, other_type: false };
        let mut bytes = Vec::new();
        // Reading one byte more than is allowed detects a file that is too large, whatever its metadata say.
        let size = fs::File::open(&self.file)
            .and_then(|file| file.take(DOCUMENT_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|e| skip(format!("cannot be read: {e}")))?;
        if size > DOCUMENT_BYTES {
            return Err(skip(format!(
                "is larger than {DOCUMENT_BYTES} bytes, the most that a document may have"
            )));
        }
        let text = String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
            .ok_or_else(|| skip("is binary or not UTF-8 text".into()))?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        if text.trim().is_empty() {
            return Err(skip("is empty".into()));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Paths that are read, and paths with the reason why not.
    fn sorted(folder: &Path) -> (Vec<String>, Vec<(String, String)>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for found in find(folder, None) {
            match found {
                Found::Document(candidate) => match candidate.read() {
                    Ok(_) => good.push(candidate.path),
                    Err(skipped) => bad.push((skipped.path, skipped.why)),
                },
                Found::Skipped(skipped) => bad.push((skipped.path, skipped.why)),
            }
        }
        (good, bad)
    }

    #[test]
    fn documents_are_found_and_everything_else_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        };
        put("a.md", b"# A");
        put("deep/er/b.TXT", "\u{feff}grüße".as_bytes());
        put("name with spaces & ünïcode.markdown", b"text");
        put("README", b"read me");
        put("nul.md", b"a\0b");
        put("latin1.txt", &[b'g', 0xfc]);
        put("empty.md", b" \n");
        put("large.txt", &vec![b'x'; DOCUMENT_BYTES + 1]);
        put("full.txt", &vec![b'x'; DOCUMENT_BYTES]);
        put("picture.png", &[0x89, b'P']);
        put(".hidden.md", b"no");
        put(".git/x.md", b"no");
        put("node_modules/x.md", b"no");
        put("deep/target/x.md", b"no");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("deep/loop")).unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"odd\xff.md")), b"x").unwrap();

        let (good, bad) = sorted(dir.path());
        assert_eq!(
            good,
            ["README", "a.md", "deep/er/b.TXT", "full.txt", "name with spaces & ünïcode.markdown"]
        );
        let why = |path: &str| {
            bad.iter()
                .find(|(p, _)| p == path)
                .map(|(_, why)| why.as_str())
                .unwrap_or_else(|| panic!("{path}: {bad:?}"))
        };
        assert!(why("nul.md").contains("binary"));
        assert!(why("latin1.txt").contains("not UTF-8"));
        assert!(why("empty.md").contains("empty"));
        assert!(why("large.txt").contains("larger than 1048576"));
        assert!(why("picture.png").contains("neither"));
        assert!(why("deep/loop").contains("symbolic link"));
        assert!(why("odd\u{fffd}.md").contains("name"));
        assert_eq!(bad.len(), 7, "hidden and generated files are passed over: {bad:?}");
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.md"), "\u{feff}# A").unwrap();
        let Some(Found::Document(candidate)) = find(dir.path(), None).next() else { panic!("not found") };
        assert_eq!(candidate.read().unwrap(), "# A");
    }
}

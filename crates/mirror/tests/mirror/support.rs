//! A small search, folders of it, and a disk that fails.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tree_agent_contract::search::Expansion;
use tree_agent_mirror::*;
use tree_agent_testkit::folders;

pub(crate) const HOLDER: &str = "process 1 on host test";

pub(crate) fn open(dir: &Path) -> Root {
    Root::open(dir, HOLDER).expect("the folder can be used")
}

pub(crate) fn read(dir: &Path) -> Folder {
    open(dir).read().expect("the folder can be read")
}

pub(crate) fn child(slug: &str) -> ListedChild {
    ListedChild { title: format!("About {slug}"), slug: slug.to_owned() }
}

pub(crate) fn file(slug: &str, status: Expansion) -> NodeFile {
    let session_id = (status != Expansion::Unexpanded).then(|| format!("session-of-{slug}"));
    NodeFile { title: format!("About {slug}"), slug: slug.to_owned(), session_id, status }
}

/// A step of a search.
pub(crate) enum Step {
    Root(Vec<ListedChild>),
    Node(&'static str, NodeFile, Option<&'static str>, Option<Vec<ListedChild>>),
}

/// A search of five nodes: `a` with a leaf and an open child, the leaf `b`, and `c`, whose research fails.
pub(crate) fn steps() -> Vec<Step> {
    use Expansion::{Expanded, InProgress, Leaf, Unexpanded};
    let node = |path: &'static str, status| {
        let slug = path.rsplit('/').next().expect("a slug");
        Step::Node(path, file(slug, status), None, None)
    };
    let a = vec![child("x"), child("y")];
    vec![
        Step::Root(vec![child("a"), child("b"), child("c")]),
        node("a", Unexpanded),
        node("b", Unexpanded),
        node("c", Unexpanded),
        node("a", InProgress),
        node("b", InProgress),
        Step::Node("a", file("a", Expanded), Some("# A\n"), Some(a)),
        node("a/x", Unexpanded),
        node("a/y", Unexpanded),
        node("c", InProgress),
        Step::Node("b", file("b", Leaf), Some("# B\n"), Some(Vec::new())),
        node("c", Unexpanded),
        node("a/x", InProgress),
        Step::Node("a/x", file("x", Leaf), Some("# X\n"), Some(Vec::new())),
    ]
}

/// Writes `steps` in order, up to the first failure.
pub(crate) fn write<'a>(
    mirror: &mut Mirror,
    steps: impl IntoIterator<Item = &'a Step>,
) -> Result<(), MirrorError> {
    for step in steps {
        match step {
            Step::Root(children) => mirror.record_root(children, None)?,
            Step::Node(path, file, document, children) => {
                let record =
                    Record { file: file.clone(), document: *document, children: children.as_deref() };
                mirror.record(path, &record)?;
            }
        }
    }
    Ok(())
}

/// What a folder should hold after the first `n` steps.
pub(crate) fn wanted(n: usize) -> Wanted {
    let mut wanted = Wanted::default();
    for step in steps().into_iter().take(n) {
        match step {
            Step::Root(children) => wanted.children = Some(children),
            Step::Node(path, file, document, children) => {
                let document = document.map(Digest::of);
                let node = WantedNode { path: path.to_owned(), file, document, children };
                match wanted.nodes.iter_mut().find(|n| n.path == path) {
                    Some(before) => *before = node,
                    None => wanted.nodes.push(node),
                }
            }
        }
    }
    wanted
}

/// Writes all of `dir` that `n` steps lead to, as a process does that continues from the log.
pub(crate) fn complete(dir: &Path, n: usize) -> Result<(), MirrorError> {
    let root = open(dir);
    let folder = root.read()?;
    let mut mirror = Mirror::new(root, &folder, Box::new(FastDisk))?;
    let wanted = wanted(n);
    if let Some(children) = &wanted.children {
        mirror.record_root(children, None)?;
    }
    let documents = steps().into_iter().take(n).filter_map(|step| match step {
        Step::Node(path, _, Some(document), _) => Some((path.to_owned(), document)),
        _ => None,
    });
    let documents: std::collections::HashMap<String, &str> = documents.collect();
    for node in &wanted.nodes {
        let document = documents.get(&node.path).copied();
        let record = Record { file: node.file.clone(), document, children: node.children.as_deref() };
        mirror.record(&node.path, &record)?;
    }
    Ok(())
}

/// Every file below `dir` but the lock, with its content.
pub(crate) fn files(dir: &Path) -> Vec<(String, String)> {
    folders::files(dir, |path| path == STATE_DIR)
}

/// How a step of the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The process dies: the step is done by half, and nothing happens afterwards.
    CrashBefore,
    /// The same, after the step was done.
    CrashAfter,
    /// The step fails with this error, and so does every later one that needs room.
    Error(io::ErrorKind),
}

/// A disk that fails at one step.
pub(crate) struct FailingDisk {
    pub(crate) fails_at: usize,
    pub(crate) failure: Failure,
    /// Steps so far.
    pub(crate) steps: Arc<Mutex<usize>>,
}

impl FailingDisk {
    fn step(
        &mut self,
        needs_room: bool,
        half: impl FnOnce(),
        whole: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut steps = self.steps.lock().expect("one thread");
        *steps += 1;
        let dead = || io::Error::other("the process is dead");
        match self.failure {
            _ if *steps < self.fails_at => whole(),
            Failure::CrashBefore if *steps == self.fails_at => {
                half();
                Err(dead())
            }
            Failure::CrashAfter if *steps == self.fails_at => {
                whole()?;
                Err(dead())
            }
            Failure::CrashBefore | Failure::CrashAfter => Err(dead()),
            Failure::Error(kind) if needs_room => {
                half();
                Err(io::Error::from(kind))
            }
            Failure::Error(_) => whole(),
        }
    }
}

impl Disk for FailingDisk {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.step(true, || {}, || FastDisk.create_dir(path))
    }

    fn write_new(&mut self, path: &Path, content: &[u8], lasting: bool) -> io::Result<()> {
        let half = || std::fs::write(path, &content[..content.len() / 2]).expect("half a file");
        self.step(true, half, || FastDisk.write_new(path, content, lasting))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(false, || {}, || FastDisk.rename(from, to))
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.step(false, || {}, || FastDisk.remove_file(path))
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.step(false, || {}, || FastDisk.sync_dir(path))
    }
}

/// A disk that waits for nothing, so that tests do not either.
pub(crate) struct FastDisk;

impl Disk for FastDisk {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.create_dir(path)
    }

    fn write_new(&mut self, path: &Path, content: &[u8], _lasting: bool) -> io::Result<()> {
        assert!(std::fs::symlink_metadata(path).is_err(), "{} exists", path.display());
        std::fs::write(path, content)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.rename(from, to)
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_file(path)
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        assert!(path.is_dir());
        Ok(())
    }
}

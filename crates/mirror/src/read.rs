//! Reads a folder and everything below it.
//!
//! Every file is read before anything is decided, so all problems are told together. Symbolic links are refused: they
//! lead out of the folder, or round in a circle.

use std::collections::{HashSet, VecDeque};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use tree_agent_contract::limits;
use tree_agent_contract::search::Expansion;

use crate::error::{MirrorError, Problem, Problems};
use crate::layout::{
    CHILDREN_JSON, DOCUMENT_MD, Digest, ListedChild, NODE_JSON, NodeFile, OVERVIEW_MD, document_name, folder,
    join, temporary,
};

/// What a folder holds.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    /// The children of the root, as indices of `nodes`; none without a `children.json`.
    pub children: Option<Vec<usize>>,
    /// Of the overview of the root, which only runs have that end with a synthesis.
    pub document: Option<Digest>,
    /// Every node, parents before their children, siblings in the order of `children.json`.
    pub nodes: Vec<FolderNode>,
    /// What was left alone, and why.
    pub notices: Vec<Problem>,
    /// Files that were being written when a process died.
    pub(crate) leftovers: Vec<PathBuf>,
    /// Nodes whose `node.json` is there and holds nothing.
    pub(crate) emptied: HashSet<String>,
}

/// A node as its folder shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderNode {
    /// The slugs from the root to it, with slashes between them.
    pub path: String,
    /// The name of its folder.
    pub slug: String,
    /// 1 for children of the root.
    pub depth: u32,
    /// Its title in the `children.json` of its parent.
    pub listed_title: String,
    /// Its `node.json`.
    pub file: Option<NodeFile>,
    /// Of its `document.md`.
    pub document: Option<Digest>,
    /// Its children, as indices of [`Folder::nodes`]; none without a `children.json`.
    pub children: Option<Vec<usize>>,
}

impl FolderNode {
    /// True if its research is finished: both of its files are there.
    pub const fn is_complete(&self) -> bool {
        self.document.is_some() && self.children.is_some()
    }

    /// What its files show, whatever `node.json` says.
    pub fn state(&self) -> Expansion {
        match &self.children {
            Some(children) if self.document.is_some() => {
                if children.is_empty() {
                    Expansion::Leaf
                } else {
                    Expansion::Expanded
                }
            }
            _ => Expansion::Unexpanded,
        }
    }

    /// Its title. It stands in two files; the one that differs from the `known` title was edited. If both or neither
    /// were, `node.json` counts.
    pub fn title(&self, known: Option<&str>) -> &str {
        match &self.file {
            Some(file) if known != Some(file.title.as_str()) => &file.title,
            _ => &self.listed_title,
        }
    }
}

impl Folder {
    /// The document of `node`.
    ///
    /// # Errors
    /// If it cannot be read, or has changed since the folder was read.
    pub fn document(&self, node: &FolderNode) -> Result<Option<String>, MirrorError> {
        let Some(digest) = node.document else { return Ok(None) };
        let relative = PathBuf::from(&node.path).join(DOCUMENT_MD);
        let problem = match content(&self.dir, &relative) {
            Ok(Some(text)) if Digest::of(&text) == digest => return Ok(Some(text)),
            Ok(_) => Problem::new(relative, "was changed while it was read; run the command again"),
            Err(problem) => problem,
        };
        Err(MirrorError::Malformed { dir: self.dir.clone(), problems: Problems(vec![problem]) })
    }

    /// True if no search has written a first level into it.
    pub const fn is_empty(&self) -> bool {
        self.children.is_none()
    }

    /// The entries of a `children.json`.
    pub(crate) fn entries(&self, children: &[usize]) -> Vec<ListedChild> {
        let nodes = children.iter().map(|&index| &self.nodes[index]);
        nodes.map(|node| ListedChild { title: node.listed_title.clone(), slug: node.slug.clone() }).collect()
    }
}

/// The title of the node whose document is the file `document`: that of the `node.json` beside it, if there is one.
pub fn title_beside(document: &Path) -> Option<String> {
    if document.file_name()? != DOCUMENT_MD {
        return None;
    }
    let text = content(document.parent()?, Path::new(NODE_JSON)).ok()??;
    Some(serde_json::from_str::<NodeFile>(&text).ok()?.title)
}

/// Reads the folder `dir`.
pub(crate) fn read(dir: &Path) -> Result<Folder, MirrorError> {
    let folder = Folder {
        dir: dir.to_owned(),
        children: None,
        document: None,
        nodes: Vec::new(),
        notices: Vec::new(),
        leftovers: Vec::new(),
        emptied: HashSet::new(),
    };
    let mut reader = Reader { folder, problems: Vec::new(), due: VecDeque::new() };
    reader.folder.document = reader.document("");
    reader.folder.children = reader.list("", 0);
    while let Some(index) = reader.due.pop_front() {
        reader.node(index);
    }
    match reader.problems {
        problems if problems.is_empty() => Ok(reader.folder),
        problems => Err(MirrorError::Malformed { dir: dir.to_owned(), problems: Problems(problems) }),
    }
}

struct Reader {
    folder: Folder,
    problems: Vec<Problem>,
    /// Nodes whose folders are still to be read.
    due: VecDeque<usize>,
}

impl Reader {
    fn node(&mut self, index: usize) {
        let (path, slug, depth) = {
            let node = &self.folder.nodes[index];
            (node.path.clone(), node.slug.clone(), node.depth)
        };
        let dir = folder(&self.folder.dir, &path);
        match metadata(&dir) {
            Ok(None) => return,
            Ok(Some(meta)) if meta.is_dir() => {}
            Ok(Some(meta)) => return self.problem(Problem::new(&path, wrong_kind(&meta, "a folder"))),
            Err(e) => return self.problem(Problem::new(&path, format!("cannot be read: {e}"))),
        }
        if let Some(file) = self.node_file(&path) {
            if file.slug == slug {
                self.folder.nodes[index].file = Some(file);
            } else {
                let message = format!(
                    "names the slug {:?}, but its folder is {slug:?}; give both, and the entry in {CHILDREN_JSON} \
                     above, the same name",
                    file.slug
                );
                self.problem(Problem::new(join(&path, NODE_JSON), message));
            }
        }
        self.folder.nodes[index].document = self.document(&path);
        self.folder.nodes[index].children = self.list(&path, depth);
    }

    /// Reads the document of the node at `path`.
    fn document(&mut self, path: &str) -> Option<Digest> {
        let relative = join(path, document_name(path));
        let text = self.content(&relative)?;
        if text.len() > limits::DOCUMENT_BYTES {
            let (bytes, most) = (text.len(), limits::DOCUMENT_BYTES);
            self.problem(Problem::new(relative, format!("is {bytes} bytes long; at most {most} are read")));
            return None;
        }
        if text.trim().is_empty() {
            self.folder.notices.push(Problem::new(relative, "is empty, so its topic is not finished"));
            return None;
        }
        Some(Digest::of(&text))
    }

    /// Reads the `children.json` of the node at `path` and adds its entries.
    fn list(&mut self, path: &str, depth: u32) -> Option<Vec<usize>> {
        let relative = join(path, CHILDREN_JSON);
        let text = self.content(&relative);
        let read = text.map(|text| serde_json::from_str::<Vec<ListedChild>>(&text));
        let entries =
            read.and_then(|read| read.map_err(|error| self.problem(placed(&relative, &error))).ok());
        self.look_around(path, entries.as_deref().unwrap_or_default());
        let entries = entries?;
        let mut slugs = HashSet::new();
        if let Some(twice) = entries.iter().find(|entry| !slugs.insert(&entry.slug)) {
            let message = format!("the slug {:?} is listed twice", twice.slug);
            self.problem(Problem::new(relative, message));
            return None;
        }
        Some(entries.into_iter().map(|entry| self.add(path, depth + 1, entry)).collect())
    }

    fn add(&mut self, parent: &str, depth: u32, entry: ListedChild) -> usize {
        let index = self.folder.nodes.len();
        self.folder.nodes.push(FolderNode {
            path: join(parent, &entry.slug),
            slug: entry.slug,
            depth,
            listed_title: entry.title,
            file: None,
            document: None,
            children: None,
        });
        self.due.push_back(index);
        index
    }

    /// Notes folders that are not listed, and files that were being written.
    fn look_around(&mut self, path: &str, list: &[ListedChild]) {
        let listed: HashSet<&str> = list.iter().map(|entry| entry.slug.as_str()).collect();
        let dir = folder(&self.folder.dir, path);
        let names = std::fs::read_dir(&dir).and_then(|entries| {
            entries.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned())).collect()
        });
        let mut names: Vec<String> = match names {
            Ok(names) => names,
            Err(error) => return self.problem(Problem::new(path, format!("cannot be listed: {error}"))),
        };
        names.sort_unstable();
        for name in names {
            if [NODE_JSON, CHILDREN_JSON, DOCUMENT_MD, OVERVIEW_MD].iter().any(|file| temporary(file) == name)
            {
                self.folder.leftovers.push(dir.join(name));
            } else if !name.starts_with('.') && !listed.contains(name.as_str()) && dir.join(&name).is_dir() {
                let message = format!("is not listed in the {CHILDREN_JSON} beside it and is left alone");
                self.folder.notices.push(Problem::new(join(path, &name), message));
            }
        }
    }

    /// Reads the `node.json` of the node at `path`.
    fn node_file(&mut self, path: &str) -> Option<NodeFile> {
        let relative = join(path, NODE_JSON);
        let text = self.content(&relative)?;
        if text.is_empty() {
            let message = "is empty, as after a power failure; it counts as missing";
            self.folder.emptied.insert(path.to_owned());
            self.folder.notices.push(Problem::new(relative, message));
            return None;
        }
        serde_json::from_str(&text).map_err(|error| self.problem(placed(&relative, &error))).ok()
    }

    /// The text of the file `relative`; none if it is missing or cannot be read.
    fn content(&mut self, relative: &str) -> Option<String> {
        content(&self.folder.dir, Path::new(relative)).unwrap_or_else(|problem| {
            self.problem(problem);
            None
        })
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

/// The problem that `error` is, with its place.
fn placed(file: &str, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    Problem {
        file: file.into(),
        place: Some((error.line(), error.column())),
        message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
    }
}

/// The text of the file `relative` in `dir`, if there is one.
fn content(dir: &Path, relative: &Path) -> Result<Option<String>, Problem> {
    let path = dir.join(relative);
    let unreadable = |e: io::Error| Problem::new(relative, format!("cannot be read: {e}"));
    let Some(meta) = metadata(&path).map_err(unreadable)? else { return Ok(None) };
    if !meta.is_file() {
        return Err(Problem::new(relative, wrong_kind(&meta, "a file")));
    }
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    let place = |before: &[u8]| {
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Some((line, 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count()))
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = place(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        Problem { place, ..Problem::new(relative, "is not UTF-8 text") }
    })?;
    // What a power failure leaves of a file whose content was not yet on the disk.
    if text.bytes().all(|byte| byte == 0) {
        return Ok(Some(String::new()));
    }
    if let Some(at) = text.find('\0') {
        let place = place(&text.as_bytes()[..at]);
        return Err(Problem { place, ..Problem::new(relative, "has a NUL character") });
    }
    // Some editors begin a file with a byte order mark, which JSON does not know.
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// What is at `path` itself, not at the end of a link.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn wrong_kind(meta: &Metadata, right: &str) -> String {
    if meta.is_symlink() {
        format!("is a symbolic link, which is not followed; put {right} there")
    } else {
        format!("is not {right}")
    }
}

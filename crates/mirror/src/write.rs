//! Writes a folder, file by file, each whole or not at all.
//!
//! The order matters. A node's document comes first, its children second, its `node.json` last: whatever a crash cuts
//! off, a node that says that it is finished is finished.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use tree_agent_contract::search::Expansion;

use crate::disk::Disk;
use crate::error::MirrorError;
use crate::layout::{
    CHILDREN_JSON, Digest, ListedChild, NODE_JSON, NodeFile, STATE_DIR, document_name, folder, json,
    temporary,
};
use crate::read::Folder;
use crate::root::Root;

/// What is known of a node, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The content of `node.json`.
    pub file: NodeFile,
    /// The content of its document, if there is one.
    pub document: Option<&'a str>,
    /// The content of `children.json`, if there is one.
    pub children: Option<&'a [ListedChild]>,
}

/// Keeps a folder up to date. It knows what the folder holds, so it writes only what changes and reads nothing back.
pub struct Mirror {
    root: Root,
    disk: Box<dyn Disk>,
    /// By the path of the node; the root's is empty.
    written: HashMap<String, Written>,
}

/// What is on the disk of one node.
#[derive(Clone, Copy, Default)]
struct Written {
    file: Option<Digest>,
    document: Option<Digest>,
    children: Option<Digest>,
}

impl Mirror {
    /// Writes to `root`, which holds `folder`. Removes what a crash left of unfinished files.
    ///
    /// # Errors
    /// If these cannot be removed.
    pub fn new(root: Root, folder: &Folder, mut disk: Box<dyn Disk>) -> Result<Self, MirrorError> {
        for path in &folder.leftovers {
            disk.remove_file(path).map_err(MirrorError::io("remove", path))?;
        }
        let digest_of = |children: &Option<Vec<usize>>| {
            children.as_ref().map(|children| Digest::of(&json(&folder.entries(children))))
        };
        let mut written = HashMap::with_capacity(folder.nodes.len() + 1);
        let of_root = Written {
            document: folder.document,
            children: digest_of(&folder.children),
            ..Written::default()
        };
        written.insert(String::new(), of_root);
        for node in &folder.nodes {
            // A node without any file may still have its folder; `make_folder` finds out.
            let is_bare = node.file.is_none() && node.document.is_none() && node.children.is_none();
            if is_bare && !folder.emptied.contains(&node.path) {
                continue;
            }
            let file = node.file.as_ref().map(|file| Digest::of(&json(file)));
            let of_node = Written { file, document: node.document, children: digest_of(&node.children) };
            written.insert(node.path.clone(), of_node);
        }
        Ok(Self { root, disk, written })
    }

    /// The folder.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The folder, still locked, for another mirror.
    pub fn into_root(self) -> Root {
        self.root
    }

    /// True if the document with this `digest` of the node at `path` is on the disk.
    pub fn has_document(&self, path: &str, digest: Digest) -> bool {
        self.written.get(path).is_some_and(|w| w.document == Some(digest))
    }

    /// Writes the first level, and the document of a root that has one.
    ///
    /// # Errors
    /// If it cannot be written; what was there before is then still there.
    pub fn record_root(
        &mut self,
        children: &[ListedChild],
        document: Option<&str>,
    ) -> Result<(), MirrorError> {
        let dir = self.root.dir().to_owned();
        let has_written = self.write_document("", &dir, document)?;
        if self.write_children("", &dir, children)? || has_written {
            self.sync(&dir)?;
        }
        Ok(())
    }

    /// Writes the node at `path`, whose parent has been written: what is not yet on the disk, or differs from it.
    ///
    /// # Errors
    /// If a file cannot be written; what was there before is then still there. Nothing is written where something
    /// stands that is not of this search.
    pub fn record(&mut self, path: &str, record: &Record<'_>) -> Result<(), MirrorError> {
        let dir = folder(self.root.dir(), path);
        self.make_folder(path, &dir)?;
        let mut is_work = self.write_document(path, &dir, record.document)?;
        if let Some(children) = record.children {
            is_work |= self.write_children(path, &dir, children)?;
        }
        // A research costs a few waits for the disk, not one more for each topic that it lists: without this file, and
        // with an empty one, a node is what its other files and its parent say. Nor does one wait that names a new
        // search only.
        let is_finished = matches!(record.file.status, Expansion::Expanded | Expansion::Leaf);
        let file = json(&record.file);
        let digest = Digest::of(&file);
        if self.entry(path).file != Some(digest) {
            self.write(&dir, NODE_JSON, &file, is_finished && is_work)?;
            self.entry(path).file = Some(digest);
        }
        // The log can bring back a lost status; only finished work is worth the wait.
        if is_work {
            self.sync(&dir)?;
        }
        Ok(())
    }

    fn write_document(
        &mut self,
        path: &str,
        dir: &Path,
        document: Option<&str>,
    ) -> Result<bool, MirrorError> {
        let Some(document) = document else { return Ok(false) };
        let digest = Digest::of(document);
        if self.entry(path).document == Some(digest) {
            return Ok(false);
        }
        self.write(dir, document_name(path), document, true)?;
        self.entry(path).document = Some(digest);
        Ok(true)
    }

    fn write_children(
        &mut self,
        path: &str,
        dir: &Path,
        children: &[ListedChild],
    ) -> Result<bool, MirrorError> {
        let text = json(&children);
        let digest = Digest::of(&text);
        if self.entry(path).children == Some(digest) {
            return Ok(false);
        }
        self.write(dir, CHILDREN_JSON, &text, true)?;
        self.entry(path).children = Some(digest);
        Ok(true)
    }

    fn entry(&mut self, path: &str) -> &mut Written {
        self.written.entry(path.to_owned()).or_default()
    }

    /// Makes the folder of a node that has none yet. A folder that stands there already is used only if it is empty.
    fn make_folder(&mut self, path: &str, dir: &Path) -> Result<(), MirrorError> {
        if self.written.contains_key(path) {
            return Ok(());
        }
        match self.disk.create_dir(dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let is_dir = std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
                let is_empty =
                    is_dir && std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
                if !is_empty {
                    return Err(MirrorError::InTheWay(dir.to_owned()));
                }
            }
            Err(e) => return Err(MirrorError::io("make the folder", dir)(e)),
        }
        self.written.insert(path.to_owned(), Written::default());
        Ok(())
    }

    /// Writes the file `name` in `dir`: under another name first, so that it is never seen in part.
    fn write(&mut self, dir: &Path, name: &str, content: &str, lasting: bool) -> Result<(), MirrorError> {
        let (path, temporary) = (dir.join(name), dir.join(temporary(name)));
        let new = self.disk.write_new(&temporary, content.as_bytes(), lasting);
        new.and_then(|()| self.disk.rename(&temporary, &path)).map_err(|error| {
            // If this fails too, the next process removes it.
            let _ = self.disk.remove_file(&temporary);
            MirrorError::io("write", path)(error)
        })
    }

    fn sync(&mut self, dir: &Path) -> Result<(), MirrorError> {
        self.disk.sync_dir(dir).map_err(MirrorError::io("sync the folder", dir))
    }
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("root", &self.root).field("nodes", &self.written.len()).finish()
    }
}

// The folder of the log is no folder of a node: no slug begins with a full stop.
const _: () = assert!(STATE_DIR.as_bytes()[0] == b'.');

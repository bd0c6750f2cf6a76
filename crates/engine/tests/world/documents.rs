//! The documents of a world, as a store would keep them.

use std::collections::BTreeMap;

use tree_agent_contract::{Document, DocumentId, DocumentKind, DocumentOp};

/// The documents of a run.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    kept: BTreeMap<DocumentId, Document>,
    parents: BTreeMap<DocumentId, DocumentId>,
}

impl Documents {
    /// Writes what a decision writes. It must be possible: documents are created once, and before anything else is said
    /// about them.
    pub(crate) fn write(&mut self, ops: Vec<DocumentOp>) {
        for op in ops {
            match op {
                DocumentOp::Create(document) => {
                    assert_eq!(document.props.tree_agent_run_id, document.run_id);
                    let title = document.title.clone();
                    assert!(self.kept.insert(document.id, document).is_none(), "{title:?} is created again");
                }
                DocumentOp::Append { id, text, .. } => self.known(id).body.push_str(&text),
                DocumentOp::Replace { id, text, .. } => self.known(id).body = text,
                DocumentOp::Link { parent, child, .. } => {
                    self.known(parent);
                    self.known(child);
                    assert!(self.parents.insert(child, parent).is_none(), "{child:?} has two parents");
                }
            }
        }
    }

    fn known(&mut self, id: DocumentId) -> &mut Document {
        self.kept.get_mut(&id).unwrap_or_else(|| panic!("{id:?} was never created"))
    }

    /// The text of a document; empty if there is none.
    pub(crate) fn text(&self, id: DocumentId) -> &str {
        self.kept.get(&id).map_or("", |document| document.body.as_str())
    }

    /// Every document, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Document> {
        self.kept.values()
    }

    /// The document above another one.
    pub(crate) fn parent(&self, id: DocumentId) -> Option<&Document> {
        self.kept.get(self.parents.get(&id)?)
    }

    /// Every document is below the one workspace. Those of homework say so.
    pub(crate) fn check(&self) {
        let is_workspace = |document: &&Document| {
            matches!(document.kind, DocumentKind::Workspace | DocumentKind::HomeworkWorkspace)
        };
        let workspaces: Vec<_> = self.iter().filter(is_workspace).collect();
        let [workspace] = workspaces[..] else { panic!("{} workspaces", workspaces.len()) };
        for document in self.iter() {
            let (mut id, mut levels) = (document.id, 0);
            while let Some(above) = self.parent(id) {
                (id, levels) = (above.id, levels + 1);
                assert!(levels <= self.kept.len(), "{:?} is above itself", document.title);
            }
            assert_eq!(id, workspace.id, "{:?} is not below the workspace", document.title);
            if workspace.kind == DocumentKind::HomeworkWorkspace {
                let props = &document.props;
                assert_eq!(props.homework_run_id, document.run_id, "{:?}", document.title);
                let is_branch = props.branch_id.is_some() && props.iteration.is_some();
                let owner = if is_branch { "executor" } else { "planner" };
                assert_eq!(props.owner.as_deref(), Some(owner), "{:?}", document.title);
            }
        }
    }
}

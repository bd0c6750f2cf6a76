//! A search as a folder.
//!
//! ```text
//! DIR/
//!   children.json          [{title, slug}, …]: the first level
//!   overview.md            the overview with which the search ends, if it has one
//!   topic-a/
//!     node.json            {title, slug, sessionId, status}
//!     document.md          what the research of this node wrote
//!     children.json        [{title, slug}, …]; [] for a leaf
//!     subtopic-1/
//!       …
//!   .tree-agent/           the lock and the log
//! ```
//!
//! [`Root`] locks a folder, [`Root::read`] reads it into a [`Folder`], and [`Mirror`] writes it node by node. A
//! folder may have been edited by hand: everything wrong is a [`Problem`] with file, line and column, and nothing is
//! written before all of it has been read. The log stays the truth: whatever a crash left
//! out of a folder can be written again from the log ([`Mirror::record`]), and [`edits`] tells a folder that is
//! merely behind from one that somebody changed.

mod adopt;
mod compare;
mod disk;
mod error;
mod export;
mod growth;
mod layout;
mod read;
mod root;
mod write;

pub use adopt::{Adoption, adopted, adoption};
pub use compare::{Wanted, WantedNode, edits};
pub use disk::{Disk, LocalDisk};
pub use error::{MirrorError, Problem, Problems};
pub use export::ExportedNode;
pub use growth::{Change, Export, Growth};
pub use layout::{
    CHILDREN_JSON, DOCUMENT_MD, Digest, ListedChild, NODE_JSON, NodeFile, OVERVIEW_MD, STATE_DIR, join,
};
pub use read::{Folder, FolderNode, title_beside};
pub use root::Root;
pub use write::{Mirror, Record};

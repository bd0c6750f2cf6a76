//! What a search tells of its progress, in one table.

use crate::text::fill_places;

/// A step of a search, as users are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name in catalogues of texts.
    pub id: &'static str,
    /// Its text. What stands in braces is filled in turn.
    pub text: &'static str,
}

macro_rules! messages {
    ($($name:ident $id:literal $text:literal)*) => {
        impl Message {
            $(#[doc = $text] pub const $name: Self = Self { id: $id, text: $text };)*
        }
    };
}

messages! {
    ROOT_EXPANDING "tree_search_root_expanding" "Generating root children..."
    ROOT_WALK "tree_search_root_walk" "Walking root level: {title} ({current}/{total})"
    PICKING_LEAF "tree_search_picking_leaf" "Picking next leaf to research..."
    EXPANDING_NODE "tree_search_expanding_node" "Researching: {title} (depth {depth})"
    NODE_SKIPPED "tree_search_node_skipped" "Skipped (cached): {title}"
    DEPTH_LIMIT "tree_search_depth_limit" "Depth limit reached: {title}"
    COMPLETE "tree_search_complete" "Tree search complete: {expanded} expanded, {leaves} leaves, {skipped} skipped"
}

impl Message {
    /// Its text with `values`, each in turn.
    pub fn with(self, values: &[&str]) -> String {
        fill_places(self.text, values)
    }
}

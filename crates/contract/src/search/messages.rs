//! What a search tells of its progress, in one table.

use serde::{Deserialize, Serialize};

use crate::status::named_enum;

named_enum! {
    /// A step of a search that users are told, by its name in catalogues of texts.
    Message {
        /// The first level is being listed.
        RootExpanding = "tree_search_root_expanding",
        /// A topic of the first level is under research.
        RootWalk = "tree_search_root_walk",
        /// The next topic is being chosen.
        PickingLeaf = "tree_search_picking_leaf",
        /// A topic below the first level is under research.
        ExpandingNode = "tree_search_expanding_node",
        /// A topic was complete before the run.
        NodeSkipped = "tree_search_node_skipped",
        /// A topic is listed and not researched.
        DepthLimit = "tree_search_depth_limit",
        /// The search has ended.
        Complete = "tree_search_complete",
    }
}

impl Message {
    /// Its text. A name in braces stands for a value.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RootExpanding => "Generating root children...",
            Self::RootWalk => "Walking root level: {title} ({current}/{total})",
            Self::PickingLeaf => "Picking next leaf to research...",
            Self::ExpandingNode => "Researching: {title} (depth {depth})",
            Self::NodeSkipped => "Skipped (cached): {title}",
            Self::DepthLimit => "Depth limit reached: {title}",
            Self::Complete => "Tree search complete: {expanded} expanded, {leaves} leaves, {skipped} skipped",
        }
    }

    /// Its text with `values`. What a value contains is not replaced again.
    pub fn with(self, values: &[(&str, &str)]) -> String {
        let mut said = String::new();
        for piece in self.text().split('{') {
            let (value, rest) = match piece.split_once('}') {
                Some((name, rest)) => {
                    (values.iter().find(|(known, _)| *known == name).map_or("", |v| v.1), rest)
                }
                None => ("", piece),
            };
            said.push_str(value);
            said.push_str(rest);
        }
        said
    }
}

//! Nodes of the library's tree of an HTML page.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

/// The name of an element.
pub(super) fn tag(node: &Rc<Node>) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(name.local.as_ref()),
        _ => None,
    }
}

/// The element around `node`.
pub(super) fn parent(node: &Rc<Node>) -> Option<Rc<Node>> {
    let parent = node.parent.take();
    node.parent.set(parent.clone());
    parent?.upgrade()
}

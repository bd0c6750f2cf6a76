//! Nodes of the library's tree of an HTML page.

use std::cell::RefCell;
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

/// Puts a space before and behind every element of these names. The library joins what such elements divide.
pub(super) fn divide(page: &Rc<Node>, names: &[&str]) {
    let mut open = vec![page.clone()];
    while let Some(node) = open.pop() {
        let space = || {
            let space = Node::new(NodeData::Text { contents: RefCell::new(" ".into()) });
            space.parent.set(Some(Rc::downgrade(&node)));
            space
        };
        for child in node.children.take() {
            let is_named = tag(&child).is_some_and(|tag| names.contains(&tag));
            open.push(child.clone());
            let mut children = node.children.borrow_mut();
            if is_named {
                children.extend([space(), child, space()]);
            } else {
                children.push(child);
            }
        }
    }
}

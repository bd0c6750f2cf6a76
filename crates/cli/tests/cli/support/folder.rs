//! What is in the folder of a search.

use std::path::Path;

use serde_json::Value;
use tree_agent_testkit::folders;

/// The text of a file.
pub(crate) fn read(dir: &Path, path: &str) -> String {
    std::fs::read_to_string(dir.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Writes a file.
pub(crate) fn put(dir: &Path, path: &str, text: &str) {
    let file = dir.join(path);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
    std::fs::write(file, text).expect("it can be written");
}

/// Every file with its content, without the log.
pub(crate) fn files(dir: &Path) -> Vec<(String, String)> {
    folders::files(dir, |path| path.ends_with(".tree-agent"))
}

/// The same without the names of conversations, which differ between searches.
pub(crate) fn tree(dir: &Path) -> Vec<(String, String)> {
    let without_session = |(path, text): (String, String)| {
        if !path.ends_with("node.json") {
            return (path, text);
        }
        let mut node: Value = serde_json::from_str(&text).expect("JSON");
        node.as_object_mut().expect("an object").remove("sessionId");
        (path, node.to_string())
    };
    files(dir).into_iter().map(without_session).collect()
}

/// The number of nodes, and those that say that they are finished although they are not.
pub(crate) fn complete(dir: &Path) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let nodes: Vec<_> = files(dir).into_iter().filter(|(path, _)| path.ends_with("node.json")).collect();
    for (path, text) in &nodes {
        if text.is_empty() {
            continue;
        }
        let node: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{path}: {e}: {text:?}"));
        let folder = dir.join(path).parent().expect("a folder").to_owned();
        let is_complete = folder.join("document.md").exists() && folder.join("children.json").exists();
        if matches!(node["status"].as_str(), Some("expanded" | "leaf")) && !is_complete {
            wrong.push(path.clone());
        }
    }
    (nodes.len(), wrong)
}

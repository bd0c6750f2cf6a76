//! The files of the layout and their content.

use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use tree_agent_contract::limits;
use tree_agent_contract::search::{Expansion, slug};

/// The title, slug, session and status of a node.
pub const NODE_JSON: &str = "node.json";
/// The children of a node, or of the root.
pub const CHILDREN_JSON: &str = "children.json";
/// The document of a node.
pub const DOCUMENT_MD: &str = "document.md";
/// The document of the root: the overview with which a search ends.
pub const OVERVIEW_MD: &str = "overview.md";
/// The folder of the lock and the log.
pub const STATE_DIR: &str = ".tree-agent";

/// An entry of `children.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedChild {
    /// What the child is about.
    #[serde(deserialize_with = "title_text")]
    pub title: String,
    /// The name of its folder.
    #[serde(deserialize_with = "slug_text")]
    pub slug: String,
}

/// The content of `node.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFile {
    /// What the node is about.
    #[serde(deserialize_with = "title_text")]
    pub title: String,
    /// The name of its folder.
    #[serde(deserialize_with = "slug_text")]
    pub slug: String,
    /// The conversation of its research.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// How far it is.
    pub status: Expansion,
}

fn slug_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let slug = String::deserialize(deserializer)?;
    slug::check(&slug).map_err(D::Error::custom)?;
    Ok(slug)
}

fn title_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let title = String::deserialize(deserializer)?;
    if title.trim().is_empty() {
        return Err(D::Error::custom("the title is empty"));
    }
    if title.len() > limits::TITLE_BYTES {
        let most = limits::TITLE_BYTES;
        let message = format!("the title is {} bytes long; at most {most} are allowed", title.len());
        return Err(D::Error::custom(message));
    }
    if let Some(c) = title.chars().find(|c| c.is_control()) {
        let message = format!("the title has the control character U+{:04X}", u32::from(c));
        return Err(D::Error::custom(message));
    }
    Ok(title)
}

/// The SHA-256 of a file's content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of `content`.
    pub fn of(content: &str) -> Self {
        Self(Sha256::digest(content.as_bytes()).into())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The slug path of the child `slug` of the node at `path`; the root's path is empty.
pub fn join(path: &str, slug: &str) -> String {
    if path.is_empty() { slug.to_owned() } else { format!("{path}/{slug}") }
}

/// The name of the document of the node at the slug path `path`.
pub(crate) const fn document_name(path: &str) -> &'static str {
    if path.is_empty() { OVERVIEW_MD } else { DOCUMENT_MD }
}

/// The folder of the node at the slug path `path`.
pub(crate) fn folder(root: &Path, path: &str) -> PathBuf {
    let mut dir = root.to_owned();
    dir.extend(path.split('/').filter(|slug| !slug.is_empty()));
    dir
}

/// The name under which the file `name` is written before it is renamed.
pub(crate) fn temporary(name: &str) -> String {
    format!(".{name}.tmp")
}

/// JSON as people read it, with a line break at its end.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("strings and lists of them can be written");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_as_the_layout_says() {
        let node = NodeFile {
            title: "Authentication System".into(),
            slug: "authentication-system".into(),
            session_id: Some("sess_abc123".into()),
            status: Expansion::Expanded,
        };
        let text = "{\n  \"title\": \"Authentication System\",\n  \"slug\": \"authentication-system\",\n  \
                    \"sessionId\": \"sess_abc123\",\n  \"status\": \"expanded\"\n}\n";
        assert_eq!(json(&node), text);
        assert_eq!(serde_json::from_str::<NodeFile>(text).unwrap(), node);
        let entry = ListedChild { title: "OAuth2 Flow".into(), slug: "oauth2-flow".into() };
        assert_eq!(
            json(&[entry]),
            "[\n  {\n    \"title\": \"OAuth2 Flow\",\n    \"slug\": \"oauth2-flow\"\n  }\n]\n"
        );
        assert_eq!(json(&[(); 0]), "[]\n");
    }
}

//! What a project says about the runs that look at it.

use serde::{Deserialize, Serialize};

use crate::error::Checks;
use crate::limits;
use crate::status::named_enum;

named_enum! {
    /// Whether a project takes new runs.
    #[derive(Default)]
    ProjectStatus {
        /// It does.
        #[default]
        Active = "active",
        /// It is kept, and may be read. It takes no new runs and no new documents.
        Archived = "archived",
    }
}

named_enum! {
    /// What a member may do with a project. Each may do what those before it may.
    MemberRole {
        /// Read it, and let runs read it.
        Reader = "reader",
        /// Write and delete its documents, and let runs write them.
        Editor = "editor",
        /// Change and delete it, and say who its members are.
        Owner = "owner",
    }
}

/// The built-in tool that writes into a project.
pub const CREATE_DOCUMENT: &str = "create_document";
/// The names of the built-in tools. Tools of MCP servers have `__` in their names.
pub const BUILTIN_TOOLS: [&str; 6] =
    ["list_documents", "search_documents", "read_document", CREATE_DOCUMENT, "write_note", "list_projects"];

/// What tools may do in a project. The default allows every tool, and keeps what people imported as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolRules {
    /// Only these tools, by name; all if empty.
    pub allowed_tools: Vec<String>,
    /// Not these tools, whatever is allowed.
    pub denied_tools: Vec<String>,
    /// No tool that writes.
    pub read_only: bool,
    /// A tool may replace a document that people imported.
    pub replace_imported: bool,
}

impl ToolRules {
    /// True if the project offers the tool `name`, which writes or only reads.
    pub fn offer(&self, name: &str, writes: bool) -> bool {
        let is = |named: &String| named == name;
        (self.allowed_tools.is_empty() || self.allowed_tools.iter().any(is))
            && !self.denied_tools.iter().any(is)
            && !(self.read_only && writes)
    }

    /// Adds an error for each name that no tool can have. `field` names the rules.
    pub fn check(&self, checks: &mut Checks, field: &str) {
        check_names(checks, &format!("{field}.allowed_tools"), &self.allowed_tools);
        check_names(checks, &format!("{field}.denied_tools"), &self.denied_tools);
    }
}

fn check_names(checks: &mut Checks, field: &str, names: &[String]) {
    checks.require(names.len() <= limits::TOOL_NAMES, field, || {
        format!("has {} names; at most {} are allowed", names.len(), limits::TOOL_NAMES)
    });
    for (i, name) in names.iter().take(limits::TOOL_NAMES).enumerate() {
        checks.require(is_tool(name), format!("{field}[{i}]"), || {
            format!("{name:?} is no tool; expected SERVER__TOOL or one of {}", BUILTIN_TOOLS.join(", "))
        });
        checks.require(!names[..i].contains(name), format!("{field}[{i}]"), || {
            format!("{name:?} is named twice")
        });
    }
}

/// A misspelt name of a built-in tool would deny nothing. Which tools MCP servers have, only executors know.
fn is_tool(name: &str) -> bool {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    BUILTIN_TOOLS.contains(&name) || (fits && name.contains("__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_allow_deny_and_forbid_writing() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let rules = ToolRules::default();
        assert!(rules.offer("create_document", true) && rules.offer("files__read", false));
        let rules = ToolRules { allowed_tools: names(&["read_document", "files__read"]), ..rules };
        assert!(rules.offer("files__read", true) && !rules.offer("list_documents", false));
        let rules = ToolRules { denied_tools: names(&["files__read"]), ..rules };
        assert!(rules.offer("read_document", false) && !rules.offer("files__read", false));
        let rules = ToolRules { read_only: true, ..ToolRules::default() };
        assert!(rules.offer("read_document", false) && !rules.offer("create_document", true));
    }

    #[test]
    fn a_name_that_no_tool_has_is_refused() {
        let wrong = |name: &str| {
            let rules = ToolRules { denied_tools: vec![name.to_owned()], ..ToolRules::default() };
            let mut checks = Checks::default();
            rules.check(&mut checks, "tools");
            checks.finish().is_err()
        };
        for good in ["create_document", "files__read", "a-1__B_2"] {
            assert!(!wrong(good), "{good}");
        }
        for bad in ["", "create_documents", "files__re ad", "a__ä", &format!("a__{}", "b".repeat(62))] {
            assert!(wrong(bad), "{bad}");
        }
    }

    #[test]
    fn rules_that_were_stored_before_a_field_was_there_are_read() {
        assert_eq!(serde_json::from_str::<ToolRules>("{}").unwrap(), ToolRules::default());
    }
}

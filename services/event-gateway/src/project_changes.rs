//! What an update of a project asks for.

use prost_types::FieldMask;
use tree_agent_contract::error::{Checks, Invalid};
use tree_agent_contract::text::nfc;
use tree_agent_contract::{FieldError, ProjectStatus, Timestamp, ToolRules, limits};
use tree_agent_proto::v1 as pb;
use tree_agent_store::{ProjectChange, RulesChange, storable};

use crate::fields::{from_wire, taken};

/// The fields of a project that can change.
const FIELDS: [&str; 7] = [
    "name",
    "description",
    "status",
    "tools.allowed_tools",
    "tools.denied_tools",
    "tools.read_only",
    "tools.replace_imported",
];

/// The change to `project` that `mask` asks for. Without a mask, what is set in `project` changes.
pub(crate) fn change(
    project: pb::Project,
    mask: Option<FieldMask>,
    at: Timestamp,
) -> Result<ProjectChange, Invalid> {
    let mut checks = Checks::default();
    let fields = fields(&project, mask, &mut checks);
    let has = |field: &str| fields.contains(&field);
    let mut change = ProjectChange { at, ..ProjectChange::default() };
    if has("name") {
        let name = nfc(project.name.trim());
        checks.name("project.name", &name, limits::TITLE_BYTES);
        change.name = Some(name);
    }
    if has("description") {
        checks.at_most("project.description", &project.description, limits::TEXT_BYTES);
        change.description = Some(storable(&project.description).into_owned());
    }
    if has("status") {
        change.status = taken(&mut checks, from_wire::<ProjectStatus>("project.status", project.status));
    }
    if fields.iter().any(|field| field.starts_with("tools.")) {
        let rules: Option<ToolRules> =
            taken(&mut checks, from_wire("project.tools", project.tools.unwrap_or_default()));
        let ToolRules { allowed_tools, denied_tools, read_only, replace_imported } =
            rules.unwrap_or_default();
        let rules = RulesChange {
            allowed_tools: has("tools.allowed_tools").then_some(allowed_tools),
            denied_tools: has("tools.denied_tools").then_some(denied_tools),
            read_only: has("tools.read_only").then_some(read_only),
            replace_imported: has("tools.replace_imported").then_some(replace_imported),
        };
        // What does not change is not checked.
        let changed = ToolRules {
            allowed_tools: rules.allowed_tools.clone().unwrap_or_default(),
            denied_tools: rules.denied_tools.clone().unwrap_or_default(),
            ..ToolRules::default()
        };
        changed.check(&mut checks, "project.tools");
        change.tools = rules;
    }
    checks.finish()?;
    Ok(change)
}

/// The fields that change, of [`FIELDS`].
fn fields(project: &pb::Project, mask: Option<FieldMask>, checks: &mut Checks) -> Vec<&'static str> {
    let Some(mask) = mask.filter(|mask| !mask.paths.is_empty()) else {
        let is_set = |field: &&str| match *field {
            "name" => !project.name.is_empty(),
            "description" => !project.description.is_empty(),
            "status" => project.status != pb::ProjectStatus::Unspecified as i32,
            _ => project.tools.is_some(),
        };
        return FIELDS.into_iter().filter(is_set).collect();
    };
    let mut fields = Vec::new();
    for path in &mask.paths {
        let meant = FIELDS
            .into_iter()
            .filter(|field| path == "*" || path == field || (path == "tools" && field.starts_with("tools.")));
        let before = fields.len();
        fields.extend(meant);
        if fields.len() == before {
            let text = format!("{path:?} cannot be changed; use *, tools or one of {}", FIELDS.join(", "));
            checks.push(FieldError::new("update_mask", text));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> pb::Project {
        pb::Project {
            name: "New name".into(),
            tools: Some(pb::ToolRules { denied_tools: vec!["create_document".into()], ..Default::default() }),
            ..Default::default()
        }
    }

    fn masked(paths: &[&str]) -> Result<ProjectChange, Invalid> {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        change(project(), Some(FieldMask { paths }), Timestamp(1))
    }

    #[test]
    fn a_mask_names_what_changes() {
        let only_rules = masked(&["tools.denied_tools"]).unwrap();
        assert!(only_rules.name.is_none() && only_rules.tools.read_only.is_none());
        assert_eq!(only_rules.tools.denied_tools.unwrap(), ["create_document"]);
        let all_rules = masked(&["tools"]).unwrap().tools;
        assert_eq!((all_rules.read_only, all_rules.allowed_tools), (Some(false), Some(vec![])));
        // An absent description is cleared, if the mask says so.
        assert_eq!(masked(&["description"]).unwrap().description.as_deref(), Some(""));
    }

    #[test]
    fn without_a_mask_what_is_set_changes() {
        let implied = change(project(), None, Timestamp(1)).unwrap();
        assert_eq!(implied.name.as_deref(), Some("New name"));
        assert!(implied.description.is_none() && implied.status.is_none());
        assert_eq!(implied.tools.read_only, Some(false));
    }

    #[test]
    fn what_cannot_change_is_named() {
        let text = |result: Result<ProjectChange, Invalid>| result.unwrap_err().to_string();
        assert!(text(masked(&["document_count"])).contains("document_count"));
        assert!(text(masked(&["status"])).contains("project.status"));
        let named_twice = text(masked(&["*"]));
        assert!(named_twice.contains("project.status"), "{named_twice}");
    }
}

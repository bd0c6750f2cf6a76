//! What a run may look at.

use serde::{Deserialize, Serialize};

use crate::error::{Checks, Invalid};
use crate::ids::ProjectId;
use crate::limits;
use crate::status::named_enum;

named_enum! {
    /// What a run's tools can reach. Users call it "context", tables call it "scope".
    Scope {
        /// Every project.
        Global = "global",
        /// One project.
        Project = "project",
        /// Several named projects.
        MultiProject = "multi_project",
    }
}

/// The context of a run. It is fixed when the run is created; another context needs another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    /// How far the tools reach.
    pub scope: Scope,
    /// The projects, empty for [`Scope::Global`], one for [`Scope::Project`].
    #[serde(default)]
    pub project_ids: Vec<ProjectId>,
}

impl Default for RunContext {
    fn default() -> Self {
        Self { scope: Scope::Global, project_ids: Vec::new() }
    }
}

impl RunContext {
    /// The context of one project.
    pub fn project(id: ProjectId) -> Self {
        Self { scope: Scope::Project, project_ids: vec![id] }
    }

    /// True if documents of `project` may be read.
    pub fn allows(&self, project: ProjectId) -> bool {
        self.scope == Scope::Global || self.project_ids.contains(&project)
    }

    /// Checks that scope and projects fit together.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        let n = self.project_ids.len();
        match self.scope {
            Scope::Global => checks.require(n == 0, "context.project_ids", || {
                "must be empty for scope global; use scope project or multi_project".into()
            }),
            Scope::Project => checks.require(n == 1, "context.project_ids", || {
                format!("must name exactly one project for scope project, not {n}")
            }),
            Scope::MultiProject => {
                checks.range("context.project_ids", n as u64, 1..=limits::CONTEXT_PROJECTS as u64);
            }
        }
        let mut seen = self.project_ids.clone();
        seen.sort();
        seen.dedup();
        checks.require(seen.len() == n, "context.project_ids", || "names a project twice".into());
        checks.finish()
    }
}

//! The specification of a run, and its row in lists.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::budget::Budgets;
use crate::context::RunContext;
use crate::error::{Checks, Invalid};
use crate::graph::Usage;
use crate::ids::{NodeId, ProjectId, RunId};
use crate::review::ReviewRule;
use crate::search::SearchConfig;
use crate::status::{RunStatus, named_enum};
use crate::time::Timestamp;
use crate::{label, limits};

named_enum! {
    /// How a run grows its tree.
    #[derive(Default)]
    Strategy {
        /// Recursive: execute or plan, bands, aggregate, replan within budget.
        #[default]
        Tree = "tree",
        /// Iterative: plan document, executor branches, roll-ups.
        Homework = "homework",
        /// Guided search: a picker chooses the next leaf.
        Search = "search",
    }
}

/// What a user asks for. Fixed for the life of the run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// The objective, in the user's words.
    pub objective: String,
    /// How the tree grows.
    pub strategy: Strategy,
    /// What the run may look at.
    pub context: RunContext,
    /// What the run may spend.
    pub budgets: Budgets,
    /// The model the roles use: `offline`, or `scripted:…` (see the model crate). Empty: the services' default.
    #[serde(default)]
    pub model: String,
    /// Who asked.
    #[serde(default)]
    pub user_id: String,
    /// Who asked was an administrator, so the run reads and writes whatever its context names, whoever the members are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_administrator: bool,
    /// What people call the run; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Labels by which the run can be found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How its guided searches work; none for the defaults.
    pub search: Option<Box<SearchConfig>>,
    /// No tool that writes is offered. The run writes its own documents only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The answer is verified before the run completes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// The language of the answer, by its code in ISO 639-1 ([`LANGUAGES`](crate::language::LANGUAGES)); empty if
    /// nobody knows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub language: String,
    /// Once it has a plan, it waits for a person.
    pub review: Option<ReviewRule>,
    /// What models are sent, and what they think and answer, is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_prompts: bool,
    /// The run that it is a copy of, perhaps with another context.
    pub copy_of: Option<RunId>,
}

impl RunSpec {
    /// A spec with every default for `objective`.
    pub fn new(objective: impl Into<String>) -> Self {
        Self { objective: objective.into(), ..Self::default() }
    }

    /// How its guided searches work.
    pub fn search(&self) -> Cow<'_, SearchConfig> {
        self.search.as_deref().map_or_else(|| Cow::Owned(SearchConfig::default()), Cow::Borrowed)
    }

    /// The same without texts of users that only the first event of the run carries.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        let search = self.search.as_ref().map(|search| Box::new(search.without_texts()));
        Self { search, ..self.clone() }
    }

    /// Checks everything that can be checked without a store.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.text("objective", &self.objective, limits::OBJECTIVE_BYTES);
        checks.at_most("model", &self.model, limits::LABEL_BYTES);
        crate::language::check(&self.language, &mut checks);
        checks.at_most("user_id", &self.user_id, limits::LABEL_BYTES);
        if !self.display_name.is_empty() {
            checks.name("display_name", &self.display_name, limits::DISPLAY_NAME_BYTES);
        }
        if self.strategy == Strategy::Homework {
            checks.range("budgets.max_depth", self.budgets.max_depth.into(), 1..=64);
        }
        self.review.iter().for_each(|review| review.check(&mut checks));
        label::check_all(&mut checks, &self.labels);
        let search = self.search.as_ref().map_or(Ok(()), |search| search.validate());
        for part in [self.context.validate(), self.budgets.validate(), search] {
            if let Err(Invalid(errors)) = part {
                errors.into_iter().for_each(|e| checks.push(e));
            }
        }
        checks.finish()
    }

    /// True if the user may read such a run, who may read projects as `reads` says: their own runs, and those all of
    /// whose projects they may read. A run that names no project is its user's alone.
    pub fn is_readable_by(&self, user_id: &str, reads: impl Fn(ProjectId) -> bool) -> bool {
        let projects = &self.context.project_ids;
        self.user_id == user_id || (!projects.is_empty() && projects.iter().all(|project| reads(*project)))
    }

    /// The title of the root node: the first line of the objective, cut to a readable length.
    pub fn title(&self) -> String {
        let line = self.objective.trim().lines().next().unwrap_or_default().trim();
        match line.char_indices().nth(120) {
            Some((at, _)) => format!("{}…", line[..at].trim_end()),
            None => line.to_owned(),
        }
    }
}

/// A row of the list of runs.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// What was asked for.
    pub spec: RunSpec,
    /// Its status.
    pub status: RunStatus,
    /// True if it ended as partial: work was lost to a failure, a limit or a budget.
    pub partial: bool,
    /// The root of its tree.
    pub root_node_id: NodeId,
    /// The last event of its log.
    pub head_seq: u64,
    /// Nodes created so far.
    pub node_count: u64,
    /// Those of them that have ended: completed, failed or cancelled. 0 if the run was last written by version 0.2.0.
    #[serde(default)]
    pub ended_nodes: u64,
    /// Sums over all its role calls; those of a fork are the calls since it forked.
    #[serde(default)]
    pub usage: Usage,
    /// The models that answered in it, the one that answered last at the end: that of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Why it failed, or ended as partial.
    pub error: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last event was written.
    pub updated_at: Timestamp,
    /// When a driver first took it up.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What it forks, if it is a fork.
    pub fork: Option<Box<ForkOf>>,
}

/// What a fork continues, and how it differs. The user of its specification is the one who forked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkOf {
    /// The run that wrote the last event which they share.
    pub parent_run_id: RunId,
    /// That event.
    pub parent_seq: u64,
    /// What it does differently, in words.
    pub edits: Vec<String>,
}

//! Runs, budgets, context and the result envelope.

use tree_agent_contract::error::FieldError;
use tree_agent_contract::event::RunCreated;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::search::SearchPrompts;
use tree_agent_contract::*;

use crate::v1 as pb;
use crate::wire::{Wire, missing, wire_enum, wire_message, within};

wire_enum! {
    Scope => pb::Scope { Global, Project, MultiProject; Global }
    PickerPolicy => pb::PickerPolicy { Llm, BreadthFirst, BestFirst; Llm }
    RunStatus => pb::RunStatus { Queued, Running, Paused, Completed, Failed, Cancelled }
    NodeStatus => pb::NodeStatus { Planning, Delegating, Executing, Waiting, Aggregating, Completed, Failed, Blocked, Cancelled }
    Role => pb::Role { Planner, Executor }
    StepStatus => pb::StepStatus { Pending, Running, Completed, Failed, Cancelled }
    Outcome => pb::Outcome { Success, Partial }
    Profile => pb::ModelProfile { Fast, Balanced, Powerful }
    ResultKind => pb::ResultKind { Json, Document, Hybrid }
    ArtifactType => pb::ArtifactType { Document, Json, Summary, Other }
    HintType => pb::HintType { ReadDocuments, ReadJson }
    Strategy => pb::Strategy { Tree, Homework, Search }
    CallKind => pb::CallKind { Plan, Execute, Aggregate, Research, Pick, Verify }
    ProjectStatus => pb::ProjectStatus { Active, Archived }
    MemberRole => pb::MemberRole { Reader, Editor, Owner }
    DocumentKind => pb::DocumentKind {
        Source, Scratchpad, Artifact, Workspace, HomeworkWorkspace, HomeworkScratchpad, HomeworkBranch, HomeworkPlan,
        HomeworkSummary, ToolAnswer, Prompt,
    }
}

wire_message! {
    CallCost => CallCost { tokens, cost_micros }
    RoleCosts => RoleCosts { plan [required], execute [required], aggregate [required], research }
    Estimate => Estimate {
        nodes, depth, plan_calls, execute_calls, aggregate_calls, attempts, tokens, cost_micros, tool_calls,
        wall_clock_ms, ends_within_ms, unlimited, research_calls, pick_calls, verify_calls,
    }
    ReviewRule => ReviewRule { goes_on_after_ms, per_call }
    Premises => Premises { assumptions, left_out }
    Review => Review { premises [required], estimate [required], goes_on_at }
    ToolRules => ToolRules { allowed_tools, denied_tools, read_only, replace_imported }
    RunContext => RunContext { scope, project_ids }
    StepSearch => StepSearch { max_depth, max_nodes }
    SearchPrompts => SearchPrompts { root, document, children, picker }
    SuccessAssessment => SuccessAssessment { met, notes }
    TreeAgentResult => TreeAgentResult {
        kind, summary, success_assessment, primary_artifact_id, artifact_ids, document_ids, json_payload,
        scratchpad_doc_id, scratchpad_tail, key_findings, gaps,
    }
}

macro_rules! budgets {
    ($($f:ident),* ; $($o:ident),*) => {
        impl Wire for Budgets {
            type Pb = pb::Budgets;

            fn to_wire(&self) -> pb::Budgets {
                pb::Budgets { $($f: Some(self.$f),)* $($o: self.$o,)* }
            }

            /// Absent fields take the defaults of a tree; ranges are checked by [`Budgets::validate`].
            fn from_wire(pb: pb::Budgets) -> Result<Self, FieldError> {
                Ok(budgets_of(Strategy::Tree, pb))
            }
        }

        /// What a run with this strategy asks for. Absent fields take its defaults.
        pub fn budgets_of(strategy: Strategy, pb: pb::Budgets) -> Budgets {
            let default = Budgets::of(strategy);
            let children = pb.max_children_per_node;
            let budgets = Budgets { $($f: pb.$f.unwrap_or(default.$f),)* $($o: pb.$o,)* };
            Budgets { max_children_per_node: children.unwrap_or(budgets.steps_of_all_plans()), ..budgets }
        }
    };
}
budgets!(
    max_depth, max_bands_per_plan, max_steps_per_band, max_children_per_node, max_replans_per_node,
    max_iterations, max_parallel_steps, max_nodes, max_wall_clock_ms, max_attempts, call_timeout_ms;
    max_tokens, max_cost_micros, max_tool_calls
);

impl Wire for SearchConfig {
    type Pb = pb::SearchConfig;

    fn to_wire(&self) -> pb::SearchConfig {
        pb::SearchConfig {
            concurrency: Some(self.concurrency),
            max_depth: Some(self.max_depth),
            picker: self.picker.to_wire(),
            prompts: Some(self.prompts.to_wire()),
            frontmatter_schema: self.frontmatter_schema.to_wire(),
            synthesis: Some(self.synthesis),
        }
    }

    /// Absent fields take their defaults; ranges are checked by [`SearchConfig::validate`].
    fn from_wire(pb: pb::SearchConfig) -> Result<Self, FieldError> {
        let default = SearchConfig::default();
        let schema = Wire::from_wire(pb.frontmatter_schema);
        Ok(Self {
            concurrency: pb.concurrency.unwrap_or(default.concurrency),
            max_depth: pb.max_depth.unwrap_or(default.max_depth),
            picker: Wire::from_wire(pb.picker).map_err(|e| within("picker", e))?,
            prompts: Wire::from_wire(pb.prompts.unwrap_or_default()).map_err(|e| within("prompts", e))?,
            frontmatter_schema: schema.map_err(|e| within("frontmatter_schema", e))?,
            synthesis: pb.synthesis.unwrap_or(default.synthesis),
        })
    }
}

/// The message of a run or of its first event: the fields of the specification, which have the same names in both, and
/// those that only this message has.
macro_rules! with_spec {
    ($spec:expr, $pb:ident { $($own:tt)* }) => {{
        let spec: &RunSpec = $spec;
        pb::$pb {
            objective: spec.objective.clone(),
            strategy: spec.strategy.to_wire(),
            context: Some(spec.context.to_wire()),
            budgets: Some(spec.budgets.to_wire()),
            model: spec.model.clone(),
            user_id: spec.user_id.clone(),
            by_administrator: spec.by_administrator,
            display_name: spec.display_name.clone(),
            labels: spec.labels.clone(),
            search: spec.search.to_wire(),
            read_only: spec.read_only,
            verify: spec.verify,
            language: spec.language.clone(),
            review: spec.review.to_wire(),
            keep_prompts: spec.keep_prompts,
            copy_of: spec.copy_of.to_wire(),
            $($own)*
        }
    }};
}

/// The specification that such a message carries.
macro_rules! spec_of {
    ($pb:ident) => {
        RunSpec {
            objective: Wire::from_wire($pb.objective)?,
            strategy: Wire::from_wire($pb.strategy).map_err(|e| within("strategy", e))?,
            context: Wire::from_wire($pb.context.unwrap_or_default()).map_err(|e| within("context", e))?,
            budgets: Wire::from_wire($pb.budgets.unwrap_or_default()).map_err(|e| within("budgets", e))?,
            model: Wire::from_wire($pb.model)?,
            user_id: Wire::from_wire($pb.user_id)?,
            by_administrator: $pb.by_administrator,
            display_name: Wire::from_wire($pb.display_name)?,
            labels: $pb.labels,
            search: Wire::from_wire($pb.search).map_err(|e| within("search", e))?,
            read_only: $pb.read_only,
            verify: $pb.verify,
            language: Wire::from_wire($pb.language)?,
            review: Wire::from_wire($pb.review).map_err(|e| within("review", e))?,
            keep_prompts: $pb.keep_prompts,
            copy_of: Wire::from_wire($pb.copy_of).map_err(|e| within("copy_of", e))?,
        }
    };
}

/// The request for exactly this run, with every default filled in. It has no request id.
pub fn request_of(spec: &RunSpec) -> pb::CreateRunRequest {
    pb::CreateRunRequest {
        objective: spec.objective.clone(),
        strategy: spec.strategy.to_wire(),
        context: Some(spec.context.to_wire()),
        budgets: Some(spec.budgets.to_wire()),
        model: spec.model.clone(),
        request_id: String::new(),
        display_name: spec.display_name.clone(),
        labels: spec.labels.clone(),
        search: spec.search.to_wire(),
        read_only: Some(spec.read_only),
        copy_of: spec.copy_of.to_wire().unwrap_or_default(),
        verify: Some(spec.verify),
        language: spec.language.clone(),
        review: spec.review.to_wire(),
        keep_prompts: Some(spec.keep_prompts),
        write: Some(!spec.read_only),
    }
}

impl Wire for RunCreated {
    type Pb = pb::RunCreated;

    fn to_wire(&self) -> pb::RunCreated {
        with_spec!(
            &self.spec,
            RunCreated {
                root_node_id: self.root_node_id.to_wire(),
                schema_version: self.schema_version,
                behaviour_version: self.behaviour_version,
            }
        )
    }

    fn from_wire(pb: pb::RunCreated) -> Result<Self, FieldError> {
        Ok(Self {
            root_node_id: Wire::from_wire(pb.root_node_id).map_err(|e| within("root_node_id", e))?,
            schema_version: pb.schema_version,
            behaviour_version: pb.behaviour_version,
            spec: spec_of!(pb),
        })
    }
}

impl Wire for RunSummary {
    type Pb = pb::Run;

    /// Without texts that only the first event carries.
    fn to_wire(&self) -> pb::Run {
        with_spec!(
            &self.spec.without_texts(),
            Run {
                run_id: self.run_id.to_wire(),
                status: self.status.to_wire(),
                partial: self.partial,
                root_node_id: self.root_node_id.to_wire(),
                head_seq: self.head_seq,
                node_count: self.node_count,
                ended_node_count: self.ended_nodes,
                usage: Some(self.usage.to_wire()),
                error: self.error.clone(),
                created_at: Some(self.created_at.to_wire()),
                updated_at: Some(self.updated_at.to_wire()),
                started_at: self.started_at.to_wire(),
                ended_at: self.ended_at.to_wire(),
                parent_run_id: self.fork.as_ref().map(|fork| fork.parent_run_id.to_wire()),
                parent_seq: self.fork.as_ref().map_or(0, |fork| fork.parent_seq),
                fork_edits: self.fork.as_ref().map(|fork| fork.edits.clone()).unwrap_or_default(),
                models: self.models.clone(),
            }
        )
    }

    fn from_wire(pb: pb::Run) -> Result<Self, FieldError> {
        let time = |name: &str, t: Option<prost_types::Timestamp>| {
            t.ok_or_else(missing).and_then(Wire::from_wire).map_err(|e| within(name, e))
        };
        Ok(Self {
            run_id: Wire::from_wire(pb.run_id).map_err(|e| within("run_id", e))?,
            spec: spec_of!(pb),
            status: Wire::from_wire(pb.status).map_err(|e| within("status", e))?,
            partial: pb.partial,
            root_node_id: Wire::from_wire(pb.root_node_id).map_err(|e| within("root_node_id", e))?,
            head_seq: pb.head_seq,
            node_count: pb.node_count,
            ended_nodes: pb.ended_node_count,
            usage: Wire::from_wire(pb.usage.unwrap_or_default()).map_err(|e| within("usage", e))?,
            models: pb.models,
            error: pb.error,
            created_at: time("created_at", pb.created_at)?,
            updated_at: time("updated_at", pb.updated_at)?,
            started_at: Wire::from_wire(pb.started_at).map_err(|e| within("started_at", e))?,
            ended_at: Wire::from_wire(pb.ended_at).map_err(|e| within("ended_at", e))?,
            fork: match pb.parent_run_id {
                Some(parent) => Some(Box::new(ForkOf {
                    parent_run_id: Wire::from_wire(parent).map_err(|e| within("parent_run_id", e))?,
                    parent_seq: pb.parent_seq,
                    edits: pb.fork_edits,
                })),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_follow_from_the_other_limits_unless_they_are_set() {
        let asked = pb::Budgets { max_steps_per_band: Some(10), ..Default::default() };
        assert_eq!(Budgets::from_wire(asked).unwrap().max_children_per_node, 3 * 10 * 2);
        assert_eq!(Budgets::from_wire(pb::Budgets::default()).unwrap(), Budgets::default());
        let of_search = budgets_of(Strategy::Search, pb::Budgets::default());
        assert_eq!((of_search.max_wall_clock_ms, of_search.max_nodes), (6 * 3_600_000, 1_000));
        let asked = pb::Budgets { max_children_per_node: Some(5), ..asked };
        assert_eq!(Budgets::from_wire(asked).unwrap().max_children_per_node, 5);
        let most = pb::Budgets {
            max_bands_per_plan: Some(64),
            max_steps_per_band: Some(256),
            max_replans_per_node: Some(16),
            ..Default::default()
        };
        Budgets::from_wire(most).unwrap().validate().unwrap();
    }

    #[test]
    fn a_search_takes_its_defaults_and_lists_carry_no_texts() {
        assert_eq!(SearchConfig::from_wire(pb::SearchConfig::default()).unwrap(), SearchConfig::default());
        let prompts =
            SearchPrompts { root: Some("r".into()), picker: Some("p".into()), ..SearchPrompts::default() };
        let schema = serde_json::json!({"type": "object", "required": ["title"]}).as_object().cloned();
        let search = SearchConfig {
            concurrency: 2,
            max_depth: 3,
            picker: PickerPolicy::BreadthFirst,
            prompts,
            frontmatter_schema: schema,
            synthesis: false,
        };
        assert_eq!(SearchConfig::from_wire(search.to_wire()).unwrap(), search);
        let error =
            SearchConfig::from_wire(pb::SearchConfig { picker: 9, ..Default::default() }).unwrap_err();
        assert!(
            error.to_string().starts_with("picker: 9 is not a value of the enum PickerPolicy"),
            "{error}"
        );
        let run: RunId = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".parse().unwrap();
        let spec = RunSpec { search: Some(Box::new(search.clone())), ..RunSpec::new("o") };
        let at = Timestamp(0);
        let listed = RunSummary {
            run_id: run,
            spec,
            status: RunStatus::Queued,
            partial: false,
            root_node_id: NodeId::root(run),
            head_seq: 0,
            node_count: 0,
            ended_nodes: 0,
            usage: Default::default(),
            models: vec!["openai:m".into()],
            error: None,
            created_at: at,
            updated_at: at,
            started_at: None,
            ended_at: None,
            fork: Some(Box::new(ForkOf { parent_run_id: run, parent_seq: 7, edits: vec!["e".into()] })),
        };
        let read = RunSummary::from_wire(listed.to_wire()).unwrap();
        assert_eq!(read.spec.search.as_deref(), Some(&search.without_texts()));
        assert_eq!((read.fork, read.models), (listed.fork, listed.models));
    }
}

//! A plan as YAML that a person edits.
//!
//! ```yaml
//! seq: 57
//! summary: Three offers, compared
//! bands:
//!   - goal: Read the offers
//!     parallel: true
//!     steps:
//!       # completed: leave it as it is
//!       - id: "0-0"
//!         title: Costs
//!   - goal: ""
//!     steps:
//!       - title: A step without an id is new
//! ```

use std::fmt::Write;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use tree_agent_contract::graph::{GraphNode, GraphPlan, GraphStep};
use tree_agent_contract::search::StepSearch;
use tree_agent_contract::{Profile, ResultKind, StepStatus, Strategy, SubtreeBudget};
use tree_agent_frontmatter::yaml;
use tree_agent_proto::{Wire, v1 as pb};

use crate::commands::budget::micros;
use crate::value::duration;
use crate::view::printable::one_line;

/// A plan that was read.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    /// The event after which the plan looked like the one that was edited.
    pub(super) seq: Option<u64>,
    summary: String,
    bands: Vec<Band>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Band {
    #[serde(default)]
    goal: String,
    #[serde(default = "parallel")]
    parallel: bool,
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(default)]
    id: String,
    title: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    done_when: Vec<String>,
    strategy: Option<Strategy>,
    search: Option<Search>,
    branch: Option<String>,
    budget: Option<Limits>,
    /// What it should return: document, json or hybrid.
    deliverable: Option<ResultKind>,
    /// The ability that its model needs: fast, balanced or powerful.
    profile: Option<Profile>,
}

/// What a step and everything below it may use.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    max_tokens: Option<u64>,
    /// US dollars, as a number or a text.
    max_cost: Option<String>,
    max_tool_calls: Option<u64>,
    /// Such as 10m.
    max_time: Option<String>,
}

/// The limits of a step that is a search.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    max_depth: Option<u32>,
    max_nodes: Option<u32>,
}

const fn parallel() -> bool {
    true
}

/// Reads a plan. An error says what is wrong, and where.
pub(super) fn parse(text: &str) -> Result<Form, String> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|at| format!(" in line {}, column {}", at.line(), at.column()));
        let error = one_line(&error.without_snippet().to_string());
        format!("the plan cannot be read{}: {error}", place.unwrap_or_default())
    })
}

impl Limits {
    fn into_wire(self) -> Result<pb::SubtreeBudget, String> {
        let named = |name: &str, why| format!("{name} {why}");
        let max_cost = self.max_cost.as_deref().map(micros).transpose();
        let max_time = self.max_time.as_deref().map(duration).transpose();
        let max_time = max_time.map_err(|why| named("max_time:", why))?;
        Ok(pb::SubtreeBudget {
            max_tokens: self.max_tokens,
            max_cost_micros: max_cost.map_err(|why| named("max_cost", why))?,
            max_tool_calls: self.max_tool_calls,
            max_wall_clock_ms: max_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}

impl Form {
    /// The plan as a request has it. An error names the step with a limit that cannot be read.
    pub(super) fn into_wire(self) -> Result<pb::PlanEdit, String> {
        let bands = self.bands.into_iter().map(Band::into_wire).collect::<Result<_, _>>()?;
        Ok(pb::PlanEdit { summary: self.summary, bands })
    }
}

impl Band {
    fn into_wire(self) -> Result<pb::BandEdit, String> {
        let steps = self.steps.into_iter().map(Step::into_wire).collect::<Result<_, _>>()?;
        Ok(pb::BandEdit { goal: self.goal, parallelizable: self.parallel, steps })
    }
}

impl Step {
    fn into_wire(self) -> Result<pb::StepEdit, String> {
        let default = StepSearch::default();
        let search = |search: Search| StepSearch {
            max_depth: search.max_depth.unwrap_or(default.max_depth),
            max_nodes: search.max_nodes.unwrap_or(default.max_nodes),
        };
        let budget = self.budget.map(Limits::into_wire).transpose();
        let budget = budget.map_err(|why| format!("the budget of step {:?}: {why}", self.title))?;
        Ok(pb::StepEdit {
            step_id: self.id,
            title: self.title,
            reason: self.reason,
            success_criteria: self.done_when,
            strategy: self.strategy.map(|strategy| strategy.to_wire()),
            search: self.search.map(|limits| search(limits).to_wire()),
            branch_id: self.branch,
            budget,
            deliverable: self.deliverable.map(|kind| kind.to_wire()),
            profile: self.profile.map(|profile| profile.to_wire()),
        })
    }
}

/// The plan of `node` as it was after event `seq`.
pub(super) fn write(node: &GraphNode, plan: &GraphPlan, seq: u64) -> String {
    let mut out = format!(
        "# The plan of node {}: {}\n\
         # Add, change, move or remove steps that have not begun. A step without an id is new.\n\
         # An edit is refused if the plan has changed after this event:\n\
         seq: {seq}\n\
         summary: {}\n\
         bands:\n",
        node.id,
        one_line(&node.title),
        quoted(&plan.summary),
    );
    for band in &plan.bands {
        let _ = writeln!(
            out,
            "  - goal: {}\n    parallel: {}\n    steps:",
            quoted(&band.goal),
            band.parallelizable
        );
        for step in &band.steps {
            write_step(&mut out, step);
        }
    }
    out
}

fn write_step(out: &mut String, step: &GraphStep) {
    if step.status != StepStatus::Pending {
        let _ = writeln!(out, "      # {}: leave it as it is", step.status);
    }
    let _ = writeln!(out, "      - id: {}", quoted(step.step_id.as_str()));
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "        {key}: {value}");
    };
    line("title", quoted(&step.title));
    if !step.reason.is_empty() {
        line("reason", quoted(&step.reason));
    }
    if let Some(strategy) = step.strategy {
        line("strategy", strategy.to_string());
    }
    if let Some(search) = &step.search {
        line("search", format!("{{max_depth: {}, max_nodes: {}}}", search.max_depth, search.max_nodes));
    }
    if let Some(branch) = &step.branch_id {
        line("branch", quoted(branch));
    }
    if let Some(budget) = step.budget.as_ref().filter(|budget| !budget.is_empty()) {
        line("budget", format!("{{{}}}", limits(budget)));
    }
    if let Some(deliverable) = step.deliverable {
        line("deliverable", deliverable.to_string());
    }
    if let Some(profile) = step.profile {
        line("profile", profile.to_string());
    }
    if !step.success_criteria.is_empty() {
        line("done_when", String::new());
    }
    for criterion in &step.success_criteria {
        let _ = writeln!(out, "          - {}", quoted(criterion));
    }
}

/// `max_tokens: 5000, max_time: 10m`
fn limits(budget: &SubtreeBudget) -> String {
    let dollars = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let time = |ms| quoted(&humantime::format_duration(Duration::from_millis(ms)).to_string());
    let limits = [
        budget.max_tokens.map(|n| format!("max_tokens: {n}")),
        budget.max_cost_micros.map(|n| format!("max_cost: {}", dollars(n))),
        budget.max_tool_calls.map(|n| format!("max_tool_calls: {n}")),
        budget.max_wall_clock_ms.map(|ms| format!("max_time: {}", time(ms))),
    ];
    limits.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    yaml(&Value::from(text))
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::graph::GraphBand;
    use tree_agent_contract::{PlanId, StepId, SubtreeBudget};

    use super::*;

    fn step(id: &str, title: &str, status: StepStatus) -> GraphStep {
        GraphStep {
            step_id: StepId::new(id),
            title: title.into(),
            reason: String::new(),
            success_criteria: Vec::new(),
            strategy: None,
            search: None,
            branch_id: None,
            budget: None,
            deliverable: None,
            profile: None,
            status,
            node_id: None,
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        let titles = [
            "Costs: all of them",
            "yes",
            "two\nlines \u{85}",
            "It's \"so\"",
            "# no comment",
            "Read the offers",
        ];
        let steps = titles.iter().enumerate().map(|(n, title)| GraphStep {
            reason: "because it matters".into(),
            success_criteria: vec!["a: b".into(), String::from("- c")],
            strategy: Some(Strategy::Search),
            search: Some(StepSearch { max_depth: 2, max_nodes: 7 }),
            budget: Some(SubtreeBudget {
                max_tokens: Some(5_000),
                max_cost_micros: Some(120_000),
                max_wall_clock_ms: Some(5_400_000),
                ..SubtreeBudget::default()
            }),
            deliverable: Some(ResultKind::Hybrid),
            profile: Some(Profile::Powerful),
            ..step(&n.to_string(), title, StepStatus::Completed)
        });
        let band = GraphBand { index: 0, goal: String::new(), parallelizable: false, steps: steps.collect() };
        let plan = GraphPlan {
            plan_id: PlanId(uuid::Uuid::nil()),
            version: 1,
            summary: "three of them".into(),
            bands: vec![band],
            iteration: None,
        };
        let node = node();
        let text = write(&node, &plan, 57);
        let form = parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(form.seq, Some(57));
        let wire = form.into_wire().unwrap();
        let found: Vec<&str> = wire.bands[0].steps.iter().map(|step| step.title.as_str()).collect();
        assert_eq!(found, titles);
        let first = &wire.bands[0].steps[0];
        assert_eq!((first.step_id.as_str(), wire.bands[0].parallelizable), ("0", false));
        assert_eq!(first.success_criteria, ["a: b", "- c"]);
        assert_eq!(first.search.map(|search| (search.max_depth, search.max_nodes)), Some((2, 7)));
        assert_eq!(first.deliverable, Some(pb::ResultKind::Hybrid as i32));
        assert_eq!(first.profile, Some(pb::ModelProfile::Powerful as i32));
        let budget = first.budget.unwrap();
        assert_eq!((budget.max_tokens, budget.max_cost_micros), (Some(5_000), Some(120_000)));
        assert_eq!((budget.max_tool_calls, budget.max_wall_clock_ms), (None, Some(5_400_000)));
        assert!(
            text.contains("# completed: leave it as it is") && text.contains("title: \"Read the offers\""),
            "{text}"
        );
    }

    fn node() -> GraphNode {
        let mut graph = tree_agent_engine::Graph::new(tree_agent_contract::RunId(uuid::Uuid::nil()));
        let spec = tree_agent_contract::RunSpec::new("Compare the offers");
        let started = tree_agent_engine::start(graph.run_id(), spec, tree_agent_contract::Timestamp(1));
        started.events.iter().for_each(|event| graph.apply(event).unwrap());
        graph.nodes()[0].clone()
    }

    #[test]
    fn a_new_step_needs_a_title_only() {
        let form = parse("summary: s\nbands:\n- steps:\n  - title: New\n").unwrap();
        let wire = form.into_wire().unwrap();
        assert!(wire.bands[0].parallelizable);
        assert_eq!(wire.bands[0].steps[0], pb::StepEdit { title: "New".into(), ..Default::default() });
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_named_with_its_step() {
        let step = "summary: s\nbands:\n- steps:\n  - title: New\n    budget: ";
        for (budget, part) in [("{max_cost: much}", "max_cost is not"), ("{max_time: soon}", "max_time: ")] {
            let why = parse(&format!("{step}{budget}\n")).unwrap().into_wire().unwrap_err();
            assert!(why.contains("step \"New\"") && why.contains(part), "{why}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, part) in [
            ("summary: s\nbands:\n- steps:\n  - name: New\n", "name"),
            ("summary: s\n", "bands"),
            ("summary: [\n", "line"),
            ("", "cannot be read"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text:?}: {why}");
        }
    }
}

//! The most that a run may ask for on this server, set by its operator.
//!
//! Budgets have ranges of their own ([`Budgets::validate`]); these limits lie within them. A request that asks for more
//! is refused with the field, the limit and its variable. A field that a request leaves out takes its usual default, or
//! the maximum when that is less.

use std::fmt::Display;

use clap::Args;
use tree_agent_contract::error::Checks;
use tree_agent_contract::role::PlanDraft;
use tree_agent_contract::{BudgetChange, Budgets, SearchConfig, limits};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::config::Problems;

/// The most that the budgets of a run may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maxima {
    /// Levels below the root. Default 64.
    pub depth: u32,
    /// Nodes of a run. Default 100,000.
    pub nodes: u32,
    /// Steps of one band at work at the same time. Default 256.
    pub parallel_steps: u32,
    /// Attempts of one role call. Default 20.
    pub attempts: u32,
    /// Milliseconds from the start of a run. Default: seven days.
    pub wall_clock_ms: u64,
    /// Milliseconds of one role call. Default: one day.
    pub call_timeout_ms: u64,
    /// Tokens of a run. Default: no limit; a run is then bounded by its nodes, attempts and time.
    pub tokens: Option<u64>,
    /// Cost of a run in millionths of a US dollar. Default: no limit.
    pub cost_micros: Option<u64>,
    /// Tool calls of a run. Default: no limit.
    pub tool_calls: Option<u64>,
}

impl Default for Maxima {
    fn default() -> Self {
        Self {
            depth: 64,
            nodes: 100_000,
            parallel_steps: 256,
            attempts: 20,
            wall_clock_ms: 7 * 86_400_000,
            call_timeout_ms: 86_400_000,
            tokens: None,
            cost_micros: None,
            tool_calls: None,
        }
    }
}

/// The variables of [`Maxima`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits of runs")]
pub struct MaximaArgs {
    /// The deepest tree that a run may ask for.
    #[arg(long, env = "TREE_AGENT_MAX_DEPTH", value_name = "N", default_value = "64")]
    pub max_depth: String,
    /// Nodes that a run may ask for.
    #[arg(long, env = "TREE_AGENT_MAX_NODES", value_name = "N", default_value = "100000")]
    pub max_nodes: String,
    /// Steps at work at the same time that a run may ask for.
    #[arg(long, env = "TREE_AGENT_MAX_PARALLEL_STEPS", value_name = "N", default_value = "256")]
    pub max_parallel_steps: String,
    /// Attempts of one role call that a run may ask for.
    #[arg(long, env = "TREE_AGENT_MAX_ATTEMPTS", value_name = "N", default_value = "20")]
    pub max_attempts: String,
    /// Seconds that a run may ask for as its wall clock.
    #[arg(long, env = "TREE_AGENT_MAX_WALL_CLOCK_SECONDS", value_name = "SECONDS", default_value = "604800")]
    pub max_wall_clock_seconds: String,
    /// Seconds that a run may ask for as the limit of one role call.
    #[arg(
        long,
        env = "TREE_AGENT_MAX_CALL_TIMEOUT_SECONDS",
        value_name = "SECONDS",
        default_value = "86400"
    )]
    pub max_call_timeout_seconds: String,
    /// Tokens that a run may use; a run that asks for no limit gets this one [default: no limit]
    #[arg(long, env = "TREE_AGENT_MAX_TOKENS", value_name = "N")]
    pub max_tokens: Option<String>,
    /// Millionths of a US dollar that a run may cost; a run that asks for no limit gets this one [default: no limit]
    #[arg(long, env = "TREE_AGENT_MAX_COST_MICROS", value_name = "N")]
    pub max_cost_micros: Option<String>,
    /// Tool calls that a run may make; a run that asks for no limit gets this one [default: no limit]
    #[arg(long, env = "TREE_AGENT_MAX_TOOL_CALLS", value_name = "N")]
    pub max_tool_calls: Option<String>,
}

impl MaximaArgs {
    /// Checks the arguments; what is wrong is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> Maxima {
        let mut count = |name, text: &str, range| problems.number(name, text, range) as u32;
        let depth = count("TREE_AGENT_MAX_DEPTH", &self.max_depth, 0..=64);
        let nodes = count("TREE_AGENT_MAX_NODES", &self.max_nodes, 1..=1_000_000);
        let parallel_steps = count("TREE_AGENT_MAX_PARALLEL_STEPS", &self.max_parallel_steps, 1..=256);
        let attempts = count("TREE_AGENT_MAX_ATTEMPTS", &self.max_attempts, 1..=20);
        let mut ms = |name, text: &str, range| 1_000 * problems.number(name, text, range);
        let wall_clock = ms("TREE_AGENT_MAX_WALL_CLOCK_SECONDS", &self.max_wall_clock_seconds, 1..=2_592_000);
        let call_timeout =
            ms("TREE_AGENT_MAX_CALL_TIMEOUT_SECONDS", &self.max_call_timeout_seconds, 1..=86_400);
        let mut optional = |name, text: &Option<String>| {
            let text = text.as_deref().filter(|text| !text.trim().is_empty())?;
            Some(problems.number(name, text, 1..=limits::USAGE))
        };
        Maxima {
            depth,
            nodes,
            parallel_steps,
            attempts,
            wall_clock_ms: wall_clock,
            call_timeout_ms: call_timeout,
            tokens: optional("TREE_AGENT_MAX_TOKENS", &self.max_tokens),
            cost_micros: optional("TREE_AGENT_MAX_COST_MICROS", &self.max_cost_micros),
            tool_calls: optional("TREE_AGENT_MAX_TOOL_CALLS", &self.max_tool_calls),
        }
    }
}

/// Does something for each budget that has a maximum, with the end of the name of its variable.
macro_rules! each_budget {
    ($act:ident) => {
        $act!(max_depth "DEPTH");
        $act!(max_nodes "NODES");
        $act!(max_parallel_steps "PARALLEL_STEPS");
        $act!(max_attempts "ATTEMPTS");
        $act!(max_wall_clock_ms "WALL_CLOCK_SECONDS");
        $act!(call_timeout_ms "CALL_TIMEOUT_SECONDS");
        $act!(max_tokens "TOKENS");
        $act!(max_cost_micros "COST_MICROS");
        $act!(max_tool_calls "TOOL_CALLS");
    };
}

impl Maxima {
    /// The limits, as `GetServerInfo` tells them. An absent field has no limit here.
    pub(crate) fn to_wire(&self) -> pb::Budgets {
        pb::Budgets {
            max_depth: Some(self.depth),
            max_nodes: Some(self.nodes),
            max_parallel_steps: Some(self.parallel_steps),
            max_attempts: Some(self.attempts),
            max_wall_clock_ms: Some(self.wall_clock_ms),
            call_timeout_ms: Some(self.call_timeout_ms),
            max_tokens: self.tokens,
            max_cost_micros: self.cost_micros,
            max_tool_calls: self.tool_calls,
            ..Default::default()
        }
    }

    /// Brings `budgets`, which were read from `asked`, within these limits. Every field that asks for more is noted in
    /// `checks`.
    pub(crate) fn apply(&self, asked: &pb::Budgets, budgets: &mut Budgets, checks: &mut Checks) {
        let (mut wire, max) = (budgets.to_wire(), self.to_wire());
        macro_rules! bring_within {
            ($budget:ident $variable:literal) => {
                if let Some(max) = max.$budget {
                    let (field, value) =
                        (concat!("budgets.", stringify!($budget)), wire.$budget.unwrap_or(max));
                    wire.$budget = Some(within(checks, field, $variable, asked.$budget, value, max));
                }
            };
        }
        each_budget!(bring_within);
        if let Ok(within) = Budgets::from_wire(wire) {
            *budgets = within;
        }
    }

    /// Notes in `checks` every budget that a change of a live run would set beyond these limits.
    pub(crate) fn check_change(&self, change: &BudgetChange, checks: &mut Checks) {
        let mut at_most = |budget: &str, variable: &str, asked: Option<u64>, max: Option<u64>| {
            let (Some(asked), Some(max)) = (asked, max) else { return };
            checks.require(asked > 0 && asked <= max, format!("change.{budget}"), || match asked {
                0 => too_much("0, which means no limit", max, variable),
                asked => too_much(asked, max, variable),
            });
        };
        at_most("max_tokens", "TOKENS", change.max_tokens, self.tokens);
        at_most("max_cost_micros", "COST_MICROS", change.max_cost_micros, self.cost_micros);
        at_most("max_tool_calls", "TOOL_CALLS", change.max_tool_calls, self.tool_calls);
        // These have ranges of their own, in which 0 does not lie.
        let mut ranged = |budget: &str, variable: &str, asked: Option<u64>, max: u64| {
            at_most(budget, variable, asked.filter(|asked| *asked > 0), Some(max));
        };
        ranged("max_nodes", "NODES", change.max_nodes.map(u64::from), self.nodes.into());
        let steps = change.max_parallel_steps.map(u64::from);
        ranged("max_parallel_steps", "PARALLEL_STEPS", steps, self.parallel_steps.into());
        ranged("max_wall_clock_ms", "WALL_CLOCK_SECONDS", change.max_wall_clock_ms, self.wall_clock_ms);
    }

    /// Notes in `checks` every budget of a run that lies beyond these limits: a fork of it has the same. Some can be
    /// lowered by an edit.
    pub(crate) fn check_fork(&self, budgets: &Budgets, search: Option<&SearchConfig>, checks: &mut Checks) {
        fn keeps<T: PartialOrd + Display>(
            checks: &mut Checks,
            budget: &str,
            variable: &str,
            has: Option<T>,
            max: T,
        ) {
            checks.require(has.as_ref().is_some_and(|has| *has <= max), "run_id", || {
                let has = has.map_or_else(|| "without limit".to_owned(), |has| has.to_string());
                format!(
                    "has {budget} {has}; this server allows at most {max}, and a fork keeps it: add an edit that \
                     lowers it, start a copy of the run, or let its operator raise TREE_AGENT_MAX_{variable}"
                )
            });
        }
        let (has, max) = (budgets.to_wire(), self.to_wire());
        macro_rules! keep {
            ($budget:ident $variable:literal) => {
                if let Some(max) = max.$budget {
                    keeps(checks, stringify!($budget), $variable, has.$budget, max);
                }
            };
        }
        each_budget!(keep);
        if let Some(search) = search {
            keeps(checks, "search.max_depth", "DEPTH", Some(search.max_depth), self.levels());
            let places = Some(search.concurrency);
            keeps(checks, "search.concurrency", "PARALLEL_STEPS", places, self.parallel_steps);
        }
    }

    /// The most levels of a search, which has at least one.
    fn levels(&self) -> u32 {
        self.depth.max(1)
    }

    /// Notes in `checks` every search of a step that lies beyond these limits.
    pub(crate) fn check_steps(&self, plan: &PlanDraft, checks: &mut Checks) {
        for (b, band) in plan.bands.iter().enumerate() {
            for (s, search) in band.steps.iter().enumerate().filter_map(|(s, step)| Some((s, step.search?))) {
                for (name, variable, asked, max) in [
                    ("max_depth", "DEPTH", search.max_depth, self.levels()),
                    ("max_nodes", "NODES", search.max_nodes, self.nodes),
                ] {
                    let field = format!("plan.bands[{b}].steps[{s}].search.{name}");
                    within(checks, &field, variable, Some(asked), asked, max);
                }
            }
        }
    }

    /// As [`apply`](Self::apply) for `search`, which was read from `asked`: its levels are those of a tree, and topics
    /// under research are steps at work.
    pub(crate) fn apply_to_search(
        &self,
        asked: &pb::SearchConfig,
        search: &mut SearchConfig,
        checks: &mut Checks,
    ) {
        let (levels, steps) = (self.levels(), self.parallel_steps);
        let (depth, places) = (search.max_depth, search.concurrency);
        search.max_depth = within(checks, "search.max_depth", "DEPTH", asked.max_depth, depth, levels);
        search.concurrency =
            within(checks, "search.concurrency", "PARALLEL_STEPS", asked.concurrency, places, steps);
    }
}

/// What was `asked` for, or as much of the `default` as is allowed. More than `max` is noted in `checks`.
fn within<T: Copy + Ord + Display>(
    checks: &mut Checks,
    field: &str,
    variable: &str,
    asked: Option<T>,
    default: T,
    max: T,
) -> T {
    let value = asked.unwrap_or_else(|| default.min(max));
    checks.require(value <= max, field, || too_much(value, max, variable));
    value
}

fn too_much(asked: impl Display, max: impl Display, variable: &str) -> String {
    format!(
        "is {asked}; this server allows at most {max}: ask for less, or have its operator raise \
         TREE_AGENT_MAX_{variable}"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        maxima: MaximaArgs,
    }

    fn maxima(arguments: &[&str]) -> (Maxima, Result<(), String>) {
        let arguments = ["program"].iter().chain(arguments);
        let mut problems = Problems::default();
        let maxima = Program::parse_from(arguments).maxima.check(&mut problems);
        (maxima, problems.finish().map_err(|error| error.to_string()))
    }

    fn applied(maxima: &Maxima, asked: pb::Budgets) -> Result<Budgets, Vec<String>> {
        let mut checks = Checks::default();
        let mut budgets = <Budgets as tree_agent_proto::Wire>::from_wire(asked).unwrap();
        maxima.apply(&asked, &mut budgets, &mut checks);
        let shown =
            |invalid: tree_agent_contract::Invalid| invalid.0.iter().map(ToString::to_string).collect();
        checks.finish().map(|()| budgets).map_err(shown)
    }

    #[test]
    fn what_is_left_out_takes_its_default_or_the_maximum_when_that_is_less() {
        assert_eq!(applied(&Maxima::default(), pb::Budgets::default()), Ok(Budgets::default()));
        let (maxima, checked) = maxima(&["--max-nodes=50", "--max-wall-clock-seconds=60", "--max-tokens=9"]);
        assert_eq!(checked, Ok(()));
        let expected =
            Budgets { max_nodes: 50, max_wall_clock_ms: 60_000, max_tokens: Some(9), ..Budgets::default() };
        assert_eq!(applied(&maxima, pb::Budgets::default()), Ok(expected));
        let less = pb::Budgets { max_nodes: Some(3), max_tokens: Some(2), ..Default::default() };
        let budgets = applied(&maxima, less).unwrap();
        assert_eq!((budgets.max_nodes, budgets.max_tokens), (3, Some(2)));
    }

    #[test]
    fn every_field_beyond_its_maximum_is_named_with_the_limit_and_the_remedy() {
        let arguments = [
            "--max-depth=1",
            "--max-nodes=2",
            "--max-parallel-steps=3",
            "--max-attempts=4",
            "--max-wall-clock-seconds=5",
            "--max-call-timeout-seconds=6",
            "--max-tokens=7",
            "--max-cost-micros=8",
            "--max-tool-calls=9",
        ];
        let (maxima, checked) = maxima(&arguments);
        assert_eq!(checked, Ok(()));
        let asked = pb::Budgets {
            max_depth: Some(2),
            max_nodes: Some(3),
            max_parallel_steps: Some(4),
            max_attempts: Some(5),
            max_wall_clock_ms: Some(5_001),
            call_timeout_ms: Some(6_001),
            max_tokens: Some(8),
            max_cost_micros: Some(9),
            max_tool_calls: Some(10),
            ..Default::default()
        };
        let errors = applied(&maxima, asked).unwrap_err();
        assert_eq!(errors.len(), 9, "{errors:?}");
        let text = "budgets.max_nodes: is 3; this server allows at most 2: ask for less, or have its operator raise \
                    TREE_AGENT_MAX_NODES";
        assert_eq!(errors[1], text);
        let text = "budgets.max_wall_clock_ms: is 5001; this server allows at most 5000: ask for less, or have its \
                    operator raise TREE_AGENT_MAX_WALL_CLOCK_SECONDS";
        assert_eq!(errors[4], text);
    }

    #[test]
    fn a_live_run_is_given_no_more_than_a_new_one() {
        let (maxima, checked) = maxima(&["--max-tokens=7", "--max-nodes=2", "--max-wall-clock-seconds=5"]);
        assert_eq!(checked, Ok(()));
        let checked = |change: &BudgetChange| {
            let mut checks = Checks::default();
            maxima.check_change(change, &mut checks);
            checks
                .finish()
                .map_err(|invalid| invalid.0.into_iter().map(|error| error.field).collect::<Vec<_>>())
        };
        let within = BudgetChange {
            max_tokens: Some(7),
            max_cost_micros: Some(0),
            max_nodes: Some(2),
            max_wall_clock_ms: Some(5_000),
            ..BudgetChange::default()
        };
        assert_eq!(checked(&within), Ok(()), "without a maximum there may be no limit");
        let beyond = BudgetChange {
            max_tokens: Some(0),
            max_nodes: Some(3),
            max_wall_clock_ms: Some(5_001),
            ..BudgetChange::default()
        };
        let names = ["change.max_tokens", "change.max_nodes", "change.max_wall_clock_ms"];
        assert_eq!(checked(&beyond), Err(names.map(String::from).to_vec()));
    }

    #[test]
    fn a_search_is_kept_within_the_depth_and_the_steps_at_work() {
        let (maxima, checked) = maxima(&["--max-depth=2", "--max-parallel-steps=3"]);
        assert_eq!(checked, Ok(()));
        let applied = |maxima: &Maxima, asked: pb::SearchConfig| {
            let mut checks = Checks::default();
            let mut search = <SearchConfig as tree_agent_proto::Wire>::from_wire(asked.clone()).unwrap();
            maxima.apply_to_search(&asked, &mut search, &mut checks);
            checks.finish().map(|()| (search.max_depth, search.concurrency)).map_err(|e| e.to_string())
        };
        assert_eq!(applied(&maxima, pb::SearchConfig::default()), Ok((2, 3)));
        assert_eq!(applied(&Maxima::default(), pb::SearchConfig::default()), Ok((4, 4)));
        let flat = Maxima { depth: 0, ..Maxima::default() };
        assert_eq!(
            applied(&flat, pb::SearchConfig::default()),
            Ok((1, 4)),
            "a search has one level at least"
        );
        let asked = pb::SearchConfig { max_depth: Some(3), concurrency: Some(4), ..Default::default() };
        let errors = applied(&maxima, asked).unwrap_err();
        for part in ["search.max_depth: is 3; this server allows at most 2", "search.concurrency: is 4"] {
            assert!(errors.contains(part), "{errors}");
        }
    }

    #[test]
    fn a_fork_of_a_search_keeps_within_the_depth_and_the_steps_at_work() {
        let maxima = Maxima { depth: 2, parallel_steps: 3, ..Maxima::default() };
        let budgets = Budgets { max_depth: 2, max_parallel_steps: 3, ..Budgets::default() };
        let checked = |search: Option<&SearchConfig>| {
            let mut checks = Checks::default();
            maxima.check_fork(&budgets, search, &mut checks);
            checks.finish().map_err(|error| error.to_string())
        };
        assert_eq!(checked(None), Ok(()));
        let fitting = SearchConfig { max_depth: 2, concurrency: 3, ..SearchConfig::default() };
        assert_eq!(checked(Some(&fitting)), Ok(()));
        let errors = checked(Some(&SearchConfig::default())).unwrap_err();
        for part in ["search.max_depth 4; this server allows at most 2", "search.concurrency 4; this server"]
        {
            assert!(errors.contains(part), "{errors}");
        }
    }

    #[test]
    fn a_maximum_beyond_the_range_of_its_budget_is_refused_at_the_start() {
        let (_, checked) = maxima(&["--max-depth=65", "--max-tokens=0", "--max-nodes=many"]);
        let text = checked.unwrap_err();
        for name in ["TREE_AGENT_MAX_DEPTH", "TREE_AGENT_MAX_TOKENS", "TREE_AGENT_MAX_NODES"] {
            assert!(text.contains(&format!("{name}: ")), "{name} is missing in {text}");
        }
    }
}

//! `status`: what a server is and allows.

use clap::Args;
use serde_json::{Map, Value, json};
use tonic::Code;
use tree_agent_contract::{Budgets, Strategy};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::{Wire, budgets_of};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::{Paint, duration};
use crate::view::printable::one_line;
use crate::view::usage::{dollars, grouped};

/// Show a server: its version, limits and services; exits with 1 if something is wrong
#[derive(Debug, Args)]
pub(crate) struct Status {}

impl Status {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let info = client.ask(pb::GetServerInfoRequest {}).await?;
        let cluster = match client.ask(pb::GetStatusRequest {}).await {
            // A server of 0.2.
            Err(CliError::Refused(status)) if status.code() == Code::Unimplemented => None,
            cluster => Some(cluster?),
        };
        let caller = info.caller.map(|caller| who(&caller, info.authentication));
        let is_known = cluster.is_some();
        let cluster = cluster.unwrap_or_default();
        let exit = if cluster.problems.is_empty() { Exit::Success } else { Exit::Internal };
        let strategies = info.strategies.iter().map(|strategy| Strategy::from_wire(*strategy));
        let strategies: Vec<&str> = strategies.map(|s| s.map(Strategy::as_str)).collect::<Result<_, _>>()?;
        let defaults = Budgets::from_wire(info.default_budgets.unwrap_or_default())?;
        let of_search = budgets_of(Strategy::Search, info.default_search_budgets.unwrap_or_default());
        let limits = info.limits.unwrap_or_default();
        let services: Vec<Value> = cluster
            .services
            .iter()
            .map(|s| {
                json!({
                    "service": s.service, "address": s.address, "version": s.version, "answers": s.answers, "runs": s.runs
                })
            })
            .collect();
        if context.out.is_json() {
            context.out.json(&json!({
                "server": context.server,
                "version": info.version,
                "apiVersion": info.api_version,
                "strategies": strategies,
                "defaultModel": info.default_model,
                "authentication": info.authentication,
                "caller": caller,
                "ui": info.ui,
                "schemaVersion": info.schema_version,
                "eventSchemaVersion": info.event_schema_version,
                "defaultBudgets": defaults,
                "defaultSearchBudgets": of_search,
                "maxBudgets": maxima(limits.max_budgets.unwrap_or_default()),
                "problems": cluster.problems,
                "services": services,
                "liveRuns": cluster.live_runs,
                "waitingRuns": cluster.waiting_runs,
                "longestWaitMs": cluster.longest_wait_ms,
                "pendingPassages": cluster.pending_passages,
            }))?;
            return Ok(exit);
        }
        let model = if info.default_model.is_empty() { "none is set" } else { &info.default_model };
        let versions = format!(
            "{} ({}; store schema {}, event schema {})",
            info.version, info.api_version, info.schema_version, info.event_schema_version
        );
        let maxima = maxima(limits.max_budgets.unwrap_or_default());
        let maxima: Vec<String> = maxima.iter().map(|(name, most)| shown(name, most)).collect();
        let rows = [
            ("server", context.server.clone()),
            ("version", versions),
            ("default model", model.to_owned()),
            ("strategies", strategies.join(", ")),
            ("tokens needed", if info.authentication { "yes" } else { "no" }.to_owned()),
            ("web UI", if info.ui { format!("{}/", context.server) } else { "not built in".to_owned() }),
            ("run limits", if maxima.is_empty() { "none".to_owned() } else { maxima.join(", ") }),
        ];
        print_rows(context, &rows)?;
        if let Some(caller) = caller {
            print_rows(context, &[("you", caller)])?;
        }
        let runs = format!("{} live, {} of them wait for a planner", cluster.live_runs, cluster.waiting_runs);
        if is_known {
            print_rows(context, &[("runs", runs)])?;
        }
        if let Some(pending) = cluster.pending_passages {
            print_rows(context, &[("vectors", format!("{} texts wait for one", grouped(pending)))])?;
        }
        for pb::ServiceStatus { service, address, version, answers, runs } in &cluster.services {
            let state = match (service.as_str(), answers) {
                ("lease", true) => format!("held, {runs} runs"),
                ("lease", false) => format!("ended, {runs} runs wait for another planner"),
                (_, true) => "answers".to_owned(),
                (_, false) => "does not answer".to_owned(),
            };
            print_rows(context, &[(service, format!("{address}  {version}  {state}"))])?;
        }
        for problem in &cluster.problems {
            context.out.warn(one_line(&format!("not healthy: {problem}")));
        }
        Ok(exit)
    }
}

/// What the caller may do.
fn who(caller: &pb::Caller, authentication: bool) -> String {
    if !authentication {
        return "everybody may do everything".to_owned();
    }
    let user = &caller.user_id;
    if caller.administrator {
        return format!("{user}, an administrator, who may do everything");
    }
    let pb::Caller { owner_of, editor_of, reader_of, .. } = caller;
    format!("{user}: own runs; owner of {owner_of} projects, editor of {editor_of}, reader of {reader_of}")
}

/// Prints names and what is known of each.
pub(super) fn print_rows(context: &Context, rows: &[(&str, String)]) -> Result<(), CliError> {
    rows.iter().try_for_each(|(name, text)| {
        let name = context.out.palette().paint(Paint::Dim, &format!("{name:<14}"));
        context.out.line(format!("{name} {}", one_line(text)))
    })
}

/// The budgets that this server limits, by their keys.
fn maxima(budgets: pb::Budgets) -> Map<String, Value> {
    let all = [
        ("maxDepth", budgets.max_depth.map(u64::from)),
        ("maxNodes", budgets.max_nodes.map(u64::from)),
        ("maxChildrenPerNode", budgets.max_children_per_node.map(u64::from)),
        ("maxBandsPerPlan", budgets.max_bands_per_plan.map(u64::from)),
        ("maxStepsPerBand", budgets.max_steps_per_band.map(u64::from)),
        ("maxReplansPerNode", budgets.max_replans_per_node.map(u64::from)),
        ("maxIterations", budgets.max_iterations.map(u64::from)),
        ("maxParallelSteps", budgets.max_parallel_steps.map(u64::from)),
        ("maxAttempts", budgets.max_attempts.map(u64::from)),
        ("maxWallClockMs", budgets.max_wall_clock_ms),
        ("callTimeoutMs", budgets.call_timeout_ms),
        ("maxTokens", budgets.max_tokens),
        ("maxCostMicros", budgets.max_cost_micros),
        ("maxToolCalls", budgets.max_tool_calls),
    ];
    all.into_iter().filter_map(|(name, most)| Some((name.to_owned(), most?.into()))).collect()
}

/// A limit for people: `maxNodes 1,000`, `maxWallClock 1h00m`.
fn shown(name: &str, most: &Value) -> String {
    let (name, most) = match (name.strip_suffix("Ms"), name.strip_suffix("Micros"), most.as_u64()) {
        (Some(name), _, Some(ms)) => (name, duration(ms)),
        (_, Some(name), Some(micros)) => (name, dollars(micros)),
        (.., Some(n)) => (name, grouped(n)),
        (.., None) => (name, most.to_string()),
    };
    format!("{name} {most}")
}

//! The cluster under test: its client, and the resources that its processes use.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Channel;
use tree_agent_contract::{Budgets, RunStatus, limits};
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::{Wire, v1 as pb};

/// How often to check which runs have ended while others wait for their turn. Checking takes processor time from them.
const LOOK: Duration = Duration::from_millis(25);
/// The same when no run waits, because the measurement ends with the last run.
const LAST_LOOK: Duration = Duration::from_millis(10);

/// Services whose processor time is reported separately.
const PARTS: [&str; 6] = ["PLANNER", "EXECUTOR", "AGGREGATOR", "GATEWAY", "POSTGRES", "REDIS"];

/// A running cluster.
pub(crate) struct Cluster {
    runs: RunServiceClient<Channel>,
    pids: BTreeMap<&'static str, Vec<u32>>,
}

/// What the runs wrote.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) nodes: u64,
    pub(crate) events: u64,
}

impl Cluster {
    /// The cluster that the environment names.
    pub(crate) async fn from_env() -> anyhow::Result<Self> {
        let server = std::env::var("TREE_AGENT_SERVER")
            .context("TREE_AGENT_SERVER is not set; run `make cluster` and source target/cluster/env")?;
        let channel =
            Channel::from_shared(server)?.connect().await.context("the gateway cannot be reached")?;
        let mut pids = BTreeMap::new();
        for part in PARTS {
            let ids =
                std::env::var(format!("PID_{part}")).with_context(|| format!("PID_{part} is not set"))?;
            pids.insert(part, ids.split_whitespace().map(str::parse).collect::<Result<_, _>>()?);
        }
        Ok(Self {
            runs: RunServiceClient::new(channel).max_decoding_message_size(limits::MESSAGE_BYTES),
            pids,
        })
    }

    pub(crate) fn client(&self) -> RunServiceClient<Channel> {
        self.runs.clone()
    }

    pub(crate) async fn create(&self, model: &str, budgets: &Budgets) -> anyhow::Result<pb::Run> {
        let request = pb::CreateRunRequest {
            objective: "benchmark".into(),
            model: model.into(),
            budgets: Some(budgets.to_wire()),
            ..Default::default()
        };
        self.client().create_run(request).await?.into_inner().run.context("a created run")
    }

    pub(crate) async fn get(&self, run_id: &str) -> anyhow::Result<pb::Run> {
        let request = pb::GetRunRequest { run_id: run_id.into() };
        self.client().get_run(request).await?.into_inner().run.context("a run")
    }

    /// A run that stays as it is: its root's only call never answers.
    pub(crate) async fn quiet_run(&self) -> anyhow::Result<pb::Run> {
        let budgets = Budgets { max_depth: 0, ..Budgets::default() };
        let mut run = self.create("scripted:depth=0,fail=hang", &budgets).await?;
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = self.get(&run.run_id).await?;
            if now.status() == pb::RunStatus::Running && now.head_seq == run.head_seq {
                return Ok(now);
            }
            ensure!(Instant::now() < patience, "run {} does not come to rest", run.run_id);
            run = now;
        }
    }

    /// Cancels a run.
    pub(crate) async fn cancel(&self, run_id: &str) -> anyhow::Result<()> {
        let request = pb::CancelRunRequest { run_id: run_id.to_owned(), reason: "measured".into() };
        self.client().cancel_run(request).await?;
        Ok(())
    }

    /// Waits until every run has ended.
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.live().await?.is_empty() {
            ensure!(Instant::now() < patience, "the runs were not cancelled");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Ids of the runs that have not ended.
    pub(crate) async fn live(&self) -> anyhow::Result<Vec<String>> {
        let statuses = [RunStatus::Queued, RunStatus::Running].map(|s| s.to_wire()).to_vec();
        let request = pb::ListRunsRequest { page_size: 1_000, statuses, ..Default::default() };
        let page = self.client().list_runs(request).await?.into_inner();
        Ok(page.runs.into_iter().map(|r| r.run_id).collect())
    }

    /// Creates one run, watches it to its end and returns its id.
    pub(crate) async fn complete_one(&self, model: &str, budgets: &Budgets) -> anyhow::Result<String> {
        let run_id = self.create(model, budgets).await?.run_id;
        let request = pb::WatchRunRequest { run_id: run_id.clone(), after_seq: 0, ..Default::default() };
        let mut stream = self.client().watch_run(request).await?.into_inner();
        while stream.message().await?.is_some() {}
        Ok(run_id)
    }

    /// Creates `count` runs, `parallel` at a time, waits for all of them and returns their ids. Meanwhile it asks the
    /// gateway only for the list of live runs, every [`LOOK`] or [`LAST_LOOK`].
    pub(crate) async fn complete(
        &self,
        model: &str,
        budgets: &Budgets,
        count: usize,
        parallel: usize,
    ) -> anyhow::Result<Vec<String>> {
        let mut made: Vec<String> = Vec::with_capacity(count);
        let mut open: Vec<String> = Vec::new();
        let patience = Instant::now() + Duration::from_secs(300);
        while made.len() < count || !open.is_empty() {
            ensure!(Instant::now() < patience, "{} runs did not end within 300 s", open.len());
            let places = (parallel - open.len()).min(count - made.len());
            for run in try_join_all((0..places).map(|_| self.create(model, budgets))).await? {
                made.push(run.run_id.clone());
                open.push(run.run_id);
            }
            tokio::time::sleep(if made.len() < count { LOOK } else { LAST_LOOK }).await;
            let live = self.live().await?;
            open.retain(|run| live.contains(run));
        }
        Ok(made)
    }

    /// What completed runs wrote; an error if one of them ended otherwise.
    pub(crate) async fn totals(&self, runs: &[String]) -> anyhow::Result<Totals> {
        let mut totals = Totals::default();
        for run in runs {
            let run = self.get(run).await?;
            let status = run.status();
            ensure!(status == pb::RunStatus::Completed, "run {} ended as {status:?}", run.run_id);
            totals.nodes += run.node_count;
            totals.events += run.head_seq;
        }
        Ok(totals)
    }

    /// Processor seconds of each part since it started, including its children that have exited.
    pub(crate) fn cpu_seconds(&self) -> BTreeMap<&'static str, f64> {
        self.pids
            .iter()
            .map(|(&part, pids)| (part, pids.iter().map(|&pid| with_children(pid)).sum()))
            .collect()
    }

    /// Planner processes.
    pub(crate) fn planners(&self) -> usize {
        self.pids["PLANNER"].len()
    }

    /// Role calls in flight of all planners, as their metrics say.
    pub(crate) async fn calls_in_flight(&self) -> anyhow::Result<f64> {
        let planners = std::env::var("TREE_AGENT_PLANNERS").context("TREE_AGENT_PLANNERS is not set")?;
        let mut calls = 0.0;
        for planner in planners.split(',').filter_map(|url| url.trim().strip_prefix("http://")) {
            let host = planner.trim_end_matches('/');
            let mut connection = tokio::net::TcpStream::connect(host).await?;
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).await?;
            let mut text = String::new();
            connection.read_to_string(&mut text).await?;
            let lines = text.lines().filter(|l| l.starts_with("tree_agent_driver_role_calls_in_flight{"));
            calls += lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
        }
        Ok(calls)
    }

    /// Kills the planner that holds leases as `owner`.
    pub(crate) fn kill_planner(&self, owner: &str) -> anyhow::Result<()> {
        let pid = owner.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        let pid = pid.filter(|pid| self.pids["PLANNER"].contains(pid));
        let pid = pid.with_context(|| format!("{owner} is no planner of this cluster"))?;
        let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status()?;
        ensure!(status.success(), "planner {pid} could not be killed");
        Ok(())
    }

    /// Memory of the gateways in bytes.
    pub(crate) fn gateway_memory(&self) -> u64 {
        self.pids["GATEWAY"].iter().map(|&pid| resident(pid)).sum()
    }

    /// Memory of the planners in bytes.
    pub(crate) fn planner_memory(&self) -> u64 {
        self.pids["PLANNER"].iter().map(|&pid| resident(pid)).sum()
    }
}

/// Linux counts processor time in hundredths of a second.
const TICK: f64 = 0.01;

fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let rest = text.rsplit_once(')')?.1;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Processor seconds of a process and its exited children, plus those of its living children.
fn with_children(pid: u32) -> f64 {
    let Some(fields) = stat(pid) else { return 0.0 };
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or_default();
    let own: f64 = (11..=14).map(ticks).sum::<f64>() * TICK;
    let children = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = children.filter_map(|e| e.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let living =
        children.filter(|&child| stat(child).and_then(|f| f.get(1)?.parse::<u32>().ok()) == Some(pid));
    own + living.map(with_children).sum::<f64>()
}

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).and_then(|v| v.split_whitespace().next());
    kib.and_then(|v| v.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Prints one result.
pub(crate) fn report(bench: &str, value: f64, unit: &str, more: serde_json::Value) {
    let mut line =
        serde_json::json!({"bench": bench, "value": (value * 1000.0).round() / 1000.0, "unit": unit});
    if let (Some(line), serde_json::Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    // Standard output is the result. Ignore a closed pipe.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The value below which `share` of the sorted values lie.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64) * share).ceil() as usize;
    sorted.get(at.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

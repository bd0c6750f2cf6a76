//! `run`: an objective becomes a run, which is watched to its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{Budgets, RunContext, RunSpec, RunSummary, Scope};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::shutdown;
use uuid::Uuid;

use super::estimate;
use super::follow::{Followed, Synthesis, conclude, follow};
use super::import::{check_folder, import};
use super::watch::Patience;
use crate::Context;
use crate::client::{Client, request, summary};
use crate::cluster::{Access, Cluster, Embedded};
use crate::error::CliError;
use crate::exit::Exit;

/// Give an objective, watch the tree grow, get the synthesis
///
/// On a terminal the tree is drawn as it grows; in a pipe there is a line for each event of note. Without
/// --project or --dir the run may look at every project. A budget that is used up ends in a partial result.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What is to be found out or done
    objective: String,
    /// A project (name or id) that the run may look at; may be repeated [default: every project]
    #[arg(long, value_name = "PROJECT")]
    project: Vec<String>,
    /// Import this folder into a project named after it, and run on that
    #[arg(long, value_name = "DIR", conflicts_with = "project")]
    dir: Option<PathBuf>,
    /// The model that the roles use, such as offline [default: the server's]
    #[arg(long, value_name = "MODEL", default_value = "")]
    model: String,
    /// Write the synthesis to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the run's id and leave it to itself
    #[arg(long, conflicts_with = "out")]
    detach: bool,
    /// Print what the run can use at the most, and do not begin it
    #[arg(long, conflicts_with_all = ["detach", "out"])]
    estimate: bool,
    /// Need no server: run in this one process, on the embedded store
    #[arg(long, conflicts_with = "detach")]
    local: bool,
    #[command(flatten)]
    embedded: Embedded,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    budgets: BudgetArgs,
    /// US dollars, such as 0.50 [default: no limit]
    #[arg(long, value_name = "DOLLARS", help_heading = "Budgets", conflicts_with = "max_cost_micros", value_parser = micros)]
    max_cost: Option<u64>,
}

/// US dollars as millionths.
fn micros(text: &str) -> Result<u64, String> {
    let dollars: f64 =
        text.trim().trim_start_matches('$').parse().map_err(|_| "is not a number of US dollars")?;
    let micros = (dollars * 1e6).round();
    match (1.0..=1e12).contains(&micros) {
        true => Ok(micros as u64),
        false => Err("must be from 0.000001 to 1000000 US dollars".into()),
    }
}

macro_rules! budget_args {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)* ; $($(#[$odoc:meta])* $optional:ident: $otype:ty,)*) => {
        /// What the run may spend.
        #[derive(Clone, Debug, Default, Args)]
        #[command(next_help_heading = "Budgets")]
        struct BudgetArgs {
            $($(#[$doc])* #[arg(long, value_name = "N", allow_negative_numbers = true)] $field: Option<$type>,)*
            $($(#[$odoc])* #[arg(long, value_name = "N", allow_negative_numbers = true)] $optional: Option<$otype>,)*
        }

        impl BudgetArgs {
            fn budgets(&self) -> Budgets {
                let default = Budgets::default();
                Budgets {
                    $($field: self.$field.unwrap_or(default.$field),)*
                    $($optional: self.$optional,)*
                }
            }
        }
    };
}

budget_args! {
    /// Deepest level of the tree; the root is level 0 [default: 4]
    max_depth: u32,
    /// Bands of one plan [default: 3]
    max_bands_per_plan: u32,
    /// Steps of one band [default: 4]
    max_steps_per_band: u32,
    /// Children of one node over all its plans [default: 12]
    max_children_per_node: u32,
    /// Times that one node may plan again [default: 1]
    max_replans_per_node: u32,
    /// Steps of one band at work at the same time [default: 4]
    max_parallel_steps: u32,
    /// Nodes of the run [default: 1000]
    max_nodes: u32,
    /// Milliseconds from the start of the run [default: 1800000]
    max_wall_clock_ms: u64,
    /// Times that one role call is made before its failure counts [default: 3]
    max_attempts: u32,
    /// Milliseconds that one role call may take [default: 300000]
    call_timeout_ms: u64,
    ;
    /// Tokens in and out [default: no limit]
    max_tokens: u64,
    /// Millionths of a US dollar [default: no limit]
    max_cost_micros: u64,
    /// Tool calls [default: no limit]
    max_tool_calls: u64,
}

impl Run {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        // Everything that can be wrong here is found before anything is written anywhere.
        let mut budgets = self.budgets.budgets();
        budgets.max_cost_micros = self.max_cost.or(budgets.max_cost_micros);
        let spec = RunSpec { budgets, model: self.model.clone(), ..RunSpec::new(self.objective.clone()) };
        spec.validate().map_err(|e| CliError::Usage(e.to_string()))?;
        self.dir.as_deref().map(check_folder).transpose()?;
        self.out.as_deref().map(check_writable).transpose()?;
        if self.estimate {
            return self.estimate(context, &spec);
        }
        let interrupt = shutdown::signal()?;
        if self.local {
            return self.locally(context, spec, &interrupt).await;
        }
        let client = context.connect().await?;
        match self.on(context, &client, spec, &interrupt).await? {
            (_, Some(exit)) => Ok(exit),
            (run, None) => {
                let id = run.run_id;
                context.out.note(format!("run {id} goes on; continue with `tree-agent watch {id}`"));
                Ok(Exit::Interrupted)
            }
        }
    }

    fn estimate(&self, context: &Context, spec: &RunSpec) -> Result<Exit, CliError> {
        let models = self.embedded.models();
        let model = match spec.model.trim() {
            "" if !self.local => "",
            "" if models.is_set() => "llm",
            "" => "offline",
            name => name,
        };
        estimate::print(context, &spec.budgets, model, &models)?;
        Ok(Exit::Success)
    }

    /// Brings a cluster up in this process for as long as the run lasts.
    async fn locally(
        &self,
        context: &Context,
        spec: RunSpec,
        interrupt: &CancellationToken,
    ) -> Result<Exit, CliError> {
        let data_dir = self.embedded.data_dir()?;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut cluster =
            Cluster::start(anywhere, &data_dir, &self.model, &self.embedded, &Access::default()).await?;
        let server = cluster.url();
        let work = async {
            let client = Client::connect(&server, &Connector::default()).await?;
            self.on(context, &client, spec, interrupt).await
        };
        let ended = tokio::select! {
            ended = work => ended,
            error = cluster.failed() => Err(error),
        };
        cluster.stop().await;
        let (run, exit) = ended?;
        if exit.is_none() {
            let (id, dir) = (run.run_id, data_dir.display());
            context.out.note(format!(
                "run {id} is kept in {dir}; it goes on with `tree-agent dev --data-dir {dir}`, watch it there with \
                 `tree-agent watch {id}`"
            ));
        }
        Ok(exit.unwrap_or(Exit::Interrupted))
    }

    /// Creates the run on a server and follows it. No exit code means that the user left.
    async fn on(
        &self,
        context: &Context,
        client: &Client,
        mut spec: RunSpec,
        interrupt: &CancellationToken,
    ) -> Result<(RunSummary, Option<Exit>), CliError> {
        spec.context = self.context(context, client).await?;
        let run = create(client, &spec).await?;
        if self.detach {
            if context.out.is_jsonl() {
                context.out.json(&run)?;
            } else {
                context.out.line(run.run_id.to_string())?;
            }
            return Ok((run, Some(Exit::Success)));
        }
        let id = run.run_id;
        match follow(context, client, id, 0, self.patience.policy(), interrupt).await? {
            Followed::Interrupted => Ok((run, None)),
            Followed::Ended(end) => {
                let synthesis = self.out.as_deref().map_or(Synthesis::Print, Synthesis::Write);
                let exit = conclude(context, client, id, &end, synthesis).await?;
                Ok((run, Some(exit)))
            }
        }
    }

    async fn context(&self, context: &Context, client: &Client) -> Result<RunContext, CliError> {
        if let Some(dir) = &self.dir {
            let imported = import(context, client, dir, &folder_name(dir)?).await?;
            context.out.note(imported.sentence());
            return Ok(RunContext::project(imported.project_id));
        }
        let mut project_ids = Vec::new();
        for key in &self.project {
            let project = client.existing_project(key).await?;
            project_ids.push(Wire::from_wire(project.project_id)?);
        }
        project_ids.sort();
        project_ids.dedup();
        let scope = match project_ids.len() {
            0 => Scope::Global,
            1 => Scope::Project,
            _ => Scope::MultiProject,
        };
        Ok(RunContext { scope, project_ids })
    }
}

/// Creates the run. The request id makes it safe to ask again when an answer is lost.
async fn create(client: &Client, spec: &RunSpec) -> Result<RunSummary, CliError> {
    let message = pb::CreateRunRequest {
        objective: spec.objective.clone(),
        strategy: spec.strategy.to_wire(),
        context: Some(spec.context.to_wire()),
        budgets: Some(spec.budgets.to_wire()),
        model: spec.model.clone(),
        request_id: Uuid::new_v4().to_string(),
        display_name: spec.display_name.clone(),
        labels: spec.labels.clone(),
    };
    let answer = client
        .call(|| {
            let (mut runs, message) = (client.runs(), message.clone());
            async move { runs.create_run(request(message)).await }
        })
        .await?;
    summary(answer.run)
}

/// The name of a folder, also of `.` and `..`.
fn folder_name(dir: &Path) -> Result<String, CliError> {
    let whole = dir
        .canonicalize()
        .map_err(|e| CliError::Usage(format!("the folder {} cannot be opened: {e}", dir.display())))?;
    Ok(whole.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned()))
}

/// An error unless a file can be made at `path`.
fn check_writable(path: &Path) -> Result<(), CliError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(CliError::Usage(format!("--out {}: is a folder; name a file", path.display())));
    }
    if !parent.is_dir() {
        return Err(CliError::Usage(format!(
            "--out {}: the folder {} does not exist",
            path.display(),
            parent.display()
        )));
    }
    Ok(())
}

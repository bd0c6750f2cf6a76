//! `run`: an objective becomes a run, which is watched to its end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::text::nfc;
use tree_agent_contract::{
    ReviewRule, RunContext, RunId, RunSpec, RunSummary, Scope, SearchConfig, Strategy,
};
use tree_agent_model::Switch;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::{Wire, budgets_of, request_of};
use tree_agent_runtime::channel::Connector;
use uuid::Uuid;

use super::budget::{BudgetArgs, PlanArgs};
use super::estimate::Asked;
use super::follow::{Reconnect, answer, leave};
use super::import::{DocumentFolder, Selection, check_folder, whole};
use super::objective::ObjectiveArgs;
use super::search_args::SearchArgs;
use super::{estimate, models};
use crate::client::{Client, summary};
use crate::cluster::{Access, Cluster, Data, EmbeddedArgs, Unfinished};
use crate::complete;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::{duration, key_value, strategies};
use crate::view::paint::count;
use crate::view::printable::one_line;

/// Give an objective and get the answer
///
/// The tree of agents grows on stderr: drawn in place on a terminal, as lines elsewhere. The answer goes to stdout,
/// alone, so that it can be piped. Without --project or --dir the run may read every project. A run that uses up a
/// budget returns what it has, as a partial result.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    objective: ObjectiveArgs,
    /// A project (name or id) that the run may read; can be repeated [default: every project]
    #[arg(short, long, value_name = "PROJECT", add = complete::projects())]
    project: Vec<String>,
    /// Import this folder into a project of the same name, and run on that
    #[arg(short, long, value_name = "DIR", conflicts_with = "project")]
    dir: Option<PathBuf>,
    /// The model of all roles (planner, executor, aggregator), or "help" for a list [default: the server's; with
    /// --local that of TREE_AGENT_MODEL]
    #[arg(short, long, value_name = "MODEL", default_value = "", hide_default_value = true, add = complete::models())]
    model: String,
    /// How it works: tree divides and merges, search goes topic by topic, homework in iterations
    #[arg(long, value_name = "STRATEGY", default_value = Strategy::Tree.as_str(),
          value_parser = strategies().try_map(|name| name.parse::<Strategy>()))]
    strategy: Strategy,
    /// Offer no tool that writes: the run writes its own documents only
    #[arg(long)]
    read_only: bool,
    /// Without --project and --dir: let the run write into every project that you may edit
    #[arg(long, conflicts_with_all = ["read_only", "project", "dir"])]
    write: bool,
    /// Have the answer verified before the run ends [default: with language models]
    #[arg(long)]
    verify: bool,
    /// Do not have the answer verified
    #[arg(long)]
    no_verify: bool,
    /// Wait for you once there is a plan; --review=10m goes on by itself after ten minutes
    #[arg(long, value_name = "AFTER", num_args = 0..=1, require_equals = true, value_parser = duration)]
    review: Option<Option<Duration>>,
    /// The language of the answer, such as de [default: that of the objective]
    #[arg(long, value_name = "CODE", default_value = "", hide_default_value = true)]
    language: String,
    /// Keep what each model call is sent, and what the model thinks and answers [default: on with tree-agent dev]
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    keep_prompts: Option<Switch>,
    /// A name for the run, shown in place of the objective
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// A label to find the run by; can be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = key_value)]
    label: Vec<(String, String)>,
    /// Write the answer to this file; a terminal also gets its first screen
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the id of the run and leave it to the server
    #[arg(long, conflicts_with = "out")]
    detach: bool,
    /// Print what the run can use at most, and do not start it
    #[arg(long, conflicts_with_all = ["detach", "out"])]
    estimate: bool,
    #[command(flatten)]
    reconnect: Reconnect,
    #[command(flatten, next_help_heading = "Files of --dir")]
    selection: Selection,
    #[command(flatten)]
    budgets: BudgetArgs,
    #[command(flatten)]
    plans: PlanArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Run in this process, without a server
    #[arg(long, conflicts_with = "detach", help_heading = "Without a server")]
    local: bool,
    /// Also resume the unfinished runs of the data directory
    #[arg(long, requires = "local", help_heading = "Without a server")]
    resume: bool,
    /// Whether runs may use the scripted model, which is for tests and benchmarks
    #[arg(
        long,
        value_name = "on|off",
        env = "TREE_AGENT_SCRIPTED",
        default_value = "off",
        help_heading = "Without a server"
    )]
    scripted: Switch,
    #[command(flatten, next_help_heading = "Without a server")]
    embedded: EmbeddedArgs,
}

const MORE: &str = "tree-agent run --help shows all options, and examples.";

const EXAMPLES: &str = "\
Examples:
  tree-agent run \"How does the lease work?\" --dir ./docs --local
  tree-agent run --file objective.md --project handbook > answer.md
  tree-agent run \"How do tides work?\" --strategy search --max-depth 3 --max-nodes 40
  tree-agent run \"What do our contracts say about notice?\" --strategy homework --max-iterations 3
  git diff | tree-agent run - --max-time 10m --max-cost 0.50";

impl Run {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if self.model == models::HELP {
            let list = if self.local {
                models::of_this_process(&self.embedded.roles.models(), self.scripted).await?
            } else {
                models::of_server(context).await?
            };
            return models::print(context, &list);
        }
        // Everything that can be wrong here is found before anything is written anywhere.
        let (budgets, search) = self.limits()?;
        let spec = RunSpec {
            budgets: budgets_of(self.strategy, budgets),
            model: self.model(),
            display_name: self.name.clone(),
            labels: self.label.iter().cloned().collect(),
            strategy: self.strategy,
            read_only: self.read_only,
            language: self.language.clone(),
            review: self.review()?,
            search: search.clone().map(SearchConfig::from_wire).transpose()?.map(Box::new),
            ..RunSpec::new(self.objective.read(self.estimate)?)
        };
        if !self.estimate {
            spec.validate().map_err(|e| CliError::Usage(e.to_string()))?;
        }
        spec.budgets.validate().map_err(|e| CliError::Usage(e.to_string()))?;
        self.dir.as_deref().map(check_folder).transpose()?;
        self.selection.check()?;
        self.out.as_deref().map(check_writable).transpose()?;
        let verify = (self.verify || self.no_verify).then_some(!self.no_verify);
        let keep_prompts = self.keep_prompts.map(|switch| switch == Switch::On);
        let write = self.write.then_some(true);
        let asked = Asked { spec, budgets, search, verify, keep_prompts, write };
        if self.estimate {
            return self.estimate(context, asked).await;
        }
        if self.local {
            return self.locally(context, asked, &interrupt()?).await;
        }
        let client = context.connect().await?;
        let interrupt = interrupt()?;
        match self.on(context, &client, asked, &interrupt).await? {
            Outcome::Done(exit) => Ok(exit),
            Outcome::Left(id) => Ok(leave(context, id)),
            Outcome::NotStarted => Ok(Exit::Interrupted),
        }
    }

    /// Whether the run waits for a person. In this process nobody but this terminal can answer.
    fn review(&self) -> Result<Option<ReviewRule>, CliError> {
        if self.local && self.review == Some(None) && !std::io::stdin().is_terminal() {
            let text =
                "--review with --local needs a terminal that can answer, or a time such as --review=10m";
            return Err(CliError::Usage(text.to_owned()));
        }
        let millis = |after: Duration| u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        Ok(self.review.map(|after| ReviewRule { goes_on_after_ms: after.map(millis), per_call: None }))
    }

    /// The limits that were given for the strategy. A flag that means nothing to it is an error.
    fn limits(&self) -> Result<(pb::Budgets, Option<pb::SearchConfig>), CliError> {
        let not_for_it = |flag: &str| {
            let strategy = self.strategy;
            CliError::Usage(format!("{flag} means nothing to the strategy {strategy}: leave it out"))
        };
        if self.strategy == Strategy::Search {
            self.plans.given().map_or(Ok(()), |flag| Err(not_for_it(flag)))?;
            return Ok((self.budgets.of_search(), Some(self.search.read(self.budgets.max_depth())?)));
        }
        if let Some(flag) = self.search.given() {
            return Err(CliError::Usage(format!("{flag} is for searches: add --strategy search")));
        }
        if self.strategy == Strategy::Homework {
            let depth = self.budgets.max_depth().map(|_| "--max-depth");
            self.plans.given_for_trees().or(depth).map_or(Ok(()), |flag| Err(not_for_it(flag)))?;
        } else if self.plans.max_iterations().is_some() {
            let text = "--max-iterations is for homework: add --strategy homework";
            return Err(CliError::Usage(text.to_owned()));
        }
        Ok((self.budgets.of_plans(&self.plans), None))
    }

    /// The model of the run; empty for the default.
    fn model(&self) -> String {
        if self.local && self.model.is_empty() {
            return std::env::var("TREE_AGENT_MODEL").unwrap_or_default();
        }
        self.model.clone()
    }

    async fn estimate(&self, context: &Context, asked: Asked) -> Result<Exit, CliError> {
        let estimate = if self.local {
            estimate::of_this_process(&asked.spec, asked.verify, &self.embedded.roles.models())
        } else {
            estimate::of_server(context, asked).await?
        };
        estimate::print(context, &estimate)?;
        Ok(Exit::Success)
    }

    /// Brings a cluster up in this process for as long as the run lasts.
    async fn locally(
        &self,
        context: &Context,
        asked: Asked,
        interrupt: &CancellationToken,
    ) -> Result<Exit, CliError> {
        let data_dir = self.embedded.data_dir()?;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let unfinished = if self.resume { Unfinished::Resume } else { Unfinished::LeaveAlone };
        let access = Access { connect: context.connect.clone(), ..Access::default() };
        let data = Data::Dir(&data_dir, unfinished);
        let mut cluster =
            Cluster::start(anywhere, data, &self.model(), self.scripted, &self.embedded.roles, &access)
                .await?;
        let dir = data_dir.display();
        if cluster.left_alone > 0 {
            context.out.note(format!(
                "{dir} holds {}, left alone; resume with `tree-agent dev --data-dir {dir}` or `run --local --resume`",
                count(cluster.left_alone, "unfinished run")
            ));
        }
        let server = cluster.url();
        let work = async {
            let client = Client::connect(&server, &Connector::default()).await?;
            self.on(context, &client, asked, interrupt).await
        };
        let ended = tokio::select! {
            ended = work => ended,
            error = cluster.failed() => Err(error),
        };
        cluster.stop().await;
        match ended? {
            Outcome::Done(exit) => {
                context.out.note(format!("read it again with `tree-agent result @latest --data-dir '{dir}'`"));
                return Ok(exit);
            }
            Outcome::Left(id) => context.out.note(format!(
                "run {id} is kept in {dir}; resume it with `tree-agent dev --data-dir {dir}`, and watch it there with \
                 `tree-agent watch {id}`"
            )),
            Outcome::NotStarted => {}
        }
        Ok(Exit::Interrupted)
    }

    /// Creates the run on a server and follows it.
    async fn on(
        &self,
        context: &Context,
        client: &Client,
        mut asked: Asked,
        interrupt: &CancellationToken,
    ) -> Result<Outcome, CliError> {
        let created = async {
            asked.spec.context = self.context(context, client).await?;
            create(context, client, asked).await
        };
        let run = tokio::select! {
            created = created => created?,
            () = interrupt.cancelled() => {
                context.out.note("interrupted before the run started");
                return Ok(Outcome::NotStarted);
            }
        };
        let (policy, how) = (self.reconnect.policy(), (self.detach, self.out.as_deref()));
        let exit = answer(context, client, &run, policy, how, interrupt).await?;
        Ok(exit.map_or(Outcome::Left(run.run_id), Outcome::Done))
    }

    async fn context(&self, context: &Context, client: &Client) -> Result<RunContext, CliError> {
        if let Some(dir) = &self.dir {
            let name = folder_name(dir)?;
            let folder = DocumentFolder::of_run(dir, None, &name, &self.selection, self.local);
            let imported = folder.import(context, client).await?;
            context.out.note(imported.sentence());
            return Ok(RunContext::project(imported.project_id));
        }
        context_of(client, &self.project).await
    }
}

/// The context of the projects that `keys` name; every project without any.
pub(super) async fn context_of(client: &Client, keys: &[String]) -> Result<RunContext, CliError> {
    let mut project_ids = Vec::new();
    for key in keys {
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

/// How the command ended.
enum Outcome {
    /// It did what it was asked to do.
    Done(Exit),
    /// The user left; the run continues.
    Left(RunId),
    /// The user left before there was a run.
    NotStarted,
}

/// Creates the run. Every attempt carries the same request id, so that a repeated one makes no second run.
async fn create(context: &Context, client: &Client, asked: Asked) -> Result<RunSummary, CliError> {
    let Asked { spec, budgets, search, verify, keep_prompts, write } = asked;
    let message = pb::CreateRunRequest {
        request_id: Uuid::new_v4().to_string(),
        budgets: Some(budgets),
        search,
        verify,
        keep_prompts,
        write,
        ..request_of(&spec)
    };
    created(context, client.ask(message).await?)
}

/// The run that was created. What its user should know is said.
pub(super) fn created(context: &Context, created: pb::CreateRunResponse) -> Result<RunSummary, CliError> {
    created.warnings.iter().for_each(|warning| context.out.warn(one_line(&format!("warning: {warning}"))));
    summary(created.run)
}

/// The name of a folder, also of `.` and `..`.
pub(super) fn folder_name(dir: &Path) -> Result<String, CliError> {
    Ok(whole(dir)?.file_name().map_or_else(|| "root".to_owned(), |name| nfc(&name.to_string_lossy())))
}

/// An error unless a file can be made at `path`.
pub(super) fn check_writable(path: &Path) -> Result<(), CliError> {
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

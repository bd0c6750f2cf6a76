//! `search`: a guided search that grows as a folder.

mod growing;
mod logged;
mod taking_over;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::command::Action;
use tree_agent_contract::search::SearchCounts;
use tree_agent_contract::{
    Command, ModelChoice, RunContext, RunId, RunSpec, RunStatus, SearchConfig, Strategy, limits,
};
use tree_agent_engine::Graph;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_mirror::{Folder, LocalDisk, Problem, Root, edits};
use tree_agent_model::Switch;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::{Wire, budgets_of};
use tree_agent_runtime::channel::Connector;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{ProjectQuery, Projects, Runs, Store};

use self::growing::Growing;
use self::logged::{Logged, titles, unfinished, unreadable, wanted};
use self::taking_over::NewSearch;
use super::budget::BudgetArgs;
use super::export::unusable;
use super::follow::{Events, Followed, follow};
use super::import::{DocumentFolder, Selection, check_folder, whole};
use super::models;
use super::objective::ObjectiveArgs;
use super::run::folder_name;
use super::search_args::SearchArgs;
use crate::client::Client;
use crate::client::reconnect::Policy;
use crate::client::watch::{End, Wanted};
use crate::cluster::{Access, Cluster, Data, RoleFlags, chain};
use crate::complete;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;
use crate::view::printable::one_line;

/// Notices about a folder that are told; further ones are counted.
const NAMED: usize = 10;

/// Research a topic and write what is found as a folder that grows
///
/// The first level is researched whole. Then a picker chooses where to dig deeper. DIR gets a folder for each topic,
/// with document.md, children.json (the topics below) and node.json (title and status), and at the end overview.md,
/// which answers the prompt. It must be empty, new, or of an earlier search. The log is in DIR/.tree-agent.
///
/// The same command again continues a search that was interrupted. If the search has ended, or files were edited, a new
/// search takes the folder over: what is complete stays as it is, and titles and topics that you wrote are used.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("objective", |arg| arg.value_name("PROMPT")))]
pub(crate) struct Search {
    #[command(flatten)]
    objective: ObjectiveArgs,
    /// The folder that grows
    #[arg(short, long, value_name = "DIR", required_unless_present = "project")]
    root_dir: Option<PathBuf>,
    /// Only to say what was meant
    #[arg(short, long, value_name = "PROJECT", hide = true)]
    project: Option<String>,
    /// Import this folder of documents, and search in them
    #[arg(short, long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The model of all roles, or "help" for a list [default: llm when a language model is set, else offline]
    #[arg(short, long, value_name = "MODEL", env = "TREE_AGENT_MODEL", default_value = "", hide_default_value = true,
          add = complete::models())]
    model: String,
    /// Whether the scripted model may be used, which is for tests and benchmarks
    #[arg(long, value_name = "on|off", env = "TREE_AGENT_SCRIPTED", default_value = "off")]
    scripted: Switch,
    #[command(flatten)]
    roles: RoleFlags,
    #[command(flatten, next_help_heading = "Files of --dir")]
    selection: Selection,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    budgets: BudgetArgs,
}

const EXAMPLES: &str = "\
Examples:
  tree-agent search \"How do tides work?\" --root-dir ./tides --max-depth 3
  tree-agent search \"What did we decide?\" --root-dir ./answer --dir ./docs -o jsonl";

/// What happens in a folder.
enum Next {
    /// Its search continues.
    Continue(Box<Growing>),
    /// A search begins, with what the folder holds.
    Begin {
        root: Root,
        folder: Box<Folder>,
        /// The titles that the last search gave the nodes, by their paths.
        known: HashMap<String, String>,
    },
}

/// How the search ended, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Searched {
    run_id: RunId,
    dir: PathBuf,
    status: RunStatus,
    partial: bool,
    #[serde(flatten)]
    counts: Option<SearchCounts>,
}

/// Why a search was not followed to its end.
enum Left {
    /// The user left.
    Interrupted,
    /// Something failed.
    Failed(CliError),
}

impl From<CliError> for Left {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

impl Search {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if self.model == models::HELP {
            let list = models::of_this_process(&self.roles.models(), self.scripted).await?;
            return models::print(context, &list);
        }
        let (Some(root_dir), None) = (&self.root_dir, &self.project) else {
            return Err(CliError::Usage(
                "--project: `tree-agent search` writes a folder, and reads one with --dir. Search the documents of a \
                 project with `tree-agent docs search QUERY --project NAME`, or research a topic in them with \
                 `tree-agent run --strategy search --project NAME PROMPT`"
                    .into(),
            ));
        };
        // Everything that can be wrong here is found before anything is written anywhere.
        let mut spec = self.spec()?;
        self.dir.as_deref().map(check_folder).transpose()?;
        self.selection.check()?;
        let interrupt = interrupt()?;
        let holder = format!("process {} (tree-agent search)", std::process::id());
        let root = Root::open(root_dir, &holder).map_err(unusable)?;
        let dir = root.dir().to_owned();
        let except = self.dir.as_deref().map(|docs| within(&dir, docs)).transpose()?.flatten();
        let folder = root.read().map_err(unusable)?;
        tell(context, &folder.notices);
        let store = EmbeddedStore::open(root.state_dir()).await.map_err(|e| CliError::Usage(chain(&e)))?;
        // What other runs a server has made of this log stays as it is.
        store.set_unfinished_aside().await.map_err(unreadable)?;
        store.end_leases().await.map_err(unreadable)?;
        let documents = self.known_documents(&store).await?;
        spec.context = documents.clone().unwrap_or_default();
        let is_known = self.dir.is_none() || documents.is_some();
        let next = next(context, &store, root, folder, Some(&spec).filter(|_| is_known)).await?;
        let work = Work { command: self, context, store: store.clone(), dir, except, interrupt: &interrupt };
        work.run(spec, next).await
    }

    fn spec(&self) -> Result<RunSpec, CliError> {
        let usage = |e: &dyn std::fmt::Display| CliError::Usage(e.to_string());
        let search = SearchConfig::from_wire(self.search.read(self.budgets.max_depth())?)?;
        let spec = RunSpec {
            strategy: Strategy::Search,
            search: Some(Box::new(search)),
            budgets: budgets_of(Strategy::Search, self.budgets.of_search()),
            model: self.model.clone(),
            ..RunSpec::new(self.objective.read(false)?)
        };
        spec.validate().map_err(|e| usage(&e))?;
        ModelChoice::parse(&spec.model).map_err(|e| CliError::Usage(format!("--model: {}", e.message)))?;
        Ok(spec)
    }

    /// The documents of `--dir`, if an earlier search has imported them.
    async fn known_documents(&self, store: &EmbeddedStore) -> Result<Option<RunContext>, CliError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let name = folder_name(dir)?;
        let query =
            ProjectQuery { name_contains: name.clone(), limit: limits::PAGE_MAX, ..ProjectQuery::default() };
        let page = store.list_projects(query).await.map_err(unreadable)?;
        let is_it = |other: &str| other.to_lowercase() == name.to_lowercase();
        Ok(page.items.iter().find(|project| is_it(&project.name)).map(|p| RunContext::project(p.id)))
    }
}

/// The folder `root` within the folder `docs` of documents, which is not imported.
fn within(root: &Path, docs: &Path) -> Result<Option<PathBuf>, CliError> {
    match root.strip_prefix(whole(docs)?) {
        Ok(path) if path.as_os_str().is_empty() => Err(CliError::Usage(
            "--dir and --root-dir are the same folder; name another one for what the search writes".into(),
        )),
        Ok(path) => Ok(Some(docs.join(path))),
        Err(_) => Ok(None),
    }
}

/// Says what is on the disk and is left alone.
fn tell(context: &Context, notices: &[Problem]) {
    for notice in notices.iter().take(NAMED) {
        context.out.warn(format!("note: {}", one_line(&notice.to_string())));
    }
    if let Some(more @ 1..) = notices.len().checked_sub(NAMED) {
        context.out.warn(format!("note: and {more} more"));
    }
}

/// What happens in `root`, which holds `folder`, if `spec` is asked for; none if it cannot have been asked for before.
async fn next(
    context: &Context,
    store: &EmbeddedStore,
    root: Root,
    folder: Folder,
    spec: Option<&RunSpec>,
) -> Result<Next, CliError> {
    let (out, dir) = (&context.out, root.dir().display().to_string());
    let Some(mut logged) = Logged::latest(store).await? else {
        return Ok(Next::Begin { root, folder: Box::new(folder), known: HashMap::new() });
    };
    let changes = logged.growth.take(&logged.graph);
    let known = titles(&changes);
    let edits = edits(&wanted(store, &changes).await?, &folder);
    let is_unfinished = !logged.graph.status().is_final();
    if !edits.is_empty() {
        if is_unfinished {
            out.warn(format!(
                "{dir} was edited: its unfinished search is cancelled, and a new one takes over"
            ));
            tell(context, &edits);
        }
        return Ok(Next::Begin { root, folder: Box::new(folder), known });
    }
    // What a crash kept from the folder.
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let run = (logged.graph, logged.growth);
    let mut growing = Growing::new(store, (root, &folder), Box::new(LocalDisk), run, HashSet::new())?;
    growing.record(&changes).await?;
    if is_unfinished && spec == Some(&logged.spec) {
        out.note(format!("the search in {dir} continues after {}", found(growing.graph())));
        return Ok(Next::Continue(Box::new(growing)));
    }
    if is_unfinished {
        out.warn(format!(
            "the unfinished search in {dir} was asked for something else ({}): it is cancelled, and a new one takes over",
            one_line(&logged.spec.title())
        ));
    }
    let root = growing.into_root();
    let folder = root.read().map_err(unusable)?;
    Ok(Next::Begin { root, folder: Box::new(folder), known })
}

fn found(graph: &Graph) -> String {
    let topics = graph.nodes().iter().filter(|node| node.parent_id.is_some());
    count(topics.filter(|node| node.result.is_some()).count(), "document")
}

/// A search in its folder.
struct Work<'a> {
    command: &'a Search,
    context: &'a Context,
    store: EmbeddedStore,
    /// The folder that grows.
    dir: PathBuf,
    /// The same within the folder of documents.
    except: Option<PathBuf>,
    interrupt: &'a CancellationToken,
}

impl Work<'_> {
    /// Brings a cluster up in this process for as long as the search lasts.
    async fn run(&self, spec: RunSpec, next: Next) -> Result<Exit, CliError> {
        let command = self.command;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let data = Data::Open(self.store.clone());
        let access = Access { connect: self.context.connect.clone(), ..Access::default() };
        let started =
            Cluster::start(anywhere, data, &command.model, command.scripted, &command.roles, &access);
        let mut cluster = started.await?;
        let (server, fanout) = (cluster.url(), cluster.fanout.clone());
        // Out here, so that the folder is locked until the cluster has stopped.
        let mut held = None;
        let work = async {
            let client = Client::connect(&server, &Connector::default()).await?;
            let begun = async {
                match next {
                    Next::Continue(growing) => self.goes_on(*growing, &*fanout).await,
                    Next::Begin { root, folder, known } => {
                        self.begin(&client, &*fanout, spec, (root, &folder), &known).await
                    }
                }
            };
            let (growing, after) = tokio::select! {
                begun = begun => begun?,
                () = self.interrupt.cancelled() => return Err(Left::Interrupted),
            };
            self.follow(&client, held.insert(growing), after).await
        };
        let ended = tokio::select! {
            ended = work => ended,
            error = cluster.failed() => Err(Left::Failed(error)),
        };
        cluster.stop().await;
        match (ended, held) {
            (Ok(end), Some(growing)) => self.conclude(&growing, &end),
            (Err(Left::Failed(error)), _) => Err(error),
            (Ok(_), None) | (Err(Left::Interrupted), _) => {
                let dir = self.dir.display();
                self.context.out.note(format!("the search is kept in {dir}; the same command continues it"));
                Ok(Exit::Interrupted)
            }
        }
    }

    /// The unfinished search continues, and what was before it ends.
    async fn goes_on(&self, growing: Growing, fanout: &dyn Fanout) -> Result<(Growing, u64), CliError> {
        let (run, seq) = (growing.run(), growing.graph().seq());
        self.end_all_but(run).await?;
        self.store.bring_back(run).await.map_err(unreadable)?;
        wake(fanout).await;
        Ok((growing, seq))
    }

    /// A new search begins with what `folder` holds.
    async fn begin(
        &self,
        client: &Client,
        fanout: &dyn Fanout,
        mut spec: RunSpec,
        (root, folder): (Root, &Folder),
        known: &HashMap<String, String>,
    ) -> Result<(Growing, u64), CliError> {
        let out = &self.context.out;
        check_model(client, &spec.model).await?;
        if let Some(docs) = &self.command.dir {
            let except = self.except.as_deref();
            let (name, selection) = (folder_name(docs)?, &self.command.selection);
            let docs = DocumentFolder::of_run(docs, except, &name, selection, true);
            let imported = docs.import(self.context, client).await?;
            out.note(imported.sentence());
            spec.context = RunContext::project(imported.project_id);
        }
        let search = NewSearch::of(spec, folder, known)?;
        tell(self.context, &search.notices);
        let (taken_over, dir) = (search.taken_over(), self.dir.display());
        if taken_over > 0 {
            out.note(format!("a new search takes over {} of {dir}", count(taken_over, "document")));
        }
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let run = (search.graph, search.growth);
        let mut growing = Growing::new(store, (root, folder), Box::new(LocalDisk), run, search.documents)?;
        // The folder comes first: after a crash in between, it holds everything that the next search takes over, with
        // titles that agree.
        growing.write().await?;
        self.store.create_run(search.run).await.map_err(unreadable)?;
        self.end_all_but(growing.run()).await?;
        wake(fanout).await;
        Ok((growing, 0))
    }

    /// Cancels the searches of the folder that a newer one has replaced.
    async fn end_all_but(&self, run: RunId) -> Result<(), CliError> {
        for other in unfinished(&self.store).await?.into_iter().filter(|other| *other != run) {
            let reason = "a new search took its folder over".to_owned();
            self.store
                .send_command(other, Command::new(Action::Cancel { reason }))
                .await
                .map_err(unreadable)?;
            self.store.bring_back(other).await.map_err(unreadable)?;
        }
        Ok(())
    }

    /// Shows the events of the search after `after`, and lets its folder grow.
    async fn follow(&self, client: &Client, growing: &mut Growing, after: u64) -> Result<End, Left> {
        let (run, policy) = (growing.run(), Policy::default());
        let wanted = Wanted::after(after);
        let shown = async {
            match follow(self.context, client, run, wanted, policy, Events::Steps, self.interrupt).await? {
                Followed::Ended(_) => Ok(()),
                Followed::Interrupted => Err(Left::Interrupted),
            }
        };
        let grown = async { growing.follow(client, policy).await.map_err(Left::Failed) };
        let ((), end) = tokio::try_join!(shown, grown)?;
        Ok(end)
    }

    /// Says how the search ended.
    fn conclude(&self, growing: &Growing, end: &End) -> Result<Exit, CliError> {
        let (out, dir) = (&self.context.out, self.dir.display());
        let because = end.reason.as_deref().map(|r| format!(": {}", one_line(r))).unwrap_or_default();
        if end.status != RunStatus::Completed {
            out.warn(format!("error: the search did not complete: status {}{because}", end.status));
        } else if end.partial {
            out.warn(format!(
                "note: the search is partial{because}; the same command, or one with larger limits, goes on from what is in \
                 {dir}"
            ));
        }
        let counts = counts(growing.graph());
        if out.is_jsonl() {
            return Ok(Exit::of_run(end.status));
        }
        if out.is_json() {
            let (run_id, dir) = (growing.run(), self.dir.clone());
            out.json(&Searched { run_id, dir, status: end.status, partial: end.partial, counts })?;
        } else if let Some(counts) = counts {
            out.line(counts.sentence())?;
        }
        Ok(Exit::of_run(end.status))
    }
}

/// The counts in the result of the root.
fn counts(graph: &Graph) -> Option<SearchCounts> {
    let payload = graph.nodes().first()?.result.as_ref()?.json_payload.clone()?;
    serde_json::from_value(payload.into()).ok()
}

/// An error unless the model can be used.
async fn check_model(client: &Client, model: &str) -> Result<(), CliError> {
    let message = pb::EstimateRunRequest { model: model.to_owned(), ..Default::default() };
    client.ask(message).await.map(drop)
}

/// Tells the driver that there is work. If it does not hear this, it looks by itself a little later.
async fn wake(fanout: &dyn Fanout) {
    if let Err(error) = fanout.publish(vec![(Topic::Wake, Bytes::new())]).await {
        tracing::debug!("the driver was not woken: {error}");
    }
}

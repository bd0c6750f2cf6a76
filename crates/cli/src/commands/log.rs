//! `log`: moves ended runs out of a store and back, and looks after its partitions.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::json;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_maintenance::archive::{archive, prune, restore};
use tree_agent_store::Archives;

use super::confirm::confirmed;
use super::store::{StoreArgs, failed, find, refused};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{List, Rows};
use crate::value::{RunRef, duration};
use crate::view::paint::count;
use crate::view::table::Cell;
use crate::view::usage::grouped;

/// Runs of one page.
const PAGE: usize = 1_000;

/// Archive ended runs, remove them from the store, and bring them back
///
/// Services can run at the same time.
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write each run to a file of its own, RUN.jsonl.gz, and check it
    ///
    /// The store keeps the runs.
    Archive {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Archive runs and remove them from the store
    ///
    /// A run is removed when its archive was checked to hold what the store holds. On a terminal the runs are listed
    /// and removed after a confirmation; elsewhere --yes is needed.
    Prune {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
        /// Only say which runs would be removed
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
        /// Remove without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Bring archived runs back as they were
    ///
    /// The store may be another one than the runs were archived from. A run that it has is left as it is.
    Restore {
        /// The folder of the archives
        folder: PathBuf,
        /// The runs
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<RunId>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Make the partitions of this month and the next ones, and list all of them (Postgres)
    Partitions {
        /// Months ahead
        #[arg(long, value_name = "MONTHS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=120))]
        ahead: u32,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Which runs, and where to.
#[derive(Debug, Args)]
struct Which {
    /// The folder of the archives; created if it does not exist
    folder: PathBuf,
    /// The runs; they must have ended
    #[arg(value_name = "RUN", required_unless_present = "older_than")]
    runs: Vec<RunRef>,
    /// Every run that ended at least this long ago, such as 90d or 12h
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "runs")]
    older_than: Option<Duration>,
}

impl Log {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        match &self.action {
            Action::Archive { which, store } => {
                let store = store.open().await?;
                let mut list = context.out.is_json().then(|| context.out.list());
                for run in which.ids(&*store).await? {
                    let done = archive(&*store, run, &which.folder).await.map_err(failed)?;
                    let shown = done.file.display().to_string();
                    if let Some(list) = &mut list {
                        list.item(&json!({
                            "runId": run, "file": shown, "events": done.events, "documents": done.documents,
                            "sha256": done.sha256,
                        }))?;
                    } else {
                        let events = count(done.events as usize, "event");
                        context.out.line(format!("run {run}: {events} in {shown}"))?;
                    }
                }
                list.map(List::finish).transpose()?;
            }
            Action::Prune { which, store, dry_run, yes } => {
                let store = store.open().await?;
                let runs = which.ids(&*store).await?;
                let number = count(runs.len(), "run");
                let them = if runs.len() == 1 { "it" } else { "them" };
                let question = format!("Archive {number} and remove {them} from the store?");
                let without = format!(
                    "{number} would be removed from the store; there is no terminal to confirm it on: repeat with --yes, \
                     or with --dry-run to see which"
                );
                if !dry_run && !yes && !runs.is_empty() && !confirmed(&runs, &question, &without)? {
                    context.out.warn("nothing was removed");
                    return Ok(Exit::Usage);
                }
                let mut list = context.out.is_json().then(|| context.out.list());
                for run in &runs {
                    remove(context, list.as_mut(), &*store, *run, which, *dry_run).await?;
                }
                match list {
                    Some(list) => list.finish()?,
                    None if runs.is_empty() => context.out.note("no run is that old"),
                    None => {}
                }
                if !dry_run {
                    for partition in store.tidy().await.map_err(refused)? {
                        context
                            .out
                            .note(format!("partition {partition} dropped: all of its runs are archived"));
                    }
                }
            }
            Action::Restore { folder, runs, store } => {
                let store = store.open().await?;
                let mut list = context.out.is_json().then(|| context.out.list());
                for run in runs {
                    let restored = restore(&*store, *run, folder).await.map_err(failed)?;
                    if let Some(list) = &mut list {
                        list.item(&json!({"runId": run, "restored": restored}))?;
                    } else {
                        let what = if restored { "restored" } else { "is in the store already" };
                        context.out.line(format!("run {run}: {what}"))?;
                    }
                }
                list.map(List::finish).transpose()?;
            }
            Action::Partitions { ahead, store } => {
                let store = store.open().await?;
                let made = store.make_partitions(*ahead).await.map_err(refused)?;
                partitions(context, &*store, made).await?;
            }
        }
        Ok(Exit::Success)
    }
}

/// Archives a run that is not archived yet, and removes it.
async fn remove(
    context: &Context,
    list: Option<&mut List<'_>>,
    store: &dyn Archives,
    run: RunId,
    which: &Which,
    dry_run: bool,
) -> Result<(), CliError> {
    if !dry_run {
        // A run that was pruned before an interruption is not archived again.
        if store.run_record(run).await.map_err(refused)?.archive_sha256.is_none() {
            archive(store, run, &which.folder).await.map_err(failed)?;
        }
        prune(store, run, &which.folder).await.map_err(failed)?;
    }
    if let Some(list) = list {
        return list.item(&json!({"runId": run, "removed": !dry_run}));
    }
    let what = if dry_run { "would be archived and removed" } else { "archived and removed" };
    context.out.line(format!("run {run}: {what}"))
}

async fn partitions(context: &Context, store: &dyn Archives, made: u32) -> Result<(), CliError> {
    let partitions = store.partitions().await.map_err(refused)?;
    context.out.note(format!("{} made", count(made as usize, "partition")));
    let mut rows = Rows::new(&context.out, &["NAME", "BYTES"]);
    for p in partitions {
        let item = json!({
            "name": p.name, "from": p.from, "to": p.to, "default": p.is_default, "bytes": p.bytes,
        });
        rows.push(&item, |_| vec![Cell::plain(&p.name), Cell::plain(grouped(p.bytes))])?;
    }
    rows.finish()?;
    Ok(())
}

impl Which {
    async fn ids(&self, store: &dyn Archives) -> Result<Vec<RunId>, CliError> {
        let Some(age) = self.older_than else { return find(store, &self.runs).await };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = Timestamp(i64::try_from(now.saturating_sub(age).as_micros()).unwrap_or(i64::MAX));
        let mut ids: Vec<RunId> = Vec::new();
        loop {
            let page = store.ended_runs(before, ids.last().copied(), PAGE).await.map_err(refused)?;
            let whole = page.len() == PAGE;
            ids.extend(page);
            if !whole {
                return Ok(ids);
            }
        }
    }
}

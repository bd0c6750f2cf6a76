//! `log`: moves ended runs out of a store and back, and looks after its partitions.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::json;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_maintenance::archive::{archive, path_of, prune, restore};
use tree_agent_store::Archives;

use super::store::{StoreArgs, failed, refused};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;

/// Runs of one page.
const PAGE: usize = 1_000;

/// Archive ended runs, remove them from the store, and bring them back, beside running services
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write each run to a file of its own, RUN.jsonl.gz, and check it; the store keeps the runs
    Archive {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Archive runs, check that the files hold what the store holds, and remove them from the store
    Prune {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        store: StoreArgs,
        /// Only say which runs would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring archived runs back as they were
    Restore {
        /// The folder of the archives
        folder: PathBuf,
        /// The runs
        #[arg(required = true)]
        runs: Vec<RunId>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Make the partitions of this month and the next ones, and list all (Postgres)
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
    /// The folder of the archives; made when it is not there
    folder: PathBuf,
    /// The runs; they must have ended
    #[arg(required_unless_present = "older_than")]
    runs: Vec<RunId>,
    /// Every run that ended so long ago, such as 90d or 12h
    #[arg(long, value_name = "AGE", value_parser = age, conflicts_with = "runs")]
    older_than: Option<Duration>,
}

impl Log {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        match &self.action {
            Action::Archive { which, store } => {
                let store = store.open().await?;
                for run in which.ids(&*store).await? {
                    let done = archive(&*store, run, &which.folder).await.map_err(failed)?;
                    let shown = done.file.display().to_string();
                    if context.out.is_jsonl() {
                        context.out.json(&json!({
                            "runId": run, "file": shown, "events": done.events, "documents": done.documents,
                            "sha256": done.sha256,
                        }))?;
                    } else {
                        let events = count(done.events as usize, "event");
                        context.out.line(format!("run {run}: {events} in {shown}"))?;
                    }
                }
            }
            Action::Prune { which, store, dry_run } => {
                let store = store.open().await?;
                for run in which.ids(&*store).await? {
                    remove(context, &*store, run, which, *dry_run).await?;
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
                for run in runs {
                    let (run, restored) = restore(&*store, &path_of(folder, *run)).await.map_err(failed)?;
                    if context.out.is_jsonl() {
                        context.out.json(&json!({"runId": run, "restored": restored}))?;
                    } else {
                        let what = if restored { "restored" } else { "is in the store already" };
                        context.out.line(format!("run {run}: {what}"))?;
                    }
                }
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

/// Archives a run when that was not done yet, and removes it.
async fn remove(
    context: &Context,
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
    if context.out.is_jsonl() {
        return context.out.json(&json!({"runId": run, "removed": !dry_run}));
    }
    let what = if dry_run { "would be archived and removed" } else { "archived and removed" };
    context.out.line(format!("run {run}: {what}"))
}

async fn partitions(context: &Context, store: &dyn Archives, made: u32) -> Result<(), CliError> {
    let partitions = store.partitions().await.map_err(refused)?;
    if context.out.is_jsonl() {
        for p in partitions {
            context.out.json(&json!({
                "name": p.name, "from": p.from, "to": p.to, "default": p.is_default, "bytes": p.bytes,
            }))?;
        }
        return Ok(());
    }
    context.out.note(format!("{} made", count(made as usize, "partition")));
    for p in partitions {
        context.out.line(format!("{:>12} bytes  {}", p.bytes, p.name))?;
    }
    Ok(())
}

impl Which {
    async fn ids(&self, store: &dyn Archives) -> Result<Vec<RunId>, CliError> {
        let Some(age) = self.older_than else { return Ok(self.runs.clone()) };
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

/// Reads an age such as `90d`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no age; expected a number and d, h, m or s, such as 90d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "d" => 86_400,
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(age("0s"), Ok(Duration::ZERO));
        for wrong in ["", "d", "90", "90y", "-1d", "1.5h", "ä"] {
            assert!(age(wrong).unwrap_err().contains("such as 90d"), "{wrong}");
        }
    }
}

//! `runs`: the runs of a server.

mod filter;
mod live;
mod row;
mod tree;

use clap::Args;

use self::filter::Filter;
pub(super) use self::row::Names;
use self::row::{HEADERS, cells, titled};
use super::follow::{Reconnect, now};
use super::store::KeptArgs;
use crate::client::find::NO_RUNS;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Rows;

/// List runs, newest first
///
/// A run is named by its whole id, by the beginning or the end of it, or by @latest, @2, @3 and so on, counted from
/// the newest.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// List at most this many; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Put forks below the runs that they fork, with what they do differently
    #[arg(long, conflicts_with = "watch")]
    tree: bool,
    /// Keep the list up to date until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    reconnect: Reconnect,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    pub(crate) kept: KeptArgs,
}

impl Runs {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let filter = self.filter.request(&client).await?;
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        if self.watch {
            let policy = self.reconnect.policy();
            let list = live::List::new(limit, self.nothing());
            return live::watch(context, &client, filter, list, policy, &interrupt()?).await;
        }
        let mut names = Names::default();
        let mut rows = Rows::new(&context.out, HEADERS);
        let mut runs = client.list_runs(filter, limit);
        let mut all = Vec::new();
        while let Some(mut page) = runs.page().await? {
            if !context.out.is_json() {
                names.learn(&client, &page).await?;
            }
            if self.tree {
                all.append(&mut page);
            }
            for run in &page {
                rows.push(run, |run| cells(run, &names, now(), context.out.is_terminal()))?;
            }
        }
        for (level, run) in tree::in_lineage(all) {
            let name = tree::name(level, &run);
            rows.push(&run, |run| titled(cells(run, &names, now(), context.out.is_terminal()), name))?;
        }
        let more = runs.has_more();
        if rows.finish()? == 0 {
            context.out.note(self.nothing());
        } else if more {
            context.out.note("there are more; list all of them with --limit 0");
        }
        Ok(Exit::Success)
    }

    /// What is said of an empty list.
    fn nothing(&self) -> String {
        match self.filter.words() {
            None => NO_RUNS.to_owned(),
            Some(filter) => format!("no run matches {filter}"),
        }
    }
}

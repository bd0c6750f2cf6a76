//! `watch`: a run, live, until it ends.

use std::time::Duration;

use clap::Args;

use super::events::Only;
use super::follow::{Events, Followed, Synthesis, conclude, follow};
use super::runs::Names;
use crate::client::reconnect::Policy;
use crate::client::watch::Wanted;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::{RunRef, duration};
use crate::view::printable::one_line;
use crate::{Context, complete, interrupt};

/// Watch a run until it ends
///
/// A lost connection is made again, and no event is lost or shown twice. The exit code tells how the run ended. On a
/// terminal the tree is drawn in place; in a pipe there is a line for each event of note.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// Start after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after_seq: u64,
    #[command(flatten)]
    only: Only,
    #[command(flatten)]
    reconnect: Reconnect,
}

/// How long to keep trying when the connection is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reconnect {
    /// How long to keep trying when the connection is lost
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    give_up_after: Duration,
}

impl Reconnect {
    pub(crate) fn policy(&self) -> Policy {
        Policy { give_up_after: self.give_up_after, ..Policy::default() }
    }
}

impl Watch {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        if !context.out.is_json() {
            let summary = client.run(run).await?;
            let mut names = Names::default();
            names.learn(&client, std::slice::from_ref(&summary)).await?;
            let copy = summary.spec.copy_of.map(|copied| format!("; a copy of run {copied}"));
            let shown = one_line(&names.context(&summary));
            context.out.note(format!("context: {shown}{}", copy.unwrap_or_default()));
        }
        let wanted = Wanted {
            after_seq: self.after_seq,
            node: self.only.node(&client, run).await?,
            types: self.only.types.clone(),
        };
        // Until here Ctrl-C simply ends the process.
        let interrupt = interrupt()?;
        let policy = self.reconnect.policy();
        match follow(context, &client, run, wanted, policy, Events::Answer, &interrupt).await? {
            Followed::Ended(end) => conclude(context, &client, run, &end, Synthesis::Mention).await,
            Followed::Interrupted => {
                context
                    .out
                    .note(format!("run {run} continues; watch it again with `tree-agent watch {run}`"));
                Ok(Exit::Interrupted)
            }
        }
    }
}

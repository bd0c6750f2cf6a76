//! `watch`: a run, live, until it ends.

use clap::Args;

use super::events::Only;
use super::follow::{Events, Followed, Reconnect, Synthesis, conclude, follow, leave};
use super::runs::Names;
use crate::client::watch::Wanted;
use crate::complete;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::printable::one_line;

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
            Followed::Interrupted => Ok(leave(context, run)),
        }
    }
}

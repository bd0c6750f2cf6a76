//! `diff`: two runs, compared.

use clap::Args;
use tree_agent_contract::RunId;
use tree_agent_contract::diff::RunDiff;
use tree_agent_contract::limits;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::store::KeptArgs;
use crate::client::{Client, present};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::diff::{Nodes, report};

/// Compare two runs: cost, time, outcome, every node, and what they returned
///
/// Runs that share nodes, as a fork and its parent do, are compared by the ids of the nodes. Independent runs are
/// compared by steps and titles. In the tree, = is a node that is the same, ~ one that has changed, - one that only A
/// has, and + one that only B has. Parts of the tree that are the same are folded.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The first run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(value_name = "A", add = complete::runs())]
    a: RunRef,
    /// The second run, named in the same way
    #[arg(value_name = "B", add = complete::runs())]
    b: RunRef,
    /// A as it was after this event
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    a_seq: Option<u64>,
    /// B as it was after this event
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    b_seq: Option<u64>,
    /// Show every node, also those that are the same
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) kept: KeptArgs,
}

impl Diff {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let (a, b) = (client.find_run(&self.a).await?, client.find_run(&self.b).await?);
        let diff = fetch(&client, [a, b], [self.a_seq, self.b_seq]).await?;
        let out = &context.out;
        if out.is_json() {
            out.json(&diff)?;
            return Ok(Exit::Success);
        }
        let nodes = if self.all { Nodes::All } else { Nodes::Folded };
        for line in report(&diff, nodes, out.palette(), out.columns()) {
            out.line(line)?;
        }
        Ok(Exit::Success)
    }
}

/// The comparison with all of its pages.
async fn fetch(client: &Client, runs: [RunId; 2], seqs: [Option<u64>; 2]) -> Result<RunDiff, CliError> {
    let mut message = pb::DiffRunsRequest {
        a: runs[0].to_wire(),
        b: runs[1].to_wire(),
        a_seq: seqs[0].unwrap_or_default(),
        b_seq: seqs[1].unwrap_or_default(),
        page_size: limits::DIFF_PAGE_MAX as u32,
        page_token: String::new(),
    };
    let mut whole: Option<RunDiff> = None;
    loop {
        let page = client.ask(message.clone()).await?;
        message.page_token = page.next_page_token;
        let nodes = Wire::from_wire(page.nodes)?;
        let diff = match whole.take() {
            Some(mut diff) => {
                diff.nodes.extend::<Vec<_>>(nodes);
                diff
            }
            None => RunDiff {
                a: Wire::from_wire(present(page.a, "first run")?)?,
                b: Wire::from_wire(present(page.b, "second run")?)?,
                matching: Wire::from_wire(page.matching)?,
                counts: Wire::from_wire(present(page.counts, "counts")?)?,
                nodes,
                synthesis: Wire::from_wire(page.synthesis.unwrap_or_default())?,
            },
        };
        if message.page_token.is_empty() {
            return Ok(diff);
        }
        whole = Some(diff);
    }
}

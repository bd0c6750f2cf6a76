//! `graph`: the tree of a run, now or at a seq.

use clap::{Args, ValueEnum};
use tree_agent_contract::Timestamp;
use tree_agent_contract::graph::GraphSnapshot;

use super::store::KeptArgs;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::formats::{dot, mermaid};
use crate::view::tree::{Layout, tree};

/// Print the tree of a run, now or as it was at a seq
///
/// A line shows the status of a node, its role (P plans, E executes or merges), its band, the beginning of its id,
/// which every NODE takes, and its title. A plan has bands: b1 comes first, and its steps run in parallel.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// As it was after this event
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// What to print [default: tree; json with -o json]
    #[arg(long, value_enum)]
    format: Option<Form>,
    #[command(flatten)]
    pub(crate) kept: KeptArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people
    Tree,
    /// Graphviz
    Dot,
    /// Mermaid
    Mermaid,
    /// One JSON object
    Json,
}

impl Graph {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let form = match (self.format, context.out.is_json()) {
            (Some(Form::Json) | None, true) => Form::Json,
            (Some(_), true) => {
                return Err(CliError::Usage(
                    "-o json and -o jsonl print JSON; leave out --format, or use --format json".into(),
                ));
            }
            (form, false) => form.unwrap_or(Form::Tree),
        };
        let client = context.connect().await?;
        let graph = client.graph(client.find_run(&self.run).await?, self.at).await?;
        match form {
            Form::Json if context.out.is_json() => context.out.json(&graph)?,
            Form::Json => context.out.json_line(&graph)?,
            Form::Dot => context.out.script(&dot(&graph))?,
            Form::Mermaid => context.out.script(&mermaid(&graph))?,
            Form::Tree => {
                let now = match self.at {
                    Some(_) => last_sign(&graph),
                    None => super::follow::now(),
                };
                let graph = tree_agent_engine::Graph::from_snapshot(graph);
                for line in tree(&graph, &Layout { height: None, fold: false, now, delegating: &[] }) {
                    context.out.line(line.render(context.out.columns(), context.out.palette()))?;
                }
            }
        }
        Ok(Exit::Success)
    }
}

/// The latest time that the graph speaks of: what "now" was when it looked like this.
fn last_sign(graph: &GraphSnapshot) -> Timestamp {
    let times = graph.nodes.iter().flat_map(|n| [Some(n.created_at), n.started_at, n.ended_at]);
    times.flatten().max().unwrap_or_default()
}

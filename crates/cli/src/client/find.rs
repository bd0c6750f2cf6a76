//! Finding the run or node that a user names.

use tree_agent_contract::{NodeId, RunId, RunSummary};
use tree_agent_proto::v1 as pb;

use super::Client;
use crate::error::CliError;
use crate::value::RunRef;
use crate::view::paint::fit;
use crate::view::printable::one_line;

/// What is said when a server has no run.
pub(crate) const NO_RUNS: &str = "there are no runs yet; begin one with `tree-agent run OBJECTIVE`";
/// Runs that are named when several have an id like the one that was given.
const NAMED: usize = 5;
/// Columns of an objective beside a candidate.
const OBJECTIVE: usize = 60;

impl Client {
    /// The id of the run that is meant. A part of an id must fit one run only.
    pub(crate) async fn find_run(&self, named: &RunRef) -> Result<RunId, CliError> {
        match named {
            RunRef::Id(id) => Ok(*id),
            RunRef::Recent(n) => {
                let runs = self.newest(*n, "").await?;
                let missing = || match runs.len() {
                    0 => CliError::Usage(NO_RUNS.into()),
                    1 => CliError::Usage(format!("@{n} does not exist: there is only one run")),
                    found => CliError::Usage(format!("@{n} does not exist: there are only {found} runs")),
                };
                runs.get(n - 1).map(|run| run.run_id).ok_or_else(missing)
            }
            RunRef::Part(part) => match &self.newest(NAMED + 1, part).await?[..] {
                [] => Err(CliError::Usage(format!(
                    "no run id begins or ends with {part}; `tree-agent runs` lists the runs"
                ))),
                [run] => Ok(run.run_id),
                several => Err(CliError::Usage(ambiguous(part, several))),
            },
        }
    }

    /// The newest `n` runs whose ids begin or end with `part`.
    async fn newest(&self, n: usize, part: &str) -> Result<Vec<RunSummary>, CliError> {
        let filter = pb::ListRunsRequest { id_part: part.to_owned(), ..Default::default() };
        self.list_runs(filter, n).all().await
    }

    /// The id of the node of `run` that is meant by the beginning of an id.
    pub(crate) async fn find_node(&self, run: RunId, named: &str) -> Result<NodeId, CliError> {
        if let Ok(id) = named.parse() {
            return Ok(id);
        }
        let named = named.to_ascii_lowercase();
        let graph = self.graph(run, None).await?;
        let fits = |id: &NodeId| !named.is_empty() && id.to_string().starts_with(&named);
        let fitting: Vec<_> = graph.nodes.iter().filter(|node| fits(&node.id)).collect();
        match &fitting[..] {
            [node] => Ok(node.id),
            [] => Err(CliError::Usage(format!(
                "no node of run {run} has an id that begins with {named:?}; `tree-agent graph {run}` shows them"
            ))),
            several => {
                let named_nodes: String = several
                    .iter()
                    .take(NAMED)
                    .map(|node| format!("\n  {}  {}", node.id, fit(&one_line(&node.title), OBJECTIVE)))
                    .collect();
                Err(CliError::Usage(format!(
                    "several nodes have an id that begins with {named:?}; give more of the one that you mean:{named_nodes}"
                )))
            }
        }
    }
}

fn ambiguous(part: &str, runs: &[RunSummary]) -> String {
    let mut text = format!("several run ids begin or end with {part}; give more of the one that you mean:");
    for run in runs.iter().take(NAMED) {
        let objective = fit(&one_line(&run.spec.objective), OBJECTIVE);
        text.push_str(&format!("\n  {}  {}  {objective}", run.run_id, run.status));
    }
    if runs.len() > NAMED {
        text.push_str("\n  …");
    }
    text
}

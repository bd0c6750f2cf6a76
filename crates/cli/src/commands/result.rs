//! `result`: what a run returned.

use clap::Args;
use serde::Serialize;
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{DocumentId, Outcome, RunId, RunStatus, TreeAgentResult};

use super::{doc, graph};
use crate::client::Client;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::value::RunRef;
use crate::{Context, complete};

/// Print what a run returned: its synthesis
///
/// A run that has not ended has no result yet: that is an error, like a run that failed with nothing to show. A partial
/// result is printed, and a note on stderr says that it is partial.
#[derive(Debug, Args)]
pub(crate) struct GetResult {
    /// The run
    #[arg(add = complete::runs())]
    run: RunRef,
}

/// The result of a run as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    run_id: RunId,
    pub(crate) status: RunStatus,
    pub(crate) partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    summary: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_id: Option<DocumentId>,
    /// The synthesis.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<TreeAgentResult>,
    usage: Usage,
}

impl GetResult {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        let result = fetch(&client, run).await?;
        let out = &context.out;
        if !result.status.is_final() {
            return Err(CliError::Usage(format!(
                "run {run} is {}: it has no result yet; follow it with `tree-agent watch {run}`",
                result.status
            )));
        }
        if out.is_json() {
            out.json(&result)?;
        } else {
            if result.partial {
                out.warn("note: the result is partial");
            }
            if !result.has_answer() {
                let why = result.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
                out.warn(format!("error: run {run} is {} and returned nothing{why}", result.status));
            }
            result.print(out)?;
        }
        Ok(Exit::of_run(result.status))
    }
}

impl RunResult {
    /// False when the run returned nothing at all.
    pub(crate) fn has_answer(&self) -> bool {
        !self.answer().is_empty()
    }

    /// The synthesis; for a result that is JSON only the payload, and else the summary.
    pub(crate) fn answer(&self) -> String {
        if !self.text.is_empty() {
            return self.text.clone();
        }
        let payload = self.result.as_ref().and_then(|result| result.json_payload.as_ref());
        match payload.and_then(|payload| serde_json::to_string_pretty(payload).ok()) {
            Some(json) => json + "\n",
            None if self.summary.is_empty() => String::new(),
            None => format!("{}\n", self.summary),
        }
    }

    /// Prints the answer.
    pub(crate) fn print(&self, out: &Output) -> Result<(), CliError> {
        out.whole_document(&self.answer())
    }
}

/// What `run` returned.
pub(crate) async fn fetch(client: &Client, run: RunId) -> Result<RunResult, CliError> {
    let graph = graph::fetch(client, run, None).await?;
    let summary = client.run(run).await?;
    let root = graph.nodes.into_iter().next();
    let result = root.as_ref().and_then(|root| root.result.clone());
    let primary = result.as_ref().and_then(|r| r.primary_artifact_id);
    let artifacts = root.as_ref().map(|root| &root.artifacts[..]).unwrap_or_default();
    let document_id = artifacts
        .iter()
        .find(|a| Some(a.artifact_id) == primary)
        .or_else(|| artifacts.iter().find(|a| a.is_primary))
        .and_then(|a| a.document_id)
        .or_else(|| result.as_ref().and_then(|r| r.document_ids.first().copied()));
    let (title, text) = match document_id {
        Some(id) => {
            let (about, document) = doc::fetch(client, id).await?;
            (about.title, document.body)
        }
        None => Default::default(),
    };
    Ok(RunResult {
        run_id: run,
        status: summary.status,
        partial: summary.partial,
        error: summary.error,
        outcome: root.and_then(|root| root.outcome),
        summary: result.as_ref().map(|r| r.summary.clone()).unwrap_or_default(),
        title,
        document_id,
        text,
        result: result.map(|result| *result),
        usage: summary.usage,
    })
}

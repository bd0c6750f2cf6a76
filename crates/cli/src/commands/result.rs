//! `result`: what a run returned.

use clap::Args;
use serde::Serialize;
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{
    CitationCounts, Disagreement, DocumentId, Outcome, RunId, RunStatus, TreeAgentResult, Verification,
};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::store::KeptArgs;
use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::value::RunRef;
use crate::view::printable::one_line;

/// Print what a run returned: its synthesis
///
/// A run that has not ended has no result yet: that is an error, like a run that failed with nothing to show. A partial
/// result is printed, and a note on stderr says that it is partial.
#[derive(Debug, Args)]
pub(crate) struct GetResult {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    #[command(flatten)]
    pub(crate) kept: KeptArgs,
}

/// The result of a run as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    run_id: RunId,
    pub(crate) status: RunStatus,
    pub(crate) partial: bool,
    /// Why it failed, or ended as partial.
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
    /// The models that answered in the run, the one that wrote the answer at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    /// What the verifier found in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<Verification>,
    /// How many statements of the answer are supported, doubted or not checked, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<CitationCounts>,
    /// Sources of it that disagree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disagreements: Vec<Disagreement>,
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
                let why =
                    result.error.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
                out.warn(format!("note: the result is partial{why}"));
            }
            if !result.has_answer() {
                let why =
                    result.error.as_deref().map(|error| format!(": {}", one_line(error))).unwrap_or_default();
                out.warn(format!("error: run {run} returned nothing; its status is {}{why}", result.status));
            }
            result.print(out, usize::MAX)?;
            let gaps = result.result.iter().flat_map(|result| &result.gaps);
            gaps.for_each(|gap| out.warn(format!("missing: {}", one_line(gap))));
            result.doubts().iter().for_each(|doubt| out.warn(doubt));
            if let Some(model) = result.models.last() {
                out.note(format!("written by {}", one_line(model)));
            }
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
        match self.payload() {
            Some(json) => json + "\n",
            None if self.summary.is_empty() => String::new(),
            None => format!("{}\n", self.summary),
        }
    }

    /// The payload of a result that is JSON only.
    fn payload(&self) -> Option<String> {
        let payload = self.result.as_ref().filter(|_| self.text.is_empty())?.json_payload.as_ref()?;
        serde_json::to_string_pretty(payload).ok()
    }

    /// What the verifier found wrong with the answer, one line each.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let Some(verification) = &self.verification else { return Vec::new() };
        let unmet = verification.criteria.iter().filter(|check| !check.met).map(|check| match &*check.note {
            "" => format!("not met: {}", one_line(&check.criterion)),
            note => format!("not met: {} ({})", one_line(&check.criterion), one_line(note)),
        });
        let doubts = verification.doubts.iter();
        let doubts =
            doubts.map(|doubt| format!("doubted: {} ({})", one_line(&doubt.claim), one_line(&doubt.reason)));
        let unchecked = verification.not_checked.iter();
        let unchecked = unchecked.map(|why| format!("not verified: {}", one_line(why)));
        unchecked.chain(unmet).chain(doubts).collect()
    }

    /// Prints the answer, or its first `lines`.
    pub(crate) fn print(&self, out: &Output, lines: usize) -> Result<(), CliError> {
        out.answer(&self.answer(), self.payload().is_none(), lines)
    }
}

/// What `run` returned.
pub(crate) async fn fetch(client: &Client, run: RunId) -> Result<RunResult, CliError> {
    let answer = client.ask(pb::GetResultRequest { run_id: run.to_wire() }).await?;
    Ok(RunResult {
        run_id: run,
        status: Wire::from_wire(answer.status)?,
        partial: answer.partial,
        error: answer.error,
        outcome: Wire::from_wire(answer.outcome)?,
        summary: answer.summary,
        title: answer.title,
        document_id: Wire::from_wire(answer.document_id)?,
        text: answer.text,
        result: Wire::from_wire(answer.result)?,
        usage: Wire::from_wire(answer.usage.unwrap_or_default())?,
        models: answer.models,
        verification: Wire::from_wire(answer.verification)?,
        citations: Wire::from_wire(answer.citations)?,
        disagreements: Wire::from_wire(answer.disagreements)?,
    })
}

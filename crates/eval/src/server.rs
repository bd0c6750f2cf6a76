//! A real server, `tree-agent dev` in a process of its own, and the runs on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use prost_types::value::Kind;
use tonic::transport::Channel;
use tree_agent_contract::limits;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::event::Body;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;

use crate::score::Answer;
use crate::set::QuestionSet;

/// Documents that are sent at the same time.
const PARALLEL: usize = 8;
/// The size of the largest answer in bytes.
const ANSWER_BYTES: usize = 2 * limits::GRAPH_BYTES;
/// The tool by which a role reads a document.
const READ_DOCUMENT: &str = "read_document";

/// A server that ends with this value.
pub struct Server {
    child: Child,
    channel: Channel,
    /// Its store. Removed at the end.
    _data: tempfile::TempDir,
}

/// The passages of a set as the documents of a project.
pub struct Project {
    id: String,
    /// Document id to the passage.
    passages: HashMap<String, usize>,
    paths: Vec<String>,
}

/// How the questions of a row are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model by its name; empty for the server's default.
    pub model: String,
    /// How the work is organised.
    pub strategy: pb::Strategy,
    /// What each run may spend.
    pub budgets: pb::Budgets,
}

impl Server {
    /// Starts `program`, a `tree-agent`, on a free loopback port with an empty store. Language models are configured as
    /// for `tree-agent dev`, by the environment.
    ///
    /// # Errors
    /// The program cannot be started, or does not say within its first line where it listens.
    pub async fn start(program: &Path) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let mut child = Command::new(program)
            .args(["dev", "--listen", "127.0.0.1:0", "-o", "jsonl", "--log", "error", "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut first = String::new();
        let out = child.stdout.take().context("the output of the server")?;
        BufReader::new(out).read_line(&mut first)?;
        let ready: serde_json::Value =
            serde_json::from_str(&first).with_context(|| format!("the server said {first:?}"))?;
        let url = ready["server"].as_str().context("the address of the server")?.to_owned();
        let channel = Channel::from_shared(url)?.connect().await?;
        Ok(Self { child, channel, _data: data })
    }

    fn runs(&self) -> RunServiceClient<Channel> {
        RunServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    /// Imports the passages of `set` into a project of their own.
    ///
    /// # Errors
    /// The server refuses a document.
    pub async fn import(&self, set: &QuestionSet) -> anyhow::Result<Project> {
        let request = pb::CreateProjectRequest { name: set.name.clone(), ..Default::default() };
        let answer = ProjectServiceClient::new(self.channel.clone()).create_project(request).await?;
        let id = answer.into_inner().project.context("a project")?.project_id;
        let send = |(i, passage): (usize, &crate::set::Passage)| {
            let request = pb::CreateDocumentRequest {
                project_id: id.clone(),
                path: passage.path.clone(),
                body: passage.body(),
                ..Default::default()
            };
            let mut documents = DocumentServiceClient::new(self.channel.clone());
            async move {
                let made = documents.create_document(request).await?.into_inner();
                anyhow::Ok((made.document.context("a document")?.document_id, i))
            }
        };
        let sending: Vec<_> = set.passages.iter().enumerate().map(send).collect();
        let passages = stream::iter(sending).buffer_unordered(PARALLEL).try_collect().await?;
        Ok(Project { id, passages, paths: set.passages.iter().map(|p| p.path.clone()).collect() })
    }

    /// Answers `question` with a run over the documents of `project`.
    ///
    /// # Errors
    /// The server refuses the run, or cannot be reached any more. A run that fails is an answer without a text.
    pub async fn answer(&self, project: &Project, question: &str, with: &Settings) -> anyhow::Result<Answer> {
        let is_search = with.strategy == pb::Strategy::Search;
        let request = pb::CreateRunRequest {
            objective: question.to_owned(),
            strategy: with.strategy as i32,
            context: Some(pb::RunContext {
                scope: pb::Scope::Project as i32,
                project_ids: vec![project.id.clone()],
            }),
            budgets: Some(with.budgets),
            model: with.model.clone(),
            search: is_search.then(|| pb::SearchConfig { synthesis: true, ..Default::default() }),
            ..Default::default()
        };
        let run = self.runs().create_run(request).await?.into_inner().run.context("a run")?;
        let run_id = run.run_id;
        let seen = self.follow(&run_id, project).await?;
        let result =
            self.runs().get_result(pb::GetResultRequest { run_id: run_id.clone() }).await?.into_inner();
        // The counts are those of the whole run, whatever the page holds.
        let request = pb::ListCitationsRequest { run_id: run_id.clone(), page_size: 1, ..Default::default() };
        let counts = self.runs().list_citations(request).await?.into_inner().counts.unwrap_or_default();
        let run =
            self.runs().get_run(pb::GetRunRequest { run_id }).await?.into_inner().run.context("a run")?;
        let usage = result.usage.unwrap_or_default();
        let text = if result.text.is_empty() { result.summary } else { result.text };
        Ok(Answer {
            cited: cited(&text, &project.paths),
            text,
            read: Some(seen.read),
            tool_calls: seen.calls,
            duplicates: seen.duplicates,
            citations: counts.total,
            verified: counts.verified,
            tokens: usage.input_tokens + usage.output_tokens,
            cost_micros: usage.cost_micros,
            millis: lasted(&run)?,
        })
    }

    /// Follows a run to its end.
    async fn follow(&self, run_id: &str, project: &Project) -> anyhow::Result<Seen> {
        let request = pb::WatchRunRequest { run_id: run_id.to_owned(), ..Default::default() };
        let mut events = self.runs().watch_run(request).await?.into_inner();
        let mut seen = Seen::default();
        while let Some(message) = events.message().await? {
            let event = match message.message {
                Some(pb::watch_run_response::Message::Event(event)) => event,
                Some(pb::watch_run_response::Message::ResumeHint(hint)) => {
                    bail!("the server no longer streams run {run_id}: {}", hint.reason)
                }
                _ => continue,
            };
            if let Some(Body::ToolCallRequested(call)) = event.body
                && !call.cached
            {
                seen.note(&call, project);
            }
        }
        Ok(seen)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that anybody needs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the log of a run shows.
#[derive(Default)]
struct Seen {
    read: BTreeSet<usize>,
    calls: u64,
    duplicates: u64,
    made: BTreeMap<String, u64>,
}

impl Seen {
    fn note(&mut self, call: &pb::ToolCallRequested, project: &Project) {
        self.calls += 1;
        let before = self.made.entry(format!("{} {:?}", call.tool_name, call.args)).or_default();
        self.duplicates += u64::from(*before > 0);
        *before += 1;
        if call.tool_name == READ_DOCUMENT {
            let ids = call.args.iter().flat_map(|args| args.fields.values());
            self.read.extend(ids.filter_map(|value| match &value.kind {
                Some(Kind::StringValue(id)) => project.passages.get(id).copied(),
                _ => None,
            }));
        }
    }
}

/// The passages whose paths stand in `text`.
pub fn cited(text: &str, paths: &[String]) -> BTreeSet<usize> {
    let part_of_a_path = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/');
    let stands = |path: &str| {
        text.match_indices(path).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + path.len()..]);
            !before.ends_with(part_of_a_path) && !after.starts_with(part_of_a_path)
        })
    };
    paths.iter().enumerate().filter(|(_, path)| stands(path)).map(|(i, _)| i).collect()
}

/// Milliseconds from the creation of a run to its end.
fn lasted(run: &pb::Run) -> anyhow::Result<f64> {
    let millis = |at: prost_types::Timestamp| at.seconds as f64 * 1e3 + f64::from(at.nanos) / 1e6;
    let (from, to) = (run.created_at.context("a beginning")?, run.ended_at.context("an end")?);
    ensure!(millis(to) >= millis(from), "run {} ended before it began", run.run_id);
    Ok(millis(to) - millis(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_within_a_longer_one_is_no_citation() {
        let paths = ["austria.md", "south-austria.md", "vienna.md"].map(str::to_owned);
        assert_eq!(cited("1. south-austria.md › Land\n", &paths), [1].into());
        assert_eq!(cited("(austria.md), vienna.md", &paths), [0, 2].into());
    }
}

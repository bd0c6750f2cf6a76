//! The client of a server.

mod calls;
pub(crate) mod find;
pub(crate) mod list;
pub(crate) mod reconnect;
pub(crate) mod watch;
pub(crate) mod watch_runs;

use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};
pub(crate) use tree_agent_contract::error::root_cause;
use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_contract::{ProjectId, RunId, RunSummary, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::model_service_client::ModelServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::server_service_client::ServerServiceClient;
use tree_agent_runtime::channel::{ConnectError, Connector, Peers};
use tree_agent_runtime::credentials::Credentials;
use tree_agent_runtime::retry::backoff;

pub(crate) use self::calls::Call;
use crate::error::{CliError, is_transient};

/// How long a call that is not a stream may take, with all attempts.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// There is no other attempt if less time is left.
const LAST: Duration = Duration::from_secs(1);
/// Attempts at a call that is safe to repeat.
const ATTEMPTS: u32 = 4;
/// The pause between two looks at a token file that should get a new token.
const TOKEN_LOOK: Duration = Duration::from_millis(100);
/// The size of the largest answer in bytes. The graph of a large run is one message, and so is the snapshot of a watch.
const ANSWER_BYTES: usize = 2 * limits::GRAPH_BYTES;

/// A connection to a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    channel: Peers,
    credentials: Credentials,
    server: String,
}

impl Client {
    /// Connects now, so that an absent server is noticed before anything is started.
    pub(crate) async fn connect(server: &str, connector: &Connector) -> Result<Self, CliError> {
        let channel = connector.connect(server).await.map_err(|error| match error {
            ConnectError::Transport(error) => {
                CliError::Unreachable { server: server.to_owned(), reason: root_cause(&error) }
            }
            ConnectError::Url => CliError::Usage(format!(
                "--server {server:?} is not a URL such as http://127.0.0.1:7400 or https://example.org"
            )),
            ConnectError::Plaintext(error) => CliError::Usage(format!("--server {server:?}: {error}")),
        })?;
        Ok(Self { channel, credentials: connector.credentials().clone(), server: server.to_owned() })
    }

    /// What calls go through.
    pub(crate) fn channel(&self) -> Peers {
        self.channel.clone()
    }

    /// The server service.
    pub(crate) fn server_info(&self) -> ServerServiceClient<Peers> {
        ServerServiceClient::new(self.channel.clone())
    }

    /// The model service.
    pub(crate) fn models(&self) -> ModelServiceClient<Peers> {
        ModelServiceClient::new(self.channel.clone())
    }

    /// The run service.
    pub(crate) fn runs(&self) -> RunServiceClient<Peers> {
        RunServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    /// The document service.
    pub(crate) fn documents(&self) -> DocumentServiceClient<Peers> {
        DocumentServiceClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_BYTES)
            .max_encoding_message_size(limits::MESSAGE_BYTES)
    }

    /// The project service.
    pub(crate) fn projects(&self) -> ProjectServiceClient<Peers> {
        ProjectServiceClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES)
    }

    /// The URL of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The token that calls carry now.
    pub(crate) fn token(&self) -> Option<MetadataValue<Ascii>> {
        self.credentials.current()
    }

    /// Waits at most `patience` for a token other than `refused`; false when none comes.
    pub(crate) async fn another_token(
        &self,
        refused: Option<&MetadataValue<Ascii>>,
        patience: Duration,
    ) -> bool {
        let until = tokio::time::Instant::now() + patience;
        loop {
            if self.credentials.latest().as_ref() != refused {
                return true;
            }
            if !self.credentials.can_change() || tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(TOKEN_LOOK).await;
        }
    }

    /// Makes a call that is safe to repeat. A transient failure is retried with backoff.
    pub(crate) async fn ask<C: Call>(&self, call: C) -> Result<C::Response, CliError> {
        self.ask_within(call, CALL_TIMEOUT).await
    }

    /// The same, within this time.
    pub(crate) async fn ask_within<C: Call>(
        &self,
        call: C,
        within: Duration,
    ) -> Result<C::Response, CliError> {
        let until = Instant::now() + within;
        let left = || until.saturating_duration_since(Instant::now());
        let mut attempt = 1;
        loop {
            match call.clone().make(self, left()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if is_transient(&status) && attempt < ATTEMPTS && left() > LAST => {
                    tracing::debug!(%status, attempt, "call failed; trying again");
                    tokio::time::sleep(backoff(attempt).min(left() - LAST)).await;
                    attempt += 1;
                }
                // Without details nobody has answered.
                Err(status) if is_transient(&status) && status.details().is_empty() => {
                    let reason = match left() > LAST {
                        true => root_cause(&status),
                        false => format!("no answer within {} s", within.as_secs()),
                    };
                    return Err(CliError::Unreachable { server: self.server.clone(), reason });
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// One run.
    pub(crate) async fn run(&self, run: RunId) -> Result<RunSummary, CliError> {
        summary(self.ask(pb::GetRunRequest { run_id: run.to_wire() }).await?.run)
    }

    /// The graph of a run, at the head when `at` is none.
    pub(crate) async fn graph(&self, run: RunId, at: Option<u64>) -> Result<GraphSnapshot, CliError> {
        let answer = self.ask(pb::GetGraphRequest { run_id: run.to_wire(), at_seq: at }).await?;
        Ok(GraphSnapshot::from_wire(present(answer.graph, "graph")?)?)
    }

    /// The project that `key` means: its id, else its name. It must exist.
    pub(crate) async fn existing_project(&self, key: &str) -> Result<pb::Project, CliError> {
        self.project(key).await?.ok_or_else(|| {
            CliError::Usage(format!(
                "project {key:?} does not exist; `tree-agent projects` lists those that do"
            ))
        })
    }

    /// The project that `key` means, if it exists.
    pub(crate) async fn project(&self, key: &str) -> Result<Option<pb::Project>, CliError> {
        if let Ok(id) = key.parse::<ProjectId>()
            && let Some(project) = self.project_by_id(id).await?
        {
            return Ok(Some(project));
        }
        self.project_by_name(key).await
    }

    /// The project with this id.
    pub(crate) async fn project_by_id(&self, id: ProjectId) -> Result<Option<pb::Project>, CliError> {
        self.get_project(pb::get_project_request::Key::ProjectId(id.to_wire())).await
    }

    /// The project with this name.
    pub(crate) async fn project_by_name(&self, name: &str) -> Result<Option<pb::Project>, CliError> {
        self.get_project(pb::get_project_request::Key::Name(name.to_owned())).await
    }

    async fn get_project(&self, key: pb::get_project_request::Key) -> Result<Option<pb::Project>, CliError> {
        match self.ask(pb::GetProjectRequest { key: Some(key) }).await {
            Ok(answer) => Ok(answer.project),
            Err(CliError::Refused(status)) if status.code() == tonic::Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A part that every answer must have, named `what`.
pub(crate) fn present<T>(part: Option<T>, what: &str) -> Result<T, CliError> {
    part.ok_or_else(|| CliError::Other(format!("the server's answer holds no {what}")))
}

/// The run in an answer.
pub(crate) fn summary(run: Option<pb::Run>) -> Result<RunSummary, CliError> {
    Ok(RunSummary::from_wire(present(run, "run")?)?)
}

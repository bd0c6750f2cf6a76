//! `mcp`: the tools for assistants, on standard input and output.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::StdError;
use tower::ServiceExt;
use tree_agent_mcp::{Api, Server};
use tree_agent_model::Switch;
use tree_agent_runtime::channel::{ConnectArgs, Connector, Peers};
use tree_agent_runtime::shutdown;
use tree_agent_store::embedded::LOCK;

use crate::client::Client;
use crate::cluster::{Access, Cluster, Data, EmbeddedArgs, Unfinished};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// How long to wait for a server that is about to start, or to end, in the same folder.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(100);

/// Serve assistants: eight tools of the Model Context Protocol, on standard input and output
///
/// Runs and projects are those of a folder, which one process has open: the first that needs it, be it `mcp` or `dev`.
/// Others use the server of that process, and the next takes over when it is gone. docs/mcp.md has the settings of
/// assistants.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Use the server that --server names, instead of a folder
    #[arg(long)]
    remote: bool,
    /// The model for runs that name none: offline, llm, or provider:model [default: llm when a language model is set,
    /// else offline]
    #[arg(
        long,
        value_name = "MODEL",
        env = "TREE_AGENT_MODEL",
        default_value = "",
        hide_default_value = true
    )]
    model: String,
    #[command(flatten)]
    embedded: EmbeddedArgs,
}

impl Mcp {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let interrupt = shutdown::signal()?;
        let other = |error: StdError| CliError::Other(format!("the assistant cannot be served: {error}"));
        let (api, folder) = match self.remote {
            true => (api(Client::connect(&context.server, &context.connector).await?.channel()), None),
            false => {
                let dir = self.embedded.data_dir()?;
                let folder = Arc::new(Folder {
                    dir,
                    model: self.model,
                    embedded: self.embedded,
                    connect: context.connect.clone(),
                    open: Mutex::default(),
                });
                // What is wrong with the settings is told at once.
                folder.peers().await?;
                (folder.clone().api(), Some(folder))
            }
        };
        let served = interrupt.run_until_cancelled(Server::new(api).serve_stdio()).await;
        if let Some(folder) = folder {
            folder.close().await;
        }
        served.unwrap_or(Ok(())).map_err(other)?;
        Ok(Exit::Success)
    }
}

fn api(peers: Peers) -> Api {
    Api::new(
        peers
            .map_err(|error| Status::from_error(error.into()))
            .map_response(|response| response.map(Body::new)),
    )
}

/// A folder, and the server that has it open now.
struct Folder {
    dir: PathBuf,
    model: String,
    embedded: EmbeddedArgs,
    connect: ConnectArgs,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    peers: Option<Peers>,
    /// The server, if it is in this process.
    cluster: Option<Cluster>,
}

impl Folder {
    /// Calls of the API, by whichever server has the folder open.
    fn api(self: Arc<Self>) -> Api {
        Api::new(tower::service_fn(move |request: http::Request<Body>| {
            let folder = self.clone();
            async move {
                let peers = folder.peers().await.map_err(|error| Status::unavailable(error.to_string()))?;
                let response = api(peers).oneshot(request).await;
                let status = response.as_ref().ok().and_then(|r| r.headers().get("grpc-status"));
                // The next call looks for a server again.
                if response.is_err() || status.is_some_and(|status| status == "14") {
                    folder.open.lock().await.peers = None;
                }
                response
            }
        }))
    }

    /// The server of the folder. Starts one if there is none.
    async fn peers(&self) -> Result<Peers, CliError> {
        let mut open = self.open.lock().await;
        if let Some(peers) = &open.peers {
            return Ok(peers.clone());
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let found = match &open.cluster {
                Some(cluster) => Client::connect(&cluster.url(), &Connector::default()).await,
                None => match self.start().await {
                    Ok(cluster) => {
                        let url = cluster.url();
                        open.cluster = Some(cluster);
                        Client::connect(&url, &Connector::default()).await
                    }
                    // What holds the folder may be no server, or one of before 0.3.
                    Err(in_use @ CliError::InUse { .. }) => of_another(&self.dir).await.map_err(|_| in_use),
                    Err(error) => return Err(error),
                },
            };
            match found {
                Ok(client) => {
                    open.peers = Some(client.channel());
                    return Ok(client.channel());
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn start(&self) -> Result<Cluster, CliError> {
        let access = Access { keep_prompts: true, connect: self.connect.clone(), ..Access::default() };
        let data = Data::Dir(&self.dir, Unfinished::Resume);
        let anywhere = ([127, 0, 0, 1], 0).into();
        Cluster::start(anywhere, data, &self.model, Switch::Off, &self.embedded.roles, &access).await
    }

    async fn close(&self) {
        if let Some(cluster) = self.open.lock().await.cluster.take() {
            cluster.stop().await;
        }
    }
}

/// The server of the process that has the folder open.
async fn of_another(dir: &Path) -> Result<Client, CliError> {
    let url = tokio::fs::read_to_string(dir.join(LOCK)).await.unwrap_or_default();
    Client::connect(url.trim(), &Connector::default()).await
}

//! `dev`: the whole cluster in one process, until it is stopped.

use std::net::SocketAddr;

use clap::Args;
use serde::Serialize;
use tree_agent_event_gateway::{AuthArgs, MaximaArgs, QuotaArgs};
use tree_agent_model::Switch;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::server::ServerArgs;
use tree_agent_runtime::shutdown;

use crate::client::Client;
use crate::cluster::{Access, Cluster, Data, EmbeddedArgs, Unfinished};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Start a server: everything in this process, with an embedded store
///
/// gRPC, gRPC-web and the web UI are on one port. The next start with the same data directory resumes unfinished runs.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", env = "TREE_AGENT_LISTEN", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// The model for runs that name none: offline, llm, provider:model, or scripted:key=value,… [default: llm when a
    /// language model is set, else offline]
    #[arg(
        long,
        value_name = "MODEL",
        env = "TREE_AGENT_MODEL",
        default_value = "",
        hide_default_value = true
    )]
    model: String,
    /// Whether runs may use the scripted model, which is for tests and benchmarks
    #[arg(long, value_name = "on|off", env = "TREE_AGENT_SCRIPTED", default_value = "on")]
    scripted: Switch,
    #[command(flatten)]
    embedded: EmbeddedArgs,
    #[command(flatten)]
    maxima: MaximaArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    auth: AuthArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// What `-o json` prints when the server is ready.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    server: String,
    /// Absent when the program was built without the UI.
    ui: Option<String>,
    data_dir: String,
    model: String,
}

impl Dev {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let interrupt = shutdown::signal()?;
        let data_dir = self.embedded.data_dir()?;
        let access = Access {
            maxima: Some(self.maxima.clone()),
            quotas: Some(self.quotas.clone()),
            keep_prompts: true,
            auth: self.auth.clone(),
            server: self.server.clone(),
            connect: context.connect.clone(),
        };
        let data = Data::Dir(&data_dir, Unfinished::Resume);
        let mut cluster =
            Cluster::start(self.listen, data, &self.model, self.scripted, &self.embedded.roles, &access)
                .await?;
        let server = cluster.url();
        // Announce only a server that answers.
        let connector = Connector::default();
        tokio::select! {
            connected = Client::connect(&server, &connector) => drop(connected?),
            error = cluster.failed() => return Err(error),
        }
        let ready = Ready {
            ui: tree_agent_event_gateway::has_ui().then(|| format!("{server}/")),
            server,
            data_dir: data_dir.display().to_string(),
            model: cluster.model.clone(),
        };
        self.announce(context, &ready)?;
        tokio::select! {
            () = interrupt.cancelled() => {}
            error = cluster.failed() => {
                cluster.stop().await;
                return Err(error);
            }
        }
        cluster.stop().await;
        Ok(Exit::Success)
    }

    fn announce(&self, context: &Context, ready: &Ready) -> Result<(), CliError> {
        let out = &context.out;
        if out.is_json() {
            return out.json(ready);
        }
        let note = if ready.model == "offline" { " (rules, no language model)" } else { "" };
        out.line("tree-agent is ready")?;
        let no_ui = "none: this program was built without it; `make install` builds one that has it";
        out.line(format!("  UI     {}", ready.ui.as_deref().unwrap_or(no_ui)))?;
        out.line(format!("  gRPC   {}", ready.server))?;
        out.line(format!("  data   {}", ready.data_dir))?;
        out.line(format!("  model  {}{note}", ready.model))?;
        out.line("Ctrl-C stops it; the next start resumes unfinished runs.")
    }
}

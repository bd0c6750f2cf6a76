//! A whole cluster in this process: the four services over loopback gRPC, with the embedded store and the in-process
//! fan-out.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, FromArgMatches, ValueHint};
use http::Uri;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
pub(crate) use tree_agent_contract::error::chain;
use tree_agent_driver::DriverConfig;
use tree_agent_embedding::{EmbeddingArgs, from_settings};
use tree_agent_event_gateway::{AuthArgs, Maxima, MaximaArgs, QuotaArgs, Quotas};
use tree_agent_fanout::{Fanout, InProcessFanout};
use tree_agent_model::{LlmArgs, LlmConfig, RoleArgs, RoleConfig, Switch, ToolsArgs};
use tree_agent_runtime::channel::{ConnectArgs, Connector};
use tree_agent_runtime::config::{Problems, RoleUrls, user_data_folder};
use tree_agent_runtime::listen::bind;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_runtime::server::{ServerArgs, ServerConfig};
use tree_agent_store::embedded::{EmbeddedStore, LOCK};
use tree_agent_store::{Store, StoreError};

use crate::error::CliError;

/// Time that open calls have to end. Runs that are cut off continue at the next start from their last event.
const DRAIN: Duration = Duration::from_secs(3);

/// Where an embedded cluster keeps its data, and what its roles use.
#[derive(Clone, Debug, Args)]
pub(crate) struct EmbeddedArgs {
    /// Where the embedded store keeps its data [default: tree-agent in the user's data folder]
    #[arg(long, value_name = "DIR", env = "TREE_AGENT_DATA_DIR", value_parser = maybe_empty(), value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) roles: RoleFlags,
}

/// The tools, the language models and the vectors of an embedded cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct RoleFlags {
    #[command(flatten)]
    tools: ToolsArgs,
    #[command(flatten)]
    llm: LlmArgs,
    #[command(flatten)]
    pub(crate) embedding: EmbeddingArgs,
}

/// Takes an empty path as well: an empty variable counts as not set.
fn maybe_empty() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl RoleFlags {
    /// The configured language models. Problems with them are reported when they are used.
    pub(crate) fn models(&self) -> LlmConfig {
        self.llm.check(&mut Problems::default())
    }

    /// Notes in `problems` what is wrong.
    pub(crate) fn check(&self, connector: &Connector, problems: &mut Problems) {
        self.tools.check(connector, problems);
        self.llm.check(problems);
        self.embedding.check(connector, problems);
    }
}

impl EmbeddedArgs {
    /// The configured folder, or the default one of the user.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        let set = self.data_dir.clone().filter(|dir| !dir.as_os_str().is_empty());
        set.or_else(user_data_folder).ok_or_else(|| {
            CliError::Usage("there is no home folder to keep data in; name one with --data-dir".into())
        })
    }
}

/// Who may call the gateway of an embedded cluster, how, and for how much, and what its roles may send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The most that a run may ask for; none for the usual limits.
    pub(crate) maxima: Option<MaximaArgs>,
    /// What a user may have; none for the usual limits.
    pub(crate) quotas: Option<QuotaArgs>,
    /// Whether runs keep prompts that do not say it.
    pub(crate) keep_prompts: bool,
    pub(crate) auth: AuthArgs,
    pub(crate) server: ServerArgs,
    /// How its roles connect to providers and MCP servers.
    pub(crate) connect: ConnectArgs,
}

/// What happens to runs of the data directory that an earlier process did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// They are resumed.
    Resume,
    /// They stay as they are.
    LeaveAlone,
}

/// The data of an embedded cluster.
pub(crate) enum Data<'a> {
    /// In this folder.
    Dir(&'a Path, Unfinished),
    /// In a store that is open already.
    Open(EmbeddedStore),
}

/// The four running services.
pub(crate) struct Cluster {
    /// Through which the services tell each other what is new.
    pub(crate) fanout: Arc<dyn Fanout>,
    /// Unfinished runs that stay as they are.
    pub(crate) left_alone: usize,
    /// The model of runs that name none.
    pub(crate) model: String,
    address: SocketAddr,
    shutdown: CancellationToken,
    services: JoinSet<Result<(), CliError>>,
}

impl Cluster {
    /// Starts on `listen` with the `data`. `model` is for runs that name none. If the address or the folder is in use,
    /// the error says what to do.
    pub(crate) async fn start(
        listen: SocketAddr,
        data: Data<'_>,
        model: &str,
        scripted: Switch,
        flags: &RoleFlags,
        access: &Access,
    ) -> Result<Self, CliError> {
        // Before anything is bound.
        let mut problems = Problems::default();
        let role = RoleArgs {
            gateway: "http://127.0.0.1:7400".to_owned(),
            model: model.to_owned(),
            scripted,
            connect: access.connect.clone(),
            llm: flags.llm.clone(),
        };
        // Nothing outside this process knows the token, so nothing else can call the roles, or the gateway as a role.
        let role_token = RoleToken::random();
        let role = role.check(&role_token, &mut problems);
        let servers = flags.tools.check(&role.connector, &mut problems);
        let embedding = flags.embedding.check(&role.connector, &mut problems);
        let maxima =
            access.maxima.as_ref().map_or_else(Maxima::default, |maxima| maxima.check(&mut problems));
        let quotas =
            access.quotas.as_ref().map_or_else(Quotas::default, |quotas| quotas.check(&mut problems));
        let vector_bytes = flags.embedding.vector_bytes(&mut problems);
        let auth = access.auth.check(listen, &mut problems);
        let gateway_server = ServerConfig { drain: DRAIN, ..access.server.check(&mut problems) };
        problems.finish().map_err(|e| CliError::Usage(e.to_string()))?;
        role.check_keys().await.map_err(|e| CliError::Usage(e.message))?;
        let embedder = from_settings(&embedding).await.map_err(|e| CliError::Usage(e.0))?;
        let listener = bind(listen).await.map_err(|e| CliError::Usage(chain(&e)))?;
        let address = listener.local_addr()?;
        let kept = match &data {
            Data::Dir(dir, Unfinished::Resume) => Some(dir.join(LOCK)),
            _ => None,
        };
        let (store, left_alone) = open(data).await?;
        if let Some(file) = kept {
            // Whoever else needs the folder uses this server.
            tokio::fs::write(file, url(address)).await?;
        }
        let store: Arc<dyn Store> = Arc::new(store);
        let fanout: Arc<dyn Fanout> = Arc::new(InProcessFanout::new());
        let (planner, planners) = role_listener().await?;
        let (executor, executors) = role_listener().await?;
        let (aggregator, aggregators) = role_listener().await?;

        let gateway = url(address);
        let gateways =
            vec![gateway.parse().map_err(|e| CliError::Other(format!("{gateway} is not a URL: {e}")))?];
        // The gateway is in this process, so the token does not cross a network.
        let connector =
            Connector::default().with_credentials(role_token.credentials()).allow_plaintext_token();
        let role = RoleConfig { gateways, connector: connector.clone(), ..role };
        let model = role.default_model().to_owned();
        let roles = RoleUrls { planners, executors, aggregators, connector };
        let planner_config = tree_agent_planner::Config {
            role: role.clone(),
            role_token: role_token.clone(),
            driver: DriverConfig::new(format!("embedded-{}", std::process::id())),
            peers: roles.clone(),
            server: role_server(),
        };
        let executor_role = RoleConfig { servers, ..role.clone() };
        let executor_config = tree_agent_executor::Config {
            role: executor_role,
            role_token: role_token.clone(),
            server: role_server(),
        };
        let aggregator_config =
            tree_agent_aggregator::Config { role, role_token: role_token.clone(), server: role_server() };
        let gateway_config = tree_agent_event_gateway::Config {
            server: gateway_server,
            roles,
            maxima,
            quotas,
            keep_prompts: access.keep_prompts,
            auth,
            role_token: Some(role_token),
            embedder,
            vector_bytes,
            ..Default::default()
        };

        let shutdown = CancellationToken::new();
        let mut services = JoinSet::new();
        let stop = || shutdown.clone();
        let gateway =
            tree_agent_event_gateway::serve(gateway_config, store.clone(), fanout.clone(), listener, stop());
        run(&mut services, "event-gateway", gateway);
        run(&mut services, "executor", tree_agent_executor::serve(executor_config, executor, stop()));
        let aggregator = tree_agent_aggregator::serve(aggregator_config, aggregator, stop());
        run(&mut services, "aggregator", aggregator);
        let planner = tree_agent_planner::serve(planner_config, store, fanout.clone(), planner, stop());
        run(&mut services, "planner", planner);
        Ok(Self { fanout, left_alone, model, address, shutdown, services })
    }

    /// Serves the runs that are kept in a folder, so that they can be read. None of them goes on.
    pub(crate) async fn of_kept(dir: &Path) -> Result<Self, CliError> {
        if !dir.join("tree-agent.db").is_file() {
            return Err(CliError::Usage(format!("--data-dir: {} keeps no runs", dir.display())));
        }
        let parsed = RoleFlags::augment_args(clap::Command::new("")).try_get_matches_from([""]);
        let flags = parsed.and_then(|matches| RoleFlags::from_arg_matches(&matches));
        let flags = flags.map_err(|e| CliError::Usage(e.to_string()))?;
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let data = Data::Dir(dir, Unfinished::LeaveAlone);
        Self::start(anywhere, data, "offline", Switch::Off, &flags, &Access::default()).await
    }

    /// What clients on this machine use as `--server`.
    pub(crate) fn url(&self) -> String {
        url(self.address)
    }

    /// Waits until a service stops by itself, which none should.
    pub(crate) async fn failed(&mut self) -> CliError {
        match self.services.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => CliError::Other(format!("a service broke: {error}")),
            Some(Ok(Ok(()))) | None => CliError::Other("a service stopped without a reason".into()),
        }
    }

    /// Ends open calls and gives the runs back.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.services.join_next().await {
            if let Ok(Err(error)) = ended {
                tracing::warn!("{error}");
            }
        }
    }
}

/// The store, and how many of its unfinished runs stay as they are.
async fn open(data: Data<'_>) -> Result<(EmbeddedStore, usize), CliError> {
    let (dir, unfinished) = match data {
        Data::Open(store) => return Ok((store, 0)),
        Data::Dir(dir, unfinished) => (dir, unfinished),
    };
    let store = EmbeddedStore::open(dir).await.map_err(|error| match error {
        StoreError::Conflict(reason) => CliError::InUse { reason },
        other => CliError::Usage(chain(&other)),
    })?;
    let left_alone = match unfinished {
        Unfinished::Resume => 0,
        Unfinished::LeaveAlone => {
            store.set_unfinished_aside().await.map_err(|e| CliError::Other(chain(&e)))?
        }
    };
    Ok((store, left_alone))
}

/// The port of a role: reached from this process only, so the defaults do.
fn role_server() -> ServerConfig {
    ServerConfig { drain: DRAIN, ..ServerConfig::default() }
}

async fn role_listener() -> Result<(TcpListener, Vec<Uri>), CliError> {
    let listener =
        bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.map_err(|e| CliError::Other(chain(&e)))?;
    let text = url(listener.local_addr()?);
    let uri = text.parse().map_err(|e| CliError::Other(format!("{text} is not a URL: {e}")))?;
    Ok((listener, vec![uri]))
}

/// The URL at which this machine reaches a listener. A listener on all interfaces is reached over loopback.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// Runs a service until it stops.
fn run<E: Error>(
    services: &mut JoinSet<Result<(), CliError>>,
    name: &'static str,
    served: impl Future<Output = Result<(), E>> + Send + 'static,
) {
    let stopped = move |error: E| CliError::Other(format!("the {name} stopped: {}", chain(&error)));
    services.spawn(async move { served.await.map_err(stopped) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_interface_is_reached_over_the_loopback() {
        assert_eq!(url("0.0.0.0:7400".parse().unwrap()), "http://127.0.0.1:7400");
        assert_eq!(url("[::]:7400".parse().unwrap()), "http://[::1]:7400");
        assert_eq!(url("192.0.2.1:80".parse().unwrap()), "http://192.0.2.1:80");
    }

    #[test]
    fn an_empty_data_folder_counts_as_not_set() {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            embedded: EmbeddedArgs,
        }
        let data_dir = |flags: &[&str]| {
            let flags = <Flags as clap::Parser>::try_parse_from([&["tree-agent"], flags].concat()).unwrap();
            flags.embedded.data_dir().unwrap()
        };
        assert_eq!(data_dir(&["--data-dir", "here"]), Path::new("here"));
        assert_eq!(data_dir(&["--data-dir", ""]), data_dir(&[]));
    }
}

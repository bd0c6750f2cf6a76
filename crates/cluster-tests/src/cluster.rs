//! The cluster: its databases, its processes, and clients of it.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use tree_agent_contract::ids::EventId;
use tree_agent_contract::{DocumentId, limits};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_runtime::channel::{self, Peers};
use tree_agent_security::SharedSecret;
use tree_agent_testkit::ports::Port;
use tree_agent_testkit::proxy::Proxy;
use tree_agent_testkit::services::{PrivatePostgres, PrivateRedis};

use crate::{Follower, Process, SOON, eventually, program};

/// Clusters of one test program that run at the same time. Two keep a small machine busy.
static ROOM: Semaphore = Semaphore::const_new(2);

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes of each service. Default 1.
    pub replicas: usize,
    /// How long a driver's lease lasts. Default 2 s.
    pub lease: Duration,
    /// Whether Postgres runs when the services start. Default true.
    pub postgres: bool,
    /// Whether Redis runs when the services start. Default true.
    pub redis: bool,
    /// Whether the drivers reach Postgres through [`Cluster::to_postgres`]. Default false.
    pub postgres_proxy: bool,
    /// Whether the drivers reach the executors through [`Cluster::to_executors`]. Default false.
    pub executor_proxy: bool,
    /// Size in bytes of the disk that holds the tables. Default: the machine's own disk.
    pub small_disk: Option<u64>,
    /// More settings: a prefix of process names, a variable, its value.
    pub settings: Vec<(&'static str, &'static str, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replicas: 1,
            lease: Duration::from_secs(2),
            postgres: true,
            redis: true,
            postgres_proxy: false,
            executor_proxy: false,
            small_disk: None,
            settings: Vec::new(),
        }
    }
}

/// A running cluster. Dropping it ends all processes. If the test is failing, it also prints the ends of the logs.
#[derive(Debug)]
pub struct Cluster {
    /// The event-gateways.
    pub gateways: Vec<Process>,
    /// The planners, which are the drivers.
    pub planners: Vec<Process>,
    /// The executors.
    pub executors: Vec<Process>,
    /// The aggregators.
    pub aggregators: Vec<Process>,
    /// The database server.
    pub postgres: PrivatePostgres,
    /// The fan-out server.
    pub redis: PrivateRedis,
    /// The migrated database.
    pub database_url: String,
    to_postgres: Option<Proxy>,
    to_executors: Vec<Proxy>,
    folder: TempDir,
    _room: SemaphorePermit<'static>,
}

impl Cluster {
    /// Starts a cluster and waits until every service is healthy. Without Postgres it waits for nothing.
    ///
    /// # Panics
    /// If it does not become healthy. The ends of its logs are printed.
    pub async fn start(options: Options) -> Self {
        let room = ROOM.acquire().await.expect("never closed");
        let postgres = match options.small_disk {
            Some(bytes) => PrivatePostgres::start_with_small_disk(bytes),
            None => PrivatePostgres::start(),
        };
        let postgres = postgres.expect("Postgres starts");
        let redis = if options.redis { PrivateRedis::start() } else { PrivateRedis::reserve() };
        let database_url = postgres.create_database().expect("a database");
        let folder = tempfile::Builder::new().prefix("tree-agent-cluster-").tempdir().expect("a folder");
        let mut cluster = Self {
            gateways: Vec::new(),
            planners: Vec::new(),
            executors: Vec::new(),
            aggregators: Vec::new(),
            redis: redis.expect("Redis starts"),
            database_url,
            to_postgres: None,
            to_executors: Vec::new(),
            folder,
            _room: room,
            postgres,
        };
        // The database is always migrated, so that a start without Postgres tests only its absence.
        cluster.migrate();
        if !options.postgres {
            cluster.postgres.stop();
        }
        cluster.prepare(&options);
        cluster.processes_mut().for_each(Process::start);
        if options.postgres {
            cluster.healthy().await;
        }
        cluster
    }

    fn migrate(&self) {
        let output =
            self.cli("migrate", |command| command.env("TREE_AGENT_DATABASE_URL", &self.database_url));
        assert!(output.status.success(), "migrate: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn prepare(&mut self, options: &Options) {
        let replicas = options.replicas;
        let ports = || -> Vec<Port> { (0..replicas).map(|_| Port::claim().expect("a free port")).collect() };
        let (gateways, planners, executors, aggregators) = (ports(), ports(), ports(), ports());
        let storage = [
            ("TREE_AGENT_DATABASE_URL", self.database_url.clone()),
            ("TREE_AGENT_REDIS_URL", self.redis.url()),
            ("TREE_AGENT_FANOUT_KEY", SharedSecret::random().expose().to_owned()),
        ];
        let proxy = |upstream| Proxy::start(upstream).expect("a proxy starts");
        self.to_postgres = options.postgres_proxy.then(|| proxy(self.postgres.address()));
        if options.executor_proxy {
            self.to_executors = executors.iter().map(|port| proxy(port.address())).collect();
        }
        let executor_urls = match &self.to_executors[..] {
            [] => urls(executors.iter().map(Port::address)),
            proxies => urls(proxies.iter().map(Proxy::address)),
        };
        let mut database = self.database_url.clone();
        if let Some(proxy) = &self.to_postgres {
            database = database.replace(&self.postgres.address().to_string(), &proxy.address().to_string());
        }
        let driver = [
            ("TREE_AGENT_DATABASE_URL", database),
            ("TREE_AGENT_LEASE_MS", options.lease.as_millis().to_string()),
        ];
        let roles = [
            ("TREE_AGENT_PLANNERS", urls(planners.iter().map(Port::address))),
            ("TREE_AGENT_EXECUTORS", executor_urls),
            ("TREE_AGENT_AGGREGATORS", urls(aggregators.iter().map(Port::address))),
        ];
        let role = [
            ("TREE_AGENT_GATEWAY", urls(gateways.iter().map(Port::address))),
            ("TREE_AGENT_SCRIPTED", "on".to_owned()),
        ];
        let common = [
            ("TREE_AGENT_LOG", "info,tree_agent_runtime::server::request=debug".to_owned()),
            ("TREE_AGENT_ROLE_TOKEN", SharedSecret::random().expose().to_owned()),
            ("NO_COLOR", "1".into()),
            // A model that is installed on this machine changes no test.
            ("TREE_AGENT_EMBEDDINGS", "none".into()),
        ];
        let make = |name: &str, ports: Vec<Port>, settings: &[&[(&str, String)]]| -> Vec<Process> {
            let settings = settings.iter().copied().flatten().chain(&common);
            let settings: Vec<_> = settings.map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
            let process = |(i, port)| {
                let label = format!("{name}-{}", i + 1);
                let log = self.folder.path().join(format!("{label}.log"));
                let mut settings = settings.clone();
                for (whose, name, value) in &options.settings {
                    if label.starts_with(whose) {
                        settings.push(((*name).to_owned(), value.clone()));
                    }
                }
                Process::new(label, &format!("tree-agent-{name}"), port, log, settings)
            };
            ports.into_iter().enumerate().map(process).collect()
        };
        let gateways = make("event-gateway", gateways, &[&storage, &roles]);
        let planners = make("planner", planners, &[&storage, &driver, &roles, &role]);
        let executors = make("executor", executors, &[&role]);
        let aggregators = make("aggregator", aggregators, &[&role]);
        (self.gateways, self.planners, self.executors, self.aggregators) =
            (gateways, planners, executors, aggregators);
    }

    /// Waits until every running process reports that it serves, or has ended.
    ///
    /// # Panics
    /// When one does not within [`SOON`].
    pub async fn healthy(&self) {
        for process in self.processes() {
            let what = format!("{} serves", process.name());
            eventually(&what, SOON, async || !process.alive() || process.serving().await).await;
        }
    }

    /// Every process.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        [&self.gateways, &self.planners, &self.executors, &self.aggregators].into_iter().flatten()
    }

    fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        [&mut self.gateways, &mut self.planners, &mut self.executors, &mut self.aggregators]
            .into_iter()
            .flatten()
    }

    /// The proxy between drivers and Postgres.
    ///
    /// # Panics
    /// Without [`Options::postgres_proxy`].
    pub fn to_postgres(&self) -> &Proxy {
        self.to_postgres.as_ref().expect("the cluster has this proxy")
    }

    /// The proxies between drivers and executors, one for each executor.
    pub fn to_executors(&self) -> &[Proxy] {
        &self.to_executors
    }

    /// URLs of the gateways.
    pub fn gateway_urls(&self) -> Vec<String> {
        self.gateways.iter().map(Process::url).collect()
    }

    /// A connection to the first gateway.
    pub fn first_gateway(&self) -> Peers {
        channel::single(self.gateways[0].url().parse().expect("a URL"))
    }

    /// A client of runs at the first gateway.
    pub fn runs(&self) -> RunServiceClient<Peers> {
        RunServiceClient::new(self.first_gateway()).max_decoding_message_size(16 * limits::MESSAGE_BYTES)
    }

    /// Creates a run of the offline model over every project and returns its id.
    pub async fn ask(&self, objective: &str) -> String {
        self.create_run(pb::CreateRunRequest { objective: objective.into(), ..Default::default() }).await
    }

    /// Creates a run of `model` and returns its id.
    pub async fn create(&self, model: &str) -> String {
        self.create_with(model, pb::Budgets::default()).await
    }

    /// Creates a run of `model` with `budgets` and returns its id.
    pub async fn create_with(&self, model: &str, budgets: pb::Budgets) -> String {
        self.create_run(pb::CreateRunRequest {
            objective: "What does a cluster do?".into(),
            model: model.into(),
            budgets: Some(budgets),
            ..Default::default()
        })
        .await
    }

    /// Creates a guided search of `model` and returns its id.
    pub async fn search(&self, model: &str, search: pb::SearchConfig) -> String {
        // Calls that a test cuts off again and again must not use up their attempts.
        let budgets = pb::Budgets { max_attempts: Some(20), ..Default::default() };
        self.create_run(pb::CreateRunRequest {
            objective: "What does a search do?".into(),
            strategy: pb::Strategy::Search.into(),
            model: model.into(),
            budgets: Some(budgets),
            search: Some(search),
            ..Default::default()
        })
        .await
    }

    /// Creates homework of `model` and returns its id.
    pub async fn homework(&self, model: &str) -> String {
        // Calls that a test cuts off again and again must not use up their attempts.
        let budgets = pb::Budgets { max_attempts: Some(20), ..Default::default() };
        self.create_run(pb::CreateRunRequest {
            objective: "What does homework do?".into(),
            strategy: pb::Strategy::Homework.into(),
            model: model.into(),
            budgets: Some(budgets),
            ..Default::default()
        })
        .await
    }

    async fn create_run(&self, request: pb::CreateRunRequest) -> String {
        let answer = self.runs().create_run(request).await.expect("a run is created");
        answer.into_inner().run.expect("an answer holds the run").run_id
    }

    /// Follows a run through all gateways.
    pub fn follow(&self, run: &str) -> Follower {
        Follower::new(run, &self.gateway_urls())
    }

    /// The run as the gateway lists it.
    pub async fn run(&self, run: &str) -> pb::Run {
        let answer = self.runs().get_run(pb::GetRunRequest { run_id: run.into() }).await;
        answer.expect("the run exists").into_inner().run.expect("an answer holds the run")
    }

    /// The documents of a run, in the order of its tree. There must be no more than a page of them.
    pub async fn documents(&self, run: &str) -> Vec<pb::DocumentSummary> {
        let request = pb::ListDocumentsRequest {
            run_id: run.into(),
            page_size: limits::PAGE_MAX as u32,
            ..Default::default()
        };
        let mut documents = DocumentServiceClient::new(self.first_gateway());
        let answer = documents.list_documents(request).await.expect("a list of documents").into_inner();
        assert_eq!(answer.next_page_token, "", "one page of documents");
        answer.documents
    }

    /// The body of a document.
    pub async fn body(&self, document: DocumentId) -> String {
        let mut documents = DocumentServiceClient::new(self.first_gateway());
        let request = pb::GetDocumentRequest { document_id: document.to_string(), ..Default::default() };
        let answer = documents.get_document(request).await.expect("the document exists");
        answer.into_inner().document.expect("an answer holds the document").body
    }

    /// Which planner holds the lease of `run`; waits until one does.
    ///
    /// # Panics
    /// When none does within [`SOON`].
    pub async fn driver_of(&self, run: &str) -> usize {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            if let Some(driver) = self.lease_of(run).await {
                return driver;
            }
            assert!(tokio::time::Instant::now() < deadline, "nobody drives {run}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A connection of the test's own to the database. It ends when it is dropped.
    ///
    /// # Panics
    /// When Postgres does not answer.
    pub async fn sql(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.database_url, tokio_postgres::NoTls)
            .await
            .expect("Postgres answers");
        tokio::spawn(connection);
        client
    }

    /// How often `run` was claimed so far.
    pub async fn epoch_of(&self, run: &str) -> u64 {
        let query = "SELECT epoch FROM tree_agent_runs WHERE id::text = $1";
        let row = self.sql().await.query_one(query, &[&run]).await.expect("the run exists");
        row.get::<_, i64>(0) as u64
    }

    /// The epoch that wrote each event of `run`, in order. Epochs up to the run's current one are tried.
    ///
    /// # Panics
    /// If an event was written in none of them.
    pub async fn writers_of(&self, run: &str) -> Vec<u64> {
        let now = self.epoch_of(run).await;
        let query = "SELECT id FROM tree_agent_events WHERE run_id::text = $1 ORDER BY seq";
        let rows = self.sql().await.query(query, &[&run]).await.expect("the log is readable");
        let run = run.parse().expect("an id");
        let writer = |(seq, row): (u64, &tokio_postgres::Row)| {
            let id: uuid::Uuid = row.get(0);
            let epoch = (0..=now).find(|&epoch| EventId(id) == EventId::of(run, epoch, seq));
            epoch.unwrap_or_else(|| panic!("event {seq} was written under no epoch up to {now}"))
        };
        (1..).zip(&rows).map(writer).collect()
    }

    /// Which planner holds the lease of `run` now, whether or not it is still alive.
    pub async fn lease_of(&self, run: &str) -> Option<usize> {
        let query = "SELECT lease_owner FROM tree_agent_runs WHERE id::text = $1";
        let row = self.sql().await.query_one(query, &[&run]).await.expect("the run exists");
        let owner: Option<String> = row.get(0);
        // planner-<process id>-<random>
        let pid: u32 = owner?.split('-').nth(1)?.parse().ok()?;
        self.planners.iter().position(|planner| planner.has_pid(pid))
    }

    /// Role calls that ended, summed over all replicas: plans, executions, aggregations.
    pub fn calls(&self) -> [usize; 3] {
        let sum = |processes: &[Process], method| processes.iter().map(|p| p.calls(method)).sum();
        [
            sum(&self.planners, "PlannerService/Plan"),
            sum(&self.executors, "ExecutorService/Execute"),
            sum(&self.aggregators, "AggregatorService/Aggregate"),
        ]
    }

    /// Runs `tree-agent` with `args` (split at spaces) against the first gateway and waits until it exits.
    pub fn cli(&self, args: &str, adjust: impl FnOnce(&mut Command) -> &mut Command) -> Output {
        let mut command = self.command(args);
        adjust(&mut command);
        command.output().expect("the program starts")
    }

    /// The command `tree-agent` with `args` (split at spaces), talking to the first gateway.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(program("tree-agent"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TREE_AGENT_") {
                command.env_remove(name);
            }
        }
        command.env("TREE_AGENT_EMBEDDINGS", "none");
        if let Some(gateway) = self.gateways.first() {
            command.env("TREE_AGENT_SERVER", gateway.url());
        }
        command.args(args.split_whitespace());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for process in self.processes() {
                eprintln!("--- the end of {}'s log:\n{}", process.name(), process.tail());
            }
        }
    }
}

fn urls(addresses: impl Iterator<Item = SocketAddr>) -> String {
    let urls: Vec<_> = addresses.map(|address| format!("http://{address}")).collect();
    urls.join(",")
}

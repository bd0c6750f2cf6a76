//! Which other services answer, as this planner sees them. It says so in its log when that changes, in its health, and
//! in its row, from which gateways know it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Uri;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tree_agent_contract::error::root_cause;
use tree_agent_proto::internal::v1::CheckModelRequest;
use tree_agent_proto::internal::v1::model_service_client::ModelServiceClient;
use tree_agent_runtime::Readiness;
use tree_agent_runtime::channel::{Connector, Peers};
use tree_agent_runtime::config::RoleUrls;
use tree_agent_store::{DriverAbout, DriverState, PeerState, Store};

/// How often everybody is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions without an answer, one after the other, after which a replica counts as away.
const MISSES: u32 = 2;
/// How often host names are resolved anew, and the row is written even if nothing has changed.
const AGAIN: Duration = Duration::from_secs(10);
/// The service that is asked for its health: it takes no calls of roles about models.
const GATEWAYS: &str = "gateways";

/// The replicas of a service.
struct Service {
    name: &'static str,
    urls: Vec<Uri>,
    resolved: Option<Instant>,
    /// Why the addresses are not known.
    unresolved: String,
    replicas: BTreeMap<SocketAddr, Replica>,
}

struct Replica {
    channel: Peers,
    version: String,
    misses: u32,
    /// Since when it does not answer, and why.
    away: Option<(Instant, String)>,
}

/// Asks until it is dropped.
pub(crate) async fn watch(
    urls: RoleUrls,
    gateways: Vec<Uri>,
    driver: String,
    store: Arc<dyn Store>,
    readiness: Readiness,
) {
    let service = |name, urls| Service {
        name,
        urls,
        resolved: None,
        unresolved: "its name has no address".to_owned(),
        replicas: BTreeMap::new(),
    };
    let mut services = [
        service("planners", urls.planners),
        service("executors", urls.executors),
        service("aggregators", urls.aggregators),
        service(GATEWAYS, gateways),
    ];
    for service in &services {
        readiness.observe(service.name).await;
    }
    let (mut told, mut others) = (None, BTreeMap::new());
    loop {
        join_all(services.iter_mut().map(|service| service.ask(&urls.connector, &readiness))).await;
        let peers = services.iter().map(|service| (service.name.to_owned(), service.states())).collect();
        let about = DriverAbout { version: env!("CARGO_PKG_VERSION").to_owned(), peers };
        if told.as_ref().is_none_or(|(known, at): &(_, Instant)| *known != about || at.elapsed() > AGAIN)
            && let Ok(Ok(())) = timeout(PATIENCE, store.note_driver(&driver, &about)).await
        {
            told = Some((about, Instant::now()));
        }
        // A store that hangs holds nothing else up.
        if let Ok(Ok(drivers)) = timeout(PATIENCE, store.drivers()).await {
            note_gone(&mut others, drivers, &driver);
        }
        sleep(EVERY).await;
    }
}

/// Logs, once for each, that the lease of another planner has ended.
fn note_gone(others: &mut BTreeMap<String, u64>, drivers: Vec<DriverState>, me: &str) {
    for DriverState { id, ends_in_ms, runs, .. } in drivers {
        if ends_in_ms >= 0 && id != me {
            others.insert(id, runs);
        } else if let Some(had) = others.remove(&id) {
            let ago = ends_in_ms.unsigned_abs() as f64 / 1e3;
            let runs = had.max(runs);
            tracing::warn!(
                planner = id,
                runs,
                "the lease of a planner ended {ago:.1} s ago; others take its runs"
            );
        }
    }
}

impl Service {
    async fn ask(&mut self, connector: &Connector, readiness: &Readiness) {
        let name = self.name;
        let before = self.away();
        if self.resolved.is_none_or(|at| at.elapsed() > AGAIN) {
            self.resolve(connector).await;
        }
        join_all(self.replicas.values_mut().map(|replica| replica.ask(name))).await;
        let (all, away) = (self.replicas.len(), self.away());
        let outcome = match away.len() == all {
            true if all == 0 => Err(format!("none is known: {}", self.unresolved)),
            true => Err(format!("none of {all} answers: {}", away.join("; "))),
            false => Ok(()),
        };
        let is_partial = |away: &[String]| !away.is_empty() && away.len() < all;
        if is_partial(&away) && away.len() != before.len() {
            tracing::warn!("{} of {all} {name} answer; away: {}", all - away.len(), away.join("; "));
        } else if away.is_empty() && is_partial(&before) {
            tracing::info!("all {all} {name} answer again");
        }
        readiness.set(name, outcome).await;
    }

    async fn resolve(&mut self, connector: &Connector) {
        let mut now = BTreeMap::new();
        for url in &self.urls {
            // A name service that is down takes nothing down.
            match timeout(PATIENCE, connector.replicas(url)).await {
                Ok(Ok(replicas)) => now.extend(replicas),
                Ok(Err(error)) => return self.unresolved = error.to_string(),
                Err(_) => return self.unresolved = "the name service does not answer".to_owned(),
            }
        }
        self.resolved = Some(Instant::now());
        self.replicas.retain(|address, _| now.contains_key(address));
        for (address, channel) in now {
            let new = || Replica { channel, version: String::new(), misses: 0, away: None };
            self.replicas.entry(address).or_insert_with(new);
        }
    }

    /// Those that do not answer, with the reason.
    fn away(&self) -> Vec<String> {
        let away = self.replicas.iter().filter_map(|(address, replica)| {
            let (since, reason) = replica.away.as_ref()?;
            Some(format!("{address} for {} s ({reason})", since.elapsed().as_secs()))
        });
        away.collect()
    }

    fn states(&self) -> Vec<PeerState> {
        let state = |(address, replica): (&SocketAddr, &Replica)| PeerState {
            address: address.to_string(),
            version: replica.version.clone(),
            answers: replica.away.is_none(),
        };
        self.replicas.iter().map(state).collect()
    }
}

impl Replica {
    async fn ask(&mut self, service: &str) {
        let answer = async {
            if service == GATEWAYS {
                let request = HealthCheckRequest { service: String::new() };
                return HealthClient::new(self.channel.clone()).check(request).await.map(|_| String::new());
            }
            let request = CheckModelRequest { model: "offline".to_owned() };
            let mut client = ModelServiceClient::new(self.channel.clone());
            client.check_model(request).await.map(|answer| answer.into_inner().version)
        };
        let reason = match timeout(PATIENCE, answer).await {
            Ok(Ok(version)) => {
                (self.version, self.misses, self.away) = (version, 0, None);
                return;
            }
            // Whoever refuses something answers.
            Ok(Err(status)) if !matches!(status.code(), Code::Unavailable | Code::Unknown) => {
                (self.misses, self.away) = (0, None);
                return;
            }
            Ok(Err(status)) => root_cause(&status),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        self.misses += 1;
        if self.misses >= MISSES {
            self.away.get_or_insert((Instant::now(), reason));
        }
    }
}

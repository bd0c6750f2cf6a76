//! The planner role and the driver, side by side in one process: the role is a stateless gRPC service like the others,
//! and the driver calls it over gRPC like the others.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::role::RoleError;
use tree_agent_driver::{Driver, DriverConfig, GrpcRoles};
use tree_agent_fanout::Fanout;
use tree_agent_model::RoleConfig;
use tree_agent_proto::internal::v1::planner_service_server::PlannerServiceServer;
use tree_agent_runtime::config::RoleUrls;
use tree_agent_runtime::errors::chain;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_runtime::server::{ServeError, ServerConfig};
use tree_agent_runtime::{Readiness, Server, limited, retry};
use tree_agent_store::Store;

pub mod config;
pub mod partitions;
mod peers;

/// The port when none is configured.
pub const DEFAULT_PORT: u16 = 7401;

/// What the service needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The model of the planner role and where its tools find documents.
    pub role: RoleConfig,
    /// How runs are driven.
    pub driver: DriverConfig,
    /// What callers of the planner role must show.
    pub role_token: RoleToken,
    /// The role services that the driver calls.
    pub peers: RoleUrls,
    /// Its port.
    pub server: ServerConfig,
}

/// Why the service could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured model does not exist.
    #[error("the default model cannot be used")]
    Model(#[from] RoleError),
    /// The server failed.
    #[error("the planner cannot serve")]
    Serve(#[from] ServeError),
}

/// Serves the planner role on `listener` and drives runs, until `shutdown` is cancelled. Runs are given back at once;
/// planner calls in flight get the drain time.
pub async fn serve(
    config: Config,
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let role = config.role.server()?;
    let models = role.model_service();
    let roles = GrpcRoles::new(&config.peers, config.driver.max_calls);
    let counted = roles.clone();
    let owner = config.driver.owner.clone();
    let driver = Driver::new(store.clone(), fanout.clone(), Arc::new(roles), config.driver);
    let readiness = Readiness::new();
    readiness.require("store").await;
    readiness.observe("fanout").await;
    readiness.require("driver").await;
    // A run that cannot be driven is no reason to send planner calls elsewhere.
    readiness.observe("runs").await;
    let every = Duration::from_secs(1);
    let store_health = retry::watch(readiness.clone(), "store", every, || {
        let store = store.clone();
        async move { store.ping().await.map_err(|error| chain(&error)) }
    });
    let fanout_health = retry::watch(readiness.clone(), "fanout", every, || {
        let fanout = fanout.clone();
        async move { fanout.ping().await.map_err(|error| chain(&error)) }
    });
    let (driving, undrivable) = (driver.health(), driver.health());
    let driver_health = retry::watch(readiness.clone(), "driver", every, || {
        let outcome = driving.check();
        async move { outcome }
    });
    let runs_health = retry::watch(readiness.clone(), "runs", every, || {
        let outcome = undrivable.undrivable_runs();
        async move { outcome }
    });
    let peers = peers::watch(config.peers, config.role.gateways, owner, store.clone(), readiness.clone());
    let health = async { tokio::join!(store_health, fanout_health, driver_health, runs_health, peers) };
    let (pool, heard) = (store.clone(), fanout.clone());
    let server = Server::new(readiness)
        .service(limited!(PlannerServiceServer::new(role.clone())))
        .service(models)
        .config(config.server)
        .measure(|metrics| {
            role.measure(metrics);
            driver.measure(metrics);
            counted.measure(metrics);
            let help = "Messages over fan-out that were dropped because they are not signed with the key";
            metrics.counters("tree_agent_fanout_dropped_messages", help, move || {
                vec![(vec![("reason", "unsigned".to_owned())], heard.dropped() as f64)]
            });
            metrics.levels("tree_agent_store_connections", "Connections to the store", "state", move || {
                pool.connections()
            });
        })
        .serve_wrapped(listener, shutdown.clone(), |routes| config.role_token.guard(routes));
    // Without its server nobody could see how the driver is: they end together.
    let server = async {
        let served = server.await;
        shutdown.cancel();
        served
    };
    let work = async { tokio::join!(server, driver.run(shutdown.clone())).0 };
    tokio::select! {
        served = work => Ok(served?),
        ((), (), (), (), ()) = health => unreachable!("health is watched for ever"),
    }
}

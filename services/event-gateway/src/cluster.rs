//! The cluster as its planners see it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tree_agent_proto::v1 as pb;
use tree_agent_runtime::Readiness;
use tree_agent_store::{ClusterState, DriverState, Store};

/// How often the rows of planners are read.
const EVERY: Duration = Duration::from_secs(2);
/// A run that waits for so long for a planner is a problem.
const PATIENCE_MS: u64 = 60_000;
/// The services whose absence is said, as planners name them.
const ROLES: [&str; 3] = ["planners", "executors", "aggregators"];

/// Keeps the health of the roles up to date, until it is dropped. Without its store a gateway knows nothing of them.
pub(crate) async fn watch(store: Arc<dyn Store>, readiness: Readiness) {
    for role in ROLES {
        readiness.observe(role).await;
    }
    loop {
        if let Ok(drivers) = store.drivers().await {
            let services = services(&drivers);
            for role in ROLES {
                readiness.set(role, absence(&drivers, &services, role).map_or(Ok(()), Err)).await;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Replicas by the name of their service and their address: the version, and whether a planner has an answer.
type Services<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, bool)>>;

fn living(drivers: &[DriverState]) -> impl Iterator<Item = &DriverState> {
    drivers.iter().filter(|driver| driver.ends_in_ms >= 0)
}

fn services(drivers: &[DriverState]) -> Services<'_> {
    let mut services = Services::new();
    for (service, peers) in living(drivers).flat_map(|driver| &driver.about.peers) {
        let known = services.entry(service.as_str()).or_default();
        for peer in peers {
            let (version, answers) = known.entry(peer.address.as_str()).or_default();
            *answers |= peer.answers;
            if !peer.version.is_empty() {
                *version = peer.version.as_str();
            }
        }
    }
    services
}

/// Why runs do not get on, if it is for this service.
fn absence(drivers: &[DriverState], services: &Services<'_>, service: &str) -> Option<String> {
    if service == "planners" && living(drivers).next().is_none() {
        return Some("no planner holds a lease, so no run gets on".to_owned());
    }
    // A planner that has just begun has not said anything yet.
    let replicas = services.get(service)?;
    if replicas.is_empty() {
        return Some(format!("planners know no address of {service}"));
    }
    let (all, away) = (replicas.len(), away(replicas));
    (away.len() == all).then(|| format!("none of {all} {service} answers ({})", away.join(", ")))
}

fn away<'a>(replicas: &BTreeMap<&'a str, (&'a str, bool)>) -> Vec<&'a str> {
    replicas.iter().filter(|(_, (_, answers))| !answers).map(|(address, _)| *address).collect()
}

/// The state as it is told.
pub(crate) fn status(state: &ClusterState, pending_passages: Option<u64>) -> pb::GetStatusResponse {
    let (drivers, services) = (&state.drivers, services(&state.drivers));
    let mut problems: Vec<String> =
        ROLES.iter().filter_map(|role| absence(drivers, &services, role)).collect();
    for (service, replicas) in &services {
        let (all, away) = (replicas.len(), away(replicas));
        if !away.is_empty() && (away.len() < all || !ROLES.contains(service)) {
            problems.push(format!("{} of {all} {service} do not answer: {}", away.len(), away.join(", ")));
        }
    }
    if state.longest_wait_ms >= PATIENCE_MS {
        let seconds = state.longest_wait_ms / 1_000;
        problems.push(format!("a new run has waited {seconds} s for a planner"));
    }
    let replicas = services.iter().flat_map(|(service, replicas)| {
        replicas.iter().map(|(address, (version, answers))| pb::ServiceStatus {
            service: service.trim_end_matches('s').to_owned(),
            address: (*address).to_owned(),
            version: (*version).to_owned(),
            answers: *answers,
            runs: 0,
        })
    });
    let leases = drivers.iter().map(|driver| pb::ServiceStatus {
        service: "lease".to_owned(),
        address: driver.id.clone(),
        version: driver.about.version.clone(),
        answers: driver.ends_in_ms >= 0,
        runs: driver.runs,
    });
    pb::GetStatusResponse {
        problems,
        services: replicas.chain(leases.filter(|lease| lease.answers || lease.runs > 0)).collect(),
        live_runs: state.live,
        waiting_runs: state.waiting,
        longest_wait_ms: state.longest_wait_ms,
        pending_passages,
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_store::{DriverAbout, PeerState};

    use super::*;

    fn driver(ends_in_ms: i64, executors: [bool; 2], gateway: bool) -> DriverState {
        let peer = |(n, answers): (usize, &bool)| PeerState {
            address: format!("10.0.0.{n}:7402"),
            version: "0.3.0".into(),
            answers: *answers,
        };
        let peers = [
            ("executors".to_owned(), executors.iter().enumerate().map(peer).collect()),
            ("gateways".to_owned(), vec![peer((9, &gateway))]),
        ];
        let about = DriverAbout { version: "0.3.0".into(), peers: peers.into() };
        DriverState { id: "p".into(), ends_in_ms, runs: 2, about }
    }

    fn problems(drivers: Vec<DriverState>) -> Vec<String> {
        status(&ClusterState { drivers, ..ClusterState::default() }, None).problems
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence() {
        assert_eq!(problems(vec![driver(1, [true, true], true)]), [""; 0]);
        let gone = driver(-1, [true, true], true);
        assert_eq!(problems(vec![gone.clone()]), ["no planner holds a lease, so no run gets on"]);
        let away = "none of 2 executors answers (10.0.0.0:7402, 10.0.0.1:7402)";
        assert_eq!(problems(vec![driver(1, [false, false], true), gone]), [away]);
        let partly =
            ["1 of 2 executors do not answer: 10.0.0.1:7402", "1 of 1 gateways do not answer: 10.0.0.9:7402"];
        assert_eq!(problems(vec![driver(1, [true, false], false)]), partly);
        // It is enough if one planner has an answer.
        let (one, other) = (driver(1, [true, false], true), driver(1, [false, true], true));
        assert_eq!(problems(vec![one, other]), [""; 0]);
        let waits = ClusterState { waiting: 3, longest_wait_ms: 61_000, ..ClusterState::default() };
        let told = status(&ClusterState { drivers: vec![driver(1, [true, true], true)], ..waits }, Some(4));
        assert_eq!(told.problems, ["a new run has waited 61 s for a planner"]);
        assert_eq!((told.services.len(), told.pending_passages), (4, Some(4)));
    }
}

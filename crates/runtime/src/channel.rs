//! Client channels that spread calls over replicas.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::Uri;
use tokio::sync::mpsc::Sender;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::channel::Change;
use tonic::transport::{Channel, Endpoint};

use crate::telemetry::TraceContext;

/// A channel over all replicas of a service; each call goes to one of them and carries the trace context.
/// A call to a replica that is gone fails with `UNAVAILABLE` (or `UNKNOWN`, when its connection broke):
/// repeat it, and another replica gets it. While no replica is known calls wait: give them a deadline.
pub type Peers = InterceptedService<Channel, TraceContext>;

const RESOLVE_EVERY: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Room for what servers send: one slow stream must not starve the others of its connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// One replica: which of the URLs it came from, and its address.
type Key = (usize, SocketAddr);

/// A channel to `urls`, connected lazily. A URL with a host name stands for every address that the name resolves
/// to, looked up again every five seconds; addresses that disappear are dropped. Must be called in a runtime.
pub fn balanced(urls: &[Uri]) -> Peers {
    let (channel, changes) = Channel::balance_channel::<Key>(urls.len() + 64);
    for (index, url) in urls.iter().enumerate() {
        let port = url.port_u16().unwrap_or(80);
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        match host.parse::<IpAddr>() {
            Ok(ip) => {
                let address = SocketAddr::new(ip, port);
                // There is room for every URL.
                let _ = changes.try_send(Change::Insert((index, address), endpoint(address, url)));
            }
            Err(_) => {
                tokio::spawn(follow(index, url.clone(), host, port, changes.clone()));
            }
        }
    }
    InterceptedService::new(channel, TraceContext)
}

/// A single connection, made lazily, without balancing.
pub fn single(url: Uri) -> Peers {
    InterceptedService::new(tuned(Endpoint::from(url)).connect_lazy(), TraceContext)
}

/// Keeps the replicas behind a host name up to date until the channel is dropped.
async fn follow(index: usize, url: Uri, host: String, port: u16, changes: Sender<Change<Key, Endpoint>>) {
    let mut known = HashSet::new();
    loop {
        match tokio::net::lookup_host((host.as_str(), port)).await {
            Ok(addresses) => {
                let now: HashSet<_> = addresses.collect();
                for address in now.difference(&known) {
                    let change = Change::Insert((index, *address), endpoint(*address, &url));
                    if changes.send(change).await.is_err() {
                        return;
                    }
                }
                for address in known.difference(&now) {
                    if changes.send(Change::Remove((index, *address))).await.is_err() {
                        return;
                    }
                }
                known = now;
            }
            // What was known stays in use: a name service that is down must not take the cluster down.
            Err(error) => tracing::warn!(host, "cannot look the host up: {error}"),
        }
        tokio::select! {
            () = changes.closed() => return,
            () = tokio::time::sleep(RESOLVE_EVERY) => {}
        }
    }
}

fn endpoint(address: SocketAddr, url: &Uri) -> Endpoint {
    let at = Uri::builder().scheme("http").authority(address.to_string()).path_and_query("/").build();
    tuned(Endpoint::from(at.expect("an address is a valid authority"))).origin(url.clone())
}

fn tuned(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

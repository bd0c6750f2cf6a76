//! The accept loop: limits of connections, and backoff when accepting fails.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Pause after the first accept error; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// A condition that persists is logged again after this time.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Addresses of proxies, which stand for many clients.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Arc<[IpNet]>);

impl FromStr for Proxies {
    type Err = String;

    /// Addresses and networks separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| format!("{text:?} is not an address or a network such as 10.0.0.0/8"))
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(Self(parts.map(network).collect::<Result<_, _>>()?))
    }
}

impl Proxies {
    /// Whether `address` is that of a proxy.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// The connections of a port, counted. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    free: Arc<Semaphore>,
    per_address: usize,
    proxies: Proxies,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    open: AtomicUsize,
    refused: AtomicU64,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Slot {
    _total: OwnedSemaphorePermit,
    slots: Slots,
    /// The address whose limit it counts towards, if that is limited.
    address: Option<IpAddr>,
}

impl Slots {
    pub(super) fn new(total: usize, per_address: usize, proxies: Proxies) -> Self {
        let total = open_file_limit().map_or(total, |files| total.min((files / 4 * 3).max(1)));
        let free = Arc::new(Semaphore::new(total));
        let (by_address, open, refused) = Default::default();
        Self(Arc::new(Shared { total, free, per_address, proxies, by_address, open, refused }))
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Connections closed at once because their address had too many.
    pub(super) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// The place of a connection from `address`; `None` when the address has as many as it may.
    fn take(&self, total: OwnedSemaphorePermit, address: IpAddr) -> Option<Slot> {
        let address = address.to_canonical();
        let unlimited = address.is_loopback() || self.0.proxies.contain(address);
        let address = (!unlimited).then(|| client(address));
        if let Some(address) = address {
            let mut by_address = self.by_address();
            let open = by_address.entry(address).or_default();
            if *open >= self.0.per_address {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            *open += 1;
        }
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Some(Slot { _total: total, slots: self.clone(), address })
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.0.open.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        let mut by_address = self.slots.by_address();
        if let Some(open) = by_address.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&address);
            }
        }
    }
}

/// The address that counts as one client. An IPv6 host usually has a /64 network to itself.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// The number of files that this process may open, if it is known.
fn open_file_limit() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        use procfs::process::{LimitValue, Process};
        let limits = Process::myself().and_then(|process| process.limits()).ok()?;
        match limits.max_open_files.soft_limit {
            LimitValue::Value(files) => usize::try_from(files).ok(),
            LimitValue::Unlimited => None,
        }
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Accepts the connections of one listener.
pub(super) struct Acceptor<'a> {
    listener: &'a TcpListener,
    slots: Slots,
    full: Throttle,
    failing: Throttle,
    crowded: Throttle,
}

impl<'a> Acceptor<'a> {
    pub(super) fn new(listener: &'a TcpListener, slots: Slots) -> Self {
        let (full, failing, crowded) = (Throttle::default(), Throttle::default(), Throttle::default());
        Self { listener, slots, full, failing, crowded }
    }

    /// Returns the next connection. While all places are taken, clients wait in the listener's queue.
    pub(super) async fn next(&mut self) -> (TcpStream, SocketAddr, Slot) {
        loop {
            let total = self.permit().await;
            let (stream, address) = self.accept().await;
            match self.slots.take(total, address.ip()) {
                Some(slot) => return (stream, address, slot),
                None if self.crowded.is_due() => tracing::warn!(
                    address = %address.ip(),
                    limit = self.slots.0.per_address,
                    "this address has too many connections; closing further ones \
                     (TREE_AGENT_MAX_CONNECTIONS_PER_ADDRESS, TREE_AGENT_PROXIES)"
                ),
                None => {}
            }
        }
    }

    async fn permit(&mut self) -> OwnedSemaphorePermit {
        let free = self.slots.0.free.clone();
        if let Ok(permit) = free.clone().try_acquire_owned() {
            return permit;
        }
        if self.full.is_due() {
            tracing::warn!(
                limit = self.slots.0.total,
                "all connections are in use; further clients wait (TREE_AGENT_MAX_CONNECTIONS, limit of open files)"
            );
        }
        free.acquire_owned().await.expect("the semaphore is never closed")
    }

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        let listener = self.listener;
        accept(|| listener.accept(), &mut self.failing).await
    }
}

/// Accepts a connection, with backoff: a lack of files or memory lasts for a while, and a loop without a pause would
/// use a whole core.
async fn accept<T, F>(mut next: impl FnMut() -> F, failing: &mut Throttle) -> T
where
    F: Future<Output = io::Result<T>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match next().await {
            Ok(accepted) => return accepted,
            // This client left before it was accepted.
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                if failing.is_due() {
                    tracing::warn!("cannot accept connections: {error}; trying again with growing pauses");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Limits the log lines of a condition to one every [`LOG_EVERY`].
#[derive(Debug, Default)]
struct Throttle(Option<Instant>);

impl Throttle {
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|last| now.duration_since(last) >= LOG_EVERY);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &Slots, address: &str) -> Option<Slot> {
        let permit = slots.0.free.clone().try_acquire_owned().unwrap();
        slots.take(permit, address.parse().unwrap())
    }

    #[test]
    fn an_address_has_its_share_and_loopback_and_proxies_have_no_limit() {
        let slots = Slots::new(100, 2, "10.0.0.0/8, 192.0.2.9".parse().unwrap());
        let (first, _second) = (take(&slots, "192.0.2.1").unwrap(), take(&slots, "192.0.2.1").unwrap());
        assert!(take(&slots, "192.0.2.1").is_none());
        assert!(take(&slots, "::ffff:192.0.2.1").is_none(), "the same address in the words of IPv6");
        assert!(take(&slots, "192.0.2.2").is_some());
        drop(first);
        assert!(take(&slots, "192.0.2.1").is_some());
        let one_network: Vec<_> = (1..=3).filter_map(|n| take(&slots, &format!("2001:db8::{n}"))).collect();
        assert_eq!(one_network.len(), 2);
        assert!(take(&slots, "2001:db8:0:1::1").is_some());
        for open in ["127.0.0.1", "::1", "10.9.8.7", "192.0.2.9"] {
            let many: Vec<_> = (0..5).filter_map(|_| take(&slots, open)).collect();
            assert_eq!(many.len(), 5, "{open}");
        }
        assert_eq!((slots.refused(), slots.open()), (3, 3));
        drop((_second, one_network));
        assert!(slots.by_address().is_empty());
        assert_eq!(slots.open(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_files_is_waited_for_with_growing_pauses() {
        let (mut failing, mut tries) = (Throttle::default(), 0);
        let until = Instant::now() + Duration::from_secs(60);
        let accepted = accept(
            || {
                tries += 1;
                // EMFILE, and in between clients that left before they were accepted.
                std::future::ready(match tries % 3 {
                    0 => Err(io::ErrorKind::ConnectionAborted.into()),
                    _ if Instant::now() < until => Err(io::Error::from_raw_os_error(24)),
                    _ => Ok(()),
                })
            },
            &mut failing,
        );
        accepted.await;
        assert!((60..120).contains(&tries), "{tries} tries within a minute");
    }

    #[test]
    fn there_are_fewer_connections_than_files() {
        let files = open_file_limit().expect("known on Linux");
        assert_eq!(Slots::new(usize::MAX >> 3, 1, Proxies::default()).0.total, files / 4 * 3);
        assert_eq!(Slots::new(7, 1, Proxies::default()).0.total, 7);
    }

    #[test]
    fn proxies_are_addresses_and_networks() {
        for bad in ["proxy.example.org", "10.0.0.0/33", "10.0.0/8"] {
            assert!(bad.parse::<Proxies>().is_err(), "{bad}");
        }
        assert!("2001:db8::/32".parse::<Proxies>().unwrap().contain("2001:db8::1".parse().unwrap()));
    }
}

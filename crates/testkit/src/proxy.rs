//! A TCP proxy on loopback for tests of network faults: it cuts, holds and delays connections, and loses replies.
//!
//! It runs on its own thread, so that a test that blocks does not delay it. Faults can be switched while connections
//! are open. [`Proxy::cut`], [`Proxy::hold`], [`Proxy::delay`],
//! [`Proxy::delay_answers`] and [`Proxy::heal`] affect every connection. The
//! one-shot traps [`Proxy::lose_reply_to`], [`Proxy::freeze_on`] and [`Proxy::cut_after_reply_bytes`] affect the first
//! connection that triggers them.

mod pipe;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// What happens to every connection.
#[derive(Clone, Debug, Default)]
struct Conditions {
    /// Connections are reset, new ones too.
    cut: bool,
    /// Nothing passes. Connections stay open and new ones are accepted.
    hold: bool,
    /// What either side sends arrives this much later.
    delay: Duration,
    /// What the server sends arrives this much later. What comes behind it does not wait longer.
    answers: Duration,
    /// Connections of an earlier generation are reset.
    generation: u64,
}

/// A fault that happens once, to the first connection that meets its condition.
#[derive(Clone, Debug)]
enum OneTimeFault {
    /// A request that contains `request` passes. The server's answer is discarded until it ends with `reply_end`; then
    /// the connection is reset.
    LoseReply { request: Vec<u8>, reply_end: Vec<u8> },
    /// A request that contains `request` does not pass, nor does anything after it, and the connection stays open.
    Freeze { request: Vec<u8> },
    /// The connection is reset once the server has sent this many bytes over it from now on. The last ones are lost.
    CutAfterReply { bytes: usize },
}

struct Shared {
    upstream: SocketAddr,
    weather: watch::Sender<Conditions>,
    traps: std::sync::Mutex<Vec<OneTimeFault>>,
    sprung: watch::Sender<usize>,
    open: watch::Sender<usize>,
}

impl Shared {
    fn traps(&self) -> std::sync::MutexGuard<'_, Vec<OneTimeFault>> {
        self.traps.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A proxy in front of one server. Dropping it cuts every connection.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Listens on a free loopback port and forwards everything to `upstream`, which need not be running yet.
    ///
    /// # Errors
    /// If there is no free port, or if the thread cannot be started.
    pub fn start(upstream: SocketAddr) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no free loopback port")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            weather: watch::Sender::default(),
            traps: std::sync::Mutex::default(),
            sprung: watch::Sender::new(0),
            open: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = shared.clone();
        std::thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, shared, _stop: stop })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets every connection, and each new one at once.
    pub fn cut(&self) {
        self.shared.weather.send_modify(|weather| weather.cut = true);
    }

    /// Resets every connection; new ones work.
    pub fn reset(&self) {
        self.shared.weather.send_modify(|weather| weather.generation += 1);
    }

    /// Lets nothing pass any more. Connections are half open, and neither side notices.
    pub fn hold(&self) {
        self.shared.weather.send_modify(|weather| weather.hold = true);
    }

    /// Everything arrives `delay` later.
    pub fn delay(&self, delay: Duration) {
        self.shared.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Every answer arrives `delay` later, and requests arrive at once. Answers do not queue: one that is sent a moment
    /// after another arrives a moment after it.
    pub fn delay_answers(&self, delay: Duration) {
        self.shared.weather.send_modify(|weather| weather.answers = delay);
    }

    /// Ends [`cut`](Self::cut), [`hold`](Self::hold), [`delay`](Self::delay),
    /// [`delay_answers`](Self::delay_answers) and all traps. Connections that a trap
    /// froze are reset.
    pub fn heal(&self) {
        self.shared.traps().clear();
        self.shared.weather.send_modify(|weather| {
            *weather = Conditions { generation: weather.generation, ..Conditions::default() };
        });
    }

    /// Once: lets a request that contains `request` pass, discards the answer up to `reply_end`, and then resets the
    /// connection. The server has done what it was asked, but the client does not learn of it.
    pub fn lose_reply_to(&self, request: &[u8], reply_end: &[u8]) {
        self.set(OneTimeFault::LoseReply { request: request.into(), reply_end: reply_end.into() });
    }

    /// Once: a request that contains `request` gets stuck, and its connection with it, while all others work.
    pub fn freeze_on(&self, request: &[u8]) {
        self.set(OneTimeFault::Freeze { request: request.into() });
    }

    /// Once: resets the next connection over which the server sends `bytes` bytes.
    pub fn cut_after_reply_bytes(&self, bytes: usize) {
        self.set(OneTimeFault::CutAfterReply { bytes });
    }

    fn set(&self, trap: OneTimeFault) {
        self.shared.traps().push(trap);
    }

    /// How many traps have been triggered so far.
    pub fn sprung(&self) -> usize {
        *self.shared.sprung.borrow()
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        *self.shared.open.borrow()
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(pipe::connection(client, shared.clone()));
    }
}

#[cfg(test)]
mod tests;

//! One connection through the proxy.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::{Conditions, OneTimeFault, Shared};

/// State shared by the two directions of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
enum Fate {
    #[default]
    Passing,
    /// Answers are discarded until they end with this.
    Losing(Vec<u8>),
    /// Nothing passes any more.
    Frozen,
    /// To be reset.
    Doomed,
}

/// Counts the connection for as long as it lives.
struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Forwards until either side closes, the proxy is cut, or a trap ends the connection. Resets the connection unless
/// one of the sides closed it.
pub(super) async fn connection(client: TcpStream, shared: Arc<Shared>) {
    // A reset, as from a host that vanished, unless the pipe below ends cleanly.
    let _ = client.set_zero_linger();
    shared.open.send_modify(|open| *open += 1);
    let _counted = Counted(&shared.open);
    let mut weather = shared.weather.subscribe();
    let born = weather.borrow().generation;
    if weather.borrow().cut {
        return;
    }
    let Ok(server) = TcpStream::connect(shared.upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true), server.set_zero_linger());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let fate = watch::Sender::new(Fate::Passing);
    let up = requests(from_client, to_server, &shared, &fate);
    let down = replies(from_server, to_client, &shared, &fate);
    let mut fated = fate.subscribe();
    tokio::select! {
        () = async { tokio::join!(up, down); } => {}
        _ = weather.wait_for(|now| now.cut || now.generation != born) => {}
        _ = fated.wait_for(|fate| *fate == Fate::Doomed) => {}
        // A frozen connection stays until the proxy is healed.
        () = thawed(&fate, &shared) => {}
    }
}

async fn thawed(fate: &watch::Sender<Fate>, shared: &Shared) {
    let _ = fate.subscribe().wait_for(|fate| *fate == Fate::Frozen).await;
    let mut weather = shared.weather.subscribe();
    let _ = weather.changed().await;
}

/// From client to server. Ends with the client.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    fate: &watch::Sender<Fate>,
) {
    let mut weather = shared.weather.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    // The last bytes that passed, so that a request that arrives in two pieces is found.
    let mut seen: Vec<u8> = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        pass(&mut weather).await;
        seen.extend_from_slice(&buffer[..n]);
        if *fate.borrow() == Fate::Passing
            && let Some(next) = spring(shared, &seen)
        {
            fate.send_replace(next);
        }
        let keep = seen.len().saturating_sub(256);
        seen.drain(..keep);
        if *fate.borrow() == Fate::Frozen {
            return std::future::pending().await;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// The effect of the traps on a connection that has sent `seen`.
fn spring(shared: &Shared, seen: &[u8]) -> Option<Fate> {
    let contains = |needle: &[u8]| seen.windows(needle.len()).any(|window| window == needle);
    let mut traps = shared.traps();
    let at = traps.iter().position(|trap| match trap {
        OneTimeFault::LoseReply { request, .. } | OneTimeFault::Freeze { request } => contains(request),
        OneTimeFault::CutAfterReply { .. } => false,
    })?;
    let trap = traps.remove(at);
    drop(traps);
    Some(match trap {
        OneTimeFault::LoseReply { reply_end, .. } => Fate::Losing(reply_end),
        OneTimeFault::Freeze { .. } | OneTimeFault::CutAfterReply { .. } => {
            shared.sprung.send_modify(|n| *n += 1);
            Fate::Frozen
        }
    })
}

/// Parts of an answer, and when each is due.
type Due = (tokio::time::Instant, Vec<u8>);

/// Writes answers when they are due.
async fn deliver(mut answers: tokio::sync::mpsc::UnboundedReceiver<Due>, mut to: OwnedWriteHalf) {
    while let Some((at, bytes)) = answers.recv().await {
        tokio::time::sleep_until(at).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// From server to client. Ends with the server.
async fn replies(from: OwnedReadHalf, to: OwnedWriteHalf, shared: &Shared, fate: &watch::Sender<Fate>) {
    let (sender, answers) = tokio::sync::mpsc::unbounded_channel();
    tokio::join!(read_replies(from, sender, shared, fate), deliver(answers, to));
}

async fn read_replies(
    mut from: OwnedReadHalf,
    to: tokio::sync::mpsc::UnboundedSender<Due>,
    shared: &Shared,
    fate: &watch::Sender<Fate>,
) {
    let mut weather = shared.weather.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    let mut swallowed: Vec<u8> = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        pass(&mut weather).await;
        let now = fate.borrow().clone();
        match now {
            Fate::Frozen => return std::future::pending().await,
            Fate::Losing(end) => {
                swallowed.extend_from_slice(&buffer[..n]);
                if swallowed.ends_with(&end) {
                    shared.sprung.send_modify(|n| *n += 1);
                    fate.send_replace(Fate::Doomed);
                }
                continue;
            }
            Fate::Passing | Fate::Doomed => {}
        }
        if too_much(shared, n) {
            shared.sprung.send_modify(|n| *n += 1);
            fate.send_replace(Fate::Doomed);
            continue;
        }
        let due = tokio::time::Instant::now() + weather.borrow().answers;
        if to.send((due, buffer[..n].to_vec())).is_err() {
            break;
        }
    }
}

/// Counts `n` bytes of a reply for the trap that waits for them. True if they trigger it.
fn too_much(shared: &Shared, n: usize) -> bool {
    let mut traps = shared.traps();
    let at = traps.iter_mut().position(|trap| match trap {
        OneTimeFault::CutAfterReply { bytes } => {
            *bytes = bytes.saturating_sub(n);
            *bytes == 0
        }
        _ => false,
    });
    at.map(|at| traps.remove(at)).is_some()
}

/// Waits for as long as the current delay or hold says.
async fn pass(weather: &mut watch::Receiver<Conditions>) {
    let delay = weather.borrow_and_update().delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    // Fails only if the proxy has been dropped.
    let _ = weather.wait_for(|now| !now.hold).await;
}

//! A watcher that stays with a run through every failure.

use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;
use tree_agent_contract::{Event, EventBody};
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::channel;

use crate::{History, SOON};

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    events: Vec<Event>,
    /// Streams opened so far.
    streams: usize,
    /// Streams that were closed with a resume hint: the hint's seq, and our last seq at that moment.
    hints: Vec<(u64, u64)>,
    /// Streams that broke.
    broken: usize,
    /// The time from each event's timestamp to its arrival.
    delays: Vec<Duration>,
    ended: bool,
    /// A broken promise.
    problem: Option<String>,
}

/// Watches a run in a separate task. It opens a stream and records every event. If the stream ends or breaks, it
/// resumes after the last event at the next gateway. It stops when it is dropped.
#[derive(Debug)]
pub struct Follower {
    seen: watch::Receiver<Seen>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Follows `run` from its beginning through the gateways at these URLs, the first one first.
    pub fn new(run: &str, gateways: &[String]) -> Self {
        let (send, seen) = watch::channel(Seen::default());
        let task = tokio::spawn(follow(run.to_owned(), gateways.to_vec(), send));
        Self { seen, task }
    }

    /// Waits until `condition` holds for the events so far and returns their number.
    ///
    /// # Panics
    /// If it does not hold within [`SOON`], or if an event was missing, duplicated or out of order.
    pub async fn until(&mut self, what: &str, condition: impl FnMut(&[Event]) -> bool) -> usize {
        self.until_within(what, SOON, condition).await
    }

    /// Like [`until`](Self::until), within `limit`.
    ///
    /// # Panics
    /// As [`until`](Self::until).
    pub async fn until_within(
        &mut self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut(&[Event]) -> bool,
    ) -> usize {
        self.wait(what, limit, |seen| condition(&seen.events)).await;
        self.seen.borrow().events.len()
    }

    async fn wait(&mut self, what: &str, limit: Duration, mut condition: impl FnMut(&Seen) -> bool) {
        let met = self.seen.wait_for(|seen| seen.problem.is_some() || condition(seen));
        let met = tokio::time::timeout(limit, met).await.is_ok_and(|met| met.is_ok());
        let seen = self.seen.borrow();
        if let Some(problem) = &seen.problem {
            panic!("while waiting for {what}: {problem}");
        }
        if !met {
            let last: Vec<_> = seen.events.iter().rev().take(8).map(|e| format!("{e:?}")).collect();
            panic!(
                "not within {limit:?}: {what}; {} events, the last:\n{}",
                seen.events.len(),
                last.join("\n")
            );
        }
    }

    /// Waits until the run has ended and its stream was closed cleanly.
    ///
    /// # Panics
    /// If that does not happen within [`SOON`], or if an event was missing, duplicated or out of order.
    pub async fn end(&mut self) -> History {
        self.wait("the end of the run", SOON, |seen| seen.ended).await;
        History::new(self.seen.borrow().events.clone())
    }

    /// The longest time so far from an event's timestamp to its arrival.
    pub fn worst_delay(&self) -> Duration {
        self.delay(1.0)
    }

    /// The quantile `share` of the times from an event's timestamp to its arrival, over the events so far.
    pub fn delay(&self, share: f64) -> Duration {
        let mut delays = self.seen.borrow().delays.clone();
        delays.sort_unstable();
        let at = (delays.len() as f64 * share).ceil() as usize;
        delays.get(at.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Waits for a resume hint; returns its seq and the last seq that had arrived before it.
    pub async fn resume_hint(&mut self) -> (u64, u64) {
        self.wait("a resume hint", SOON, |seen| !seen.hints.is_empty()).await;
        self.seen.borrow().hints[0]
    }

    /// Events seen so far.
    pub fn count(&self) -> usize {
        self.seen.borrow().events.len()
    }

    /// True once the run has ended and its stream was closed cleanly.
    pub fn ended(&self) -> bool {
        self.seen.borrow().ended
    }

    /// Streams opened so far.
    pub fn streams(&self) -> usize {
        self.seen.borrow().streams
    }

    /// Streams so far that broke instead of being closed cleanly.
    pub fn broken(&self) -> usize {
        self.seen.borrow().broken
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(run_id: String, gateways: Vec<String>, send: watch::Sender<Seen>) {
    let mut after_seq = 0;
    let mut last = false;
    for url in gateways.iter().cycle() {
        let mut client = RunServiceClient::new(channel::single(url.parse().expect("a URL")));
        let request = pb::WatchRunRequest { run_id: run_id.clone(), after_seq, ..Default::default() };
        let opened = tokio::time::timeout(Duration::from_secs(5), client.watch_run(request)).await;
        let mut stream = match opened {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) if refused(&status) => {
                return send.send_modify(|seen| seen.problem = Some(format!("WatchRun: {status}")));
            }
            Ok(Err(_)) | Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        send.send_modify(|seen| seen.streams += 1);
        loop {
            // A gateway sends at least a heartbeat every ten seconds.
            match tokio::time::timeout(Duration::from_secs(15), stream.message()).await {
                Ok(Ok(Some(message))) => match message.message {
                    Some(Message::Event(event)) => {
                        let event = match Event::from_wire(event) {
                            Ok(event) => event,
                            Err(error) => {
                                return send.send_modify(|seen| seen.problem = Some(error.to_string()));
                            }
                        };
                        if event.seq != after_seq + 1 || last {
                            let problem = format!("event {} came after event {after_seq}", event.seq);
                            return send.send_modify(|seen| seen.problem = Some(problem));
                        }
                        after_seq = event.seq;
                        last = matches!(&event.body, EventBody::RunStatusChanged(s) if s.status.is_final());
                        let delay =
                            Duration::from_micros(now().saturating_sub(event.timestamp.0).max(0) as u64);
                        send.send_modify(|seen| {
                            seen.delays.push(delay);
                            seen.events.push(event);
                        });
                    }
                    Some(Message::ResumeHint(hint)) => {
                        send.send_modify(|seen| seen.hints.push((hint.after_seq, after_seq)));
                    }
                    _ => {}
                },
                Ok(Ok(None)) if last => return send.send_modify(|seen| seen.ended = true),
                Ok(Ok(None)) => break,
                Ok(Err(status)) if refused(&status) => {
                    return send.send_modify(|seen| seen.problem = Some(format!("the stream: {status}")));
                }
                Ok(Err(_)) | Err(_) => {
                    send.send_modify(|seen| seen.broken += 1);
                    break;
                }
            }
        }
    }
}

/// Microseconds since 1970, like timestamps of events.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// True for errors that a retry does not change.
fn refused(status: &tonic::Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::FailedPrecondition
    )
}

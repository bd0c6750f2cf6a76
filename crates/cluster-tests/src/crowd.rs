//! Many watchers of one run over few connections. Each keeps only its position.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tonic::Streaming;
use tree_agent_contract::RunStatus;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::channel::{self, Peers};
use tree_agent_runtime::retry::backoff_within;

/// The shortest and the longest pause before a watcher opens its stream again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(1_600);
/// Watchers that share a connection: far below what a server allows.
const PER_CONNECTION: usize = 100;

/// What one watcher has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// The event after which it began.
    pub after_seq: u64,
    /// Events that it received.
    pub events: u64,
    /// Streams that it opened.
    pub streams: usize,
    /// How often it received `caught_up`, over all streams.
    pub caught_up: usize,
    /// How often its last stream sent `caught_up`.
    pub caught_up_at_last: usize,
    /// The last event.
    pub seq: u64,
}

/// Running watchers. Dropping it ends them.
#[derive(Debug)]
pub struct Crowd {
    watchers: JoinSet<Result<Watched, String>>,
    caught_up: Arc<AtomicUsize>,
    moved: Arc<AtomicUsize>,
    count: usize,
}

impl Crowd {
    /// Starts `count` watchers of `run` at the first of these gateways, the `n`th one after event `begin(n)`. If a
    /// watcher's stream breaks, it resumes after its last event at the next gateway, after a jittered wait.
    pub fn start(run: &str, gateways: &[String], count: usize, begin: impl Fn(usize) -> u64) -> Self {
        let caught_up = Arc::new(AtomicUsize::new(0));
        let moved = Arc::new(AtomicUsize::new(0));
        let mut watchers = JoinSet::new();
        let mut connections = Vec::new();
        for n in 0..count {
            if n.is_multiple_of(PER_CONNECTION) {
                connections =
                    gateways.iter().map(|url| channel::single(url.parse().expect("a URL"))).collect();
            }
            let after_seq = begin(n);
            let watcher = Watcher {
                run: run.to_owned(),
                gateways: connections.clone(),
                at: Watched { after_seq, seq: after_seq, ..Watched::default() },
                caught_up: caught_up.clone(),
                moved: moved.clone(),
            };
            watchers.spawn(watcher.stay());
        }
        Self { watchers, caught_up, moved, count }
    }

    /// Watchers that have caught up at least once.
    pub fn caught_up(&self) -> usize {
        self.caught_up.load(Ordering::Relaxed)
    }

    /// Watchers that have opened a second stream and received an answer on it.
    pub fn moved(&self) -> usize {
        self.moved.load(Ordering::Relaxed)
    }

    /// Waits until the run has ended for every watcher.
    ///
    /// # Panics
    /// If that takes longer than `limit`, if a watcher missed an event or received one twice or out of order, or if a
    /// stream sent `caught_up` twice.
    pub async fn end(mut self, limit: Duration) -> Vec<Watched> {
        let mut all = Vec::with_capacity(self.count);
        let collect = async {
            while let Some(ended) = self.watchers.join_next().await {
                match ended.expect("a watcher does not panic") {
                    Ok(watched) => all.push(watched),
                    Err(problem) => panic!("a watcher: {problem}"),
                }
            }
        };
        let ended = tokio::time::timeout(limit, collect).await;
        assert!(
            ended.is_ok(),
            "after {limit:?} the run has ended for {} of {} watchers",
            all.len(),
            self.count
        );
        all
    }
}

struct Watcher {
    run: String,
    gateways: Vec<Peers>,
    at: Watched,
    caught_up: Arc<AtomicUsize>,
    moved: Arc<AtomicUsize>,
}

impl Watcher {
    async fn stay(mut self) -> Result<Watched, String> {
        let mut failures = 0;
        for turn in 0.. {
            let mut client = RunServiceClient::new(self.gateways[turn % self.gateways.len()].clone());
            let request = pb::WatchRunRequest {
                run_id: self.run.clone(),
                after_seq: self.at.seq,
                ..Default::default()
            };
            let opened = tokio::time::timeout(Duration::from_secs(30), client.watch_run(request)).await;
            if let Ok(Ok(answer)) = opened {
                failures = 0;
                self.at.streams += 1;
                if self.at.streams == 2 {
                    self.moved.fetch_add(1, Ordering::Relaxed);
                }
                if self.listen(answer.into_inner()).await? {
                    return Ok(self.at);
                }
            } else {
                failures += 1;
            }
            tokio::time::sleep(backoff_within(FIRST_PAUSE, LAST_PAUSE, failures + 1)).await;
        }
        unreachable!("the gateways are cycled for ever")
    }

    /// Handles a message of the stream. True if the run has ended.
    async fn listen(&mut self, mut stream: Streaming<pb::WatchRunResponse>) -> Result<bool, String> {
        let mut last = false;
        self.at.caught_up_at_last = 0;
        loop {
            let message = match tokio::time::timeout(Duration::from_secs(30), stream.message()).await {
                Ok(Ok(Some(message))) => message.message,
                Ok(Ok(None)) if last => return Ok(true),
                Ok(Ok(None) | Err(_)) | Err(_) => return Ok(false),
            };
            match message {
                Some(Message::Event(event)) => {
                    if event.seq != self.at.seq + 1 || last {
                        return Err(format!("event {} came after event {}", event.seq, self.at.seq));
                    }
                    self.at.seq = event.seq;
                    self.at.events += 1;
                    last = ends(&event);
                }
                Some(Message::CaughtUp(_)) => {
                    if self.at.caught_up == 0 {
                        self.caught_up.fetch_add(1, Ordering::Relaxed);
                    }
                    self.at.caught_up += 1;
                    self.at.caught_up_at_last += 1;
                    if self.at.caught_up_at_last > 1 {
                        return Err("a stream said twice that it had caught up".into());
                    }
                }
                _ => {}
            }
        }
    }
}

fn ends(event: &pb::Event) -> bool {
    match &event.body {
        Some(pb::event::Body::RunStatus(change)) => {
            RunStatus::from_wire(change.status).is_ok_and(RunStatus::is_final)
        }
        _ => false,
    }
}

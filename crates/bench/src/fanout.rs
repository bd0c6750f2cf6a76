//! Fan-out of one run's events: `WatchRun` clients compared with plain Redis subscribers of the same publications.
//!
//! Both are measured in turn, with the same publisher, the same Redis and the same messages of 512 bytes. Each client
//! has its own TCP connection. Clients do as little as possible: they count whole messages (and decode them where
//! delays are measured). The run is a real one that hangs. Its log gets none of these events, so only the way from a
//! publication to a client is measured. The publisher is never further ahead of the slowest client than a window, so
//! that nothing is lost or disconnected on either side.

mod broker;
mod grpc;
mod message;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::json;
use tree_agent_fanout::Signer;
use tree_agent_security::SharedSecrets;

pub(crate) use grpc::{Connection, Messages};

use crate::cluster::{Cluster, median, quantile, report};
use broker::Publisher;
use message::MessageBuilder;

/// Publications that may be in transit to the slowest client. The gateway's buffer behind Redis holds 128.
const AHEAD: u64 = 96;
/// Publications of one round trip to Redis.
const CHUNK: u64 = 16;
/// Events of one publication of a busy driver, about.
const BATCH: u64 = 16;
/// The reported quantiles of delays.
const SHARES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// State that the clients of a measurement share.
#[derive(Default)]
struct SharedState {
    /// Events received, per client.
    heard: Vec<AtomicU64>,
    /// Delays are recorded while this is set.
    timing: AtomicBool,
    /// In milliseconds.
    delays: Mutex<Vec<f64>>,
}

impl SharedState {
    fn new(clients: usize) -> Arc<Self> {
        Arc::new(Self { heard: (0..clients).map(|_| AtomicU64::new(0)).collect(), ..Self::default() })
    }

    /// Events that every client has received.
    fn slowest(&self) -> u64 {
        self.heard.iter().map(|n| n.load(Ordering::Acquire)).min().unwrap_or_default()
    }

    async fn reached(&self, events: u64) -> anyhow::Result<()> {
        let patience = Instant::now() + Duration::from_secs(30);
        while self.slowest() < events {
            ensure!(Instant::now() < patience, "a client heard {} of {events} events", self.slowest());
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }
}

pub(crate) async fn run(cluster: &Cluster, repeat: usize, quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if quick { 500 } else { 1_500 });
    let seconds = if quick { 1.0 } else { 3.0 };
    for clients in if quick { [20, 100] } else { [100, 1_000] } {
        let run = cluster.quiet_run().await?;
        let maker = MessageBuilder::new(&run.run_id)?;
        let mut publisher = Publisher::connect().await?;
        let mut ours = Side::new(maker.topic.clone(), clients, run.head_seq);
        ours.signer = Some(signer()?);
        let watching = watchers(&run.run_id, run.head_seq, &ours.board).await?;
        // Another topic of the same length, to which gateways do not subscribe.
        let mut plain = Side::new(maker.topic.replace(":run:", ":RAW:"), clients, 0);
        let listening = broker::subscribers(&plain.topic, &maker, &plain.board).await?;
        for batch in [1, BATCH] {
            let (mut values, mut baselines) = (Vec::new(), Vec::new());
            for _ in 0..repeat {
                values.push(ours.flood(&mut publisher, &maker, batch, time).await?);
                // Plain subscribers receive each event as a separate message.
                baselines.push(plain.flood(&mut publisher, &maker, 1, time).await?);
            }
            let (value, baseline) = (median(values), median(baselines));
            let more = json!({
                "baseline": baseline.round(), "ratio": round(value / baseline), "repeat": repeat,
                "events_per_publication": batch,
            });
            report(
                &format!("fan-out to {clients}, {batch} a publication"),
                value.round(),
                "deliveries/s",
                more,
            );
        }
        let rate = 20_000.0 / clients as f64;
        let (mut values, mut baselines) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..repeat {
            for (side, quantiles) in [(&mut ours, &mut values), (&mut plain, &mut baselines)] {
                let delays = side.steady(&mut publisher, &maker, rate, seconds).await?;
                for ((_, share), seen) in SHARES.iter().zip(quantiles) {
                    seen.push(quantile(&delays, *share));
                }
            }
        }
        for ((name, _), (value, baseline)) in SHARES.iter().zip(values.into_iter().zip(baselines)) {
            let (value, baseline) = (median(value), median(baseline));
            let more = json!({
                "baseline": round(baseline), "ratio": round(value / baseline), "repeat": repeat,
                "deliveries_per_second": 20_000,
            });
            report(&format!("fan-out to {clients}, delay {name}"), value, "ms", more);
        }
        watching.abort_all();
        listening.abort_all();
        drop((watching, listening));
        cluster.cancel(&run.run_id).await?;
    }
    Ok(())
}

/// One way from the publisher to its clients.
struct Side {
    topic: String,
    board: Arc<SharedState>,
    /// The last published event.
    seq: u64,
    /// Gateways accept only what is signed with the cluster's key.
    signer: Option<Signer>,
}

/// Signs with the cluster's key.
fn signer() -> anyhow::Result<Signer> {
    let name = "TREE_AGENT_FANOUT_KEY_FILE";
    let file =
        std::env::var(name).with_context(|| format!("{name} is not set; source target/cluster/env"))?;
    let keys = std::fs::read_to_string(&file).with_context(|| format!("{file} cannot be read"))?;
    Ok(Signer::new(SharedSecrets::parse(&keys)?.first()))
}

impl Side {
    fn new(topic: String, clients: usize, seq: u64) -> Self {
        Self { topic, board: SharedState::new(clients), seq, signer: None }
    }

    /// A publication of `count` events after `seq`.
    fn publication(&self, maker: &MessageBuilder, seq: u64, count: u64) -> Bytes {
        let batch = maker.batch(seq, count);
        match &self.signer {
            Some(signer) => signer.sign(&self.topic, &batch).into(),
            None => batch,
        }
    }

    /// Publishes as fast as the slowest client reads, for `time`. Returns deliveries per second.
    async fn flood(
        &mut self,
        publisher: &mut Publisher,
        maker: &MessageBuilder,
        batch: u64,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let heard = self.board.slowest();
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < time {
            let publications: Vec<_> =
                (0..CHUNK).map(|i| self.publication(maker, self.seq + i * batch, batch)).collect();
            publisher.publish(&self.topic, &publications).await?;
            self.seq += CHUNK * batch;
            sent += CHUNK * batch;
            self.board.reached(heard + sent.saturating_sub((AHEAD - CHUNK) * batch)).await?;
        }
        self.board.reached(heard + sent).await?;
        let deliveries = sent * self.board.heard.len() as u64;
        Ok(deliveries as f64 / begun.elapsed().as_secs_f64())
    }

    /// Publishes `rate` single events per second, evenly. Returns the delay of each event at each client in
    /// milliseconds, ascending.
    async fn steady(
        &mut self,
        publisher: &mut Publisher,
        maker: &MessageBuilder,
        rate: f64,
        seconds: f64,
    ) -> anyhow::Result<Vec<f64>> {
        let heard = self.board.slowest();
        self.board.timing.store(true, Ordering::Relaxed);
        let count = (rate * seconds) as u64;
        let mut tick = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        for _ in 0..count {
            tick.tick().await;
            publisher.publish(&self.topic, &[self.publication(maker, self.seq, 1)]).await?;
            self.seq += 1;
        }
        self.board.reached(heard + count).await.context("at a steady rate")?;
        self.board.timing.store(false, Ordering::Relaxed);
        let mut delays = std::mem::take(&mut *self.board.delays());
        delays.sort_by(f64::total_cmp);
        Ok(delays)
    }
}

fn round(ratio: f64) -> f64 {
    (ratio * 1e3).round() / 1e3
}

/// Clients that end with their measurement.
struct Handles(Vec<tokio::task::JoinHandle<()>>);

impl Handles {
    fn abort_all(&self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Opens a stream per client and waits until each has caught up.
async fn watchers(run_id: &str, head: u64, board: &Arc<SharedState>) -> anyhow::Result<Handles> {
    let mut tasks = Vec::new();
    for client in 0..board.heard.len() {
        let connection = Connection::open().await?;
        let mut messages = connection.watch(run_id, head).await?;
        ensure!(
            messages.next_kind().await? == Some(message::CAUGHT_UP),
            "a stream does not begin at the head"
        );
        let board = board.clone();
        tasks.push(tokio::spawn(async move {
            let _open = connection;
            // A stream that ends shows up as a client that receives nothing more.
            while let Ok(Some(kind)) = messages.next_kind().await {
                if kind == message::EVENT {
                    if board.timing.load(Ordering::Relaxed) {
                        board.delays().extend(message::delay_of_response(messages.body()));
                    }
                    // Last, because a measurement is over when everything is counted.
                    board.heard[client].fetch_add(1, Ordering::Release);
                }
            }
        }));
    }
    Ok(Handles(tasks))
}

impl SharedState {
    fn delays(&self) -> MutexGuard<'_, Vec<f64>> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

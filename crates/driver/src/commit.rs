//! Group commit: while one append is in flight, the next batch fills.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::health::DriverHealth;
use crate::progress::TaskProgress;
use crate::publish::publisher;
use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunStatus;
use tree_agent_contract::document::DocumentOp;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_runtime::metrics::Histogram;
use tree_agent_runtime::retry::backoff_within;
use tree_agent_store::{AppendOutcome, EventLog, RunAppend, Store, StoreError};

/// Bytes of one append after which further runs wait for the next append, as with its events: a thousand runs may end
/// with a large document at the same time, and Postgres takes no message of a gigabyte.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The pause before an append is repeated for the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// How appends are grouped.
#[derive(Clone, Copy, Debug)]
pub struct CommitConfig {
    /// Maximum of appends in flight. Two keep the database busy while one waits for the disk. Default 2.
    pub lanes: usize,
    /// Events of one append after which further runs wait for the next append. Default 2,000.
    pub max_events: usize,
    /// The longest pause before an append is repeated. A driver lowers it to a quarter of its lease, so that a task
    /// that waits for it is not taken for a wedged one. Default 2 s.
    pub longest_pause: Duration,
}

impl Default for CommitConfig {
    fn default() -> Self {
        Self { lanes: 2, max_events: 2_000, longest_pause: Duration::from_secs(2) }
    }
}

/// Counters of a committer since it started.
#[derive(Debug)]
pub struct CommitStats {
    /// Appends made.
    pub appends: AtomicU64,
    /// Events written.
    pub events: AtomicU64,
    /// Appends that had to be repeated because the store was unavailable.
    pub repeats: AtomicU64,
    /// Appends of runs that another driver owned.
    pub fenced: AtomicU64,
    /// Seconds that each attempt of an append took at the store.
    pub append_seconds: Histogram,
}

impl Default for CommitStats {
    fn default() -> Self {
        let (appends, events, repeats, fenced) = Default::default();
        // From half a millisecond, which is a fast disk, to four seconds.
        let append_seconds = Histogram::new((0..14).map(|i| 0.0005 * f64::from(1 << i)));
        Self { appends, events, repeats, fenced, append_seconds }
    }
}

/// The channel on which a run's task waits for the outcome.
type Done = oneshot::Sender<Result<AppendOutcome, Arc<StoreError>>>;

/// One run's pending append.
struct Pending {
    append: RunAppend,
    /// The encoded events, published once they are written.
    message: Bytes,
    /// Progress of the run's task. An attempt that the store answers with an error is some.
    progress: TaskProgress,
    done: Done,
}

impl Pending {
    /// About what it adds to an append: its events as they are published, and the texts of its documents
    /// and conversations.
    fn bytes(&self) -> usize {
        let text = |op: &DocumentOp| match op {
            DocumentOp::Create(document) => document.body.len(),
            DocumentOp::Append { text, .. } | DocumentOp::Replace { text, .. } => text.len(),
            DocumentOp::Link { .. } => 0,
        };
        let said = self.append.sessions.iter().flat_map(|session| &session.messages);
        let said = said.map(|message| message.text.len()).sum::<usize>();
        self.message.len() + self.append.documents.iter().map(text).sum::<usize>() + said
    }
}

/// What answers one run once its append is settled.
type Waiting = (Bytes, TaskProgress, Done);

/// Passes appends to the lanes. Clones share the lanes.
#[derive(Clone)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Pending>,
}

impl Committer {
    /// Starts the lanes. They end when every clone of the committer is dropped.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        config: CommitConfig,
        stats: Arc<CommitStats>,
        stop: CancellationToken,
        health: &DriverHealth,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (queue, receiver) = mpsc::channel(4_096);
        let (publish, to_publish) = mpsc::channel(4_096);
        let receiver = Arc::new(Mutex::new(receiver));
        tasks.spawn(publisher(fanout, to_publish));
        let (locked, set_aside) = mpsc::unbounded_channel();
        let lane = Lane { store, config, stats, receiver, publish, locked, refusal: health.refusal(), stop };
        for _ in 0..config.lanes.max(1) {
            let (lane, alive) = (lane.clone(), health.lane());
            tasks.spawn(async move {
                lane.run().await;
                drop(alive);
            });
        }
        tasks.spawn(lane.wait_for_locks(set_aside));
        Self { queue }
    }

    /// Writes one run's part. While the store is unavailable the append is repeated unchanged, until it is written or
    /// the driver stops.
    pub(crate) async fn append(
        &self,
        append: RunAppend,
        message: Bytes,
        progress: TaskProgress,
    ) -> Result<AppendOutcome, Arc<StoreError>> {
        let stopped =
            || Arc::new(StoreError::Unavailable { message: "the driver is stopping".into(), source: None });
        let (done, outcome) = oneshot::channel();
        self.queue.send(Pending { append, message, progress, done }).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

#[derive(Clone)]
struct Lane {
    store: Arc<dyn Store>,
    config: CommitConfig,
    stats: Arc<CommitStats>,
    receiver: Arc<Mutex<mpsc::Receiver<Pending>>>,
    publish: mpsc::Sender<Vec<(Topic, Bytes)>>,
    /// Appends of runs whose rows another client of the database holds locked.
    locked: mpsc::UnboundedSender<Pending>,
    /// Why the store takes no append now.
    refusal: Arc<std::sync::Mutex<Option<String>>>,
    stop: CancellationToken,
}

impl Lane {
    async fn run(self) {
        while let Some(batch) = self.next_batch().await {
            self.write(batch).await;
        }
    }

    /// Waits for one append and takes all others that are waiting. Another lane fills its batch meanwhile.
    async fn next_batch(&self) -> Option<Vec<Pending>> {
        let mut receiver = self.receiver.lock().await;
        let first = receiver.recv().await?;
        let (mut events, mut bytes) = (first.append.events.len(), first.bytes());
        let mut batch = vec![first];
        while events < self.config.max_events && bytes < BATCH_BYTES {
            match receiver.try_recv() {
                Ok(next) => {
                    events += next.append.events.len();
                    bytes += next.bytes();
                    batch.push(next);
                }
                Err(_) => break,
            }
        }
        Some(batch)
    }

    async fn write(&self, batch: Vec<Pending>) {
        let mut appends = Vec::with_capacity(batch.len());
        let mut waiting = Vec::with_capacity(batch.len());
        for pending in batch {
            appends.push(pending.append);
            waiting.push((pending.message, pending.progress, pending.done));
        }
        let appends: Arc<[RunAppend]> = appends.into();
        let error = match self.append_until_known(&appends, &waiting).await {
            Ok(outcomes) => return self.settle(&appends, waiting, outcomes).await,
            Err(error) => error,
        };
        let (is_alone, is_locked) = (appends.len() == 1, error.is_locked());
        if !is_locked && (is_alone || error.is_transient()) {
            let error = Arc::new(error);
            for (_, _, done) in waiting {
                let _ = done.send(Err(error.clone()));
            }
            return;
        }
        // One run's part cannot be written. Write the parts one by one, so that the others are not affected.
        for (append, (message, progress, done)) in appends.iter().zip(waiting) {
            let pending = Pending { append: append.clone(), message, progress, done };
            match is_alone {
                true => drop(self.locked.send(pending)),
                false => Box::pin(self.write(vec![pending])).await,
            }
        }
    }

    /// Retries the appends that were set aside, one after the other. A forgotten lock must not block the lanes for
    /// other runs.
    async fn wait_for_locks(self, mut set_aside: mpsc::UnboundedReceiver<Pending>) {
        while let Some(pending) = set_aside.recv().await {
            if pending.done.is_closed() {
                continue;
            }
            let run = pending.append.run_id;
            tracing::warn!(%run, "another client of the database holds the run's row locked; its append waits");
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.write(vec![pending]).await;
        }
    }

    /// Repeats the append, unchanged, for as long as its outcome is unknown.
    async fn append_until_known(
        &self,
        appends: &Arc<[RunAppend]>,
        waiting: &[Waiting],
    ) -> Result<Vec<AppendOutcome>, StoreError> {
        let longest = self.config.longest_pause;
        let mut attempt = 0;
        loop {
            // If a row cannot even be encoded, that must end its own run, not the lane that every run needs.
            let began = Instant::now();
            let append = AssertUnwindSafe(EventLog::append(&*self.store, appends.clone())).catch_unwind();
            let outcome = append.await;
            self.stats.append_seconds.observe(began.elapsed().as_secs_f64());
            if matches!(outcome, Ok(Err(_))) {
                waiting.iter().for_each(|(_, progress, _)| progress.beat());
            }
            let refusal = match &outcome {
                // The first failure may be a matter of a moment.
                Ok(Err(error)) if attempt > 0 => Some(error.to_string()),
                _ => None,
            };
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
            let error = match outcome {
                Ok(Err(error)) if error.is_transient() && !error.is_locked() => error,
                Ok(known) => return known,
                Err(_) => {
                    return Err(StoreError::Broken { message: "the append panicked".into(), source: None });
                }
            };
            match attempt {
                0 => tracing::warn!(error = %error, runs = appends.len(), "append failed; repeating it"),
                _ => tracing::debug!(error = %error, attempt, "append failed again"),
            }
            self.stats.repeats.fetch_add(1, Ordering::Relaxed);
            attempt += 1;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(error),
                () = tokio::time::sleep(backoff_within(FIRST_PAUSE.min(longest), longest, attempt)) => {}
            }
        }
    }

    /// The append is persisted: publish its events, then answer.
    async fn settle(&self, appends: &[RunAppend], waiting: Vec<Waiting>, outcomes: Vec<AppendOutcome>) {
        self.stats.appends.fetch_add(1, Ordering::Relaxed);
        let mut messages = Vec::with_capacity(appends.len());
        let mut answers = Vec::with_capacity(appends.len());
        for ((append, (message, _, done)), outcome) in appends.iter().zip(waiting).zip(outcomes) {
            match outcome {
                AppendOutcome::Appended => {
                    note_failure(append);
                    self.stats.events.fetch_add(append.events.len() as u64, Ordering::Relaxed);
                    messages.push((Topic::Run(append.run_id), message));
                }
                AppendOutcome::Fenced => {
                    self.stats.fenced.fetch_add(1, Ordering::Relaxed);
                }
            }
            answers.push((done, outcome));
        }
        // A full queue means that the broker is slow or down. Hints may be dropped, because gateways read the log.
        let _ = self.publish.try_send(messages);
        for (done, outcome) in answers {
            let _ = done.send(Ok(outcome));
        }
    }
}

/// Says that a run has failed.
fn note_failure(append: &RunAppend) {
    if let Some(row) = append.projection.run.as_ref().filter(|row| row.status == RunStatus::Failed) {
        let (run, reason) = (append.run_id, row.error.as_deref().unwrap_or_default());
        tracing::warn!(%run, reason, "the run failed");
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::{DocumentId, RunId, Timestamp};
    use tree_agent_store::Projection;
    use tree_agent_store::embedded::EmbeddedStore;
    use uuid::Uuid;

    use super::*;

    /// An append whose events have `events` bytes, and its document `text` bytes.
    fn pending(events: usize, text: usize) -> Pending {
        let (id, at) = (DocumentId(Uuid::nil()), Timestamp(0));
        let append = RunAppend {
            run_id: RunId(Uuid::nil()),
            epoch: 1,
            expected_head: 1,
            events: Vec::new(),
            projection: Projection::default(),
            documents: vec![DocumentOp::Append { id, seq: 1, text: "x".repeat(text), at }],
            sessions: Vec::new(),
            answers: Vec::new(),
        };
        let progress = TaskProgress::new(Instant::now());
        Pending { append, message: vec![0; events].into(), progress, done: oneshot::channel().0 }
    }

    #[tokio::test]
    async fn a_batch_is_bounded_in_bytes() {
        const MIB: usize = 1024 * 1024;
        let store = EmbeddedStore::open_in_memory().await.expect("a store in memory");
        let (queue, receiver) = mpsc::channel(64);
        let lane = Lane {
            store: Arc::new(store),
            config: CommitConfig::default(),
            stats: Arc::default(),
            receiver: Arc::new(Mutex::new(receiver)),
            publish: mpsc::channel(1).0,
            locked: mpsc::unbounded_channel().0,
            refusal: Arc::default(),
            stop: CancellationToken::new(),
        };
        for _ in 0..40 {
            queue.try_send(pending(MIB / 2, MIB / 2)).expect("room");
        }
        for bytes in [1, 100 * MIB, 1] {
            queue.try_send(pending(bytes, 0)).expect("room");
        }
        let mut batches = Vec::new();
        while batches.iter().sum::<usize>() < 43 {
            batches.push(lane.next_batch().await.expect("the queue is open").len());
        }
        assert_eq!(batches, [8, 8, 8, 8, 8, 2, 1], "what is larger than a batch ends one");
    }
}

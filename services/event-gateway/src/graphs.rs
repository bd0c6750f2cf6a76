//! Graphs of runs, replayed once for all who ask at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use tonic::Status;
use tree_agent_contract::RunId;
use tree_agent_engine::Graph;
use tree_agent_proto::Wire;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_store::EventLog;

use crate::errors;
use crate::places::{Place, Places};
use crate::watch::frame;

/// Events read from the log at a time.
const PAGE: usize = 1_000;
/// Graphs of the past, and comparisons, that are made at the same time. A large graph takes tens of megabytes.
const PLACES: usize = 8;

/// A run and the event at which its graph is asked for; none for its head.
type Key = (RunId, Option<u64>);

/// The graphs that are being asked for. A graph goes with the last who waits for it: nothing is cached, so that an
/// archived or deleted run is never shown from memory.
pub(crate) struct Graphs {
    log: Arc<dyn EventLog>,
    flights: Mutex<HashMap<Key, Weak<Flight>>>,
    places: Places,
}

/// One graph, for all who ask now. Whoever holds the lock replays; the others wait, and find it done.
type Flight = tokio::sync::Mutex<Option<Arc<Snapshot>>>;

/// The graph of a run after an event.
pub(crate) struct Snapshot {
    pub(crate) graph: Graph,
    frame: OnceLock<Bytes>,
}

impl Snapshot {
    /// The message of a stream that holds it, encoded once.
    pub(crate) fn frame(&self) -> Bytes {
        let encode = || frame::encode(Message::Snapshot(self.graph.snapshot().to_wire()));
        self.frame.get_or_init(encode).clone()
    }
}

impl Graphs {
    pub(crate) fn new(log: Arc<dyn EventLog>) -> Self {
        Self { log, flights: Mutex::default(), places: Places::new(PLACES) }
    }

    /// A place for graphs that nobody else may be asking for. Those who ask for the head of a run share one graph; of
    /// the past each may ask for another one, so only a few are made at the same time, and the others wait.
    pub(crate) async fn place(&self) -> Place {
        self.places.take().await
    }

    /// As [`at`](Self::at), for one caller. A graph of the past comes with its place.
    pub(crate) async fn shown(
        &self,
        run: RunId,
        at_seq: Option<u64>,
        head: u64,
    ) -> Result<(Arc<Snapshot>, Option<Place>), Status> {
        let place = if at_seq.is_some() { Some(self.place().await) } else { None };
        Ok((self.at(run, at_seq, head).await?, place))
    }

    /// The graph after event `at_seq`, or at the head. The head was at least `head` when it was asked for.
    pub(crate) async fn at(
        &self,
        run: RunId,
        at_seq: Option<u64>,
        head: u64,
    ) -> Result<Arc<Snapshot>, Status> {
        let flight = self.flight((run, at_seq));
        let mut made = flight.lock().await;
        let wanted = at_seq.unwrap_or(head);
        if let Some(made) = made.as_ref().filter(|made| made.graph.seq() >= wanted) {
            return Ok(made.clone());
        }
        // A live run has grown while others waited. Continue from what they got.
        let begun = made.as_ref().map_or_else(|| Graph::new(run), |made| made.graph.clone());
        let graph = self.replay(begun, wanted).await?;
        Ok(made.insert(Arc::new(Snapshot { graph, frame: OnceLock::new() })).clone())
    }

    fn flight(&self, key: Key) -> Arc<Flight> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&key).and_then(Weak::upgrade) {
            return flight;
        }
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::new(Flight::default());
        flights.insert(key, Arc::downgrade(&flight));
        flight
    }

    async fn replay(&self, mut graph: Graph, to: u64) -> Result<Graph, Status> {
        while graph.seq() < to {
            let limit = PAGE.min((to - graph.seq()) as usize);
            let events = self.log.read(graph.run_id(), graph.seq(), limit).await;
            let events = events.map_err(errors::store)?;
            if events.is_empty() {
                break;
            }
            for event in &events {
                graph.apply(event).map_err(errors::replay)?;
            }
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::sync::Semaphore;
    use tree_agent_contract::{Event, RunSpec, Timestamp};
    use tree_agent_store::{AppendOutcome, RunAppend, StoreError};

    use super::*;

    /// A log whose reads wait for permits and are counted.
    struct Log {
        events: Vec<Event>,
        permits: Semaphore,
        events_read: AtomicUsize,
    }

    #[async_trait]
    impl EventLog for Log {
        async fn append(&self, _: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
            Ok(Vec::new())
        }

        async fn read(&self, _: RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
            self.permits.acquire().await.expect("never closed").forget();
            let page: Vec<Event> = self.events.iter().skip(after as usize).take(limit).cloned().collect();
            self.events_read.fetch_add(page.len(), Ordering::SeqCst);
            Ok(page)
        }

        async fn heads(&self, _: &[RunId]) -> Result<Vec<(RunId, u64)>, StoreError> {
            Ok(Vec::new())
        }
    }

    fn run() -> RunId {
        RunId(uuid::Uuid::from_u128(9))
    }

    fn world() -> (Arc<Log>, Arc<Graphs>) {
        let log = Arc::new(Log {
            events: tree_agent_engine::start(run(), RunSpec::new("why?"), Timestamp(1)).events,
            permits: Semaphore::new(0),
            events_read: AtomicUsize::new(0),
        });
        (log.clone(), Arc::new(Graphs::new(log)))
    }

    type Asked = tokio::task::JoinHandle<Result<Arc<Snapshot>, Status>>;

    /// Asks `n` times at once; returns when all wait.
    async fn ask(graphs: &Arc<Graphs>, n: usize, at: Option<u64>, head: u64) -> Vec<Asked> {
        let waiting =
            |graphs: &Graphs| graphs.flights.lock().unwrap().get(&(run(), at)).map_or(0, Weak::strong_count);
        let before = waiting(graphs);
        let asked = |_| {
            let graphs = graphs.clone();
            tokio::spawn(async move { graphs.at(run(), at, head).await })
        };
        let asked = (0..n).map(asked).collect();
        while waiting(graphs) < before + n {
            tokio::task::yield_now().await;
        }
        asked
    }

    #[tokio::test]
    async fn a_graph_is_replayed_and_encoded_once_for_all_who_wait() {
        let (log, graphs) = world();
        let asked = ask(&graphs, 50, None, 4).await;
        log.permits.add_permits(100);
        let mut frames = Vec::new();
        for asked in asked {
            let snapshot = asked.await.unwrap().unwrap();
            assert_eq!(snapshot.graph.seq(), 4);
            frames.push(snapshot.frame().as_ptr());
        }
        assert_eq!(log.events_read.load(Ordering::SeqCst), 4);
        assert!(frames.iter().all(|frame| *frame == frames[0]), "one encoding");
        // Whoever asks later gets it from the log: nothing was kept.
        graphs.at(run(), None, 4).await.unwrap();
        assert_eq!(log.events_read.load(Ordering::SeqCst), 8);
    }

    #[tokio::test]
    async fn graphs_of_the_past_take_turns_and_the_head_does_not_wait() {
        let (log, graphs) = world();
        log.permits.add_permits(100);
        let now = async |at| tokio::time::timeout(Duration::ZERO, graphs.shown(run(), at, 4)).await.is_ok();
        let mut shown = Vec::new();
        for _ in 0..PLACES {
            shown.push(graphs.shown(run(), Some(2), 4).await.unwrap());
        }
        assert!(!now(Some(3)).await, "every place is taken");
        assert!(now(None).await);
        shown.pop();
        assert!(now(Some(3)).await);
    }

    #[tokio::test]
    async fn who_asks_while_the_run_grows_gets_what_is_new() {
        let (log, graphs) = world();
        let mut asked = ask(&graphs, 3, None, 2).await;
        asked.extend(ask(&graphs, 3, None, 4).await);
        log.permits.add_permits(100);
        let mut seqs = Vec::new();
        for asked in asked {
            seqs.push(asked.await.unwrap().unwrap().graph.seq());
        }
        assert_eq!(seqs, [2, 2, 2, 4, 4, 4]);
        assert_eq!(log.events_read.load(Ordering::SeqCst), 4, "no event is read twice");
    }

    #[tokio::test]
    async fn different_moments_do_not_wait_for_each_other() {
        let (log, graphs) = world();
        let first = ask(&graphs, 1, Some(1), 4).await;
        let second = ask(&graphs, 1, Some(3), 4).await;
        log.permits.add_permits(100);
        for (asked, seq) in first.into_iter().chain(second).zip([1, 3]) {
            assert_eq!(asked.await.unwrap().unwrap().graph.seq(), seq);
        }
    }
}

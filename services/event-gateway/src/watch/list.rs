//! One client of `WatchRuns`: the newest runs, or what has changed since a token, then the changes of the [`Board`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tonic::Status;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_runs_response::Message;
use tree_agent_store::{ListedRun, RunFilter, RunQuery, Store, StoreError};
use uuid::Uuid;

use super::board::{self, After, Board, Place};
use super::config::WatchConfig;
use super::frame::framed;
use super::head::Reader;
use super::pace::{Pace, Until, Watching};
use super::room::Room;
use super::service::Resume;
use super::stats::{Kind, Stats, Stream};
use crate::errors;
use crate::pages::Pages;
use crate::standing::RIGHTS;

/// Runs that are read for one stream at a time.
const LISTED: usize = 100;

/// Where a stream begins.
pub(crate) struct ListStart {
    pub(crate) filter: RunFilter,
    /// Makes its resume tokens.
    pub(crate) tokens: Arc<Pages>,
    pub(crate) reader: Reader,
    pub(crate) place: Place,
    /// Either the newest runs, or what was seen before.
    pub(crate) from: ListFrom,
}

/// What comes first.
#[derive(Clone, Copy)]
pub(crate) enum ListFrom {
    /// So many runs, newest first.
    Newest(usize),
    /// What has changed since the latest change that the client saw.
    Since(Timestamp),
}

/// What is read from the store.
#[derive(Clone, Copy)]
enum Reading {
    /// So many runs, older than this one.
    Newest { left: usize, before: Option<(Timestamp, RunId)> },
    /// What has changed after this. A run that was created after `since` is new to the client.
    Changes { after: (Timestamp, RunId), since: Timestamp },
    /// The runs with greater ids that have not ended: they may have moved on.
    Live { after: RunId },
}

/// The stream of one client.
pub(crate) struct ListWatcher {
    board: Arc<Board>,
    store: Arc<dyn Store>,
    filter: RunFilter,
    tokens: Arc<Pages>,
    reader: Reader,
    place: Place,
    /// What was seen, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    /// Messages that are not sent yet.
    ready: VecDeque<Bytes>,
    /// What has to be read from the store before the changes after `place`.
    reading: Option<Reading>,
    caught_up: bool,
    pace: Pace,
}

impl Reading {
    fn since(since: Timestamp) -> Self {
        Self::Changes { after: board::look_back(since), since }
    }
}

impl Watching for ListWatcher {
    fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    fn resume(&self) -> Resume {
        let tokens = self.tokens.clone();
        let hint = Box::new(move |at, reason: &str| hint(&tokens, at, reason));
        Resume { position: self.position.clone(), hint }
    }

    async fn step(&mut self) -> Option<Result<Bytes, Status>> {
        loop {
            if let Some(reason) = self.pace.over() {
                return Some(Ok(hint(&self.tokens, self.position.load(Ordering::Relaxed), reason)));
            }
            if let Some(ready) = self.ready.pop_front() {
                self.pace.stream().deliver();
                return Some(Ok(ready));
            }
            self.pace.stream().settle();
            if self.reading.is_some() {
                match self.read().await {
                    Ok(()) if self.pace.may_read() => continue,
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        tracing::debug!("cannot read what has changed in the list of runs: {error}");
                        self.pace.failed();
                    }
                    Err(error) => {
                        return Some(Err(errors::store(error)));
                    }
                }
            } else {
                self.position.store(micros(self.place.latest), Ordering::Relaxed);
                if !self.caught_up {
                    self.caught_up = true;
                    let message = Message::CaughtUp(pb::RunsCaughtUp { resume_token: self.token() });
                    return Some(Ok(encode(message)));
                }
                // Before looking, so that a change in between is not missed.
                self.reader.mark_seen();
                match self.board.after(self.place) {
                    After::Changes(changes, place) => {
                        self.ready.extend(changes.iter().filter_map(|change| change.frame(&self.filter)));
                        self.place = place;
                        continue;
                    }
                    After::Older => {
                        self.reading = Some(Reading::since(self.place.latest));
                        // What changes while the store is read is told again.
                        self.place = self.board.place();
                        continue;
                    }
                    After::Nothing => self.pace.recovered(),
                }
            }
            if self.pace.wait(self.reader.changed()).await {
                let message = Message::Heartbeat(pb::RunsHeartbeat { resume_token: self.token() });
                return Some(Ok(encode(message)));
            }
        }
    }
}

impl ListWatcher {
    pub(crate) fn new(
        start: ListStart,
        board: Arc<Board>,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        until: Until,
        stats: &Arc<Stats>,
    ) -> Self {
        let (reading, seen) = match start.from {
            // Until all of them were sent, there is nothing to resume from.
            ListFrom::Newest(left) => (Reading::Newest { left, before: None }, Timestamp::default()),
            ListFrom::Since(since) => (Reading::since(since), since),
        };
        Self {
            board,
            store,
            filter: start.filter,
            tokens: start.tokens,
            reader: start.reader,
            place: start.place,
            position: Arc::new(AtomicU64::new(micros(seen))),
            ready: VecDeque::new(),
            reading: Some(reading),
            caught_up: false,
            pace: Pace::new(config, until, Stream::new(stats, Kind::List)),
        }
    }

    /// Reads the next part of what comes before the changes of the board.
    async fn read(&mut self) -> Result<(), StoreError> {
        let reading = self.reading.filter(|_| self.pace.may_read());
        self.reading = match reading {
            None => return Ok(()),
            Some(Reading::Newest { left, before }) => self.read_newest(left, before).await?,
            Some(Reading::Changes { after, since }) => Some(self.read_changes(after, since).await?),
            Some(Reading::Live { after }) => self.read_live(after),
        };
        self.pace.recovered();
        Ok(())
    }

    /// Reads the next of the newest runs, and says what is to be read then.
    async fn read_newest(
        &mut self,
        left: usize,
        before: Option<(Timestamp, RunId)>,
    ) -> Result<Option<Reading>, StoreError> {
        let query = RunQuery { filter: self.filter.clone(), before, limit: left.min(LISTED) };
        let page = self.store.list_runs(query).await?;
        let (mut left, mut before, mut room) = (left, before, Room::default());
        for summary in page.items {
            let place = (summary.created_at, summary.run_id);
            let frame = board::shown(&ListedRun { summary, deleted: false }, true);
            if !room.takes(frame.len()) {
                return Ok(Some(Reading::Newest { left, before }));
            }
            self.ready.push_back(frame);
            (left, before) = (left - 1, Some(place));
        }
        Ok((page.more && left > 0).then_some(Reading::Newest { left, before }))
    }

    /// Reads the next runs that have changed, and says what is to be read then.
    async fn read_changes(
        &mut self,
        after: (Timestamp, RunId),
        since: Timestamp,
    ) -> Result<Reading, StoreError> {
        let changes = self.store.list_changes(after, LISTED).await?;
        let ids: Vec<RunId> = changes.iter().map(|(_, run)| *run).collect();
        let listed = self.store.listed_runs(&ids).await?;
        let mut listed: HashMap<RunId, ListedRun> =
            listed.into_iter().map(|run| (run.summary.run_id, run)).collect();
        let (mut after, mut room) = (after, Room::default());
        for change in &changes {
            // A run that is gone for good is in no list.
            // Whoever may not read a run does not learn that it is there.
            let is_readable = |run: &ListedRun| self.filter.is_readable(&run.summary);
            if let Some(run) = listed.remove(&change.1).filter(is_readable) {
                let frame = match !run.deleted && self.filter.matches(&run.summary) {
                    true => board::shown(&run, run.summary.created_at > since),
                    false => board::removed(run.summary.run_id),
                };
                if !room.takes(frame.len()) {
                    return Ok(Reading::Changes { after, since });
                }
                self.ready.push_back(frame);
            }
            after = *change;
        }
        Ok(match changes.len() {
            LISTED => Reading::Changes { after, since },
            _ => Reading::Live { after: RunId(Uuid::nil()) },
        })
    }

    /// Takes the next runs that have not ended, and says what is to be read then. Those that end meanwhile are changes
    /// of the board.
    fn read_live(&mut self, after: RunId) -> Option<Reading> {
        let live = self.board.live(after, LISTED);
        let (mut after, mut room) = (after, Room::default());
        for run in &live {
            if self.filter.matches(&run.summary) {
                let frame = board::shown(run, false);
                if !room.takes(frame.len()) {
                    return Some(Reading::Live { after });
                }
                self.ready.push_back(frame);
            }
            after = run.summary.run_id;
        }
        (live.len() == LISTED).then_some(Reading::Live { after })
    }

    fn token(&self) -> String {
        token(&self.tokens, self.position.load(Ordering::Relaxed))
    }
}

/// Reads a resume token.
pub(crate) fn since(tokens: &Pages, token: &str) -> Result<Option<Timestamp>, Status> {
    tokens.cursor(token, |cursor| cursor.parse().ok().map(Timestamp)).map_err(|_| {
        let text = "was not made for a stream with these filters; begin again without one";
        tree_agent_runtime::errors::invalid_field("resume_token", text)
    })
}

/// The token for a position; none for the position before everything.
fn token(tokens: &Pages, micros: u64) -> String {
    if micros == 0 { String::new() } else { tokens.token(&micros.to_string()) }
}

fn micros(at: Timestamp) -> u64 {
    at.micros().unsigned_abs()
}

fn hint(tokens: &Pages, at: u64, reason: &str) -> Bytes {
    // With other rights the list is another one, and begins again.
    let resume_token = if reason == RIGHTS { String::new() } else { token(tokens, at) };
    encode(Message::ResumeHint(pb::RunsResumeHint { resume_token, reason: reason.to_owned() }))
}

fn encode(message: Message) -> Bytes {
    framed(&pb::WatchRunsResponse { message: Some(message) })
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tokio_util::sync::CancellationToken;
    use tree_agent_contract::RunSpec;
    use tree_agent_fanout::InProcessFanout;
    use tree_agent_store::embedded::EmbeddedStore;
    use tree_agent_store::{NewRun, Runs};

    use super::super::room::READY_BYTES;
    use super::*;
    use crate::runs::first_rows;

    const RUNS: usize = 100;

    async fn create(store: &EmbeddedStore, n: usize) {
        let run_id = RunId(Uuid::from_u128(n as u128 + 1));
        let spec = RunSpec::new("x".repeat(16_000));
        let started = tree_agent_engine::start(run_id, spec.clone(), Timestamp(9));
        let projection = first_rows(run_id, &started.events).unwrap();
        let (events, documents, sessions) = (started.events, started.documents, started.sessions);
        let run = NewRun { run_id, spec, request_id: String::new(), events, projection, documents, sessions };
        store.create_run(run).await.unwrap();
    }

    /// A client may take one message and then nothing for a minute. What waits for it until then must not grow with the
    /// list.
    #[tokio::test]
    async fn few_bytes_wait_for_a_client_however_many_runs_there_are() {
        let store = Arc::new(EmbeddedStore::open_in_memory().await.unwrap());
        for n in 0..RUNS {
            create(&store, n).await;
        }
        let (config, stats) = (WatchConfig::default(), Arc::new(Stats::default()));
        let fanout = Arc::new(InProcessFanout::default());
        let board = Board::new(store.clone(), fanout, config.clone(), CancellationToken::new());
        // A client that resumes is told what has changed, and then which runs have not ended.
        for (from, expected) in [(ListFrom::Newest(RUNS), RUNS), (ListFrom::Since(Timestamp(1)), 2 * RUNS)] {
            let (reader, place) = board.join().await.unwrap();
            let tokens = Arc::new(Pages::of("test", &[]));
            let start = ListStart { filter: RunFilter::default(), tokens, reader, place, from };
            let until = Until { drain: CancellationToken::new(), expires_at: None };
            let mut watcher = ListWatcher::new(start, board.clone(), store.clone(), &config, until, &stats);
            let mut runs = 0;
            loop {
                let frame = watcher.step().await.unwrap().unwrap();
                let waiting: usize = watcher.ready.iter().map(Bytes::len).sum();
                assert!(waiting <= READY_BYTES, "{waiting}");
                match pb::WatchRunsResponse::decode(frame.slice(5..)).unwrap().message {
                    Some(Message::CaughtUp(_)) => break,
                    _ => runs += 1,
                }
            }
            assert_eq!(runs, expected);
        }
    }
}

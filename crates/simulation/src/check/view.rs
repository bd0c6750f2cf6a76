//! What one subscriber sees: an exact prefix of the log without gaps, and one `caught_up` per stream.

use std::time::Duration;

use tokio::time::Instant;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::{RunId, RunStatus};
use tree_agent_engine::Graph;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::{Wire, v1 as pb};

use super::log::Logs;

/// How far a reading subscriber may be behind the log, whatever happens to fan-out.
const BEHIND: Duration = Duration::from_secs(1);

/// One subscriber of one run, over all of its streams.
pub(crate) struct View {
    pub(crate) who: String,
    pub(crate) run: RunId,
    /// The last event that it has.
    pub(crate) cursor: u64,
    /// The run's last event has been seen.
    pub(crate) ended: bool,
    /// The last event that the run shares with those before it, and whether the run has ended at `cursor`.
    shared: u64,
    is_final: bool,
    /// Of the open stream: the head when it began, and the position at which `caught_up` was sent.
    began_at: u64,
    caught_up: Option<u64>,
    hinted: bool,
    /// Since when it reads messages; none between streams.
    reads_since: Option<Instant>,
}

impl View {
    pub(crate) fn new(who: String, run: RunId) -> Self {
        Self {
            who,
            run,
            cursor: 0,
            ended: false,
            shared: 0,
            is_final: false,
            began_at: 0,
            caught_up: None,
            hinted: false,
            reads_since: None,
        }
    }

    /// Of a fork. That a run before it has ended is not its end.
    pub(crate) fn of_fork(who: String, run: RunId, shared: u64) -> Self {
        Self { shared, ..Self::new(who, run) }
    }

    /// A stream begins while the log ends at `head`.
    pub(crate) fn begin(&mut self, head: u64) {
        (self.began_at, self.caught_up, self.hinted) = (head, None, false);
    }

    /// From now on it reads messages.
    pub(crate) fn reads(&mut self) {
        self.reads_since = Some(Instant::now());
    }

    /// The subscriber is at most a second behind while its gateway reaches the store, which it has done since `store`.
    /// Call this before `cursor` moves and when the stream ends.
    pub(crate) fn is_late(&self, store: Option<Instant>, logs: &Logs) -> Option<String> {
        let written = *logs.of(self.run)?.written.get(self.cursor as usize)?;
        let since = written.max(self.reads_since?).max(store?);
        let late = Instant::now().checked_duration_since(since).filter(|late| *late > BEHIND)?;
        let (who, run, seq) = (&self.who, crate::world::run_name(self.run), self.cursor + 1);
        Some(format!(
            "{who} of {run}: event {seq} has not come within {} ms after it was written",
            late.as_millis()
        ))
    }

    /// A message has arrived.
    pub(crate) fn hear(&mut self, message: Message, logs: &Logs) -> Vec<String> {
        let mut found = Vec::new();
        if self.hinted {
            found.push("something followed the resume hint".to_owned());
        }
        match message {
            Message::Event(event) => self.event(&event, logs, &mut found),
            Message::Snapshot(graph) => self.snapshot(&graph, logs, &mut found),
            Message::CaughtUp(at) => {
                if let Some(before) = self.caught_up.replace(at.seq) {
                    found.push(format!("caught_up was said at {before} and again at {}", at.seq));
                }
                if at.seq != self.cursor || at.seq < self.began_at {
                    let (cursor, began) = (self.cursor, self.began_at);
                    found
                        .push(format!("caught_up says {}, at event {cursor}, begun at head {began}", at.seq));
                }
            }
            Message::Heartbeat(beat) => {
                let head = logs.of(self.run).map_or(0, |log| log.events.len() as u64);
                if beat.head_seq < self.cursor || beat.head_seq > head {
                    found.push(format!("a heartbeat says head {}, the log has {head}", beat.head_seq));
                }
            }
            Message::ResumeHint(hint) => {
                self.hinted = true;
                if hint.after_seq != self.cursor {
                    found.push(format!("the resume hint says {}, not {}", hint.after_seq, self.cursor));
                }
            }
        }
        let (who, run) = (&self.who, crate::world::run_name(self.run));
        found.into_iter().map(|text| format!("{who} of {run}: {text}")).collect()
    }

    fn event(&mut self, event: &pb::Event, logs: &Logs, found: &mut Vec<String>) {
        if event.seq != self.cursor + 1 {
            found.push(format!("event {} came after event {}", event.seq, self.cursor));
        }
        let stored = event.seq.checked_sub(1).and_then(|at| logs.of(self.run)?.events.get(at as usize));
        match stored {
            None => found.push(format!("event {} is not in the log", event.seq)),
            Some((_, stored)) if stored.to_wire() != *event => {
                found.push(format!("event {} is not the one in the log", event.seq));
            }
            Some((_, stored)) => match &stored.body {
                EventBody::RunStatusChanged(e) => self.is_final = e.status.is_final(),
                EventBody::RunForked(e) => self.is_final &= !e.goes_on,
                _ => {}
            },
        }
        self.cursor = event.seq;
        self.ended |= self.is_final && self.cursor > self.shared;
    }

    fn snapshot(&mut self, graph: &pb::Graph, logs: &Logs, found: &mut Vec<String>) {
        let mut replayed = Graph::new(self.run);
        let log = logs.of(self.run).map(|log| log.events.as_slice()).unwrap_or_default();
        let all = log.iter().take(graph.seq as usize).all(|(_, event)| replayed.apply(event).is_ok());
        if !all || replayed.snapshot().to_wire() != *graph {
            found.push(format!("the snapshot at {} is not what the log says", graph.seq));
        }
        if graph.seq < self.cursor {
            found.push(format!("the snapshot is at {}, behind event {}", graph.seq, self.cursor));
        }
        self.cursor = graph.seq;
        self.is_final = RunStatus::is_final(replayed.status());
        self.ended |= self.is_final && self.cursor > self.shared;
    }

    /// The stream has ended by itself.
    pub(crate) fn end(&self) -> Option<String> {
        let (who, run) = (&self.who, crate::world::run_name(self.run));
        if self.hinted {
            return None;
        }
        if !self.ended {
            return Some(format!("{who} of {run}: the stream ended at {} without a hint", self.cursor));
        }
        self.caught_up.is_none().then(|| format!("{who} of {run}: the stream ended without caught_up"))
    }
}

//! Drives one run: inputs in, appends and role calls out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::error::chain;
use tree_agent_contract::role::{RoleError, RoleErrorKind, RoleUpdate};
use tree_agent_contract::{EventBody, Timestamp};
use tree_agent_engine::{CallInput, CallKey, CallOutput, Decision, Input, ReplayError, RoleCall, Run};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{
    Answer, AppendOutcome, Claim, EventLog, PendingCommand, RunAppend, Store, StoreError,
};

use crate::commit::Committer;
use crate::config::DriverStats;
use crate::inbox::Inbox;
use crate::parts::{Part, parts};
use crate::progress::TaskProgress;
use crate::roles::{Clock, Roles, Updates};
use crate::scheduler::{Permit, Scheduler, Share};

/// Maximum of inputs that are handled before an append.
const INPUTS_PER_APPEND: usize = 256;
/// Events of one page while a log is replayed.
const REPLAY_PAGE: usize = 5_000;
/// When answers are given again that the store did not take.
const ANSWER_AGAIN: Duration = Duration::from_millis(250);

/// A message to a run's task. It is small, because a queue has room for many.
#[derive(Debug)]
pub(crate) enum Message {
    Update(CallKey, Box<RoleUpdate>),
    Ended(CallKey, Box<Result<CallOutput, RoleError>>),
    Commands(Vec<PendingCommand>),
    /// Time has passed, or the driver checks that the task makes progress.
    Tick,
}

/// What the tasks of all runs share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<dyn Roles>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) committer: Committer,
    /// Limits the role calls of this driver and shares them among its runs.
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) stats: Arc<DriverStats>,
    /// Events of one run's append after which further ones wait for the next, where that is possible.
    pub(crate) part_events: usize,
}

/// Why a task ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The run is final.
    Finished,
    /// Another driver owns the run.
    Lost,
    /// The driver stops. Another one continues the run.
    Stopped,
    /// The run is paused. Whoever claims it for the next command, or after this time, continues it.
    Rests(Option<Duration>),
    /// Its calls wait for permits here, and another driver has some to spare.
    HandedOver,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("the log cannot be read or written")]
    Store(#[from] Arc<StoreError>),
    #[error("the log ends at event {seq}, but its head is {head}; run `tree-agent verify`")]
    Truncated { seq: u64, head: u64 },
    #[error("the log does not replay")]
    Replay(#[source] ReplayError),
    /// A newer version wrote the log. Nothing is wrong with the run.
    #[error("{what}")]
    Newer { what: String },
}

impl From<ReplayError> for TaskError {
    fn from(error: ReplayError) -> Self {
        match error.is_newer() {
            true => Self::Newer { what: error.to_string() },
            false => Self::Replay(error),
        }
    }
}

impl TaskError {
    /// True if the log cannot be replayed, so that not even the end of the run can be decided.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self, Self::Truncated { .. } | Self::Replay(_))
    }
}

/// The task of one claimed run.
pub(crate) struct RunTask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) claim: Claim,
    /// Commands that users sent before anybody drove the run.
    pub(crate) commands: Vec<PendingCommand>,
    /// Held until the log is replayed.
    pub(crate) fresh: Option<OwnedSemaphorePermit>,
    /// Messages of roles.
    pub(crate) mailbox: mpsc::Receiver<Message>,
    /// Messages of users and the driver. They are separate, so that a role that floods the mailbox cannot block a
    /// cancellation.
    pub(crate) orders: mpsc::Receiver<Message>,
    pub(crate) sender: mpsc::Sender<Message>,
    pub(crate) progress: TaskProgress,
    pub(crate) stop: CancellationToken,
    /// If set, the run is ended as failed for this reason instead of being driven again.
    pub(crate) abandon: Option<String>,
    /// Time of the run's first event, which decides its age.
    pub(crate) created: Timestamp,
    /// Time of the last event that was replayed.
    pub(crate) logged: Timestamp,
}

/// The time of a run while a task drives it. It begins at the wall clock, or at the end of the log if that is later, so
/// that retries and deadlines do not wait until this clock catches up. From there it counts by the monotonic clock:
/// whoever sets the wall clock neither stops a live run nor ends it.
struct RunClock {
    began: Timestamp,
    since: Instant,
}

impl RunClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.began.micros().saturating_add(passed))
    }
}

/// Role calls in flight. Dropping it cancels all of them.
#[derive(Default)]
struct Calls(BTreeMap<CallKey, AbortHandle>);

impl Drop for Calls {
    fn drop(&mut self) {
        self.0.values().for_each(AbortHandle::abort);
    }
}

impl RunTask {
    /// Drives the run until it is final, lost, or the driver stops.
    pub(crate) async fn drive(mut self) -> Result<Ended, TaskError> {
        let Some(mut run) = self.replay().await? else { return Ok(Ended::Lost) };
        self.fresh = None;
        let mut calls = Calls::default();
        let share = self.shared.scheduler.join(self.claim.run_id, self.created);
        let wall = self.shared.clock.now();
        let clock = RunClock { began: wall.max(self.logged), since: Instant::now() };
        // The clock was set back, or that of the driver before was ahead. Then the rest of a run would begin again with
        // each claim, because each begins at the end of the log. So this driver waits itself.
        let is_behind = wall < self.logged;
        let commands = std::mem::take(&mut self.commands);
        let abandon = self.abandon.take();
        let mut decision = match abandon {
            None => run.handle(Input::Claimed, clock.now()),
            Some(_) => Decision::default(),
        };
        let mut inbox = Inbox::default();
        let now = clock.now();
        inbox.hear(&mut run, commands, now, &mut decision);
        if let Some(reason) = abandon {
            decision.merge(run.handle(Input::Abandon { reason }, now));
        }
        loop {
            if !decision.is_empty() {
                match self.commit(&run, decision, std::mem::take(inbox.answers())).await? {
                    AppendOutcome::Appended => {}
                    AppendOutcome::Fenced => return Ok(Ended::Lost),
                }
            }
            if !self.answer(inbox.answers()).await? {
                return Ok(Ended::Lost);
            }
            if run.is_final() {
                return Ok(Ended::Finished);
            }
            // Nothing happens until somebody gives a command or its time has come. Then a driver claims the run again.
            let rests = run.rests() && inbox.answers().is_empty();
            let rests_for = rests.then(|| run.rests_for_ms(clock.now())).flatten();
            if rests && !(is_behind && rests_for.is_some()) {
                return Ok(Ended::Rests(rests_for.map(Duration::from_millis)));
            }
            calls.0.retain(|key, call| {
                let wanted = run.is_in_flight(key);
                if !wanted {
                    call.abort();
                }
                wanted
            });
            if calls.0.is_empty() && inbox.answers().is_empty() && share.leaves(run.due(clock.now())) {
                return Ok(Ended::HandedOver);
            }
            self.begin_calls(&mut run, &share, &mut calls, clock.now());
            self.progress.beat();
            let wait = |at: Timestamp| at.0.saturating_sub(clock.now().0).max(0).unsigned_abs();
            let mut wake = run.next_wakeup().map(|at| Duration::from_micros(wait(at)));
            if rests || !inbox.answers().is_empty() {
                wake = Some(wake.map_or(ANSWER_AGAIN, |wake| wake.min(ANSWER_AGAIN)));
            }
            let mut next = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(match rests {
                    true => Ended::Rests(rests_for.map(Duration::from_millis)),
                    false => Ended::Stopped,
                }),
                order = self.orders.recv() => Some(order.unwrap_or(Message::Tick)),
                message = self.mailbox.recv() => Some(message.unwrap_or(Message::Tick)),
                () = share.granted() => None,
                () = tokio::time::sleep(wake.unwrap_or(Duration::from_secs(3600))) => Some(Message::Tick),
            };
            decision = Decision::default();
            let mut inputs = 0;
            while let Some(message) = next {
                let now = clock.now();
                self.handle(&mut run, message, now, &mut decision, &mut inbox);
                inputs += 1;
                next = if inputs < INPUTS_PER_APPEND { self.mailbox.try_recv().ok() } else { None };
            }
            self.shared.stats.stale_answers.fetch_add(run.take_stale(), Ordering::Relaxed);
        }
    }

    fn handle(
        &self,
        run: &mut Run,
        message: Message,
        now: Timestamp,
        decision: &mut Decision,
        inbox: &mut Inbox,
    ) {
        let input = match message {
            Message::Update(key, update) => Input::Update(key, *update),
            Message::Ended(key, result) => match *result {
                Ok(output) => Input::Output(key, output),
                Err(error) => Input::Failed(key, error),
            },
            Message::Commands(commands) => return inbox.hear(run, commands, now, decision),
            Message::Tick => Input::Tick,
        };
        decision.merge(run.handle(input, now));
    }

    /// Gives the answers that came without an event. They stay in `answers` as long as the store cannot be reached.
    /// False if another driver owns the run.
    async fn answer(&self, answers: &mut Vec<Answer>) -> Result<bool, TaskError> {
        if answers.is_empty() {
            return Ok(true);
        }
        let (run, epoch) = (self.claim.run_id, self.claim.epoch);
        let answered = self.shared.store.answer(run, epoch, answers.clone()).await;
        self.progress.beat();
        match answered {
            Ok(owned) => {
                answers.clear();
                Ok(owned)
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%run, error = %error, "commands cannot be answered now");
                Ok(true)
            }
            Err(error) => Err(TaskError::Store(Arc::new(error))),
        }
    }

    /// Replays the log. `None` if it grew after the claim, which means that somebody else owns the run.
    async fn replay(&mut self) -> Result<Option<Run>, TaskError> {
        let mut run: Option<Run> = None;
        loop {
            let after = run.as_ref().map_or(0, |r| r.graph().seq());
            if after == self.claim.head_seq {
                return Ok(run);
            }
            let page = EventLog::read(&*self.shared.store, self.claim.run_id, after, REPLAY_PAGE)
                .await
                .map_err(Arc::new)?;
            if page.is_empty() {
                return Err(TaskError::Truncated { seq: after, head: self.claim.head_seq });
            }
            if page.last().is_some_and(|e| e.seq > self.claim.head_seq) {
                return Ok(None);
            }
            for event in &page {
                if let EventBody::Opaque(newer) = &event.body {
                    let (seq, kind) = (event.seq, &newer.event_type);
                    let what = format!("event {seq} is of the type {kind}, which this version does not know");
                    return Err(TaskError::Newer { what });
                }
                self.logged = self.logged.max(event.timestamp);
                match &mut run {
                    Some(run) => run.apply(event)?,
                    None => {
                        self.created = event.timestamp;
                        run = Some(Run::begin(event)?);
                    }
                }
            }
            self.progress.beat();
        }
    }

    /// Writes a decision. Commands leave the inbox with its last part: a successor that finds a part carries them out.
    async fn commit(
        &self,
        run: &Run,
        decision: Decision,
        mut answers: Vec<Answer>,
    ) -> Result<AppendOutcome, TaskError> {
        let wire = decision.events.to_wire();
        let sizes: Vec<usize> = wire.iter().map(prost::Message::encoded_len).collect();
        let mut wire = wire.into_iter();
        let mut parts = parts(decision, &sizes, run.graph(), self.shared.part_events).into_iter().peekable();
        while let Some(Part { decision, projection }) = parts.next() {
            let events = wire.by_ref().take(decision.events.len()).collect();
            let message = pb::EventBatch { events }.encode_to_vec();
            let is_last = parts.peek().is_none();
            let append = RunAppend {
                run_id: self.claim.run_id,
                epoch: self.claim.epoch,
                expected_head: decision.events[0].seq - 1,
                events: decision.events,
                projection,
                documents: decision.documents,
                sessions: decision.sessions,
                answers: if is_last { std::mem::take(&mut answers) } else { Vec::new() },
            };
            let outcome = self.shared.committer.append(append, message.into(), self.progress.clone()).await?;
            if outcome == AppendOutcome::Fenced {
                return Ok(outcome);
            }
            self.progress.beat();
        }
        Ok(AppendOutcome::Appended)
    }

    /// Begins as many due calls as there are permits for. The others wait in the engine, where they need no memory.
    fn begin_calls(&self, run: &mut Run, share: &Share, calls: &mut Calls, now: Timestamp) {
        share.ask(run.due(now));
        loop {
            let permits = share.take();
            let (granted, due) = (permits.len(), run.take_due(now, permits.len()));
            if due.len() < granted {
                // A budget has no room for the others until a call ends.
                share.ask(0);
            }
            if granted == 0 {
                return;
            }
            for (call, permit) in due.into_iter().zip(permits) {
                calls.0.insert(call.key, self.start_call(call, permit));
            }
        }
    }

    /// Makes a role call in its own task, which reports to the mailbox.
    fn start_call(&self, call: RoleCall, permit: Permit) -> AbortHandle {
        let (shared, sender, key) = (self.shared.clone(), self.sender.clone(), call.key);
        tokio::spawn(async move {
            let result = match with_session(&*shared.store, call).await {
                Ok(call) => shared.roles.call(call, Updates { key, mailbox: sender.clone() }).await,
                Err(error) => Err(error),
            };
            let _ = sender.send(Message::Ended(key, Box::new(result))).await;
            drop(permit);
        })
        .abort_handle()
    }
}

/// The call with what was said in the conversation that it continues. If that cannot be read, nothing was attempted.
async fn with_session(store: &dyn Store, mut call: RoleCall) -> Result<RoleCall, RoleError> {
    if let CallInput::Research(input) = &mut call.input
        && let Some(session) = input.session.take()
    {
        let said = match &session.parent_id {
            Some(parent) => store.session_chain(input.call.run_id, parent).await.map_err(|error| {
                let message = format!("the conversation cannot be read: {}", chain(&error));
                RoleError::new(RoleErrorKind::Unreachable, message)
            })?,
            None => Vec::new(),
        };
        input.session = Some(session.with_chain(&said));
    }
    Ok(call)
}

/// The failure of a call that took longer than `after`.
pub(crate) fn timed_out(what: &str, after: Duration) -> RoleError {
    RoleError::new(RoleErrorKind::Timeout, format!("{what} within {} ms", after.as_millis()))
}

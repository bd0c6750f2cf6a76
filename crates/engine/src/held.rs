//! A node's scratchpad changes at most four times in any second, by the times in the log. What comes faster waits here.
//!
//! A call at work uses at most three of the four, so that one is always left for its end. What waits is not in the log
//! and is lost with its driver. So is the call, which the successor makes again.

use std::collections::VecDeque;

use tree_agent_contract::Timestamp;
use tree_agent_contract::role::{RoleError, RoleErrorKind, RoleUpdate};

use crate::call::CallKey;
use crate::decide::{Decider, Input};
use crate::run::Run;

/// Maximum of changes of one scratchpad within [`SECOND_MS`].
pub(crate) const CHANGES: usize = 4;
/// Those of them that a call may use before its end.
const CHANGES_AT_WORK: usize = CHANGES - 1;
const SECOND_MS: u64 = 1_000;
/// Bytes of waiting text that are merged into one change. Further text becomes another change.
const TEXT_BYTES: usize = 256 * 1024;
/// Maximum of bytes and of updates that wait for one node. A role that sends more is broken.
const WAITING_BYTES: usize = 4 * 1024 * 1024;
const WAITING: usize = 4_096;

impl Run {
    /// When an update of a call for the node at `at` may be handled, after all earlier ones; none for at once.
    fn held_until(&self, at: usize, input: &Input) -> Option<Timestamp> {
        let changes = match input {
            Input::Update(_, RoleUpdate::Scratchpad(delta)) if !delta.append_markdown.is_empty() => {
                CHANGES_AT_WORK
            }
            Input::Output(..) => CHANGES,
            _ => return None,
        };
        self.control[at].written.get()[CHANGES - changes].map(|t| t.plus_millis(SECOND_MS))
    }

    /// When a waiting update may next be handled.
    pub(crate) fn next_held(&self) -> Option<Timestamp> {
        let times = self.held.iter().filter_map(|(&at, waiting)| {
            waiting.front().map(|input| self.held_until(at, input).unwrap_or_default())
        });
        times.min()
    }

    /// The next waiting update for the node at `at`, if its time has come.
    fn take_held(&mut self, at: usize, now: Timestamp) -> Option<Input> {
        let front = self.held.get(&at)?.front();
        let due = front.is_some_and(|input| self.held_until(at, input).is_none_or(|t| t <= now));
        let input = if due { self.held.get_mut(&at)?.pop_front() } else { None };
        if self.held.get(&at).is_some_and(VecDeque::is_empty) {
            self.held.remove(&at);
        }
        input
    }
}

fn text_bytes(input: &Input) -> usize {
    match input {
        Input::Update(_, RoleUpdate::Scratchpad(delta)) => delta.append_markdown.len(),
        _ => 0,
    }
}

impl Decider<'_> {
    /// A call in flight sent an update. It is handled now, or after those that wait.
    pub(crate) fn heard(&mut self, key: CallKey, input: Input) {
        let Some(at) = self.run.in_flight_at(&key) else { return };
        if !matches!(input, Input::Failed(..)) {
            self.unblock(at);
        }
        let waits = self.run.held.contains_key(&at);
        if !waits && self.run.held_until(at, &input).is_none_or(|t| t <= self.now) {
            return self.take(at, input);
        }
        let waiting = self.run.held.entry(at).or_default();
        if waiting.len() >= WAITING || waiting.iter().map(text_bytes).sum::<usize>() >= WAITING_BYTES {
            self.give_up(at);
            let message = "said more within a second than can be shown; a role must gather what it writes";
            return self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
        }
        match (waiting.back_mut(), input) {
            (_, Input::Update(_, RoleUpdate::Heartbeat)) => {}
            (
                Some(Input::Update(_, RoleUpdate::Scratchpad(last))),
                Input::Update(_, RoleUpdate::Scratchpad(next)),
            ) if last.append_markdown.len() + next.append_markdown.len() <= TEXT_BYTES => {
                last.append_markdown.push_str(&next.append_markdown);
            }
            (_, input) => waiting.push_back(input),
        }
    }

    /// Handles the updates that have waited long enough.
    pub(crate) fn release(&mut self) {
        let nodes: Vec<usize> = self.run.held.keys().copied().collect();
        for at in nodes {
            while let Some(input) = self.run.take_held(at, self.now) {
                if self.run.is_final() {
                    return;
                }
                // The call may have been given up since.
                let (Input::Update(key, _) | Input::Output(key, _) | Input::Failed(key, _)) = &input else {
                    continue;
                };
                if self.run.in_flight_at(key).is_some() {
                    self.take(at, input);
                }
            }
        }
    }

    /// The call of the node at `at` is given up. What it used and wrote so far stays.
    pub(crate) fn give_up(&mut self, at: usize) {
        for input in self.run.held.remove(&at).into_iter().flatten() {
            let Input::Update(key, update) = input else { return };
            let may = match &update {
                RoleUpdate::Scratchpad(_) => {
                    self.run.control[at].written.get()[0].is_none_or(|t| t.plus_millis(SECOND_MS) <= self.now)
                }
                // A tool call beyond the allowance would end the call in another way.
                RoleUpdate::ToolCallRequested(_) => !self.tools_spent(at),
                _ => true,
            };
            if may && self.run.in_flight_at(&key).is_some() {
                self.on_update(at, key, update);
            }
        }
    }

    fn take(&mut self, at: usize, input: Input) {
        match input {
            Input::Update(key, update) => self.on_update(at, key, update),
            Input::Output(key, output) => self.on_output(at, key, output),
            Input::Failed(key, error) => self.on_failure(at, key, error),
            Input::Claimed | Input::Cancel { .. } | Input::Abandon { .. } | Input::Tick => {}
        }
        // Updates of a call after its end, such as a duplicated answer, must not delay those of the next call.
        if !self.run.in_flight.contains_key(&at) {
            self.run.held.remove(&at);
        }
    }
}

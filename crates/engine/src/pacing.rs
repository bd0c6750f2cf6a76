//! A node's scratchpad changes at most four times in any second, by the times in the log. What comes faster waits.
//!
//! A call at work uses at most three of the four, so that one is always left for its end. What waits is not in the log
//! and is lost with its driver. So is the call, which the successor makes again.

use tree_agent_contract::Timestamp;
use tree_agent_contract::role::RoleUpdate;

use crate::in_flight::InFlight;
use crate::input::Input;
use crate::state::{CHANGES, State};

/// The changes within [`SECOND_MS`] that a call may use before its end.
const CHANGES_AT_WORK: usize = CHANGES - 1;
const SECOND_MS: u64 = 1_000;
/// Bytes of waiting text that are merged into one change. Further text becomes another change.
const TEXT_BYTES: usize = 256 * 1024;
/// Maximum of bytes and of updates that wait for one node. A role that sends more is broken.
const WAITING_BYTES: usize = 4 * 1024 * 1024;
const WAITING: usize = 4_096;

/// When `input` of a call for the node at `at` may be handled, after all earlier ones; none for at once.
fn until(state: &State, at: usize, input: &Input) -> Option<Timestamp> {
    let changes = match input {
        Input::Update(_, RoleUpdate::Scratchpad(delta)) if !delta.append_markdown.is_empty() => {
            CHANGES_AT_WORK
        }
        Input::Output(..) => CHANGES,
        _ => return None,
    };
    free_at(state, at, changes)
}

/// When the scratchpad of the node at `at` may change once more, if at most `changes` are used; none for at once.
fn free_at(state: &State, at: usize, changes: usize) -> Option<Timestamp> {
    state.control(at).written_before(changes).map(|t| t.plus_millis(SECOND_MS))
}

/// True if the scratchpad of the node at `at` may change once more for a call that has ended.
pub(crate) fn may_change(state: &State, at: usize, now: Timestamp) -> bool {
    free_at(state, at, CHANGES).is_none_or(|t| t <= now)
}

/// True if `input` must wait.
pub(crate) fn must_wait(
    state: &State,
    in_flight: &InFlight,
    at: usize,
    input: &Input,
    now: Timestamp,
) -> bool {
    in_flight.held(at).is_some() || until(state, at, input).is_some_and(|t| t > now)
}

/// True if no more updates may wait for the node at `at`.
pub(crate) fn is_flooded(in_flight: &InFlight, at: usize) -> bool {
    in_flight.held(at).is_some_and(|waiting| {
        waiting.len() >= WAITING || waiting.iter().map(text_bytes).sum::<usize>() >= WAITING_BYTES
    })
}

/// Lets `input` wait. Text is merged with text that waits already.
pub(crate) fn hold(in_flight: &mut InFlight, at: usize, input: Input) {
    let waiting = in_flight.held_mut(at);
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

/// The next waiting update for the node at `at`, if its time has come.
pub(crate) fn release(state: &State, in_flight: &mut InFlight, at: usize, now: Timestamp) -> Option<Input> {
    let front = in_flight.held(at)?.front()?;
    match until(state, at, front).is_none_or(|t| t <= now) {
        true => in_flight.pop_held(at),
        false => None,
    }
}

/// True if the call of the node at `at` has finished and only its end has to wait.
pub(crate) fn has_finished(in_flight: &InFlight, at: usize) -> bool {
    in_flight.held(at).is_some_and(|waiting| waiting.iter().any(|input| matches!(input, Input::Output(..))))
}

/// When a waiting update may next be handled.
pub(crate) fn next(state: &State, in_flight: &InFlight) -> Option<Timestamp> {
    let times = in_flight.holding().filter_map(|at| {
        let front = in_flight.held(at)?.front()?;
        Some(until(state, at, front).unwrap_or_default())
    });
    times.min()
}

fn text_bytes(input: &Input) -> usize {
    match input {
        Input::Update(_, RoleUpdate::Scratchpad(delta)) => delta.append_markdown.len(),
        _ => 0,
    }
}

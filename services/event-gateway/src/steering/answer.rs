//! Waiting for the answer to a command.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};
use tree_agent_contract::{Reply, RunId};
use tree_agent_fanout::{Signal, Subscription, Topic};
use tree_agent_runtime::errors::status;

use crate::errors;
use crate::gateway::Gateway;
use crate::watch::{hear, pending, subscribe};

/// How soon the store is asked for the first time. A refusal has no event that would announce it.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// The longest time between two questions to the store.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The reply to the command that was sent with `request_id`. The store is asked when the run's topic carries an event
/// with this request id, and now and then in case there is none.
pub(super) async fn wait(gateway: &Gateway, run: RunId, request_id: &str) -> Result<Reply, Status> {
    let within = gateway.answer_within;
    let until = Instant::now() + within;
    let mut confirming = Some(subscribe(&*gateway.fanout, Topic::Run(run)).boxed());
    let mut subscription = None;
    let mut pause = FIRST_LOOK;
    let mut next_look = Instant::now() + pause;
    loop {
        // In a fixed order; what is always ready comes last.
        tokio::select! {
            biased;
            () = gateway.drain.cancelled() => return Err(unanswered(run, request_id, "the server is shutting down")),
            confirmed = pending(&mut confirming) => {
                // What was published before was not heard.
                (confirming, subscription) = (None, confirmed);
            }
            () = announced(&mut subscription, request_id) => {}
            () = sleep_until(next_look.min(until)) => {
                pause = (pause * 2).min(LAST_LOOK);
                next_look = Instant::now() + pause;
            }
        }
        match gateway.store.reply(run, request_id).await {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) if Instant::now() >= until => {
                let why = format!("no driver has answered within {within:?}");
                return Err(unanswered(run, request_id, &why));
            }
            // The command stands in the inbox: a store that is away for a moment does not matter.
            Err(error) if Instant::now() >= until => return Err(errors::store(error)),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Returns when a message speaks of the request, or when messages were missed.
async fn announced(subscription: &mut Option<Subscription>, request_id: &str) {
    loop {
        match hear(subscription).await {
            Some(Signal::Message(message)) if !contains(&message, request_id.as_bytes()) => {}
            Some(Signal::Message(_) | Signal::Missed) => return,
            None => *subscription = None,
        }
    }
}

/// True if `needle`, which is not empty, stands anywhere in `message`. Texts stand in protobuf as they are.
fn contains(message: &[u8], needle: &[u8]) -> bool {
    message.windows(needle.len().max(1)).any(|window| window == needle)
}

/// `UNAVAILABLE`. The command may be carried out yet.
fn unanswered(run: RunId, request_id: &str, why: &str) -> Status {
    let message = format!(
        "{why}; the command waits in the inbox of run {run}: repeat it with request_id {request_id:?} to learn what \
         has become of it, which does not carry it out twice"
    );
    status(Code::Unavailable, "COMMAND_UNANSWERED", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_found_in_a_message() {
        assert!(contains(b"\x0a\x05req-1\x12", b"req-1"));
        assert!(!contains(b"\x0a\x05req-2\x12", b"req-1"));
        assert!(!contains(b"", b"req-1"));
    }
}

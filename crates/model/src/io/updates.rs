//! The outgoing updates of a call: text for the scratchpad is gathered, everything else is sent in order.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};
use tree_agent_contract::role::{RoleUpdate, ScratchpadDelta};

/// The interval between two pieces of text of one call, and before its first. A node's scratchpad may change four
/// times a second. In the last second of a call that is two pieces, the rest at its end, and the note in its output.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum of text that is gathered. A model that writes more waits.
const GATHERED_BYTES: usize = 256 * 1024;

/// The updates of one call, in order. Text waits until its interval is over, and what follows text waits with it.
pub(crate) struct Updates {
    received: mpsc::Receiver<RoleUpdate>,
    text: String,
    /// The updates after `text`.
    next: Option<RoleUpdate>,
    due: Pin<Box<Sleep>>,
}

impl Updates {
    pub(crate) fn new(received: mpsc::Receiver<RoleUpdate>) -> Self {
        let due = Box::pin(sleep_until(Instant::now() + INTERVAL));
        Self { received, text: String::new(), next: None, due }
    }

    /// The next update that may be sent now. Once the call has `ended`, nothing waits any more; then `None` means that
    /// everything has been sent.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, ended: bool) -> Poll<Option<RoleUpdate>> {
        let mut closed = false;
        while self.next.is_none() && self.text.len() < GATHERED_BYTES {
            match self.received.poll_recv(cx) {
                Poll::Ready(Some(RoleUpdate::Scratchpad(delta))) => {
                    self.text.push_str(&delta.append_markdown)
                }
                Poll::Ready(Some(update)) => self.next = Some(update),
                Poll::Ready(None) => {
                    closed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !self.text.is_empty() {
            if !ended && self.due.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.due.as_mut().reset(Instant::now() + INTERVAL);
            let append_markdown = std::mem::take(&mut self.text);
            return Poll::Ready(Some(RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown })));
        }
        match self.next.take() {
            Some(update) => Poll::Ready(Some(update)),
            None if closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;

//! Shares of what a gateway has only so much of, such as the memory for files that are sent.
//!
//! Whoever finds no room waits for a while. Of those who wait, the user who has the least comes first, so that nobody
//! waits behind everything that another user wants. These shares are of one gateway: with several, a user may have as
//! much of each.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Status;
use tree_agent_runtime::errors::exhausted;

/// How many requests of one user may wait.
const WAITING: usize = 256;
/// What a client is told to wait before it tries again.
const RETRY: Duration = Duration::from_secs(2);

/// Something of which there is a total, and of which each user may have a part.
#[derive(Clone)]
pub(crate) struct Shares(Arc<Inner>);

struct Inner {
    limits: Limits,
    state: Mutex<State>,
}

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// What it is, in the plural.
    pub(crate) what: &'static str,
    /// For all users together. A single request for more is served when there is nothing else.
    pub(crate) total: u64,
    /// For one user.
    pub(crate) each: u64,
    /// The setting of that; empty for none.
    pub(crate) setting: &'static str,
    /// How long to wait for it.
    pub(crate) patience: Duration,
}

#[derive(Default)]
struct State {
    used: u64,
    /// Those who have something or wait.
    users: HashMap<String, User>,
    arrivals: u64,
}

#[derive(Default)]
struct User {
    used: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    arrival: u64,
    amount: u64,
    go: oneshot::Sender<Share>,
}

/// A part that is taken. It is given back when it is dropped.
pub(crate) struct Share {
    of: Shares,
    user: String,
    amount: u64,
}

impl Shares {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner { limits, state: Mutex::default() }))
    }

    /// Takes `amount` for `user` once there is room.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if that takes too long, or if too many requests of the user wait.
    pub(crate) async fn take(&self, user: &str, amount: u64) -> Result<Share, Status> {
        let (go, going) = oneshot::channel();
        {
            let mut state = self.state();
            let arrival = state.arrivals;
            state.arrivals += 1;
            let waiting = &mut state.users.entry(user.to_owned()).or_default().waiting;
            waiting.retain(|waiting| !waiting.go.is_closed());
            if waiting.len() == WAITING {
                return Err(self.refusal(true));
            }
            waiting.push_back(Waiting { arrival, amount, go });
        }
        self.serve();
        match tokio::time::timeout(self.0.limits.patience, going).await {
            Ok(Ok(share)) => Ok(share),
            // Whoever waits is served or late: the sender is dropped with its receiver only.
            Ok(Err(_)) | Err(_) => {
                let state = self.state();
                let has_all = state.users.get(user).is_some_and(|user| user.is_full(amount, &self.0.limits));
                Err(self.refusal(has_all))
            }
        }
    }

    /// Gives what is free to those who wait.
    fn serve(&self) {
        loop {
            let Some((go, user, amount)) = self.state().next(&self.0.limits) else { return };
            // One who waits no more gives it back at once.
            drop(go.send(Share { of: self.clone(), user, amount }));
        }
    }

    fn refusal(&self, has_all: bool) -> Status {
        let Limits { what, total, each, setting, .. } = self.0.limits;
        let setting = if setting.is_empty() { String::new() } else { format!(" ({setting})") };
        let text = match has_all {
            true => {
                format!("you have as many {what} as one user may have at once, {each}{setting}; try again")
            }
            false => format!("{what} of other users take all {total} that this gateway has; try again"),
        };
        exhausted("USER_QUOTA", text, RETRY)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl User {
    fn is_full(&self, amount: u64, limits: &Limits) -> bool {
        self.used > 0 && self.used + amount > limits.each
    }
}

impl State {
    /// Takes the next request out of the queue, if there is room for it.
    fn next(&mut self, limits: &Limits) -> Option<(oneshot::Sender<Share>, String, u64)> {
        let waiting = self.users.iter().filter_map(|(name, user)| {
            let first = user.waiting.front()?;
            (!user.is_full(first.amount, limits)).then_some((user.used, first.arrival, name))
        });
        let name = waiting.min()?.2.clone();
        let user = self.users.get_mut(&name)?;
        // Nobody with a smaller request goes first: a large one would wait for ever.
        let amount = user.waiting.front()?.amount;
        if self.used > 0 && self.used + amount > limits.total {
            return None;
        }
        let first = user.waiting.pop_front()?;
        user.used += amount;
        self.used += amount;
        Some((first.go, name, amount))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        {
            let mut state = self.of.state();
            state.used -= self.amount;
            if let Some(user) = state.users.get_mut(&self.user) {
                user.used -= self.amount;
                user.waiting.retain(|waiting| !waiting.go.is_closed());
                if user.used == 0 && user.waiting.is_empty() {
                    state.users.remove(&self.user);
                }
            }
        }
        self.of.serve();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tonic::Code;
    use tonic_types::StatusExt;

    use super::*;

    fn shares(total: u64, each: u64) -> Shares {
        let patience = Duration::from_secs(30);
        Shares::new(Limits { what: "files", total, each, setting: "TREE_AGENT_USER_FILES", patience })
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_the_least_comes_first() {
        let shares = shares(2, 2);
        let (first, second) = (shares.take("a", 1).await.unwrap(), shares.take("a", 1).await.unwrap());
        let mut third = Box::pin(shares.take("a", 1));
        let mut other = Box::pin(shares.take("b", 1));
        assert!((&mut third).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        drop(first);
        let other = (&mut other).now_or_never().expect("it came later, and has nothing yet").unwrap();
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().expect("there is room").is_ok());
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_no_more_than_their_part_and_is_told() {
        let shares = shares(10, 2);
        let kept = [shares.take("a", 1).await.unwrap(), shares.take("a", 1).await.unwrap()];
        let status = shares.take("a", 1).await.err().expect("a third one");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("TREE_AGENT_USER_FILES"), "{}", status.message());
        let details = status.get_error_details();
        assert!(details.retry_info().unwrap().retry_delay.is_some());
        assert!(shares.take("b", 2).await.is_ok(), "others have theirs");
        drop(kept);
        assert!(shares.take("a", 2).await.is_ok());
        assert!(shares.0.state.lock().unwrap().users.is_empty(), "nobody is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_request_is_not_overtaken_for_ever_and_one_beyond_the_total_is_served_alone() {
        let shares = shares(4, 4);
        let small = shares.take("a", 3).await.unwrap();
        let mut large = Box::pin(shares.take("b", 9));
        assert!((&mut large).now_or_never().is_none());
        let mut later = Box::pin(shares.take("c", 1));
        assert!((&mut later).now_or_never().is_none());
        drop(small);
        let large = (&mut large).now_or_never().expect("it is alone").unwrap();
        assert!((&mut later).now_or_never().is_none());
        drop(large);
        assert!((&mut later).now_or_never().expect("there is room").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_the_queue_holds_up_nobody() {
        let shares = shares(1, 1);
        let held = shares.take("a", 1).await.unwrap();
        for _ in 0..3 * WAITING {
            assert!(Box::pin(shares.take("b", 1)).now_or_never().is_none());
        }
        let mut queue: Vec<_> = (0..WAITING).map(|_| Box::pin(shares.take("c", 1))).collect();
        assert!(queue.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let refused = shares.take("c", 1).now_or_never().expect("at once");
        assert_eq!(refused.err().unwrap().code(), Code::ResourceExhausted);
        drop(held);
        drop(queue);
        let next = shares.take("d", 1).now_or_never().expect("all others have left");
        assert!(next.is_ok());
        drop(next);
        assert_eq!(shares.0.state.lock().unwrap().used, 0);
    }
}

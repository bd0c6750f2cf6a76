//! Whether whoever opened a stream may still watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Status;
use tree_agent_store::{Store, StoreError};

use crate::auth::{Authenticator, Caller};
use crate::view::{Memberships, View};

/// Why a stream ends whose caller has other rights now.
pub(crate) const RIGHTS: &str = "rights";

/// What users are a member of, read once for all streams of a user that ask at about the same time.
pub(crate) struct Standing {
    store: Arc<dyn Store>,
    authenticator: Option<Authenticator>,
    /// How often a stream asks.
    look: Duration,
    known: Mutex<HashMap<String, (Instant, Arc<Memberships>)>>,
}

impl Standing {
    pub(crate) fn new(store: Arc<dyn Store>, authenticator: Option<Authenticator>, look: Duration) -> Self {
        Self { store, authenticator, look, known: Mutex::default() }
    }

    /// What a caller may see who is about to open a stream.
    pub(crate) async fn view(&self, caller: Caller) -> Result<View, Status> {
        View::of(&*self.store, caller).await
    }

    /// Completes when the memberships of whoever opened a stream are others than in this view, or their key vouches for
    /// nobody any more. The client then calls again, and gets what it may have now. An administrator is one until the
    /// token ends.
    pub(crate) async fn lost(self: Arc<Self>, caller: Caller, view: View) {
        let Some(authenticator) = &self.authenticator else { return std::future::pending().await };
        loop {
            if caller.key.as_deref().is_some_and(|key| !authenticator.vouches(key)) {
                return;
            }
            // A stream goes on while the store is away, and so does this.
            if let Some(begun) = view.memberships()
                && let Ok(now) = self.memberships(&caller.user_id).await
                && *now != *begun
            {
                return;
            }
            sleep(self.look.mul_f64(fastrand::f64().mul_add(0.5, 0.75))).await;
        }
    }

    async fn memberships(&self, user: &str) -> Result<Arc<Memberships>, StoreError> {
        let fresh = |at: &Instant| at.elapsed() < self.look / 2;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(user).cloned();
        if let Some((_, memberships)) = known.filter(|(at, _)| fresh(at)) {
            return Ok(memberships);
        }
        let read = Arc::new(self.store.memberships(user).await?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| fresh(at));
        known.insert(user.to_owned(), (Instant::now(), read.clone()));
        Ok(read)
    }
}

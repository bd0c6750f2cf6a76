//! Who may write to a run.

use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::RunId;

use crate::error::StoreError;

/// Who may write to a run. A driver has one lease for all of its runs. All times are the store's clock, never the
/// caller's.
///
/// A driver begins a term, claims runs within it, and renews its lease. It begins another term when it cannot know
/// which runs it owns: when a claim failed, because it may have taken runs, and when its lease had ended, because
/// others may have taken some.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Begins a term of the driver: its lease lasts `ttl` from now. Claims of its earlier terms that are still on their
    /// way take nothing from here on.
    async fn begin_term(&self, driver: &str, ttl: Duration) -> Result<Term, StoreError>;

    /// Takes up to `limit` runs that are not final: runs of drivers whose leases have ended, then at most `unowned`
    /// that nobody owns and that are not in quarantine, oldest first. Each gets `epoch + 1`. Concurrent callers never
    /// get the same run. Takes nothing if the driver is in another term or its lease has ended.
    ///
    /// The run of a driver whose lease ended twice or more without progress of the run is not taken, but put in
    /// quarantine: it may have killed its drivers.
    ///
    /// A paused run that nobody owns is taken only if a command waits for it, if its review ends by itself
    /// ([`ReviewRule`](tree_agent_contract::ReviewRule)), or if its driver has put it in quarantine until its time
    /// comes: that of a review, or of a quota.
    ///
    /// Besides these, takes up to `called` runs to which a command was sent since they were last claimed, also from
    /// quarantine. So a run that rests hears a command, and so does one that waits for a driver with room. It is taken
    /// once for each command, because it may still be one that cannot be driven.
    ///
    /// After a moment at which nobody could renew, every driver has a third of its lease to do so: a driver whose own
    /// lease has had a break since another's ended waits for that long.
    async fn claim(
        &self,
        driver: &str,
        term: u64,
        limit: usize,
        unowned: usize,
        called: usize,
    ) -> Result<Vec<Claim>, StoreError>;

    /// Extends the driver's lease to `ttl` from now, and tells other drivers that it has `spare` permits for role calls
    /// that no run of its own wants. Answered beside all other calls, however many of these wait.
    async fn renew(
        &self,
        driver: &str,
        term: u64,
        ttl: Duration,
        spare: usize,
    ) -> Result<Renewed, StoreError>;

    /// Releases runs, so that others can claim them at once. Unknown and lost ones are ignored. Returns those that
    /// could not be released now, because another client of the database holds their rows locked.
    async fn release(&self, held: &[(RunId, u64)]) -> Result<Vec<RunId>, StoreError>;

    /// Counts that a run could not be driven, and puts it in quarantine: for `lease` times two for the first time since
    /// its last progress, then twice as long each time, at most [`QUARANTINE_MAX`]. Progress is an event that records
    /// the outcome of a role call. None, and nothing changes, for an unknown or lost run.
    async fn fail(
        &self,
        run: RunId,
        epoch: u64,
        reason: &str,
        lease: Duration,
    ) -> Result<Option<Failed>, StoreError>;

    /// Why the run could not be driven the last time; empty if that never happened.
    async fn last_failure(&self, run: RunId) -> Result<String, StoreError>;

    /// Releases a run, but nobody can claim it before `wait` has passed. An unknown or lost one is ignored.
    async fn quarantine(&self, run: RunId, epoch: u64, wait: Duration) -> Result<(), StoreError>;
}

/// A term of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its number, from 1.
    pub number: u64,
    /// The runs that the driver owned when the term began.
    pub owned: Vec<Claim>,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// False if the lease had ended or the driver is in another term: then the driver must begin a new one.
    pub held: bool,
    /// Permits that other drivers have to spare. One that has not renewed its lease for half of its length has none.
    pub spare: usize,
}

/// A run that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run_id: RunId,
    /// The epoch of the claim.
    pub epoch: u64,
    /// The head of the log at the moment of the claim.
    pub head_seq: u64,
    /// How often it could not be driven since its last progress.
    pub failures: u32,
}

/// A run that could not be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// How often in a row, without progress in between.
    pub times: u32,
    /// How long it is in quarantine.
    pub wait: Duration,
}

/// The longest quarantine.
pub const QUARANTINE_MAX: Duration = Duration::from_secs(300);

/// A quarantine of `first` that is doubled `times` times.
pub(crate) fn quarantine_time(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(QUARANTINE_MAX)
}

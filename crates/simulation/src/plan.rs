//! Derives a world from a seed: its processes, and the faults that can happen.
//!
//! Every seed enables its own few faults (swarm testing, Groce et al., ISSTA 2012): a world in which everything fails
//! at once hides what two faults do together.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::rng::SeededRng;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Something that can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    /// A driver vanishes at a random moment and comes back later.
    KillDriver,
    /// A driver vanishes between two of its steps: before or after a write, a claim, a publish, a role call.
    KillAtPoint,
    /// A driver is told to stop and is started again.
    StopDriver,
    /// A driver is frozen for longer than its lease (SIGSTOP), then continues.
    FreezeDriver,
    /// The appends and reads of a driver hang, but its claims and renewals work.
    WedgeDriver,
    /// A gateway vanishes with its streams, and comes back later.
    KillGateway,
    /// A gateway drains, and comes back later.
    DrainGateway,
    /// One process cannot reach the store.
    CutStore,
    /// Nobody can reach the store.
    StoreDown,
    /// Calls to the store fail without effect.
    RefusedStore,
    /// Calls to the store take effect, but report a failure.
    LostReplies,
    /// Calls to the store report a failure, but take effect later.
    LateRequests,
    /// The store takes up to several seconds.
    SlowStore,
    /// Hints are lost.
    LostHints,
    /// Hints arrive twice.
    DoubledHints,
    /// Hints overtake each other.
    ReorderedHints,
    /// Fan-out delivers nothing, but seems to work.
    DeafFanout,
    /// Fan-out goes down and comes back.
    FanoutDown,
    /// Role calls fail, or break their contract.
    FailedCalls,
    /// Answers of roles are lost.
    LostAnswers,
    /// Answers of roles arrive twice, the second one up to several seconds later. A driver that repeats another
    /// driver's call gets the same answer.
    DoubledAnswers,
    /// A role cannot be reached.
    UnreachableRoles,
    /// Answers of roles are late by more than a lease.
    SlowRoles,
    /// Roles send many updates.
    ChattyRoles,
    /// The clocks of drivers are wrong by up to ten minutes.
    Clocks,
    /// A user cancels a run.
    Cancel,
    /// Subscribers read slowly.
    SlowReaders,
    /// Subscribers lose their connection and resume.
    Disconnects,
    /// Subscribers begin with a snapshot.
    Snapshots,
    /// Gateways remember only a few events.
    SmallWindow,
    /// Drivers take only one run at a time.
    FewPlaces,
    /// The clocks of drivers jump by hours, back and forth, also while they are down.
    ClockJumps,
    /// Drivers make only two role calls at a time, and hand over runs that wait.
    FewPermits,
}

/// One world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that it was derived from.
    pub seed: u64,
    /// The faults that can happen in it.
    pub faults: BTreeSet<Fault>,
    /// Drivers.
    pub drivers: usize,
    /// Gateways.
    pub gateways: usize,
    /// Runs.
    pub runs: usize,
    /// Subscribers of each run.
    pub subscribers: usize,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long faults happen. Afterwards everything heals.
    pub trouble: Duration,
    /// People give commands.
    pub steered: bool,
}

impl Plan {
    /// The world of `seed`. One in sixteen has no faults, and one in sixteen has all of them.
    pub fn of(seed: u64) -> Self {
        let dice = SeededRng::new(seed ^ 0x5eed_0f57_a710_0001);
        // Faults that came later have dice of their own, so that all else is what it was without them.
        let later = SeededRng::new(seed ^ 0x5eed_0f57_a710_0002);
        let dice_of = |fault: Fault| if fault < Fault::ClockJumps { &dice } else { &later };
        let faults = match seed % 16 {
            0 => BTreeSet::new(),
            15 => Fault::ALL.iter().copied().collect(),
            _ => {
                let percent = dice.within(8..=45);
                Fault::ALL.iter().copied().filter(|fault| dice_of(*fault).chance(percent)).collect()
            }
        };
        let few = faults.contains(&Fault::FewPermits);
        let at_least = |least: usize, dice: u64| if few { least.max(dice as usize) } else { dice as usize };
        Self {
            seed,
            faults,
            // Enough of both that runs are handed over.
            drivers: at_least(2, dice.within(1..=3)),
            gateways: dice.within(1..=2) as usize,
            runs: at_least(4, dice.within(1..=2)),
            subscribers: dice.within(1..=2) as usize,
            lease: dice.millis(2_000..=5_000),
            trouble: dice.millis(4_000..=25_000),
            // No dice decide it, so that all else is what it is without people.
            steered: true,
        }
    }

    /// True if `fault` can happen.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// True if calls to the store can fail or linger at random. Then no time limit holds before the world has healed.
    pub(crate) fn erratic_store(&self) -> bool {
        use Fault::{LateRequests, LostReplies, RefusedStore, SlowStore};
        [RefusedStore, LostReplies, LateRequests, SlowStore].into_iter().any(|fault| self.has(fault))
    }
}

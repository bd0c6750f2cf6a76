//! The one source of chance in a world.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Seeded dice. Whoever throws in the same order gets the same numbers.
pub(crate) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// True `percent` times of a hundred.
    pub(crate) fn chance(&self, percent: u64) -> bool {
        self.within(0..=99) < percent
    }

    pub(crate) fn within(&self, range: RangeInclusive<u64>) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(range)
    }

    /// Milliseconds within `range`.
    pub(crate) fn millis(&self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// One of `items`; none of none.
    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        let last = items.len().checked_sub(1)?;
        items.get(self.within(0..=last as u64) as usize)
    }
}

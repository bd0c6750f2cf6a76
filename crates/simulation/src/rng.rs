//! The only source of randomness in a world.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Seeded dice. The same sequence of throws gives the same numbers.
pub(crate) struct SeededRng(Mutex<fastrand::Rng>);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// True in `percent` of 100 cases.
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

    /// One of `items`; none if there are none.
    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        let last = items.len().checked_sub(1)?;
        items.get(self.within(0..=last as u64) as usize)
    }
}

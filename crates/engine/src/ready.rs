//! Nodes that need a call which is not in flight, in the order in which their calls are to be made.
//!
//! What finishes something comes first: calls that put results together, then leaf work, then plans. A run thus ends
//! parts of its tree before it begins others, and holds as few open nodes as possible. Adding, removing and taking
//! cost the logarithm of the number of nodes that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tree_agent_contract::Timestamp;
use tree_agent_contract::role::CallKind;

/// The place of a kind of call: what finishes first, what creates nodes last.
type Rank = (bool, bool, CallKind);

fn rank(kind: CallKind) -> Rank {
    (!kind.finishes(), kind.creates_nodes(), kind)
}

/// Nodes that wait for their call to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// Every node that waits, with the call that it needs and when it may be made; none for at once.
    nodes: BTreeMap<usize, (CallKind, Option<Timestamp>)>,
    /// Those whose time has come, in the order in which their calls are made.
    due: BTreeSet<(Rank, usize)>,
    /// The others, by time.
    later: BTreeSet<(Timestamp, usize)>,
}

impl Ready {
    /// The node at `at` needs a call of `kind`, at `from` at the earliest.
    pub(crate) fn insert(&mut self, at: usize, kind: CallKind, from: Option<Timestamp>) {
        self.remove(at);
        self.nodes.insert(at, (kind, from));
        match from {
            None => self.due.insert((rank(kind), at)),
            Some(from) => self.later.insert((from, at)),
        };
    }

    /// The node at `at` waits no more.
    pub(crate) fn remove(&mut self, at: usize) {
        let Some((kind, from)) = self.nodes.remove(&at) else { return };
        self.due.remove(&(rank(kind), at));
        from.map(|from| self.later.remove(&(from, at)));
    }

    /// Every node that waits, by place, with the call that it needs.
    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = (usize, CallKind)> + '_ {
        self.nodes.iter().map(|(&at, &(kind, _))| (at, kind))
    }

    /// The nodes whose calls are due, as far as the time has [moved on](Self::move_on).
    pub(crate) fn due_nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.due.iter().map(|&(_, at)| at)
    }

    /// How many calls are due at `now`.
    pub(crate) fn due(&self, now: Timestamp) -> usize {
        self.due.len() + self.later.range(..=(now, usize::MAX)).count()
    }

    /// The time is `now`: what was to wait until then is due.
    pub(crate) fn move_on(&mut self, now: Timestamp) {
        while let Some(&(from, at)) = self.later.first()
            && from <= now
        {
            self.later.pop_first();
            self.due.insert((rank(self.nodes[&at].0), at));
        }
    }

    /// The first node whose call is due and comes after `last`, in the order in which calls are to be made.
    pub(crate) fn next_due(&self, last: Option<(CallKind, usize)>) -> Option<(CallKind, usize)> {
        let from = last.map_or(Bound::Unbounded, |(kind, at)| Bound::Excluded((rank(kind), at)));
        self.due.range((from, Bound::Unbounded)).next().map(|&((_, _, kind), at)| (kind, at))
    }

    /// When a call becomes due that was not when the time last [moved on](Self::move_on).
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        self.later.first().map(|&(from, _)| from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ready: &mut Ready, now: i64) -> Vec<usize> {
        ready.move_on(Timestamp(now));
        std::iter::successors(ready.next_due(None), |last| ready.next_due(Some(*last)))
            .map(|(_, at)| at)
            .collect()
    }

    #[test]
    fn what_finishes_comes_first_and_then_the_oldest_node() {
        let mut ready = Ready::default();
        ready.insert(1, CallKind::Plan, None);
        ready.insert(5, CallKind::Execute, None);
        ready.insert(3, CallKind::Execute, None);
        ready.insert(9, CallKind::Aggregate, None);
        assert_eq!(order(&mut ready, 0), [9, 3, 5, 1]);
        assert_eq!(ready.next_due(Some((CallKind::Execute, usize::MAX))), Some((CallKind::Plan, 1)));
        assert_eq!(ready.nodes().map(|(at, _)| at).collect::<Vec<_>>(), [1, 3, 5, 9]);
    }

    #[test]
    fn a_call_that_waits_is_due_at_its_time() {
        let mut ready = Ready::default();
        ready.insert(1, CallKind::Execute, Some(Timestamp(10)));
        ready.insert(2, CallKind::Aggregate, Some(Timestamp(20)));
        assert_eq!((ready.due(Timestamp(9)), ready.due(Timestamp(10)), ready.due(Timestamp(20))), (0, 1, 2));
        assert_eq!(ready.next_time(), Some(Timestamp(10)));
        assert_eq!(order(&mut ready, 10), [1]);
        assert_eq!(ready.next_time(), Some(Timestamp(20)));
        assert_eq!(order(&mut ready, 20), [2, 1]);
        assert_eq!(ready.next_time(), None);
        // It failed again and waits once more.
        ready.insert(2, CallKind::Aggregate, Some(Timestamp(40)));
        assert_eq!(order(&mut ready, 20), [1]);
        ready.remove(1);
        ready.remove(2);
        assert_eq!((ready.due(Timestamp(99)), ready.next_time(), ready.nodes().count()), (0, None, 0));
    }
}

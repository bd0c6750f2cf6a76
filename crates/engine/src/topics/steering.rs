//! What commands of people do to the topics of a search: topics that are paused are set aside, and a topic that is done
//! again begins anew, without those that it listed before.

use crate::state::State;

use super::{Phase, Topic, Topics};

impl Topics {
    /// The topic at `at` was paused, or one above it: those that wait are not offered any more.
    pub(super) fn set_aside(&mut self, at: usize) {
        for topic in self.branch(at) {
            if self.topic(topic).phase == Phase::Waiting && !self.topic(topic).is_aside {
                let was_picked = self.picked == Some(topic);
                self.offer(topic, false);
                let topic = self.topic_mut(topic);
                topic.was_chosen |= was_picked;
                topic.is_aside = true;
            }
        }
    }

    /// A pause has ended: topics that no other pause holds are offered again.
    pub(super) fn put_back(&mut self, state: &State, at: usize) {
        for topic in self.branch(at) {
            if self.topic(topic).is_aside && !state.is_paused(topic) {
                self.topic_mut(topic).is_aside = false;
                self.offer(topic, true);
            }
        }
    }

    /// A topic was picked. True if it is paused: it begins after the pause without another choice.
    pub(super) fn chosen_while_aside(&mut self, at: usize) -> bool {
        let topic = self.topic_mut(at);
        topic.was_chosen |= topic.is_aside;
        topic.is_aside
    }

    /// Topics in the branch of `at` that wait and are paused.
    pub(crate) fn aside_below(&self, at: usize) -> Vec<usize> {
        self.branch(at).into_iter().filter(|topic| self.topic(*topic).is_aside).collect()
    }

    /// Offers a topic that waits, or takes the offer back. One that was chosen before begins without another choice.
    pub(super) fn offer(&mut self, at: usize, is_offered: bool) {
        let (depth, was_chosen) = (self.topic(at).place.depth, self.topic(at).was_chosen);
        match (was_chosen, is_offered) {
            (false, _) => self.line_up(at, is_offered),
            (true, true) => drop(self.chosen_before.insert(at)),
            (true, false) => drop(self.chosen_before.remove(&at)),
        }
        let sign: i8 = if is_offered { 1 } else { -1 };
        self.count(at, sign.into(), 0);
        if depth == 1 {
            self.first_level_open = self.first_level_open.saturating_add_signed(sign.into());
        }
        if !is_offered && self.picked == Some(at) {
            self.picked = None;
        }
    }

    /// The node at `at` goes on. With `again` it is researched again, else it waits for a topic below it that is.
    pub(super) fn reopened(&mut self, state: &State, at: usize, again: bool) {
        if at == self.root {
            self.picking = None;
            self.topic_mut(at).phase = Phase::Researched;
            if again {
                self.begin_again();
            }
            return;
        }
        let had_ended = self.topic(at).phase == Phase::Ended;
        if had_ended {
            self.topic_mut(at).phase = Phase::Researched;
        }
        if again {
            self.forget_result(at);
            for below in self.branch(at).into_iter().skip(1) {
                self.forget_result(below);
                self.topics.remove(&below);
            }
            let Topic { place, parent, score, has_score, .. } = self.topic(at).clone();
            self.topics
                .insert(at, Topic { place, parent, score, has_score, was_chosen: true, ..Topic::default() });
            match state.is_paused(at) {
                true => self.topic_mut(at).is_aside = true,
                false => self.offer(at, true),
            }
        }
        let Some(parent) = self.topic(at).parent.filter(|_| had_ended) else { return };
        let lossy = self.topic(parent).children.iter().any(|child| {
            let child = self.topic(*child);
            child.phase == Phase::Ended && child.ended_lossy
        });
        let above = self.topic_mut(parent);
        above.open_children += 1;
        above.lossy = lossy;
    }

    /// The whole search begins again.
    fn begin_again(&mut self) {
        let root = self.root;
        let is_step = self.is_step;
        *self = Self {
            root,
            is_step,
            max_depth: self.max_depth,
            max_nodes: self.max_nodes,
            concurrency: self.concurrency,
            policy: self.policy,
            ..Self::default()
        };
        self.topics.insert(root, Topic { phase: Phase::Researched, ..Topic::default() });
    }

    /// What was found about the topic at `at` counts no more.
    fn forget_result(&mut self, at: usize) {
        let topic = self.topic(at);
        let (skipped, has_result, is_leaf) = (topic.skipped, topic.has_result, topic.children.is_empty());
        match (skipped, has_result, is_leaf) {
            (true, ..) => self.counts.skipped -= 1,
            (false, true, true) => self.counts.leaves -= 1,
            (false, true, false) => self.counts.expanded -= 1,
            (false, false, _) => {}
        }
    }

    /// The topic at `at` and every topic below it, each after the one above it.
    fn branch(&self, at: usize) -> Vec<usize> {
        let mut branch = vec![at];
        let mut next = 0;
        while let Some(at) = branch.get(next) {
            branch.extend(&self.topic(*at).children);
            next += 1;
        }
        branch
    }
}

//! The topics of one search as the log shows them: which of them wait, which are under research, how many wait below
//! each. Kept up to date event by event; an event costs the depth of its topic times the logarithm of their number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tree_agent_contract::event::{Event, EventBody, NodeCreated, NodeStatusChanged};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::search::{DEPTH_GUARD, PickerPolicy, SearchConfig, SearchCounts};
use tree_agent_contract::{NodeId, Outcome, StepId, StepSearch};

mod steering;

use crate::state::State;

/// How the message of a pick begins that is asked for within a branch. The path of the branch follows.
pub(crate) const WITHIN: &str = "pick:within:";
/// How the message of a pick begins that is asked for again. The reason follows.
pub(crate) const AGAIN: &str = "pick:again:";
/// Parts of a score of 1.
const WHOLE_SCORE: f64 = 1_000_000.0;

/// Where a topic stands in breadth-first order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    /// Levels below the root of the search.
    pub(crate) depth: u32,
    /// Its place among its siblings, and those of all topics above it, the highest first.
    path: Vec<u32>,
    at: usize,
}

/// How far a topic has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Phase {
    /// It waits to be researched.
    #[default]
    Waiting,
    /// It is under research.
    Working,
    /// It is researched, and topics below it have not ended.
    Researched,
    /// It has ended.
    Ended,
}

/// One topic, or the root of the search.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Topic {
    pub(crate) place: Place,
    pub(crate) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    pub(crate) phase: Phase,
    /// It has a result.
    pub(crate) has_result: bool,
    /// It needed no research.
    skipped: bool,
    /// It has a conversation.
    pub(crate) has_session: bool,
    /// Work below it was lost.
    pub(crate) lossy: bool,
    /// It has ended, and work of its branch was lost.
    ended_lossy: bool,
    /// It waits, but it is paused.
    pub(crate) is_aside: bool,
    /// It was chosen already: it begins when there is room.
    pub(crate) was_chosen: bool,
    /// How much it promises, in millionths. A topic without a score counts as a half.
    score: u32,
    has_score: bool,
    /// Children that have not ended.
    open_children: u32,
    /// Children in whose branches topics wait or are under research.
    pub(crate) busy: BTreeSet<usize>,
    /// Topics of its branch that wait, itself included.
    pub(crate) waiting: u64,
    /// Topics of its branch that are under research, itself included.
    working: u64,
}

impl Topic {
    /// The score that the research above it gave.
    pub(crate) fn given_score(&self) -> Option<f64> {
        self.has_score.then(|| f64::from(self.score) / WHOLE_SCORE)
    }
}

/// What a picker is asked.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Picking {
    /// The branch within which it picks; none for the whole tree.
    pub(crate) within: Option<usize>,
    /// It has named something that cannot be picked.
    pub(crate) again: bool,
}

/// Every topic of one search.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Topics {
    /// The node at the root of the search.
    root: usize,
    /// The search carries out a step of a plan.
    is_step: bool,
    max_depth: u32,
    /// Topics that it may list; none if only the run limits them.
    max_nodes: Option<u32>,
    concurrency: u32,
    policy: PickerPolicy,
    /// By node; the root among them.
    topics: BTreeMap<usize, Topic>,
    /// Topics that wait.
    leaves: BTreeSet<Place>,
    /// The same, the most promising first. Only for the policy that needs it.
    promising: BTreeSet<(Reverse<u32>, Place)>,
    /// Topics of the first level that are neither researched nor ended.
    first_level_open: u32,
    picking: Option<Picking>,
    /// The topic that was picked and has not begun.
    picked: Option<usize>,
    /// The topic that was picked last.
    last_picked: Option<usize>,
    /// Topics that wait and were chosen before: those that are done again, or were paused before they began.
    chosen_before: BTreeSet<usize>,
    /// Topics that were listed.
    listed: usize,
    counts: SearchCounts,
}

impl Topics {
    /// Follows an event about the node at `at`, which was applied to `state`.
    pub(crate) fn follow(&mut self, state: &State, at: usize, event: &Event) {
        match &event.body {
            EventBody::NodeCreated(e) => self.created(state, at, e),
            EventBody::NodeStatusChanged(e) => self.status_changed(state, at, e),
            EventBody::LeafPicked(e) => {
                self.picking = None;
                self.last_picked = state.position(e.leaf_node_id);
                self.picked = self.last_picked.filter(|leaf| !self.chosen_while_aside(*leaf));
            }
            EventBody::NodePaused(_) => self.set_aside(at),
            EventBody::NodeResumed(_) => self.put_back(state, at),
            EventBody::NodeReopened(e) => self.reopened(state, at, e.again),
            EventBody::SessionForked(_) => self.topic_mut(at).has_session = true,
            EventBody::NodeSkipped(_) => {
                self.topic_mut(at).skipped = true;
                self.counts.skipped += 1;
            }
            EventBody::NodeResult(_) if at != self.root => self.researched(at),
            EventBody::NodeCompleted(e) => self.ended(at, e.outcome == Outcome::Partial),
            EventBody::NodeFailed(_) => self.ended(at, true),
            _ => {}
        }
    }

    fn created(&mut self, state: &State, at: usize, e: &NodeCreated) {
        let Some((parent, above)) =
            state.control(at).parent.and_then(|p| Some((p, self.topics.get_mut(&p)?)))
        else {
            let search = state.spec().search();
            let SearchConfig { concurrency, max_depth, picker, .. } = *search;
            (self.root, self.concurrency, self.max_depth, self.policy) = (at, concurrency, max_depth, picker);
            if state.control(at).parent.is_some() {
                let StepSearch { max_depth, max_nodes } = e.search.unwrap_or_default();
                (self.is_step, self.max_depth, self.max_nodes) = (true, max_depth, Some(max_nodes));
            }
            let root = Topic { phase: Phase::Researched, ..Topic::default() };
            self.topics.insert(at, root);
            return;
        };
        let mut path = above.place.path.clone();
        path.push(u32::try_from(above.children.len()).unwrap_or(u32::MAX));
        let place = Place { depth: above.place.depth + 1, path, at };
        above.children.push(at);
        above.open_children += 1;
        if above.children.len() == 1 && parent != self.root && !above.skipped {
            self.counts.leaves -= 1;
            self.counts.expanded += 1;
        }
        let score = (e.score.unwrap_or(0.5).clamp(0.0, 1.0) * WHOLE_SCORE) as u32;
        let has_score = e.score.is_some();
        self.listed += 1;
        self.topics.insert(at, Topic { place, parent: Some(parent), score, has_score, ..Topic::default() });
        match state.is_paused(at) {
            true => self.topic_mut(at).is_aside = true,
            false => self.offer(at, true),
        }
    }

    fn status_changed(&mut self, state: &State, at: usize, e: &NodeStatusChanged) {
        if e.status.is_final() {
            return self.ended(at, e.message.as_deref() != Some(DEPTH_GUARD));
        }
        if at != self.root {
            if e.call == Some(CallKind::Research) {
                self.begun(at);
            }
            return;
        }
        // A retry, a blocked call and its end are about the same pick.
        if state.control(at).needs != Some(CallKind::Pick) {
            self.picking = None;
            return;
        }
        let picking = self.picking.get_or_insert_default();
        let message = e.message.as_deref().unwrap_or_default();
        if let Some(path) = message.strip_prefix(WITHIN) {
            picking.within = position(state, self.root, path);
        }
        picking.again |= message.starts_with(AGAIN);
    }

    fn begun(&mut self, at: usize) {
        if self.topic(at).phase != Phase::Waiting {
            return;
        }
        if !self.topic(at).is_aside {
            self.offer(at, false);
        }
        let topic = self.topic_mut(at);
        (topic.phase, topic.is_aside, topic.was_chosen) = (Phase::Working, false, false);
        // It is still a topic of the first level that is not done.
        self.first_level_open += u32::from(self.topic(at).place.depth == 1);
        self.count(at, 0, 1);
    }

    fn researched(&mut self, at: usize) {
        self.leave(at);
        let topic = self.topic_mut(at);
        topic.has_result = true;
        topic.phase = Phase::Researched;
        self.counts.leaves += u64::from(!topic.skipped);
    }

    fn ended(&mut self, at: usize, lossy: bool) {
        self.leave(at);
        let topic = self.topic_mut(at);
        topic.phase = Phase::Ended;
        topic.ended_lossy = lossy || topic.lossy;
        if let Some(parent) = topic.parent {
            let above = self.topic_mut(parent);
            above.open_children -= 1;
            above.lossy |= lossy;
        }
    }

    /// The topic at `at` neither waits nor is under research any more.
    fn leave(&mut self, at: usize) {
        let (phase, depth) = (self.topic(at).phase, self.topic(at).place.depth);
        match phase {
            Phase::Waiting if self.topic(at).is_aside => self.topic_mut(at).is_aside = false,
            Phase::Waiting => self.offer(at, false),
            Phase::Working => {
                self.count(at, 0, -1);
                self.first_level_open -= u32::from(depth == 1);
            }
            Phase::Researched | Phase::Ended => {}
        }
    }

    /// Puts the topic at `at` among those that wait, or takes it out.
    fn line_up(&mut self, at: usize, waits: bool) {
        let topic = &self.topics[&at];
        let (place, score) = (topic.place.clone(), Reverse(topic.score));
        match (waits, self.policy) {
            (true, PickerPolicy::BestFirst) => drop(self.promising.insert((score, place.clone()))),
            (false, PickerPolicy::BestFirst) => drop(self.promising.remove(&(score, place.clone()))),
            _ => {}
        }
        match waits {
            true => self.leaves.insert(place),
            false => self.leaves.remove(&place),
        };
    }

    /// Counts topics that wait and that are under research, in the branch of `at` and in those above it.
    fn count(&mut self, at: usize, waiting: i64, working: i64) {
        let mut next = Some(at);
        while let Some(at) = next {
            let topic = self.topic_mut(at);
            topic.waiting = topic.waiting.saturating_add_signed(waiting);
            topic.working = topic.working.saturating_add_signed(working);
            let is_busy = topic.waiting + topic.working > 0;
            next = topic.parent;
            if let Some(above) = next {
                let busy = &mut self.topic_mut(above).busy;
                match is_busy {
                    true => busy.insert(at),
                    false => busy.remove(&at),
                };
            }
        }
    }

    fn topic_mut(&mut self, at: usize) -> &mut Topic {
        self.topics.get_mut(&at).unwrap_or_else(|| unreachable!("node {at} is no topic of this search"))
    }

    /// The topic at `at`.
    pub(crate) fn topic(&self, at: usize) -> &Topic {
        &self.topics[&at]
    }

    /// True if the node at `at` is a topic of this search. Those of a branch that is done again are none any more.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.topics.contains_key(&at)
    }

    /// The root of the search.
    pub(crate) fn root(&self) -> usize {
        self.root
    }

    /// True if the search carries out a step of a plan.
    pub(crate) fn is_step(&self) -> bool {
        self.is_step
    }

    /// Topics that the search itself allows.
    pub(crate) fn max_nodes(&self) -> usize {
        self.max_nodes.map_or(usize::MAX, |most| most as usize)
    }

    /// Topics that the search itself still allows.
    pub(crate) fn room(&self) -> usize {
        self.max_nodes().saturating_sub(self.listed)
    }

    /// Who picks.
    pub(crate) fn policy(&self) -> PickerPolicy {
        self.policy
    }

    /// The part of the known topics that need no research any more.
    pub(crate) fn progress(&self) -> f64 {
        let SearchCounts { expanded, leaves, skipped } = self.counts;
        (expanded + leaves + skipped) as f64 / self.listed.max(1) as f64
    }

    /// What has been done.
    pub(crate) fn counts(&self) -> SearchCounts {
        self.counts
    }

    /// True if a topic at this depth is listed only.
    pub(crate) fn is_too_deep(&self, depth: u32) -> bool {
        !SearchConfig { max_depth: self.max_depth, ..SearchConfig::default() }.researches(depth)
    }

    /// True if the first level is known.
    pub(crate) fn has_begun(&self) -> bool {
        !self.topic(self.root).children.is_empty()
    }

    /// True if another topic may be researched now. Topics of a step are steps at work, so the run limits them, too.
    pub(crate) fn has_room(&self, state: &State) -> bool {
        let places = match self.is_step {
            true => self.concurrency.min(state.budgets().max_parallel_steps),
            false => self.concurrency,
        };
        self.has_begun() && self.topic(self.root).working < places.into()
    }

    /// True if every topic of the first level is researched or has ended.
    pub(crate) fn first_level_is_done(&self) -> bool {
        self.first_level_open == 0
    }

    /// What a picker is being asked.
    pub(crate) fn picking(&self) -> Option<Picking> {
        self.picking
    }

    /// The topic that was picked and has not begun.
    pub(crate) fn picked(&self) -> Option<usize> {
        self.picked
    }

    /// The first topic that waits and was chosen before.
    pub(crate) fn chosen_before(&self) -> Option<usize> {
        self.chosen_before.first().copied()
    }

    /// The topic that was picked last, unless it is gone.
    pub(crate) fn last_picked(&self) -> Option<usize> {
        self.last_picked.filter(|last| self.has(*last))
    }

    /// Topics that wait and are too deep to be researched, with the topics above them.
    pub(crate) fn too_deep(&self) -> Vec<(usize, Option<usize>)> {
        let places = self.leaves.iter().filter(|place| self.is_too_deep(place.depth));
        places.map(|place| (place.at, self.topic(place.at).parent)).collect()
    }

    /// Topics that wait.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// True if a topic that waits, and was not chosen yet, is in the branch of `at`.
    pub(crate) fn has_leaves_below(&self, at: usize) -> bool {
        let is_below = |topic: &&usize| self.line(**topic).contains(&at);
        let chosen = self.chosen_before.iter().chain(&self.picked).filter(is_below).count();
        self.has(at) && self.topic(at).waiting > chosen as u64
    }

    /// The first topic that waits, in breadth-first order.
    pub(crate) fn first_leaf(&self) -> Option<&Place> {
        self.leaves.first()
    }

    /// The topic with the highest score that waits, and its score.
    pub(crate) fn best_leaf(&self) -> Option<(usize, f64)> {
        self.promising.first().map(|(score, place)| (place.at, f64::from(score.0) / WHOLE_SCORE))
    }

    /// True if every child of the topic at `at` has ended.
    pub(crate) fn children_have_ended(&self, at: usize) -> bool {
        self.topic(at).open_children == 0
    }

    /// Topics that were researched, at most `max`, in breadth-first order.
    pub(crate) fn researched_topics(&self, max: usize) -> Vec<usize> {
        let researched = self.topics.values().filter(|topic| topic.has_result);
        let mut places: Vec<&Place> = researched.map(|topic| &topic.place).collect();
        places.sort();
        places.into_iter().take(max).map(|place| place.at).collect()
    }

    /// The slugs from the first level down to the topic at `at`, joined by slashes.
    pub(crate) fn path(&self, state: &State, at: usize) -> String {
        let slug = |at: usize| state.node(at).step_id.as_ref().map_or("", StepId::as_str);
        self.line(at).into_iter().map(slug).collect::<Vec<_>>().join("/")
    }

    /// The topics from the first level down to the one at `at`.
    pub(crate) fn line(&self, at: usize) -> Vec<usize> {
        let up = std::iter::successors(Some(at), |at| self.topic(*at).parent);
        let mut line: Vec<usize> = up.take_while(|at| *at != self.root).collect();
        line.reverse();
        line
    }

    /// The topic that a path names.
    pub(crate) fn named(&self, state: &State, path: &str) -> Option<usize> {
        position(state, self.root, path).filter(|at| *at != self.root && self.has(*at))
    }
}

impl Place {
    /// The node.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

/// The child with this slug of the node at `parent`, as that lists its topics now.
pub(crate) fn child_id(state: &State, parent: usize, slug: &str) -> NodeId {
    NodeId::child(state.node(parent).id, 1 + state.control(parent).begun_again(), &StepId::new(slug))
}

/// The node that `path` names below the one at `root`.
fn position(state: &State, root: usize, path: &str) -> Option<usize> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.try_fold(root, |at, slug| state.position(child_id(state, at, slug)))
}

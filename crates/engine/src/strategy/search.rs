//! The `search` strategy: the first level of topics whole, then one topic after another as a picker chooses.
//!
//! The root:
//!
//! | status | input | next status |
//! | --- | --- | --- |
//! | (created) | | `executing`: the first level is listed |
//! | (created) | an earlier run's first level is known | `waiting` |
//! | `executing` | research: topics | `waiting`; the first level is researched, in order |
//! | `waiting` | every topic of the first level is researched or has ended, others wait | `planning`: a topic is picked |
//! | `planning` | pick: a topic that waits | `waiting` |
//! | `planning` | pick: a folded branch, or nothing that can be picked (once) | `planning` again |
//! | `waiting` | every topic has ended | `completed`; `aggregating` before that if a synthesis is wanted |
//!
//! A topic:
//!
//! | status | input | next status |
//! | --- | --- | --- |
//! | `waiting` (created) | a place is free, and it is of the first level or picked | `executing` |
//! | `waiting` (created) | an earlier run has researched it | as if it had answered (`tree.node_skipped`) |
//! | `waiting` (created) | it is at the depth limit | `cancelled` (`guard:maxDepth`) |
//! | `executing` | research: no topics | `completed` |
//! | `executing` | research: topics | `waiting`, with its result |
//! | `waiting`, with its result | every topic below it has ended | `completed` |
//! | `executing` | failure, no attempts left | `failed` |
//! | any of these | out of budget | `cancelled` |
//!
//! A search may be a run of its own or carry out a step of a plan. A step has limits of its own
//! ([`StepSearch`](tree_agent_contract::StepSearch)), is about the task of the step, and ends with a synthesis. It
//! fails if none of its topics was researched.
//!
//! All nodes of a search share one account of its topics ([`Topics`]). What is done after an event is asked for as
//! [`Next::Advance`], so that the account has followed the event.

use serde::Serialize;
use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildEntry, DEPTH_GUARD};
use tree_agent_contract::session::{Session, SessionFork, SessionMessage};
use tree_agent_contract::text::{count, prefix};
use tree_agent_contract::{DocumentId, NodeStatus, RunStatus, SessionId, StepId, Strategy, limits};

use super::picks;
use super::returned;
use super::rules::Rules;
use super::verified;
use crate::briefing;
use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure, Next};
use crate::documents;
use crate::outline::{ROOM, outline};
use crate::state::State;
use crate::topics::{Phase, Topics, child_id};

/// Titles of siblings that a research is told.
const SIBLINGS: usize = 100;
/// Bytes of the outline that a research is told: about 3,000 tokens. Conversations below it continue with them.
const TOLD: usize = ROOM / 2;
/// Documents that a synthesis is told about, the first ones in breadth-first order.
const SYNTHESISED: usize = 256;

/// What the strategy keeps about a whole search. It is boxed because a run has few searches and may have many nodes of
/// other strategies.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Search(Box<Topics>);

impl Search {
    /// Its name in the log.
    pub(super) const NAME: Strategy = Strategy::Search;
}

impl Rules for Search {
    fn spans_children(&self) -> bool {
        true
    }

    fn follow(&mut self, state: &State, at: usize, event: &Event) {
        self.0.follow(state, at, event);
    }

    fn begin(&self, d: &mut Decider<'_>, at: usize) {
        if at == self.0.root() {
            return match self.0.has_begun() {
                true => self.begin_adopted(d, at),
                false => d.need(at, CallKind::Research, None),
            };
        }
        let node = d.state.node(at);
        let (id, parent, depth, title) = (node.id, node.parent_id, node.depth, node.title.clone());
        let document = documents::scratchpad(d.state.graph().run_id(), id, parent, depth, &title, d.now);
        let above = d.place_of(d.state.control(at).parent.unwrap_or_default());
        // A topic that is researched again has one.
        if d.state.node(at).scratchpad_doc_id.is_none() {
            d.emit(at, ScratchpadLinked { scratchpad_doc_id: DocumentId::scratchpad(id) });
            d.create_document(document, above);
        }
        self.fork_session(d, at);
        d.need(at, CallKind::Research, None);
    }

    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput) {
        match output {
            CallOutput::Research(out) if at == self.0.root() => self.listed(d, at, out),
            CallOutput::Research(out) => self.researched(d, at, out),
            CallOutput::Pick(out) => picks::answered(&self.0, d, &out),
            CallOutput::Aggregate(mut out) => {
                let child_ids = self.0.topic(at).children.iter().map(|&child| d.state.node(child).id);
                d.aggregated(at, child_ids.collect(), &mut out);
                let mut artifacts = out.artifacts;
                let language = d.state.spec().language.as_str();
                returned::add_links(&mut artifacts, self.0.counts(), self.documents(d.state), language);
                let (artifacts, result) = returned::with_counts(self.0.counts(), artifacts, out.result);
                d.return_result(at, artifacts, result);
                verified::then_complete(self, d, at);
            }
            CallOutput::Plan(_) | CallOutput::Execute(_) | CallOutput::Verify(_) => {
                unreachable!("a search neither plans nor executes, and does not verify itself")
            }
        }
    }

    fn child_ended(&self, d: &mut Decider<'_>, at: usize) {
        self.end_branch(d, at);
        d.ask(Next::Advance { at: self.0.root() });
    }

    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure) {
        match failure.kind {
            CallKind::Pick => picks::failed(&self.0, d, &failure.text()),
            kind if kind.finishes() => {
                let topics = self.0.researched_topics(SYNTHESISED);
                let (mut artifacts, result) = d.listing(at, topics, &failure.error);
                let language = d.state.spec().language.as_str();
                returned::add_links(&mut artifacts, self.0.counts(), self.documents(d.state), language);
                let (artifacts, result) = returned::with_counts(self.0.counts(), artifacts, result);
                self.end(d, at, artifacts, result);
            }
            _ => d.fail(at, failure.text(), failure.error.retryable()),
        }
    }

    fn wind_down(&self, d: &mut Decider<'_>, at: usize) {
        if at != self.0.root() || !self.0.has_begun() {
            return d.cancel(at);
        }
        d.in_flight.reached(at);
        let guard = d.guard(at);
        d.status(at, NodeStatus::Waiting, Some(guard));
        d.ask(Next::Advance { at });
    }

    fn advance(&self, d: &mut Decider<'_>, at: usize) {
        if at != self.0.root() {
            return self.end_branch(d, at);
        }
        // Without people, only the end of a budget leaves a picker without a choice. What its call leads to is
        // awaited.
        let may_rest = d.state.steering().commands() > 0 || d.state.ending(at).is_none();
        if may_rest && d.state.control(at).needs == Some(CallKind::Pick) && !picks::has_choice(&self.0) {
            // A person has paused or stopped what there was to pick from, or a budget had cancelled it before a fork.
            d.give_up(at);
            return picks::rest(&self.0, d);
        }
        let is_idle = d.state.control(at).needs.is_none();
        if !self.0.has_begun() || is_queued(d) {
            return;
        }
        if self.0.children_have_ended(at) {
            if is_idle {
                self.finish(d, at);
            }
            return;
        }
        if d.state.ending(at).is_some() {
            return;
        }
        if let Some(next) = self.next(d) {
            d.ask(Next::Begin { at: next });
            return d.ask(Next::Advance { at });
        }
        if is_idle && self.0.first_level_is_done() && self.0.picked().is_none() {
            picks::choose(&self.0, d);
        }
    }

    fn complete(&self, d: &mut Decider<'_>, at: usize) {
        let summary = self.0.counts().sentence();
        d.complete_partly(at, Some(summary), self.0.topic(at).lossy);
    }

    fn adopted(&self, d: &mut Decider<'_>, path: &str, out: ResearchOutput) {
        let root = self.0.root();
        if path.is_empty() {
            if !self.0.has_begun() {
                self.list(d, root, out.children);
            }
            return;
        }
        let Some(at) = self.0.named(d.state, path).filter(|at| self.0.topic(*at).phase == Phase::Waiting) else {
            return;
        };
        // Its conversation is kept, because those of the topics below continue it.
        self.fork_session(d, at);
        self.keep_session(d, at, out.messages);
        d.emit(at, NodeSkipped { reason: "complete before the run".into() });
        let title = d.state.node(at).title.clone();
        let document = out.document_markdown.unwrap_or_default();
        let (artifacts, result) = returned::document(title, document, out.summary, &[]);
        d.return_result(at, artifacts, result);
        self.list(d, at, out.children);
        d.ask(Next::Advance { at });
    }

    fn brief(&self, state: &State, at: usize, kind: CallKind, mut call: CallContext) -> CallInput {
        if self.0.is_step() {
            call.objective = briefing::task(state, self.0.root());
        }
        match kind {
            CallKind::Research => CallInput::Research(Box::new(self.research(state, at, call))),
            CallKind::Pick => {
                let picking = self.0.picking().unwrap_or_default();
                let outline = outline(state, &self.0, picking.within.unwrap_or(at), ROOM);
                CallInput::Pick(Box::new(PickInput {
                    call,
                    outline: outline.text,
                    leaves: outline.leaves,
                    note: picks::note(state, at),
                    prompt: state.spec().search().prompts.picker.clone(),
                }))
            }
            CallKind::Aggregate => {
                let topics = self.0.researched_topics(SYNTHESISED);
                let children = briefing::outcomes(state, topics.into_iter());
                CallInput::Aggregate(Box::new(AggregateInput { homework: None,
                    call,
                    plan_summary: self.0.counts().sentence(),
                    children,
                    exhausted_budget: state.exhausted_of(at).map(str::to_owned),
                }))
            }
            CallKind::Plan | CallKind::Execute | CallKind::Verify => {
                unreachable!("a search neither plans nor executes, and does not verify itself")
            }
        }
    }
}

impl Search {
    /// The topic that begins now: of the first level, or the one that was picked.
    fn next(&self, d: &Decider<'_>) -> Option<usize> {
        let first = self.0.first_leaf().filter(|place| place.depth == 1).map(|place| place.at());
        let next = self.0.chosen_before().or(first);
        let next = next.or_else(|| self.0.picked().filter(|_| self.0.first_level_is_done()))?;
        (self.0.has_room(d.state) && d.state.node(next).status == NodeStatus::Waiting).then_some(next)
    }

    /// The conversation about the topic at `at`. It continues the one about the topic above it.
    fn fork(&self, state: &State, at: usize) -> SessionFork {
        let above = self.0.topic(at).parent.filter(|parent| self.0.topic(*parent).has_session);
        let parent_id = above.map(|parent| session(state, parent));
        SessionFork::new(session(state, at), parent_id)
    }

    fn fork_session(&self, d: &mut Decider<'_>, at: usize) {
        let SessionFork { id, parent_id, .. } = self.fork(d.state, at);
        let parent_session_id = parent_id.map(|id| id.to_string());
        d.emit(at, SessionForked { session_id: id.to_string(), parent_session_id });
    }

    /// What was said about the topic at `at`.
    fn keep_session(&self, d: &mut Decider<'_>, at: usize, messages: Vec<SessionMessage>) {
        let SessionFork { id, parent_id, .. } = self.fork(d.state, at);
        let node_id = d.state.node(at).id;
        d.decision.sessions.push(Session { id, node_id, parent_id, messages, created_at: d.now });
    }

    /// The first level was known before the run. Topics that nobody has researched may be too deep for it.
    fn begin_adopted(&self, d: &mut Decider<'_>, at: usize) {
        d.status(at, NodeStatus::Waiting, None);
        for (topic, above) in self.0.too_deep() {
            d.status(topic, NodeStatus::Cancelled, Some(DEPTH_GUARD.into()));
            if let Some(above) = above.filter(|above| *above != at) {
                d.ask(Next::Advance { at: above });
            }
        }
        d.ask(Next::Advance { at });
    }

    fn research(&self, state: &State, at: usize, call: CallContext) -> ResearchInput {
        let search = state.spec().search();
        let title = |at: &usize| state.node(*at).title.clone();
        let is_root = at == self.0.root();
        let above = self.0.topic(at).parent.map(|parent| self.0.topic(parent).children.as_slice());
        let siblings = above.unwrap_or_default().iter().filter(|sibling| **sibling != at).take(SIBLINGS);
        ResearchInput {
            call,
            form: if is_root { ResearchForm::Root } else { ResearchForm::Topic },
            path: self.0.line(at).iter().map(title).collect(),
            siblings: siblings.map(title).collect(),
            outline: outline(state, &self.0, self.0.root(), TOLD).text,
            session: (!is_root).then(|| self.fork(state, at)),
            prompts: search.prompts.clone(),
            frontmatter_schema: search.frontmatter_schema.clone(),
            max_children: limits::SEARCH_CHILDREN.min(self.0.max_nodes()) as u32,
            slug: state.node(at).step_id.as_ref().filter(|_| !is_root).map(StepId::to_string).unwrap_or_default(),
        }
    }

    /// The first level is known.
    fn listed(&self, d: &mut Decider<'_>, at: usize, out: ResearchOutput) {
        if d.state.ending(at).is_some() {
            return d.cancel(at);
        }
        d.append_scratchpad(at, &out.scratchpad.append_markdown);
        let (listed, dropped) = (out.children.len(), out.dropped);
        if self.list(d, at, out.children) == 0 {
            let error = format!("{listed} topics were listed, and the limit of nodes allows none of them");
            return d.fail(at, error, false);
        }
        match dropped {
            0 => d.status(at, NodeStatus::Waiting, None),
            _ => d.status_because(at, NodeStatus::Waiting, left_out(dropped)),
        }
        d.ask(Next::Advance { at });
    }

    fn researched(&self, d: &mut Decider<'_>, at: usize, out: ResearchOutput) {
        d.append_scratchpad(at, &out.scratchpad.append_markdown);
        self.keep_session(d, at, out.messages);
        let is_over = d.state.ending(at).is_some() && !out.children.is_empty();
        let title = d.state.node(at).title.clone();
        let document = out.document_markdown.unwrap_or_default();
        // Nothing begins any more, but what was found is kept.
        let unlisted = if is_over { &out.children[..] } else { &[] };
        let (artifacts, result) = returned::document(title, document, out.summary, unlisted);
        d.return_result(at, artifacts, result);
        if is_over {
            let guard = d.guard(at);
            d.status(at, NodeStatus::Waiting, Some(guard));
        } else {
            self.list(d, at, out.children);
            if out.dropped > 0 {
                d.status_because(at, NodeStatus::Waiting, left_out(out.dropped));
            } else {
                d.status(at, NodeStatus::Waiting, None);
            }
        }
        // Once the account has followed: it ends if nothing below it waits.
        d.ask(Next::Advance { at });
        d.ask(Next::Advance { at: self.0.root() });
    }

    /// Creates the topics below the one at `at`, as many as the limit of nodes allows.
    fn list(&self, d: &mut Decider<'_>, at: usize, children: Vec<ChildEntry>) -> usize {
        let room = d.state.budgets().max_nodes.saturating_sub(d.state.planned_nodes()) as usize;
        let room = room.min(self.0.room());
        let (parent, depth) = (d.state.node(at).id, d.state.node(at).depth + 1);
        let below = self.0.topic(at).place.depth + 1;
        let listed = children.len();
        for (step_index, child) in (0..).zip(children).take(room) {
            let id = child_id(d.state, at, &child.slug);
            let created = NodeCreated {
                parent_node_id: Some(parent),
                depth,
                step_index: Some(step_index),
                step_id: Some(StepId::new(child.slug)),
                score: child.score,
                ..NodeCreated::new(child.title)
            };
            d.push(id, Some(parent), created.into());
            let child = d.state.nodes().len() - 1;
            // Before the run begins, what is known of it may come yet.
            if self.0.is_too_deep(below) && !is_queued(d) {
                d.status(child, NodeStatus::Cancelled, Some(DEPTH_GUARD.into()));
            }
        }
        if listed > room {
            d.status(at, NodeStatus::Waiting, Some("guard:maxNodes".into()));
        }
        listed.min(room)
    }

    /// The titles of the documents that a synthesis is about, and where they are.
    fn documents(&self, state: &State) -> impl ExactSizeIterator<Item = (String, String)> {
        let topics = self.0.researched_topics(SYNTHESISED).into_iter();
        topics.map(|at| (state.node(at).title.clone(), format!("{}/document.md", self.0.path(state, at))))
    }

    /// Ends the topic at `at` if it is researched and nothing below it waits.
    fn end_branch(&self, d: &mut Decider<'_>, at: usize) {
        let is_done = self.0.topic(at).phase == Phase::Researched && self.0.children_have_ended(at);
        if is_done && at != self.0.root() {
            if d.state.has_old_result(at) {
                d.repeat_result(at);
            }
            d.complete_partly(at, None, self.0.topic(at).lossy);
        }
    }

    /// Every topic has ended.
    fn finish(&self, d: &mut Decider<'_>, at: usize) {
        let has_documents = !self.0.researched_topics(1).is_empty();
        if has_documents && (self.0.is_step() || d.state.spec().search().synthesis) {
            return d.need(at, CallKind::Aggregate, None);
        }
        if self.0.is_step() {
            // Whoever planned the step wants to know what was found, not how many topics were listed.
            return match d.state.ending(at) {
                Some(_) => d.cancel(at),
                None => d.fail(at, self.nothing_found(d.state), false),
            };
        }
        let (artifacts, result) = returned::counts(self.0.counts());
        self.end(d, at, artifacts, result);
    }

    /// Why a step found nothing: none of its topics was researched.
    fn nothing_found(&self, state: &State) -> String {
        let topics = &self.0.topic(self.0.root()).children;
        let error = topics.iter().find_map(|topic| state.node(*topic).error.as_deref());
        let (number, first) = (topics.len(), error.unwrap_or("unknown"));
        let error = match number {
            1 => format!("its only topic was not researched: {first}"),
            _ => format!("none of its {number} topics was researched; the first error: {first}"),
        };
        prefix(&error, limits::TEXT_BYTES).to_owned()
    }

    /// The root returns its result.
    fn end(&self, d: &mut Decider<'_>, at: usize, artifacts: Vec<ArtifactDraft>, result: ResultDraft) {
        d.return_result(at, artifacts, result);
        self.complete(d, at);
    }
}

/// The conversation about the topic at `at`.
fn session(state: &State, at: usize) -> SessionId {
    SessionId::of_round(state.node(at).id, state.control(at).begun_again())
}

/// True before the run begins: what is known is recorded, and nothing is decided.
fn is_queued(d: &Decider<'_>) -> bool {
    d.state.graph().status() == RunStatus::Queued
}

fn left_out(dropped: u32) -> String {
    let topics = count(dropped as usize, "topic");
    format!("{topics} left out of the list: without a title, listed twice or beyond {}", limits::SEARCH_CHILDREN)
}

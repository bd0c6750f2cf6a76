//! Searches that begin with what an earlier one found.

use tree_agent_contract::event::*;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, Expansion, SearchCounts, tidy};
use tree_agent_contract::session::{Session, SessionMessage, Speaker};
use tree_agent_contract::*;
use tree_agent_engine::{AdoptError, Audit, CallInput, CallOutput, Input, RoleCall, Run, start};

use crate::world::notes;

/// A search that takes topics over before it begins.
struct Heir {
    run: Run,
    log: Vec<Event>,
    sessions: Vec<Session>,
    now: Timestamp,
}

fn found(is_root: bool, document: &str, topics: &[&str]) -> ResearchOutput {
    let drafts = topics.iter().map(|title| ChildDraft { title: (*title).into(), ..ChildDraft::default() });
    ResearchOutput {
        document_markdown: (!is_root).then(|| document.into()),
        summary: format!("summary of {document}"),
        children: tidy(drafts).children,
        dropped: 0,
        messages: match is_root {
            true => Vec::new(),
            false => vec![SessionMessage { speaker: Speaker::Assistant, text: document.into() }],
        },
        scratchpad: notes(),
    }
}

impl Heir {
    fn new(strategy: Strategy, search: SearchConfig) -> Self {
        Self::with(RunSpec { strategy, search: Some(Box::new(search)), ..RunSpec::new("find out") })
    }

    fn with(spec: RunSpec) -> Self {
        let id = RunId(uuid::Uuid::from_u128(9));
        let now = Timestamp::from_millis(1_000);
        let log = start(id, spec, now).events;
        Self { run: Run::replay(id, &log).expect("a fresh log replays"), log, sessions: Vec::new(), now }
    }

    /// With a first level of `topics`.
    fn of(search: SearchConfig, topics: &[&str]) -> Self {
        let mut heir = Self::new(Strategy::Search, search);
        heir.adopts("", topics).expect("a first level");
        heir
    }

    fn adopts(&mut self, path: &str, topics: &[&str]) -> Result<(), AdoptError> {
        let output = found(path.is_empty(), &format!("the old {path}"), topics);
        let decision = self.run.adopt(path, output, self.now)?;
        self.log.extend(decision.events);
        self.sessions.extend(decision.sessions);
        Ok(())
    }

    fn feed(&mut self, input: Input) {
        self.now = self.now.plus_millis(2_000);
        self.log.extend(self.run.handle(input, self.now).events);
    }

    /// A driver takes the run up, from its log.
    fn begins(&mut self) -> Vec<RoleCall> {
        let replayed = Run::replay(self.run.graph().run_id(), &self.log).expect("it replays");
        assert_eq!(replayed.to_bytes(), self.run.to_bytes());
        self.run = replayed;
        self.feed(Input::Claimed);
        self.due()
    }

    fn due(&mut self) -> Vec<RoleCall> {
        self.run.take_due(self.now, usize::MAX)
    }

    fn finds(&mut self, call: &RoleCall, topics: &[&str]) {
        self.feed(Input::Output(call.key, CallOutput::Research(found(false, "the new", topics))));
    }

    fn node(&self, title: &str) -> &GraphNode {
        let mut nodes = self.run.graph().nodes().iter();
        nodes.find(|node| node.title == title).unwrap_or_else(|| panic!("no {title}"))
    }

    fn shown(&self) -> Vec<(&str, &str)> {
        let nodes = self.run.graph().nodes();
        let shown = nodes[1..].iter().map(|node| {
            let has_children = nodes.iter().any(|child| child.parent_id == Some(node.id));
            (node.title.as_str(), Expansion::of(node, has_children).as_str())
        });
        shown.collect()
    }

    fn counts(&self) -> SearchCounts {
        let root = &self.run.graph().nodes()[0];
        let payload = root.result.as_ref().and_then(|result| result.json_payload.clone()).expect("counts");
        serde_json::from_value(payload.into()).expect("counts")
    }

    fn check(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), []);
    }
}

/// The log of a search that takes a topic over and researches the other one.
pub(crate) fn adopted() -> Vec<Event> {
    let mut heir = Heir::of(SearchConfig { synthesis: false, ..SearchConfig::default() }, &["A", "B"]);
    heir.adopts("a", &[]).expect("an open topic");
    let due = heir.begins();
    heir.finds(&due[0], &[]);
    heir.log
}

fn titles(calls: &[RoleCall]) -> Vec<&str> {
    calls.iter().map(|call| call.input.context().title.as_str()).collect()
}

#[test]
fn what_is_finished_is_recorded_with_its_document_and_not_researched_again() {
    let mut heir = Heir::of(SearchConfig { synthesis: false, ..SearchConfig::default() }, &["A", "B", "C"]);
    heir.adopts("a", &["A one", "A two"]).unwrap();
    heir.adopts("c", &[]).unwrap();
    heir.adopts("a/a-two", &[]).unwrap();
    assert_eq!(
        heir.shown(),
        [("A", "expanded"), ("B", "unexpanded"), ("C", "leaf"), ("A one", "unexpanded"), ("A two", "leaf")]
    );
    assert_eq!(heir.run.graph().status(), RunStatus::Queued);
    assert_eq!(heir.due(), [], "nothing begins before a driver takes it up");
    let skipped = heir.log.iter().filter(|event| matches!(event.body, EventBody::NodeSkipped(_))).count();
    assert_eq!(skipped, 3);
    let said: Vec<_> =
        heir.sessions.iter().map(|s| (s.node_id, s.parent_id.clone(), s.messages[0].text.as_str())).collect();
    let (a, c, two) = (heir.node("A").id, heir.node("C").id, heir.node("A two").id);
    assert_eq!(
        said,
        [(a, None, "the old a"), (c, None, "the old c"), (two, Some(SessionId::of(a)), "the old a/a-two")]
    );
    assert_eq!(heir.node("A two").result.as_ref().map(|r| r.document_ids.len()), Some(1));

    // The first level comes first: B is all that is open there.
    let due = heir.begins();
    assert_eq!(titles(&due), ["B"]);
    heir.finds(&due[0], &[]);
    let due = heir.due();
    assert_eq!(titles(&due), ["A one"], "one topic is left, so nobody needs to pick");
    let CallInput::Research(input) = &due[0].input else { panic!("a research") };
    let parent = input.session.as_ref().and_then(|session| session.parent_id.clone());
    assert_eq!(parent, Some(SessionId::of(heir.node("A").id)), "it continues what was said about A");
    heir.finds(&due[0], &[]);
    assert_eq!(heir.run.graph().status(), RunStatus::Completed);
    assert_eq!(heir.counts(), SearchCounts { expanded: 0, leaves: 2, skipped: 3 });
    heir.check();
}

#[test]
fn a_search_that_was_finished_ends_without_a_call() {
    let mut heir = Heir::of(SearchConfig { synthesis: false, ..SearchConfig::default() }, &["A", "B"]);
    for (path, topics) in [("a", &["A one"][..]), ("b", &[]), ("a/a-one", &[])] {
        heir.adopts(path, topics).unwrap();
    }
    assert_eq!(heir.begins(), []);
    assert_eq!((heir.run.graph().status(), heir.run.graph().partial()), (RunStatus::Completed, false));
    assert_eq!(heir.counts(), SearchCounts { expanded: 0, leaves: 0, skipped: 3 });
    heir.check();
}

#[test]
fn a_finished_topic_counts_however_deep_it_is_and_an_open_one_does_not() {
    let mut heir =
        Heir::of(SearchConfig { max_depth: 2, synthesis: false, ..SearchConfig::default() }, &["A"]);
    heir.adopts("a", &["Deep", "Too deep"]).unwrap();
    heir.adopts("a/deep", &["Deeper"]).unwrap();
    heir.adopts("a/deep/deeper", &[]).unwrap();
    assert_eq!(heir.begins(), []);
    assert_eq!(
        heir.shown(),
        [("A", "expanded"), ("Deep", "expanded"), ("Too deep", "unexpanded"), ("Deeper", "leaf")]
    );
    assert_eq!(heir.node("Too deep").status, NodeStatus::Cancelled);
    assert_eq!((heir.run.graph().status(), heir.run.graph().partial()), (RunStatus::Completed, false));
    heir.check();
}

#[test]
fn topics_with_the_same_title_are_all_taken_over_and_an_open_one_is_researched() {
    let mut heir = Heir::of(SearchConfig { synthesis: false, ..SearchConfig::default() }, &["A", "B", "C"]);
    for (path, topics) in [
        ("a", &["Tide tables"][..]),
        ("b", &["Tide tables"]),
        ("c", &["Tide tables"]),
        ("a/tide-tables", &[]),
    ] {
        heir.adopts(path, topics).unwrap();
    }
    heir.adopts("b/tide-tables", &[]).unwrap();
    let skipped = heir.node("Tide tables").topic.as_deref().and_then(|topic| topic.skipped.clone());
    assert_eq!(skipped.expect("it needs no research").reason, "complete before the run");
    let due = heir.begins();
    let CallInput::Research(input) = &due[0].input else { panic!("a research") };
    assert_eq!((due.len(), &input.path[..]), (1, &["C".to_owned(), "Tide tables".to_owned()][..]));
    heir.finds(&due[0], &[]);
    assert_eq!(heir.counts(), SearchCounts { expanded: 0, leaves: 1, skipped: 5 });
    heir.check();
}

#[test]
fn what_cannot_be_taken_over_is_refused_and_changes_nothing() {
    let mut heir = Heir::of(SearchConfig { synthesis: false, ..SearchConfig::default() }, &["A"]);
    let before = heir.run.to_bytes();
    let unknown = |path: &str| Err(AdoptError::Unknown { path: path.into() });
    assert_eq!(heir.adopts("b", &[]), unknown("b"));
    assert_eq!(heir.adopts("", &["B"]), unknown(""), "the first level is known");
    let empty = found(false, "", &[]);
    assert!(matches!(heir.run.adopt("a", empty, heir.now), Err(AdoptError::Invalid(_))));
    assert_eq!(heir.run.to_bytes(), before);
    heir.adopts("a", &[]).unwrap();
    assert_eq!(heir.adopts("a", &[]), unknown("a"), "once is enough");
    heir.begins();
    assert_eq!(heir.adopts("a", &[]), Err(AdoptError::AlreadyBegun));
    let mut tree = Heir::new(Strategy::Tree, SearchConfig { synthesis: false, ..SearchConfig::default() });
    assert_eq!(tree.adopts("", &["A"]), unknown(""), "only a search takes topics over");
}

#[test]
fn what_an_earlier_run_has_listed_is_reviewed_before_it_is_researched() {
    let review = Some(ReviewRule::default());
    let mut heir = Heir::with(RunSpec { strategy: Strategy::Search, review, ..RunSpec::new("find out") });
    heir.adopts("", &["A", "B"]).expect("a first level");
    assert_eq!(heir.begins(), []);
    assert!(heir.run.rests() && heir.run.graph().nodes()[0].review.is_some());
    let start = Command::new(command::Action::Resume { node_id: None });
    heir.log.extend(heir.run.command(&start, heir.now).expect("it goes on").events);
    assert_eq!(titles(&heir.due()), ["A", "B"]);
    heir.check();
}

//! Guided searches, step by step.

use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, Expansion, SearchCounts, tidy};
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallKind, CallOutput, Input, RoleCall, Run, start};

use crate::world::{aggregator_output, notes};

/// A run with searches that is driven by hand.
pub(super) struct Hand {
    pub(super) run: Run,
    pub(super) log: Vec<Event>,
    pub(super) now: Timestamp,
}

pub(super) fn two_at_a_time() -> SearchConfig {
    SearchConfig { concurrency: 2, synthesis: false, ..SearchConfig::default() }
}

impl Hand {
    pub(super) fn new(search: SearchConfig, budgets: Budgets) -> Self {
        Self::of(RunSpec {
            strategy: Strategy::Search,
            search: Some(Box::new(search)),
            budgets,
            ..RunSpec::new("find out")
        })
    }

    pub(super) fn of(spec: RunSpec) -> Self {
        let id = RunId(uuid::Uuid::from_u128(7));
        let now = Timestamp::from_millis(1_000);
        let log = start(id, spec, now).events;
        let run = Run::replay(id, &log).expect("a fresh log replays");
        let mut hand = Self { run, log, now };
        hand.feed(Input::Claimed);
        hand
    }

    /// A search whose first level is listed.
    pub(super) fn listed(search: SearchConfig, topics: &[&str]) -> Self {
        let mut hand = Self::new(search, Budgets::default());
        let root = hand.only();
        hand.finds(&root, topics);
        hand
    }

    pub(super) fn feed(&mut self, input: Input) {
        // Far enough apart for every note to be written at once.
        self.now = self.now.plus_millis(2_000);
        self.log.extend(self.run.handle(input, self.now).events);
    }

    pub(super) fn gives(&mut self, action: command::Action) {
        let decision = self.run.command(&Command::new(action), self.now).expect("it makes sense");
        self.log.extend(decision.events);
    }

    pub(super) fn due(&mut self) -> Vec<RoleCall> {
        self.run.take_due(self.now, usize::MAX)
    }

    pub(super) fn only(&mut self) -> RoleCall {
        let due = self.due();
        let [call] = &due[..] else { panic!("{} calls are due", due.len()) };
        call.clone()
    }

    /// The one call that is due is for the topic with this title.
    pub(super) fn only_for(&mut self, title: &str) -> RoleCall {
        let call = self.only();
        assert_eq!(call.input.context().title, title);
        call
    }

    pub(super) fn titles(calls: &[RoleCall]) -> Vec<&str> {
        calls.iter().map(|call| call.input.context().title.as_str()).collect()
    }

    /// The research finds these topics. `@0.7` after a title is its score.
    pub(super) fn finds(&mut self, call: &RoleCall, topics: &[&str]) {
        let is_root = matches!(&call.input, CallInput::Research(input) if input.form == ResearchForm::Root);
        let drafts = topics.iter().map(|topic| {
            let (title, score) = topic.split_once('@').unwrap_or((topic, ""));
            ChildDraft { title: title.into(), slug: None, score: score.parse().ok() }
        });
        let tidied = tidy(drafts);
        let output = ResearchOutput {
            document_markdown: (!is_root).then(|| "# Found".into()),
            summary: "found it".into(),
            children: tidied.children,
            dropped: tidied.dropped,
            messages: Vec::new(),
            scratchpad: notes(),
        };
        self.feed(Input::Output(call.key, CallOutput::Research(output)));
    }

    pub(super) fn picks(&mut self, call: &RoleCall, path: &str) {
        let output = PickOutput { path: path.into(), reason: "it matters".into() };
        self.feed(Input::Output(call.key, CallOutput::Pick(output)));
    }

    pub(super) fn fails(&mut self, call: &RoleCall) {
        let error = RoleError::new(RoleErrorKind::Rejected, "cannot be had");
        self.feed(Input::Failed(call.key, error));
    }

    fn picked(&self) -> Vec<&LeafPicked> {
        let picked = self.log.iter().filter_map(|event| match &event.body {
            EventBody::LeafPicked(e) => Some(e),
            _ => None,
        });
        picked.collect()
    }

    pub(super) fn node(&self, title: &str) -> &graph::GraphNode {
        self.run
            .graph()
            .nodes()
            .iter()
            .find(|node| node.title == title)
            .unwrap_or_else(|| panic!("no {title}"))
    }

    /// The topics with what users see of them.
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

    /// The state is that of the log, also for a driver that takes over now.
    pub(super) fn take_over(&mut self) {
        let replayed = Run::replay(self.run.graph().run_id(), &self.log).expect("it replays");
        assert_eq!(replayed.to_bytes(), self.run.to_bytes());
        self.run = replayed;
        self.feed(Input::Claimed);
    }
}

pub(super) fn pick_input(call: &RoleCall) -> &PickInput {
    let CallInput::Pick(input) = &call.input else { panic!("{:?} is no pick", call.key) };
    input
}

pub(super) fn research_input(call: &RoleCall) -> &ResearchInput {
    let CallInput::Research(input) = &call.input else { panic!("{:?} is no research", call.key) };
    input
}

#[test]
fn the_first_level_is_researched_whole_before_anything_is_picked() {
    let mut hand = Hand::listed(two_at_a_time(), &["A", "B", "C"]);
    let due = hand.due();
    assert_eq!(Hand::titles(&due), ["A", "B"], "two at a time");
    hand.finds(&due[1], &["B one", "B two"]);
    let c = hand.only_for("C");
    hand.finds(&due[0], &["A one", "A two"]);
    assert!(hand.due().is_empty(), "C is still under research, so nothing is picked");
    hand.fails(&c);
    assert_eq!(hand.only().key.kind, CallKind::Pick);
    assert_eq!(hand.node("C").status, NodeStatus::Failed);
}

#[test]
fn a_pick_sees_the_tree_when_a_place_is_free_and_the_result_counts_what_was_done() {
    let mut hand = Hand::listed(two_at_a_time(), &["A", "B"]);
    let first = hand.due();
    hand.finds(&first[0], &["A one", "A two", "A three"]);
    hand.finds(&first[1], &[]);
    let pick = hand.only();
    hand.picks(&pick, "a/a-two");
    // A place is free, so it begins, and the next one is picked for the other place.
    let due = hand.due();
    assert_eq!(Hand::titles(&due), ["find out", "A two"]);
    hand.picks(&due[0], "/a/a-one/");
    let one = hand.only_for("A one");
    // Both places are taken, and one topic waits: nobody needs to choose.
    hand.finds(&due[1], &[]);
    let three = hand.only_for("A three");
    hand.take_over();
    let due = hand.due();
    assert_eq!(Hand::titles(&due), ["A one", "A three"], "a successor repeats what was in flight");
    hand.finds(&one, &[]);
    hand.finds(&three, &[]);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(!hand.run.graph().partial());
    assert_eq!(hand.counts(), SearchCounts { expanded: 1, leaves: 4, skipped: 0 });
    let root = &hand.run.graph().nodes()[0];
    assert_eq!(
        (root.result.as_ref().unwrap().kind, root.result.as_ref().unwrap().document_ids.len()),
        (ResultKind::Json, 0)
    );
    let reasons: Vec<&str> = hand.picked().iter().map(|picked| picked.reason.as_str()).collect();
    assert_eq!(reasons, ["it matters", "it matters", "the only topic that waits"]);

    let mut hand = Hand::listed(SearchConfig { concurrency: 1, ..two_at_a_time() }, &["A"]);
    let a = hand.only();
    hand.finds(&a, &["A one", "A two", "A three"]);
    let pick = hand.only();
    hand.picks(&pick, "a/a-two");
    let two = hand.only_for("A two");
    assert!(hand.due().is_empty(), "no place is free, so nobody chooses yet");
    hand.finds(&two, &["News"]);
    assert!(pick_input(&hand.only()).outline.contains("News [unexpanded]"));
}

#[test]
fn a_picker_sees_the_tree_with_its_statuses() {
    let mut hand = Hand::listed(two_at_a_time(), &["Auth System", "Database", "Caching"]);
    let first = hand.due();
    hand.finds(&first[0], &["OAuth2 Flow@0.9", "Sessions", "Passwords"]);
    let caching = hand.only();
    hand.fails(&first[1]);
    hand.finds(&caching, &[]);
    let pick = hand.only();
    hand.picks(&pick, "auth-system/sessions");
    let due = hand.due();
    let input = pick_input(&due[0]);
    let expected = "\
- Auth System [expanded]
  - OAuth2 Flow [unexpanded]
  - Sessions [in-progress]
  - Passwords [unexpanded]
- Database [unexpanded: failed]
- Caching [leaf]
";
    assert_eq!(input.outline, expected);
    let offered: Vec<_> =
        input.leaves.iter().map(|l| (l.path.as_str(), l.depth, l.score, l.leaves_below)).collect();
    assert_eq!(
        offered,
        [("auth-system/oauth2-flow", 2, Some(0.9), 0), ("auth-system/passwords", 2, None, 0)]
    );
    assert_eq!(hand.shown()[4], ("Sessions", "in-progress"));
}

#[test]
fn a_pick_that_cannot_be_used_is_asked_again_once_and_then_falls_back() {
    let mut hand = Hand::listed(two_at_a_time(), &["A", "B"]);
    let first = hand.due();
    hand.finds(&first[0], &["A one", "A two", "A three"]);
    hand.finds(&first[1], &[]);
    let pick = hand.only();
    hand.picks(&pick, "a/a-two");
    let due = hand.due();
    assert_eq!(pick_input(&due[0]).note, "");
    hand.picks(&due[0], "a/a-two");
    hand.take_over();
    let due = hand.due();
    let again = due.iter().find(|call| call.key.kind == CallKind::Pick).expect("another pick").clone();
    let note = &pick_input(&again).note;
    assert!(note.contains("\"a/a-two\" is in progress"), "{note}");
    assert!(pick_input(&again).outline.contains("A two [in-progress]"), "with the fresh outline");
    hand.picks(&again, "b");
    let last = hand.picked()[1];
    assert_eq!(last.leaf_node_id, hand.node("A one").id, "the first in breadth-first order");
    assert_eq!(last.fallback.as_deref(), Some("\"b\" is not an unexpanded leaf"));
    assert_eq!(last.policy, Some(PickerPolicy::Llm));
}

#[test]
fn a_picker_that_fails_for_good_falls_back() {
    let mut hand = Hand::listed(two_at_a_time(), &["A"]);
    let a = hand.only();
    hand.finds(&a, &["A one", "A two"]);
    let pick = hand.only();
    hand.fails(&pick);
    let fallback = hand.picked()[0].fallback.clone().expect("it says so");
    assert_eq!(fallback, "the picker failed: rejected: cannot be had");
    assert_eq!(hand.picked()[0].leaf_node_id, hand.node("A one").id);
    assert_eq!(Hand::titles(&hand.due()), ["A one", "A two"], "then one is left, and a place is free");
}

#[test]
fn the_depth_limit_lists_without_research_and_loses_nothing() {
    let mut hand = Hand::listed(SearchConfig { max_depth: 2, ..two_at_a_time() }, &["A", "B"]);
    let first = hand.due();
    hand.finds(&first[0], &["A one", "A two"]);
    hand.finds(&first[1], &["B one"]);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(!hand.run.graph().partial());
    assert_eq!(hand.node("A one").status, NodeStatus::Cancelled);
    assert_eq!(hand.node("A one").message.as_deref(), Some("guard:maxDepth"));
    assert_eq!(hand.shown()[..3], [("A", "expanded"), ("B", "expanded"), ("A one", "unexpanded")]);
    assert_eq!(hand.counts(), SearchCounts { expanded: 2, leaves: 0, skipped: 0 });
}

#[test]
fn a_research_that_fails_for_good_fails_its_node_only() {
    let mut hand = Hand::listed(two_at_a_time(), &["A", "B"]);
    let first = hand.due();
    hand.fails(&first[0]);
    hand.finds(&first[1], &[]);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(hand.run.graph().partial());
    assert_eq!(hand.shown(), [("A", "unexpanded"), ("B", "leaf")]);
}

#[test]
fn a_search_without_a_first_level_fails() {
    let mut hand = Hand::new(two_at_a_time(), Budgets::default());
    let root = hand.only();
    hand.fails(&root);
    assert_eq!(hand.run.graph().status(), RunStatus::Failed);
}

#[test]
fn conversations_fork_from_those_above() {
    let mut hand = Hand::listed(two_at_a_time(), &["A"]);
    let a = hand.only();
    let session = |call: &RoleCall| research_input(call).session.clone().expect("a conversation");
    assert_eq!((session(&a).id, session(&a).parent_id), (SessionId::of(hand.node("A").id), None));
    hand.finds(&a, &["A one"]);
    let one = hand.only_for("A one");
    assert_eq!(session(&one).parent_id, Some(session(&a).id));
    assert_eq!(research_input(&one).path, ["A", "A one"]);
    let forked = |body: &EventBody| matches!(body, EventBody::SessionForked(_));
    assert_eq!(hand.log.iter().filter(|event| forked(&event.body)).count(), 2);
}

#[test]
fn policies_without_a_model_choose_at_once() {
    let children = ["low@0.1", "high@0.9", "none"];
    for (picker, expected) in [
        (PickerPolicy::BreadthFirst, ["low", "high", "none"]),
        (PickerPolicy::BestFirst, ["high", "none", "low"]),
    ] {
        let mut hand = Hand::listed(
            SearchConfig { concurrency: 1, picker, synthesis: false, ..SearchConfig::default() },
            &["A"],
        );
        let a = hand.only();
        hand.finds(&a, &children);
        for title in expected {
            let call = hand.only_for(title);
            hand.finds(&call, &[]);
        }
        assert_eq!(hand.run.graph().status(), RunStatus::Completed);
        assert!(
            hand.picked().iter().all(|picked| picked.policy == Some(picker) && !picked.reason.is_empty())
        );
    }
}

#[test]
fn a_topic_is_researched_in_every_branch_that_lists_it() {
    let mut hand = Hand::listed(two_at_a_time(), &["Kafka", "Postgres"]);
    let first = hand.due();
    assert_eq!(research_input(&first[0]).outline, "- Kafka [in-progress]\n- Postgres [in-progress]\n");
    hand.finds(&first[0], &["Replication", "Kafka"]);
    hand.finds(&first[1], &["Replication"]);
    let mut researched = Vec::new();
    while hand.run.graph().status() == RunStatus::Running {
        let due = hand.due();
        assert!(!due.is_empty());
        for call in &due {
            match &call.input {
                CallInput::Pick(input) => hand.picks(call, &input.leaves[0].path),
                _ => {
                    researched.push(research_input(call).clone());
                    hand.finds(call, &[]);
                }
            }
        }
    }
    let mut paths: Vec<String> = researched.iter().map(|input| input.path.join(" › ")).collect();
    paths.sort();
    assert_eq!(paths, ["Kafka › Kafka", "Kafka › Replication", "Postgres › Replication"]);
    for input in researched {
        assert_eq!(input.outline.matches("- Replication [").count(), 2, "it sees both: {}", input.outline);
    }
    assert_eq!(hand.counts(), SearchCounts { expanded: 2, leaves: 3, skipped: 0 });
}

#[test]
fn large_trees_are_folded_and_a_branch_may_be_named() {
    let mut hand = Hand::listed(
        SearchConfig { concurrency: 8, synthesis: false, ..SearchConfig::default() },
        &["A", "B"],
    );
    let first = hand.due();
    let many = |name: &str| (0..150).map(|n| format!("{name} {n} {}", "x".repeat(100))).collect::<Vec<_>>();
    for (call, name) in first.iter().zip(["P", "Q"]) {
        let topics = many(name);
        hand.finds(call, &topics.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let pick = hand.only();
    let input = pick_input(&pick);
    assert!(input.outline.len() <= 25 * 1024, "{}", input.outline.len());
    let folded = input.leaves.iter().find(|leaf| leaf.leaves_below > 0).expect("a folded branch").clone();
    assert_eq!((folded.path.as_str(), folded.leaves_below), ("a", 150));
    hand.picks(&pick, "a");
    hand.take_over();
    let again = hand.only();
    let input = pick_input(&again);
    assert!(input.outline.starts_with("Within: A\n- P 0 "), "{}", &input.outline[..80]);
    assert_eq!(input.note, "You have chosen the branch a. Name an unexpanded leaf within it.");
    assert!(input.leaves.iter().all(|leaf| leaf.path.starts_with("a/") && leaf.leaves_below == 0));
    let path = input.leaves[3].path.clone();
    hand.picks(&again, &path);
    assert_eq!(hand.picked().len(), 1);
    assert_eq!(hand.picked()[0].fallback, None, "a branch is not an invalid pick");
}

/// A branch that is chosen again and again is not named again for each of its topics.
#[test]
fn the_branch_of_the_last_pick_stays_unfolded() {
    let config = SearchConfig { concurrency: 1, max_depth: 6, synthesis: false, ..SearchConfig::default() };
    let mut hand = Hand::listed(config, &["A", "B", "C"]);
    let many = |name: &str| (0..150).map(|n| format!("{name} {n} {}", "x".repeat(100))).collect::<Vec<_>>();
    let finds = |hand: &mut Hand, call: &RoleCall, name: &str| {
        let topics = many(name);
        hand.finds(call, &topics.iter().map(String::as_str).collect::<Vec<_>>());
    };
    for name in ["P", "Q", "R"] {
        let call = hand.only();
        finds(&mut hand, &call, name);
    }
    let mut due = hand.due();
    hand.picks(&due.remove(0), "c");
    due.extend(hand.due());
    let take = |due: &mut Vec<RoleCall>, kind| {
        let at = due.iter().position(|call| call.key.kind == kind);
        due.remove(at.unwrap_or_else(|| panic!("no {kind:?} is due")))
    };
    // From here on, every pick is one call, although all branches together never fit.
    for n in 0..12 {
        let mut pick = take(&mut due, CallKind::Pick);
        assert!(pick_input(&pick).outline.len() <= 25 * 1024, "{}", pick_input(&pick).outline.len());
        let offers = |at: &str| pick_input(&pick).leaves.iter().any(|leaf| leaf.path == at);
        let (branch, other) = if n < 6 { ("c/", "a") } else { ("a/", "c") };
        assert!(
            n == 0 || n == 6 || offers(other) && offers("b"),
            "{n}: the rest of the tree is offered as well"
        );
        if n == 6 {
            // Another branch is named once.
            hand.picks(&pick, "a");
            due.extend(hand.due());
            pick = take(&mut due, CallKind::Pick);
        }
        let is_below = |leaf: &&OfferedLeaf| leaf.path.starts_with(branch) && leaf.leaves_below == 0;
        let below = pick_input(&pick).leaves.iter().filter(is_below);
        // The first of the deepest.
        let path = below.rev().max_by_key(|leaf| leaf.depth).expect("a leaf of it").path.clone();
        hand.picks(&pick, &path);
        assert_eq!(hand.picked().len(), n + 1, "{path}");
        let depth = hand.run.graph().node(hand.picked()[n].leaf_node_id).expect("a topic").depth;
        assert_eq!(depth, if (1..6).contains(&n) { 3 } else { 2 });
        due.extend(hand.due());
        let research = take(&mut due, CallKind::Research);
        match n {
            0 => finds(&mut hand, &research, "S"),
            _ => hand.finds(&research, &[]),
        }
        due.extend(hand.due());
    }
}

#[test]
fn the_limit_of_nodes_cuts_a_list_and_says_so() {
    let mut hand =
        Hand::new(two_at_a_time(), Budgets { max_nodes: 3, max_children_per_node: 1, ..Budgets::default() });
    let root = hand.only();
    hand.finds(&root, &["A", "B", "C"]);
    assert_eq!(hand.run.graph().nodes().len(), 3, "the limits of the tree strategy do not cut it");
    for call in hand.due() {
        hand.finds(&call, &["more"]);
    }
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(hand.run.graph().partial());
    assert!(hand.run.graph().nodes()[0].decisions.contains(&"guard:maxNodes".to_owned()));
}

#[test]
fn a_budget_ends_a_search_with_everything_that_exists() {
    let mut hand = Hand::new(two_at_a_time(), Budgets { max_tokens: Some(1_000), ..Budgets::default() });
    let root = hand.only();
    hand.finds(&root, &["A", "B", "C"]);
    let due = hand.due();
    let usage = UsageRecorded {
        model: "m".into(),
        input_tokens: 1_000,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 0,
        duration_ms: 1,
        purpose: "research".into(),
        documents: Vec::new(),
        prompt: None,
    };
    hand.feed(Input::Update(due[0].key, RoleUpdate::Usage { usage, prompt: None }));
    hand.finds(&due[0], &["A one"]);
    assert_eq!(hand.run.graph().status(), RunStatus::Running, "B is still in flight");
    due[1..].iter().for_each(|call| hand.finds(call, &[]));
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(hand.run.graph().partial());
    let a = hand.node("A").result.as_ref().expect("a result");
    let found = &a.json_payload.as_ref().expect("what it found is kept")["children"][0];
    assert_eq!(found["slug"], "a-one");
    assert_eq!(hand.node("C").status, NodeStatus::Cancelled);
}

#[test]
fn a_synthesis_is_written_on_request() {
    let mut hand = Hand::listed(SearchConfig { synthesis: true, ..two_at_a_time() }, &["A"]);
    let a = hand.only();
    hand.finds(&a, &[]);
    let call = hand.only();
    let CallInput::Aggregate(input) = &call.input else { panic!("{:?}", call.key) };
    assert_eq!(input.children.len(), 1);
    assert!(input.children[0].artifacts[0].document_id.is_some());
    let replan_reason = Some("a search never plans again".into());
    let next = AggregatorNext { should_replan: true, replan_reason };
    let output = AggregatorOutput { next, ..aggregator_output("all") };
    let decision = hand.run.handle(Input::Output(call.key, CallOutput::Aggregate(output)), hand.now);
    let overview = decision.documents.iter().find_map(|op| match op {
        DocumentOp::Create(document) => Some(&document.body),
        _ => None,
    });
    let overview = overview.expect("an overview");
    let links = "\n\n## Documents\n\n- [A](a/document.md)\n\n*Tree search complete: 0 expanded, 1 leaves, 0 skipped.*\n";
    assert!(overview.ends_with(links), "{overview}");
    hand.log.extend(decision.events);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert_eq!(hand.counts(), SearchCounts { expanded: 0, leaves: 1, skipped: 0 });
    assert_eq!(hand.run.graph().nodes()[0].result.as_ref().unwrap().document_ids.len(), 1);
}

#[test]
fn the_graph_says_what_the_search_did_with_a_topic() {
    let config = SearchConfig { concurrency: 1, max_depth: 3, synthesis: false, ..SearchConfig::default() };
    let mut hand = Hand::listed(config, &["Storage", "Access"]);
    let mut answers = ["access/rights", "no/such", "no/such/again"].into_iter();
    let mut due = hand.due();
    while !due.is_empty() {
        let call = due.remove(0);
        if let CallInput::Pick(input) = &call.input {
            let path = answers.next().map_or_else(|| input.leaves[0].path.clone(), str::to_owned);
            hand.picks(&call, &path);
            due.extend(hand.due());
            continue;
        }
        match call.input.context().title.as_str() {
            "Storage" => hand.finds(&call, &["Pages@0.9", "Logs", "Vacuum"]),
            "Access" => hand.finds(&call, &["Rights@0.25"]),
            "Rights" => hand.finds(&call, &["Roles"]),
            "Vacuum" => hand.fails(&call),
            _ => hand.finds(&call, &[]),
        }
        due.extend(hand.due());
    }
    let topic = |title: &str| hand.node(title).topic.as_deref().expect("a topic").clone();
    let rights = topic("Rights");
    let picked = rights.picked.expect("it was picked");
    assert_eq!(
        (picked.reason.as_str(), picked.policy, picked.fallback),
        ("it matters", Some(PickerPolicy::Llm), None)
    );
    assert_eq!(rights.score, Some(0.25));
    assert!(rights.session_id.is_some() && topic("Roles").session_id.is_none());
    let fallback =
        topic("Pages").picked.and_then(|picked| picked.fallback).expect("the model named no topic");
    assert!(fallback.contains("no/such/again"), "{fallback}");
    assert!(topic("Storage").picked.is_none(), "the first level is not picked");
    assert!(hand.run.graph().nodes()[0].topic.is_none());
}

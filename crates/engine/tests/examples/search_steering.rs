//! What people and forks do to searches, step by step: above all, a picker must never be asked without a choice.

use tree_agent_contract::command::Action;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallKind, Input, RoleCall};

use super::forks::{fork_of, retry, violations};
use super::search::{Hand, pick_input, two_at_a_time};
use super::used;

impl Hand {
    fn uses(&mut self, call: &RoleCall, tokens: u64) {
        self.feed(Input::Update(call.key, RoleUpdate::Usage { usage: used(tokens), prompt: None }));
    }

    /// The fork at the event `at`, as its first driver has it.
    fn forked(&self, at: usize, edits: Vec<Action>) -> Hand {
        let log = fork_of(&self.log[..at], self.now.plus_millis(60_000), edits);
        let run = tree_agent_engine::Run::replay(log[0].run_id, &log).expect("a fork replays");
        let mut fork = Hand { run, now: log[at].timestamp, log };
        fork.feed(Input::Claimed);
        fork
    }

    fn keeps_the_rules(&self) {
        assert_eq!(violations(&self.log), Vec::<String>::new());
    }
}

/// A search with two topics, of which the first one has these below it. A pick is in flight.
fn picking(topics: &[&str]) -> (Hand, RoleCall) {
    let mut hand = Hand::new(two_at_a_time(), Budgets { max_tokens: Some(1_000), ..Budgets::default() });
    let root = hand.only();
    hand.finds(&root, &["A", "B"]);
    let first = hand.due();
    hand.finds(&first[0], topics);
    hand.finds(&first[1], &[]);
    let pick = hand.only();
    assert_eq!(pick.key.kind, CallKind::Pick);
    (hand, pick)
}

fn pause(node_id: Option<NodeId>) -> Action {
    Action::Pause { node_id, now: true }
}

#[test]
fn a_fork_does_not_pick_from_topics_that_a_budget_has_cancelled() {
    let (mut hand, pick) = picking(&["A one", "A two", "A three", "A four"]);
    hand.picks(&pick, "a/a-one");
    let due = hand.due();
    assert_eq!(Hand::titles(&due), ["find out", "A one"]);
    hand.uses(&due[1], 1_000);
    assert_eq!(hand.run.exhausted_budget(), Some("maxTokens"));
    let mut fork = hand.forked(hand.log.len(), Vec::new());
    assert_eq!(fork.run.exhausted_budget(), None);
    let research = fork.only_for("A one");
    assert_eq!(research.key.kind, CallKind::Research);
    fork.finds(&research, &[]);
    assert_eq!(fork.run.graph().status(), RunStatus::Completed);
    fork.keeps_the_rules();
}

#[test]
fn a_search_whose_waiting_topics_were_stopped_in_a_pause_ends_after_it() {
    let (mut hand, _) = picking(&["A one", "A two"]);
    hand.gives(pause(None));
    for title in ["A one", "A two"] {
        hand.gives(Action::Stop { node_id: hand.node(title).id, discard: true });
    }
    hand.gives(Action::Resume { node_id: None });
    assert!(hand.due().is_empty());
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    hand.keeps_the_rules();
}

#[test]
fn a_search_whose_waiting_topics_were_paused_in_a_pause_rests_until_they_go_on() {
    let (mut hand, _) = picking(&["A one", "A two"]);
    hand.gives(pause(None));
    for title in ["A one", "A two"] {
        hand.gives(pause(Some(hand.node(title).id)));
    }
    hand.take_over();
    hand.gives(Action::Resume { node_id: None });
    assert!(hand.due().is_empty());
    for title in ["A one", "A two"] {
        hand.gives(Action::Resume { node_id: Some(hand.node(title).id) });
    }
    let due = hand.due();
    assert_eq!(due.len(), 2, "the first goes on without a choice, and so does the last: {due:?}");
    due.iter().for_each(|call| hand.finds(call, &[]));
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    hand.keeps_the_rules();
}

#[test]
fn a_pick_within_a_branch_that_is_gone_is_asked_for_the_whole_tree() {
    let mut hand = Hand::listed(two_at_a_time(), &["A", "B"]);
    let first = hand.due();
    for (call, name) in first.iter().zip(["P", "Q"]) {
        let topics: Vec<String> = (0..150).map(|n| format!("{name} {n} {}", "x".repeat(100))).collect();
        hand.finds(call, &topics.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let pick = hand.only();
    hand.picks(&pick, "a");
    let within = hand.only();
    assert!(pick_input(&within).outline.starts_with("Within: A"));
    hand.gives(pause(Some(hand.node("A").id)));
    assert!(!hand.run.is_in_flight(&within.key), "there is nothing to pick from");
    let again = hand.only();
    assert!(pick_input(&again).outline.starts_with("- A "), "{}", pick_input(&again).outline);
    // The branch may also be gone because what is above it is done again.
    hand.gives(Action::Resume { node_id: Some(hand.node("A").id) });
    hand.picks(&again, "b/q-0-xxx");
    hand.keeps_the_rules();
}

#[test]
fn a_topic_below_the_first_level_is_done_again_in_a_fork() {
    let (mut hand, pick) = picking(&["A one", "A two"]);
    hand.picks(&pick, "a/a-one");
    hand.due().iter().for_each(|call| hand.finds(call, &[]));
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    let mut fork = hand.forked(hand.log.len(), vec![retry(hand.node("A two").id)]);
    let call = fork.only_for("A two");
    fork.finds(&call, &[]);
    assert_eq!(fork.run.graph().status(), RunStatus::Completed);
    fork.keeps_the_rules();
}

#[test]
fn what_a_picker_says_in_a_pause_of_the_run_counts_after_it() {
    let (mut hand, pick) = picking(&["A one", "A two", "A three"]);
    hand.gives(Action::Pause { node_id: None, now: false });
    hand.picks(&pick, "a/a-two");
    assert!(hand.due().is_empty() && hand.run.rests());
    hand.take_over();
    hand.gives(Action::Resume { node_id: None });
    let due = hand.due();
    assert_eq!(Hand::titles(&due), ["find out", "A two"], "it begins, and the next one is picked");
    assert_eq!(due.iter().filter(|call| call.key.kind == CallKind::Pick).count(), 1);
    assert_eq!(pick_input(&due[0]).note, "");
    hand.keeps_the_rules();
}

#[test]
fn a_topic_that_is_paused_by_itself_cannot_be_picked_in_a_pause_of_the_run() {
    let (mut hand, pick) = picking(&["A one", "A two", "A three"]);
    hand.gives(Action::Pause { node_id: None, now: false });
    hand.gives(Action::Pause { node_id: Some(hand.node("A two").id), now: false });
    hand.picks(&pick, "a/a-two");
    hand.gives(Action::Resume { node_id: None });
    let again = hand.only();
    assert!(pick_input(&again).note.contains("is paused"), "{}", pick_input(&again).note);
}

#[test]
fn a_preview_counts_the_synthesis_of_a_search_that_is_reopened() {
    let search = SearchConfig { synthesis: true, ..two_at_a_time() };
    let mut hand = Hand::new(search, Budgets::default());
    let root = hand.only();
    hand.finds(&root, &["A", "B"]);
    hand.due().iter().for_each(|call| hand.finds(call, &[]));
    let call = hand.only();
    let output = crate::world::aggregator_output("all");
    hand.feed(Input::Output(call.key, tree_agent_engine::CallOutput::Aggregate(output)));
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    let calls = |node_id| hand.run.fork(&[retry(node_id)], hand.now).expect("it fits").0.calls;
    let both = |researches| [(CallKind::Aggregate, 1), (CallKind::Research, researches)];
    assert_eq!(calls(hand.node("A").id), both(1));
    assert_eq!(calls(hand.run.graph().nodes()[0].id), both(3));
}

#[test]
fn a_fork_does_its_edits_before_it_looks_whether_anything_is_left_to_pick() {
    let (mut hand, pick) = picking(&["A one", "A two", "A three"]);
    hand.picks(&pick, "a/a-one");
    let due = hand.due();
    hand.finds(&due[1], &[]);
    assert!(
        hand.due().is_empty() && hand.run.is_in_flight(&due[0].key),
        "a pick is in flight, and nothing else"
    );
    hand.uses(&due[0], 1_000);
    assert_eq!(hand.node("A two").status, NodeStatus::Cancelled);
    let mut again = hand.forked(hand.log.len(), vec![retry(hand.node("A two").id)]);
    let call = again.only_for("A two");
    again.finds(&call, &[]);
    assert_eq!(again.run.graph().status(), RunStatus::Completed);
    again.keeps_the_rules();
    // Without an edit nothing is left to do.
    assert_eq!(hand.forked(hand.log.len(), Vec::new()).run.graph().status(), RunStatus::Completed);
}

//! Searches that carry out steps of a plan, step by step.

use tree_agent_contract::event::*;
use tree_agent_contract::role::*;
use tree_agent_contract::search::SearchCounts;
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallInput, CallKind, CallOutput, Input, RoleCall};

use super::search::{Hand, pick_input, research_input};
use crate::world::{aggregator_output, executor_output, notes};

/// A tree whose root has planned one step for each of these limits, and a last one that is no search.
fn planned(searches: &[StepSearch]) -> Hand {
    planned_within(searches.iter().map(|search| search.max_depth).max().unwrap_or(1), searches)
}

/// The same in a run of so many levels.
fn planned_within(max_depth: u32, searches: &[StepSearch]) -> Hand {
    let mut hand = Hand::of(RunSpec {
        budgets: Budgets { max_depth, ..Budgets::default() },
        ..RunSpec::new("find out")
    });
    let plan = hand.only();
    let step = |n: usize, search: Option<StepSearch>| StepDraft {
        reason: "needed".into(),
        success_criteria: vec!["it is found".into()],
        step_index: n as u32,
        strategy: search.map(|_| Strategy::Search),
        search,
        ..StepDraft::new(StepId::new(format!("s{n}")), format!("step {n}"))
    };
    let mut steps: Vec<StepDraft> = searches.iter().enumerate().map(|(n, s)| step(n, Some(*s))).collect();
    steps.push(step(steps.len(), None));
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps };
    let output = PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Plan,
        mode_reason: "wide".into(),
        leaf_decision: None,
        plan: Some(PlanDraft { summary: "a plan".into(), bands: vec![band] }),
        scratchpad: notes(),
    };
    hand.feed(Input::Output(plan.key, CallOutput::Plan(output)));
    hand
}

impl Hand {
    fn executes(&mut self, call: &RoleCall) {
        let output = executor_output(&call.input.context().title);
        self.feed(Input::Output(call.key, CallOutput::Execute(output)));
    }

    fn aggregates(&mut self, call: &RoleCall) {
        self.feed(Input::Output(call.key, CallOutput::Aggregate(aggregator_output("all"))));
    }

    /// The calls that are due, by the titles of their nodes. A step that could plan executes instead.
    fn calls(&mut self) -> std::collections::BTreeMap<String, RoleCall> {
        let mut calls = self.due();
        while let Some(at) = calls.iter().position(|call| matches!(call.input, CallInput::Plan(_))) {
            let call = calls.remove(at);
            let output = PlannerOutput {
                premises: None,
                homework: None,
                mode: PlannerMode::Execute,
                mode_reason: "narrow".into(),
                leaf_decision: None,
                plan: None,
                scratchpad: notes(),
            };
            self.feed(Input::Output(call.key, CallOutput::Plan(output)));
            calls.extend(self.due());
        }
        calls.into_iter().map(|call| (call.input.context().title.clone(), call)).collect()
    }

    fn keeps_the_invariants(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), []);
    }
}

fn children(call: &RoleCall) -> Vec<&str> {
    let CallInput::Aggregate(input) = &call.input else { panic!("{:?} is no synthesis", call.key) };
    input.children.iter().map(|child| child.title.as_str()).collect()
}

#[test]
fn a_step_may_be_a_search_and_returns_a_synthesis() {
    let mut hand = planned(&[StepSearch { max_depth: 2, max_nodes: 10 }]);
    let due = hand.calls();
    let input = research_input(&due["step 0"]);
    assert_eq!((input.form, input.max_children), (ResearchForm::Root, 10));
    // It is about the task of the step.
    assert_eq!((input.call.objective.as_str(), input.call.depth), ("step 0\n- it is found", 1));
    assert_eq!(due["step 1"].key.kind, CallKind::Execute);
    hand.finds(&due["step 0"], &["A", "B"]);
    hand.executes(&due["step 1"]);
    hand.take_over();
    let due = hand.calls();
    assert_eq!(research_input(&due["A"]).path, ["A"], "paths begin at the root of the search");
    assert_eq!(research_input(&due["A"]).call.objective, "step 0\n- it is found");
    hand.finds(&due["A"], &["A one", "A two"]);
    hand.finds(&due["B"], &[]);
    // Its depth counts from its node, although the run allows no more levels.
    assert_eq!(hand.node("A one").status, NodeStatus::Cancelled);
    assert_eq!(hand.node("A one").message.as_deref(), Some("guard:maxDepth"));
    hand.take_over();
    let synthesis = hand.only_for("step 0");
    assert_eq!(children(&synthesis), ["A", "B"]);
    hand.aggregates(&synthesis);
    let root = hand.only_for("find out");
    assert_eq!(children(&root), ["step 0", "step 1"]);
    hand.aggregates(&root);
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(!hand.run.graph().partial(), "the depth limit of a search loses nothing");
    let step = hand.node("step 0");
    assert_eq!((step.strategy, hand.node("step 1").strategy), (Some(Strategy::Search), None));
    let result = step.result.as_ref().expect("a result");
    assert_eq!(result.document_ids.len(), 1);
    let counts: SearchCounts =
        serde_json::from_value(result.json_payload.clone().expect("counts").into()).expect("counts");
    assert_eq!(counts, SearchCounts { expanded: 1, leaves: 1, skipped: 0 });
    hand.keeps_the_invariants();
}

#[test]
fn each_search_of_a_run_has_topics_of_its_own() {
    let limits = StepSearch { max_depth: 3, max_nodes: 20 };
    let mut hand = planned(&[limits, limits]);
    let due = hand.calls();
    hand.finds(&due["step 0"], &["Query planning"]);
    hand.finds(&due["step 1"], &["Query planning"]);
    hand.executes(&due["step 2"]);
    let first = hand.due();
    assert_eq!(Hand::titles(&first), ["Query planning", "Query planning"]);
    for call in &first {
        hand.finds(call, &["Costs of plans", "Joins"]);
    }
    // Each root picks for itself.
    let picks = hand.due();
    assert_eq!(Hand::titles(&picks), ["step 0", "step 1"]);
    for pick in &picks {
        let paths: Vec<&str> = pick_input(pick).leaves.iter().map(|leaf| leaf.path.as_str()).collect();
        assert_eq!(paths, ["query-planning/costs-of-plans", "query-planning/joins"]);
        hand.picks(pick, "query-planning/joins");
    }
    hand.take_over();
    let mut due = hand.due();
    while let Some(call) = due.pop() {
        match call.key.kind {
            CallKind::Research => hand.finds(&call, &[]),
            CallKind::Aggregate => hand.aggregates(&call),
            kind => panic!("{kind:?}: one topic is left, so nobody is asked"),
        }
        due.extend(hand.due());
    }
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    hand.keeps_the_invariants();
}

#[test]
fn the_limit_of_its_nodes_cuts_a_search() {
    let mut hand = planned(&[StepSearch { max_depth: 3, max_nodes: 3 }]);
    let due = hand.calls();
    assert_eq!(research_input(&due["step 0"]).max_children, 3);
    hand.finds(&due["step 0"], &["A", "B"]);
    hand.executes(&due["step 1"]);
    let due = hand.calls();
    hand.finds(&due["A"], &["A one", "A two"]);
    hand.finds(&due["B"], &["B one"]);
    let titles: Vec<&str> = hand.run.graph().nodes().iter().map(|node| node.title.as_str()).collect();
    assert_eq!(titles, ["find out", "step 0", "step 1", "A", "B", "A one"]);
    let one = hand.only_for("A one");
    hand.finds(&one, &[]);
    for title in ["step 0", "find out"] {
        let call = hand.only_for(title);
        hand.aggregates(&call);
    }
    assert_eq!(hand.run.graph().status(), RunStatus::Completed);
    assert!(hand.run.graph().partial(), "topics were left out");
    hand.keeps_the_invariants();
}

#[test]
fn a_step_whose_search_finds_nothing_fails() {
    let mut hand = planned(&[StepSearch::default()]);
    let due = hand.calls();
    hand.finds(&due["step 0"], &["A"]);
    hand.executes(&due["step 1"]);
    let a = hand.only_for("A");
    hand.fails(&a);
    let step = hand.node("step 0");
    assert_eq!(step.status, NodeStatus::Failed);
    let error = step.error.as_deref().expect("it says why");
    assert!(
        error.contains("its only topic was not researched") && error.contains("cannot be had"),
        "{error}"
    );
    let root = hand.only_for("find out");
    hand.aggregates(&root);
    assert!(hand.run.graph().partial());
    hand.keeps_the_invariants();
}

#[test]
fn a_search_whose_aggregator_fails_returns_its_documents() {
    let mut hand = planned(&[StepSearch::default()]);
    let due = hand.calls();
    hand.finds(&due["step 0"], &["A", "B"]);
    hand.executes(&due["step 1"]);
    for call in hand.due() {
        hand.finds(&call, &[]);
    }
    let synthesis = hand.only_for("step 0");
    hand.fails(&synthesis);
    let step = hand.node("step 0");
    assert_eq!((step.status, step.outcome), (NodeStatus::Completed, Some(Outcome::Partial)));
    let result = step.result.as_ref().expect("a result");
    assert_eq!((result.kind, result.document_ids.len()), (ResultKind::Hybrid, 1), "the counts and a list");
    assert!(result.summary.contains("- A: ") && result.summary.contains("- B: "), "{}", result.summary);
    let root = hand.only_for("find out");
    let CallInput::Aggregate(input) = &root.input else { panic!("{:?}", root.key) };
    assert!(input.children[0].artifacts.iter().any(|list| list.hinted && list.document_id.is_some()));
    hand.keeps_the_invariants();
}

#[test]
fn the_audit_knows_the_limits_of_each_search() {
    let mut hand = planned(&[StepSearch { max_depth: 2, max_nodes: 2 }]);
    let due = hand.calls();
    hand.finds(&due["step 0"], &["A"]);
    let due = hand.calls();
    hand.finds(&due["A"], &["A one"]);
    let found = |change: fn(&mut EventBody)| {
        let mut log = hand.log.clone();
        log.iter_mut().for_each(|event| change(&mut event.body));
        let mut audit = Audit::new();
        log.iter().for_each(|event| audit.event(event));
        audit.finish().into_iter().map(|violation| violation.message).collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), Vec::<String>::new());
    let cut = found(|body| {
        if let EventBody::NodeCreated(NodeCreated { search: Some(search), .. }) = body {
            search.max_nodes = 1;
        }
    });
    assert!(matches!(&cut[..], [one] if one.contains("lists more topics than the search")), "{cut:?}");
    let deep = found(|body| match body {
        EventBody::NodeStatusChanged(e) if e.message.as_deref() == Some("guard:maxDepth") => {
            *e = NodeStatusChanged {
                call: Some(CallKind::Research),
                ..NodeStatusChanged::new(NodeStatus::Executing, Role::Executor)
            };
        }
        _ => {}
    });
    assert!(deep.iter().any(|message| message.contains("beyond level 2 of its search")), "{deep:?}");
}

#[test]
fn topics_that_are_listed_while_a_node_above_their_search_is_paused_are_researched_after_it() {
    let mut hand = planned(&[StepSearch { max_depth: 2, max_nodes: 10 }]);
    let due = hand.calls();
    hand.gives(command::Action::Pause { node_id: None, now: false });
    hand.finds(&due["step 0"], &["one", "two"]);
    hand.executes(&due["step 1"]);
    assert!(hand.due().is_empty() && hand.run.rests());
    hand.gives(command::Action::Resume { node_id: None });
    assert_eq!(hand.calls().into_keys().collect::<Vec<_>>(), ["one", "two"]);
    hand.keeps_the_invariants();
}

#[test]
fn the_topics_of_a_step_are_steps_at_work() {
    let mut hand = planned(&[StepSearch::default()]);
    let due = hand.calls();
    let places = |n| BudgetChange { max_parallel_steps: Some(n), ..BudgetChange::default() };
    let set = |hand: &mut Hand, n| {
        let action = command::Action::SetBudget { node_id: None, change: places(n) };
        let decision = hand.run.command(&Command::new(action), hand.now).expect("it is another limit");
        hand.log.extend(decision.events);
    };
    set(&mut hand, 1);
    hand.finds(&due["step 0"], &["A", "B", "C"]);
    let only = hand.calls();
    assert_eq!(only.keys().collect::<Vec<_>>(), ["A"]);
    // More places are taken at once.
    set(&mut hand, 2);
    assert_eq!(hand.calls().keys().collect::<Vec<_>>(), ["B"]);
    hand.finds(&only["A"], &[]);
    assert_eq!(hand.calls().keys().collect::<Vec<_>>(), ["C"]);
    hand.keeps_the_invariants();
}

#[test]
fn a_search_that_a_plan_or_an_edit_adds_has_no_more_levels_than_the_run() {
    let mut hand = planned_within(2, &[StepSearch { max_depth: 64, max_nodes: 9 }]);
    let created = |event: &Event| match &event.body {
        EventBody::NodeCreated(e) => e.search.map(|search| search.max_depth),
        _ => None,
    };
    assert_eq!(hand.log.iter().find_map(created), Some(2));
    let root = hand.run.graph().nodes()[0].clone();
    let old = root.plan.expect("it has planned");
    let kept = |n: usize| {
        let step = &old.bands[0].steps[n];
        StepDraft {
            reason: step.reason.clone(),
            success_criteria: step.success_criteria.clone(),
            step_index: n as u32,
            strategy: step.strategy,
            search: step.search,
            ..StepDraft::new(step.step_id.clone(), step.title.clone())
        }
    };
    let added = StepDraft {
        strategy: Some(Strategy::Search),
        success_criteria: vec!["it is found".into()],
        reason: "needed".into(),
        step_index: 2,
        ..StepDraft::new(StepId::new("added"), "another subject")
    };
    let steps = vec![kept(0), kept(1), added];
    let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps };
    let plan = PlanDraft { summary: "one more".into(), bands: vec![band] };
    let action = command::Action::EditPlan { node_id: root.id, plan };
    let decision = hand.run.command(&Command::new(action), hand.now).expect("it makes sense");
    hand.log.extend(decision.events);
    let plan = hand.run.graph().nodes()[0].plan.clone().expect("the edited one");
    let depths: Vec<_> = plan.bands[0].steps.iter().map(|step| step.search.map(|s| s.max_depth)).collect();
    assert_eq!(depths, [Some(2), None, Some(2)], "the run has two levels");
}

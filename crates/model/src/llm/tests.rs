//! Inputs for tests of the answers.

use tree_agent_contract::role::{CallContext, OfferedLeaf, PickInput, ResearchForm, ResearchInput};
use tree_agent_contract::session::{SessionFork, SessionId};
use tree_agent_contract::{Budgets, NodeId, RunContext, RunId};

fn call() -> CallContext {
    let run_id = RunId(uuid::Uuid::from_u128(1));
    CallContext {
        run_id,
        node_id: NodeId::root(run_id),
        attempt: 1,
        objective: "How do tides work?".into(),
        title: "Tides".into(),
        reason: String::new(),
        success_criteria: vec![],
        depth: 1,
        budgets: Budgets::default(),
        context: RunContext::default(),
        model: String::new(),
        scratchpad_tail: String::new(),
        sibling_index: 0,
        allowance: Default::default(),
        finish: None,
        read_only: false,
        keep_prompts: false,
        origin_run_id: None,
        guidance: Vec::new(),
        deliverable: None,
        profile: None,
        started_at: None,
        time_left_ms: None,
        answers: None,
        siblings: Vec::new(),
        earlier_calls: Vec::new(),
        language: String::new(),
    }
}

pub(crate) fn research_input() -> ResearchInput {
    let call = call();
    ResearchInput {
        form: ResearchForm::Topic,
        path: vec!["Tides".into()],
        siblings: vec!["Winds".into()],
        outline: String::new(),
        session: Some(SessionFork::new(SessionId::of(call.node_id), None)),
        prompts: Default::default(),
        frontmatter_schema: None,
        max_children: 10,
        slug: String::new(),
        call,
    }
}

pub(crate) fn pick_input() -> PickInput {
    let leaf = OfferedLeaf { path: "a/b".into(), title: "B".into(), depth: 2, score: None, leaves_below: 0 };
    let outline = "- A [expanded]\n  - B [unexpanded]\n".to_owned();
    PickInput { call: call(), outline, leaves: vec![leaf], note: String::new(), prompt: None }
}

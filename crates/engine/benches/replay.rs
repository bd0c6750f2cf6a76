//! Events per second of replaying a log: the tree of `make bench` (85 nodes) and one wide tree of more than 100,000
//! events. Prints one JSON object per line.

#![allow(missing_docs, clippy::print_stdout)]

use std::time::Instant;

use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallOutput, Input, RoleCall, Run, start};

/// The planner's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// Events replayed in each round.
const EVENTS: usize = 400_000;

fn main() {
    for (name, fanout, depth) in [("85 nodes", 4, 3), ("9,313 nodes", 96, 2)] {
        let log = grow(fanout, depth);
        let times = EVENTS.div_ceil(log.len());
        let mut rates: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begun = Instant::now();
                for _ in 0..times {
                    let run = Run::replay(log[0].run_id, &log).expect("the log replays");
                    assert!(std::hint::black_box(run).is_final());
                }
                (times * log.len()) as f64 / begun.elapsed().as_secs_f64()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let line = serde_json::json!({
            "bench": format!("replay, {name}"), "value": rates[ROUNDS / 2].round(), "unit": "events/s",
            "events": log.len(), "repeat": ROUNDS,
        });
        println!("{line}");
    }
}

/// The log of a run whose roles answer at once.
fn grow(fanout: usize, depth: u32) -> Vec<Event> {
    let run_id = RunId(uuid::Uuid::from_u128(42));
    let mut spec = RunSpec::new("benchmark");
    spec.budgets = Budgets {
        max_depth: depth,
        max_steps_per_band: fanout as u32,
        max_children_per_node: fanout as u32,
        max_parallel_steps: 16,
        max_nodes: 100_000,
        ..Budgets::default()
    };
    let mut now = Timestamp::from_millis(1_000_000);
    let mut log = start(run_id, spec, now).events;
    let mut run = Run::replay(run_id, &log).expect("a fresh log replays");
    log.extend(run.handle(Input::Claimed, now).events);
    while !run.is_final() {
        for call in run.take_due(now, usize::MAX) {
            now = Timestamp(now.micros() + 7);
            let key = call.key;
            log.extend(run.handle(Input::Output(key, answer(call, fanout, depth)), now).events);
        }
    }
    log
}

fn answer(call: RoleCall, fanout: usize, depth: u32) -> CallOutput {
    match call.input {
        CallInput::Plan(input) => CallOutput::Plan(PlannerOutput {
            premises: None,
            homework: None,
            mode: if input.call.depth < depth { PlannerMode::Plan } else { PlannerMode::Execute },
            mode_reason: "scripted".into(),
            leaf_decision: None,
            plan: (input.call.depth < depth).then(|| plan(fanout)),
            scratchpad: notes(),
        }),
        CallInput::Execute(input) => {
            let (artifacts, result) = result(&input.call.title);
            CallOutput::Execute(ExecutorOutput { actions: vec![], artifacts, result, scratchpad: notes() })
        }
        CallInput::Aggregate(input) => {
            let (artifacts, result) = result(&input.call.title);
            CallOutput::Aggregate(AggregatorOutput {
                synthesis: Synthesis { summary: "together".into(), key_findings: vec![], gaps: vec![] },
                artifacts,
                result,
                next: AggregatorNext { should_replan: false, replan_reason: None },
                scratchpad: notes(),
            })
        }
        CallInput::Research(_) | CallInput::Pick(_) | CallInput::Verify(_) => {
            unreachable!("a tree does not search")
        }
    }
}

fn plan(fanout: usize) -> PlanDraft {
    let step = |s: usize| StepDraft {
        reason: "the whole needs its parts".into(),
        success_criteria: vec!["it was looked at".into()],
        step_index: s as u32,
        ..StepDraft::new(StepId::new(format!("s{s}")), format!("Look at part {s} of the whole"))
    };
    let steps = (0..fanout).map(step).collect();
    let band = BandDraft { index: 0, goal: "all parts".into(), parallelizable: true, steps };
    PlanDraft { summary: "part by part".into(), bands: vec![band] }
}

fn notes() -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: "- noted".into(), tail_preview: "noted".into() }
}

fn result(title: &str) -> (Vec<ArtifactDraft>, ResultDraft) {
    let artifact = ArtifactDraft::document("findings", format!("Findings: {title}"), "found");
    let result = ResultDraft::new(ResultKind::Document, "x".repeat(300), "findings");
    (vec![artifact], result)
}

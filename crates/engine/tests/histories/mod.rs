//! Recorded histories: logs that a version wrote, one folder for each behaviour version. Each must replay to the
//! recorded graph, and after each of its events the recorded calls must be due.
//!
//! `RECORD_HISTORIES=1 cargo test -p tree-agent-engine --test invariants histories` records those that are missing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tree_agent_contract::event::{EventBody, NodeStatusChanged};
use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_contract::{Budgets, Event, NodeStatus, ReviewRule, RunStatus, SearchConfig, Strategy};
use tree_agent_engine::{Graph, Run};

use crate::examples::adopting::adopted;
use crate::world::{World, WorldPlan};

/// The folder of the current behaviour version.
const VERSION: &str = "v1";

/// Worlds of which the one with the shortest log is recorded.
const SEEDS: u64 = 300;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every recorded log.
fn recorded() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder()).expect("the histories").map(|e| e.expect("readable").path());
    let files = folders.filter(|p| p.is_dir()).flat_map(|p| std::fs::read_dir(p).expect("a version"));
    let mut logs: Vec<PathBuf> = files.map(|e| e.expect("readable").path()).collect();
    logs.retain(|p| p.extension().is_some_and(|e| e == "jsonl"));
    logs.sort();
    logs
}

fn events(path: &Path) -> Vec<Event> {
    read(path).lines().map(|line| serde_json::from_str(line).expect("a recorded event")).collect()
}

/// What is due after each event for a driver that has just replayed the log up to it, where that changes: the seq, the
/// calls to make at once (node, role, attempt) and the milliseconds until the next wake-up.
fn due(log: &[Event]) -> String {
    let (mut text, mut before) = (String::new(), String::new());
    let mut run = Run::begin(&log[0]).expect("a log begins with its run");
    for event in &log[1..] {
        run.apply(event).expect("a recorded log applies");
        let mut successor = run.clone();
        let now = event.timestamp;
        let wake = successor.next_wakeup().map(|at| at.millis_since(now));
        let calls = successor.take_due(now, usize::MAX);
        let mut calls: Vec<_> = calls.iter().map(|call| call.key).collect();
        calls.sort_by_key(|key| run.graph().position(key.node_id));
        let calls: Vec<String> = calls
            .iter()
            .map(|key| {
                let at = run.graph().position(key.node_id).expect("a node of the run");
                format!("{at}:{:?}:{}", key.kind, key.attempt)
            })
            .collect();
        // The wall clock is always a wake-up. Only earlier ones are worth a line.
        let wake = wake.filter(|ms| *ms < 60_000).map_or("-".to_owned(), |ms| format!("+{ms}"));
        let line = format!("{} {wake}", calls.join(" "));
        if line != before {
            writeln!(text, "{} {line}", event.seq).expect("a string");
            before = line;
        }
    }
    text
}

#[test]
fn recorded_histories_replay_to_the_recorded_graphs_and_calls() {
    let logs = recorded();
    assert!(logs.len() >= cases().len(), "only {} histories are recorded", logs.len());
    for path in logs {
        let name = path.display();
        let log = events(&path);
        let run = Run::replay(log[0].run_id, &log).unwrap_or_else(|e| panic!("{name}: {e}"));
        let snapshot: GraphSnapshot =
            serde_json::from_str(&read(&path.with_extension("graph.json"))).expect("a recorded graph");
        assert_eq!(run.graph().snapshot(), snapshot, "{name}");
        let mut graph = Graph::new(log[0].run_id);
        log.iter().for_each(|event| graph.apply(event).unwrap_or_else(|e| panic!("{name}: {e}")));
        assert_eq!(graph.snapshot(), snapshot, "{name}");
        assert_eq!(due(&log), read(&path.with_extension("due")), "{name}");
    }
}

#[test]
fn histories_of_this_version_are_recorded() {
    let record = std::env::var_os("RECORD_HISTORIES").is_some();
    for (name, plan, make, wanted) in cases() {
        let folder = folder().join(VERSION);
        let path = folder.join(format!("{name}.jsonl"));
        if !path.exists() && record {
            std::fs::create_dir_all(&folder).expect("a folder");
            write(&path, &shortest(name, &plan, make, wanted));
        }
        assert!(path.exists(), "{}: record it with RECORD_HISTORIES=1", path.display());
        assert!(wanted(&events(&path)), "{name} does not show what it is there for");
    }
}

#[test]
fn every_type_of_event_and_every_strategy_is_in_a_history() {
    let logs: Vec<Event> = recorded().iter().flat_map(|path| events(path)).collect();
    let types: BTreeSet<&str> = logs.iter().map(|event| event.body.event_type()).collect();
    assert_eq!(types, EventBody::TYPES.iter().copied().collect());
    let strategies = logs.iter().filter_map(|event| match &event.body {
        EventBody::RunCreated(e) => Some(e.spec.strategy.as_str()),
        _ => None,
    });
    let all = Strategy::ALL.iter().map(|strategy| strategy.as_str());
    assert_eq!(strategies.collect::<BTreeSet<_>>(), all.collect());
}

fn write(path: &Path, log: &[Event]) {
    let lines: Vec<String> = log.iter().map(|e| serde_json::to_string(e).expect("json") + "\n").collect();
    let graph = Run::replay(log[0].run_id, log).expect("a new log replays").graph().snapshot();
    std::fs::write(path, lines.concat()).expect("writable");
    let graph = serde_json::to_string(&graph).expect("json") + "\n";
    std::fs::write(path.with_extension("graph.json"), graph).expect("writable");
    std::fs::write(path.with_extension("due"), due(log)).expect("writable");
}

/// The shortest log of a few hundred worlds that shows what is wanted.
fn shortest(name: &str, plan: &WorldPlan, make: Make, wanted: Shows) -> Vec<Event> {
    let logs = (0..SEEDS).map(|seed| {
        let dice = (0..97).map(|i| (seed * 131 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56);
        // Mostly multiples of nine, which make roles write and use nothing, so that logs stay short.
        let dice = dice.map(|die| if die % 4 == 0 { die as u8 } else { (die - die % 9) as u8 });
        make(&WorldPlan { dice: dice.collect(), ..plan.clone() })
    });
    let logs = logs.filter(|log| wanted(log));
    logs.min_by_key(Vec::len).unwrap_or_else(|| panic!("no world shows {name}"))
}

fn statuses(log: &[Event]) -> impl Iterator<Item = &NodeStatusChanged> {
    log.iter().filter_map(|event| match &event.body {
        EventBody::NodeStatusChanged(status) => Some(status),
        _ => None,
    })
}

fn says(log: &[Event], start: &str) -> bool {
    statuses(log).any(|s| s.message.as_deref().is_some_and(|m| m.starts_with(start)))
}

fn ends(log: &[Event], status: RunStatus, partial: bool) -> bool {
    matches!(&log.last().expect("a log").body,
        EventBody::RunStatusChanged(e) if e.status == status && e.partial == partial)
}

fn trips(log: &[Event], budget: &str) -> bool {
    log.iter().any(|e| matches!(&e.body, EventBody::BudgetExhausted(e) if e.budget == budget))
}

/// Some event of the log has a body like that.
macro_rules! has {
    ($log:expr, $($body:tt)+) => {
        $log.iter().any(|event| matches!(&event.body, $($body)+))
    };
}

fn count(log: &[Event], event_type: &str) -> usize {
    log.iter().filter(|event| event.body.event_type() == event_type).count()
}

/// A search in such a world.
fn searching(plan: &WorldPlan, max_depth: u32) -> WorldPlan {
    let search = SearchConfig { concurrency: 2, max_depth, synthesis: false, ..SearchConfig::default() };
    WorldPlan { strategy: Strategy::Search, search, ..plan.clone() }
}

/// Such a world in which people give commands.
fn steered(plan: &WorldPlan) -> WorldPlan {
    WorldPlan { commands: 90, ..plan.clone() }
}

/// The log of a world that runs to its end.
fn run(plan: &WorldPlan) -> Vec<Event> {
    World::run(plan).log
}

/// The log of a fork of the end of a world.
fn forked(plan: &WorldPlan) -> Vec<Event> {
    let mut world = World::run(plan);
    let end = world.log.len();
    let edits = world.edits_at(end);
    world.fork(end, edits).log
}

/// Makes a log in a world.
type Make = fn(&WorldPlan) -> Vec<Event>;

/// What a log must show.
type Shows = fn(&[Event]) -> bool;

/// What is recorded: a name, a world, how its log comes about, and what the log must show.
fn cases() -> Vec<(&'static str, WorldPlan, Make, Shows)> {
    let review = ReviewRule { goes_on_after_ms: Some(60_000), per_call: None };
    let quiet = WorldPlan { fanout: 2, ..WorldPlan::quiet(1, 2) };
    let rough = WorldPlan { failures: 70, ..quiet.clone() };
    let with = |plan: &WorldPlan, change: fn(&mut Budgets)| {
        let mut plan = plan.clone();
        change(&mut plan.budgets);
        plan
    };
    vec![
        ("quiet", quiet.clone(), run, |log| {
            ends(log, RunStatus::Completed, false) && count(log, "tree.plan_created") == 1
        }),
        ("retries", rough.clone(), run, |log| {
            let again = statuses(log).any(|s| s.attempt == Some(2) && s.status == NodeStatus::Executing);
            ends(log, RunStatus::Completed, false) && says(log, "retry:2/3") && again
        }),
        ("failed-step", rough.clone(), run, |log| {
            ends(log, RunStatus::Completed, true) && has!(log, EventBody::NodeFailed(_))
        }),
        ("provider-gone", WorldPlan { failures: 250, ..quiet.clone() }, run, |log| {
            ends(log, RunStatus::Failed, false) && says(log, "blocked:provider:")
        }),
        ("quota", WorldPlan { failures: 120, ..quiet.clone() }, run, |log| {
            let parked = has!(log, EventBody::RunStatusChanged(e) if e.goes_on_at.is_some());
            parked && ends(log, RunStatus::Completed, false)
        }),
        ("aggregator-gone", rough.clone(), run, |log| says(log, "guard:aggregationFailed")),
        ("replan", rough.clone(), run, |log| {
            count(log, "tree.replan_requested") == 1 && ends(log, RunStatus::Completed, false)
        }),
        ("cut", with(&rough, |b| b.max_nodes = 4), run, |log| {
            says(log, "guard:maxNodes") && says(log, "guard:maxBandsPerPlan")
        }),
        ("tokens", with(&quiet, |b| b.max_tokens = Some(20_000)), run, |log| {
            trips(log, "maxTokens") && has!(log, EventBody::PlanCreated(_))
        }),
        ("wall-clock", with(&rough, |b| b.max_wall_clock_ms = 2_000), run, |log| {
            trips(log, "maxWallClockMs")
                && says(log, "budget:maxWallClockMs")
                && has!(log, EventBody::PlanCreated(_))
        }),
        ("cancelled", WorldPlan { cancel_after: 7, ..rough.clone() }, run, |log| {
            ends(log, RunStatus::Cancelled, false) && has!(log, EventBody::PlanCreated(_))
        }),
        ("takeover", WorldPlan { crash_every: 5, ..rough.clone() }, run, |log| {
            // Nothing but a takeover leaves such a gap.
            let gaps = log.windows(2).filter(|w| w[1].timestamp.millis_since(w[0].timestamp) >= 5_000);
            ends(log, RunStatus::Completed, false) && gaps.count() > 2 && says(log, "retry:")
        }),
        ("prompts", WorldPlan { keep_prompts: true, ..quiet.clone() }, run, |log| {
            has!(log, EventBody::UsageRecorded(e) if e.prompt.is_some())
                && ends(log, RunStatus::Completed, false)
        }),
        ("known-answers", WorldPlan { fanout: 3, ..quiet.clone() }, run, |log| {
            let kept = has!(log, EventBody::ToolCallResult(e) if e.answer.is_some_and(|a| a.bytes > 0));
            let known = has!(log, EventBody::ToolCallRequested(e) if e.cached);
            kept && known && ends(log, RunStatus::Completed, false)
        }),
        ("verified-replan", WorldPlan { verify: true, fanout: 1, ..rough.clone() }, run, |log| {
            ends(log, RunStatus::Completed, false)
                && count(log, "tree.answer_verified") == 2
                && has!(log, EventBody::ArtifactCited(_))
        }),
        ("reviewed", WorldPlan { review: Some(review), ..quiet.clone() }, run, |log| {
            count(log, "tree.review_requested") == 1
                && count(log, "tree.node_resumed") == 1
                && ends(log, RunStatus::Completed, false)
        }),
        ("homework", WorldPlan { strategy: Strategy::Homework, ..rough.clone() }, run, |log| {
            has!(log, EventBody::TaskRefused(e) if e.repeats.is_some())
                && count(log, "tree.rollup_updated") > 1
                && ends(log, RunStatus::Completed, false)
        }),
        ("search", searching(&quiet, 2), run, |log| {
            ends(log, RunStatus::Completed, false) && says(log, "guard:maxDepth")
        }),
        ("search-fallback", WorldPlan { fanout: 4, ..searching(&rough, 3) }, run, |log| {
            says(log, "pick:again:") && has!(log, EventBody::LeafPicked(e) if e.fallback.is_some())
        }),
        (
            "search-adopted",
            searching(&quiet, 3),
            |_| adopted(),
            |log| has!(log, EventBody::NodeSkipped(_)) && ends(log, RunStatus::Completed, false),
        ),
        ("search-step", WorldPlan { search_steps: true, ..quiet.clone() }, run, |log| {
            has!(log, EventBody::NodeCreated(e) if e.strategy == Some(Strategy::Search))
                && ends(log, RunStatus::Completed, false)
        }),
        ("paused", steered(&quiet), run, |log| {
            has!(log, EventBody::NodeResumed(_))
                && has!(log, EventBody::CallStopped(_))
                && has!(log, EventBody::GuidanceAdded(_))
        }),
        ("edited", steered(&quiet), run, |log| {
            has!(log, EventBody::PlanEdited(_)) && ends(log, RunStatus::Completed, false)
        }),
        ("stopped", steered(&quiet), run, |log| {
            has!(log, EventBody::NodeStopped(_)) && ends(log, RunStatus::Completed, true)
        }),
        ("leases", leased(&with(&rough, |b| b.max_tokens = Some(60_000))), run, |log| {
            has!(log, EventBody::LeaseCovered(_))
                && has!(log, EventBody::BudgetSet(_))
                && log.iter().any(|event| {
                    matches!(event.body, EventBody::BudgetExhausted(_)) && event.parent_node_id.is_some()
                })
        }),
        ("fork", quiet, forked, |log| {
            has!(log, EventBody::RunForked(e) if e.goes_on) && ends(log, RunStatus::Completed, false)
        }),
    ]
}

/// Such a world in which steps have budgets of their own, and people give commands.
fn leased(plan: &WorldPlan) -> WorldPlan {
    WorldPlan { leases: 150, obedient: false, ..steered(plan) }
}

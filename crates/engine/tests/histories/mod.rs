//! Recorded histories: logs that this and earlier versions wrote, one folder for each behaviour version. Each must
//! replay to the recorded graph, and after each of its events the recorded calls must be due.
//!
//! `RECORD_HISTORIES=1 cargo test -p tree-agent-engine --test invariants histories` records those of the current
//! behaviour version that are missing. A recorded history never changes: what it holds is what users have stored.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tree_agent_contract::event::{EventBody, LeafPicked, NodeStatusChanged};
use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_contract::{Budgets, Event, NodeStatus, RunStatus, SearchConfig, Strategy};
use tree_agent_engine::{Graph, Run};

use crate::world::{World, WorldPlan};

/// The folder of the current behaviour version.
const VERSION: &str = "v5";

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
    for (name, plan, wanted) in cases() {
        let folder = folder().join(VERSION);
        let path = folder.join(format!("{name}.jsonl"));
        if !path.exists() && record {
            std::fs::create_dir_all(&folder).expect("a folder");
            write(&path, &shortest(name, &plan, wanted));
        }
        assert!(path.exists(), "{}: record it with RECORD_HISTORIES=1", path.display());
        assert!(wanted(&events(&path)), "{name} does not show what it is there for");
    }
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
fn shortest(name: &str, plan: &WorldPlan, wanted: Shows) -> Vec<Event> {
    let logs = (0..SEEDS).map(|seed| {
        let dice = (0..97).map(|i| (seed * 131 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56);
        // Mostly multiples of nine, which make roles write and use nothing, so that logs stay short.
        let dice = dice.map(|die| if die % 4 == 0 { die as u8 } else { (die - die % 9) as u8 });
        World::run(&WorldPlan { dice: dice.collect(), ..plan.clone() }).log
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

fn replans(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(e.body, EventBody::ReplanRequested(_))).count()
}

fn plans(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(e.body, EventBody::PlanCreated(_))).count()
}

fn picks(log: &[Event]) -> impl Iterator<Item = &LeafPicked> {
    log.iter().filter_map(|event| match &event.body {
        EventBody::LeafPicked(picked) => Some(picked),
        _ => None,
    })
}

/// A search in such a world.
fn searching(plan: &WorldPlan) -> WorldPlan {
    let search = SearchConfig { concurrency: 2, max_depth: 3, ..SearchConfig::default() };
    WorldPlan { strategy: Strategy::Search, search, fanout: 4, ..plan.clone() }
}

/// Homework in such a world.
fn homework(plan: &WorldPlan) -> WorldPlan {
    WorldPlan { strategy: Strategy::Homework, ..plan.clone() }
}

fn rollups(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(e.body, EventBody::RollupUpdated(_))).count()
}

/// Such a world in which some steps are searches.
fn with_searches(plan: &WorldPlan) -> WorldPlan {
    WorldPlan { search_steps: true, fanout: 3, ..plan.clone() }
}

fn searches(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(&e.body, EventBody::NodeCreated(n) if n.strategy.is_some())).count()
}

fn verified(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(e.body, EventBody::AnswerVerified(_))).count()
}

/// What a log must show.
type Shows = fn(&[Event]) -> bool;

/// What is recorded: a name, a world, and what its log must show.
fn cases() -> Vec<(&'static str, WorldPlan, Shows)> {
    let quiet = WorldPlan { fanout: 2, ..WorldPlan::quiet(1, 2) };
    let rough = WorldPlan { failures: 70, ..quiet.clone() };
    let with = |plan: &WorldPlan, change: fn(&mut Budgets)| {
        let mut plan = plan.clone();
        change(&mut plan.budgets);
        plan
    };
    vec![
        ("quiet", quiet.clone(), |log| ends(log, RunStatus::Completed, false) && plans(log) == 1),
        ("retries", rough.clone(), |log| {
            let again = statuses(log).any(|s| s.attempt == Some(2) && s.status == NodeStatus::Executing);
            ends(log, RunStatus::Completed, false) && says(log, "retry:2/3") && again && plans(log) > 0
        }),
        ("failed-step", rough.clone(), |log| {
            let failed = log.iter().any(|e| matches!(e.body, EventBody::NodeFailed(_)));
            ends(log, RunStatus::Completed, true) && failed
        }),
        ("failed", rough.clone(), |log| ends(log, RunStatus::Failed, false) && says(log, "retry:3/3")),
        ("aggregator-gone", rough.clone(), |log| says(log, "guard:aggregationFailed")),
        ("blocked", rough.clone(), |log| {
            says(log, "blocked:bad luck")
                && says(log, "blocked:provider:")
                && !ends(log, RunStatus::Failed, false)
        }),
        ("provider-gone", WorldPlan { failures: 250, ..quiet.clone() }, |log| {
            ends(log, RunStatus::Failed, false) && says(log, "blocked:provider:")
        }),
        ("replan", rough.clone(), |log| {
            replans(log) == 1 && plans(log) > 1 && ends(log, RunStatus::Completed, false)
        }),
        ("replan-refused", rough.clone(), |log| says(log, "guard:maxReplansPerNode")),
        ("replan-failed", rough.clone(), |log| says(log, "guard:replanFailed")),
        ("executes-after-replan", with(&rough, |b| b.max_replans_per_node = 2), |log| {
            let at = log.iter().position(|e| matches!(e.body, EventBody::ReplanRequested(_)));
            at.is_some_and(|at| says(&log[at..], "leaf_decision:direct"))
                && ends(log, RunStatus::Completed, false)
        }),
        ("cut", with(&rough, |b| b.max_nodes = 4), |log| {
            says(log, "guard:maxNodes") && says(log, "guard:maxBandsPerPlan") && plans(log) > 0
        }),
        ("tokens", with(&quiet, |b| b.max_tokens = Some(20_000)), |log| {
            trips(log, "maxTokens") && plans(log) > 0
        }),
        ("tools", with(&rough, |b| b.max_tool_calls = Some(2)), |log| {
            trips(log, "maxToolCalls") && plans(log) > 0 && ends(log, RunStatus::Completed, true)
        }),
        ("wall-clock", with(&rough, |b| b.max_wall_clock_ms = 2_000), |log| {
            trips(log, "maxWallClockMs") && says(log, "budget:maxWallClockMs") && plans(log) > 0
        }),
        ("cancelled", WorldPlan { cancel_after: 7, ..rough.clone() }, |log| {
            ends(log, RunStatus::Cancelled, false) && plans(log) > 0
        }),
        ("takeover", WorldPlan { crash_every: 5, ..rough.clone() }, |log| {
            // Nothing but a takeover leaves such a gap.
            let gaps = log.windows(2).filter(|w| w[1].timestamp.millis_since(w[0].timestamp) >= 5_000);
            ends(log, RunStatus::Completed, false)
                && gaps.count() > 2
                && plans(log) > 0
                && says(log, "retry:")
        }),
        ("known-answers", WorldPlan { fanout: 4, ..quiet.clone() }, |log| {
            let known =
                log.iter().any(|e| matches!(&e.body, EventBody::ToolCallRequested(call) if call.cached));
            let kept = log.iter().any(|e| {
                matches!(&e.body, EventBody::ToolCallResult(result) if result.answer.is_some_and(|a| a.bytes > 0))
            });
            known && kept && ends(log, RunStatus::Completed, false)
        }),
        ("verified", WorldPlan { verify: true, ..quiet.clone() }, |log| {
            ends(log, RunStatus::Completed, false) && verified(log) == 1
        }),
        ("verified-replan", WorldPlan { verify: true, ..rough.clone() }, |log| {
            ends(log, RunStatus::Completed, false) && verified(log) == 2 && replans(log) == 1
        }),
        ("verified-homework", WorldPlan { verify: true, ..homework(&rough) }, |log| {
            verified(log) > 0 && replans(log) > 0 && !ends(log, RunStatus::Failed, false)
        }),
        ("homework", homework(&quiet), |log| rollups(log) > 2 && ends(log, RunStatus::Completed, false)),
        ("homework-refused", homework(&rough), |log| {
            let refused = log.iter().filter(|e| matches!(e.body, EventBody::TaskRefused(_))).count();
            refused > 1 && rollups(log) > 1 && !ends(log, RunStatus::Failed, false)
        }),
        ("homework-last", with(&homework(&rough), |b| b.max_iterations = 2), |log| {
            says(log, "guard:maxIterations") && ends(log, RunStatus::Completed, true)
        }),
        ("homework-tokens", homework(&with(&rough, |b| b.max_tokens = Some(30_000))), |log| {
            trips(log, "maxTokens") && rollups(log) > 0 && ends(log, RunStatus::Completed, true)
        }),
        ("homework-takeover", WorldPlan { crash_every: 5, ..homework(&rough) }, |log| {
            rollups(log) > 1 && ends(log, RunStatus::Completed, false)
        }),
        ("search", WorldPlan { fanout: 2, ..searching(&quiet) }, |log| {
            picks(log).count() > 2 && ends(log, RunStatus::Completed, false) && says(log, "guard:maxDepth")
        }),
        ("search-fallback", searching(&rough), |log| {
            says(log, "pick:again:") && picks(log).any(|picked| picked.fallback.is_some())
        }),
        ("search-skipped", searching(&rough), |log| {
            let skipped = log.iter().any(|e| matches!(e.body, EventBody::NodeSkipped(_)));
            skipped && !ends(log, RunStatus::Failed, false)
        }),
        ("search-failed-topic", searching(&rough), |log| {
            let failed = log.iter().any(|e| matches!(e.body, EventBody::NodeFailed(_)));
            failed && ends(log, RunStatus::Completed, true)
        }),
        ("search-tokens", searching(&with(&rough, |b| b.max_tokens = Some(30_000))), |log| {
            trips(log, "maxTokens") && picks(log).count() > 0 && ends(log, RunStatus::Completed, true)
        }),
        ("search-step", WorldPlan { fanout: 2, ..with_searches(&quiet) }, |log| {
            searches(log) == 1 && ends(log, RunStatus::Completed, false)
        }),
        ("search-step-failed", with_searches(&rough), |log| {
            let failed = log.iter().any(|e| matches!(&e.body, EventBody::NodeFailed(_)));
            searches(log) > 1 && failed && ends(log, RunStatus::Completed, true)
        }),
        ("search-step-tokens", with_searches(&with(&rough, |b| b.max_tokens = Some(90_000))), |log| {
            trips(log, "maxTokens") && searches(log) > 0 && ends(log, RunStatus::Completed, true)
        }),
        ("deep", with(&WorldPlan { failures: 40, ..quiet }, |b| b.max_depth = 2), |log| {
            let depth = |e: &Event| matches!(&e.body, EventBody::NodeCreated(n) if n.depth == 2);
            log.iter().any(depth)
                && log.iter().any(|e| matches!(&e.body, EventBody::StepCreated(s) if s.band_index > 0))
        }),
    ]
}

//! Every seed keeps every promise, and gives the same trace twice.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tree_agent_simulation::{Outcome, replay_command, simulate, simulate_alone};

/// Seeds of one test run, unless `TREE_AGENT_SEEDS` says otherwise; `make test-all` runs 2,000.
const SEEDS: u64 = 300;
/// Every so many seeds are also run without people.
const ALONE: u64 = 4;
/// Seeds that are run twice.
const TWICE: u64 = 64;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Real time that one world may take, on a machine that is busy with other things.
const LONGEST: Duration = Duration::from_secs(90);

/// Runs `work` for each seed on every core and returns what it found, by seed.
fn for_each_seed(seeds: u64, work: impl Fn(u64) -> Vec<String> + Sync) -> Vec<(u64, Vec<String>)> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let running: Mutex<BTreeMap<u64, Instant>> = Mutex::default();
    std::thread::scope(|scope| {
        let worker = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return;
                }
                running.lock().expect("no panic while locked").insert(seed, Instant::now());
                let problems = work(seed);
                running.lock().expect("no panic while locked").remove(&seed);
                if !problems.is_empty() {
                    found.lock().expect("no panic while locked").push((seed, problems));
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        // A world in which time stands still cannot be stopped from outside. Name it and end the tests.
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            for (seed, began) in &*running.lock().expect("no panic while locked") {
                if began.elapsed() > LONGEST {
                    eprintln!("seed {seed} does not come to an end\n    {}", replay_command(*seed));
                    std::process::abort();
                }
            }
        }
    });
    let mut found = found.into_inner().expect("no panic while locked");
    found.sort();
    found
}

fn fail(found: &[(u64, Vec<String>)]) {
    let mut text = String::new();
    for (seed, problems) in found.iter().take(10) {
        text += &format!("\nseed {seed}: {}\n    {}\n", problems.join("\n    "), replay_command(*seed));
    }
    assert!(found.is_empty(), "{} seeds broke a promise:\n{text}", found.len());
}

#[test]
fn every_seed_keeps_every_promise() {
    let seeds = variable("TREE_AGENT_SEEDS").unwrap_or(SEEDS);
    let (events, calls, began) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let (refused, unawaited) = (AtomicU64::new(0), AtomicU64::new(0));
    let (applied, denied, compared) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (forks, used_up, handed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let found = for_each_seed(seeds, |seed| {
        let mut outcome = simulate(seed, None);
        if seed.is_multiple_of(ALONE) {
            outcome.violations.extend(simulate_alone(seed).violations);
        }
        applied.fetch_add(outcome.applied, Ordering::Relaxed);
        denied.fetch_add(outcome.refused, Ordering::Relaxed);
        forks.fetch_add(outcome.forks, Ordering::Relaxed);
        handed.fetch_add(outcome.handed_over, Ordering::Relaxed);
        used_up.fetch_add(outcome.used_up, Ordering::Relaxed);
        compared.fetch_add(outcome.compared, Ordering::Relaxed);
        let Outcome { violations, events: written, calls: made, fenced, stale, .. } = outcome;
        refused.fetch_add(fenced, Ordering::Relaxed);
        unawaited.fetch_add(stale, Ordering::Relaxed);
        events.fetch_add(written, Ordering::Relaxed);
        calls.fetch_add(made, Ordering::Relaxed);
        violations
    });
    let took = began.elapsed().as_secs_f64();
    eprintln!(
        "{seeds} seeds in {took:.1} s ({:.0}/s): {} events, {} role calls, {} appends fenced, {} answers stale, \
         {} commands applied, {} refused, {} nodes compared, {} forks, {} budgets of subtrees used up, {} runs handed over",
        seeds as f64 / took,
        events.into_inner(),
        calls.into_inner(),
        refused.load(Ordering::Relaxed),
        unawaited.load(Ordering::Relaxed),
        applied.load(Ordering::Relaxed),
        denied.load(Ordering::Relaxed),
        compared.load(Ordering::Relaxed),
        forks.load(Ordering::Relaxed),
        used_up.load(Ordering::Relaxed),
        handed.load(Ordering::Relaxed),
    );
    fail(&found);
    // The test proves something only if answers did come late or twice, and commands were given.
    if seeds >= SEEDS {
        assert!(applied.into_inner() > seeds && denied.into_inner() > seeds / 10);
        assert!(compared.into_inner() > seeds / 10);
        assert!(forks.into_inner() > seeds / 10 && used_up.into_inner() > seeds / 20);
        assert!(handed.into_inner() > seeds / 10);
        assert!(refused.into_inner() > 0 && unawaited.into_inner() > 0);
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    let found = for_each_seed(TWICE, |seed| {
        let (first, second) = (simulate(seed, None).trace, simulate(seed, None).trace);
        let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        match differs {
            Some((a, b)) => vec![format!("the traces differ: {a:?} and {b:?}")],
            None if first != second => vec!["one trace is longer".into()],
            None => vec![],
        }
    });
    fail(&found);
}

/// Replays the seed that `TREE_AGENT_SEED` names, with its trace; with `TREE_AGENT_ALONE=1` without people.
#[test]
fn one_seed() {
    let seed = variable("TREE_AGENT_SEED").unwrap_or(0);
    let alone = variable("TREE_AGENT_ALONE") == Some(1);
    let outcome = if alone { simulate_alone(seed) } else { simulate(seed, None) };
    if variable("TREE_AGENT_SEED").is_some() {
        eprintln!("{}\n{:?}", outcome.trace, outcome.plan);
    }
    assert!(!outcome.trace.is_empty());
    assert!(outcome.violations.is_empty(), "{}", outcome.violations.join("\n"));
}

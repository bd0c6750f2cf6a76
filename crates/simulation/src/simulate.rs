//! Runs one world, from its seed to its end.

use std::cell::Cell;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::time::Instant;
use tree_agent_contract::RunId;
use uuid::Uuid;

use crate::check::{View, check_ending};
use crate::client;
use crate::cluster::Cluster;
use crate::flaw::Flaw;
use crate::people::People;
use crate::plan::Plan;
use crate::world::World;

/// How often faults are injected and processes are checked.
const TICK: Duration = Duration::from_millis(50);
/// Time after healing within which every run must end and every subscriber must have received everything. A run may
/// take its wall-clock budget of 60 s, plus three calls of an aggregator on each of three levels.
const REST: Duration = Duration::from_secs(120);

/// The outcome of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan that its seed gave.
    pub plan: Plan,
    /// The broken promises.
    pub violations: Vec<String>,
    /// What happened, one line each: simulated seconds, who, what.
    pub trace: String,
    /// How long it lasted, in simulated time.
    pub simulated: Duration,
    /// Events written.
    pub events: u64,
    /// Role calls made.
    pub calls: u64,
    /// Appends that were refused because another driver owned the run.
    pub fenced: u64,
    /// Answers that were refused because nothing waited for them.
    pub stale: u64,
    /// Commands of people that were applied.
    pub applied: u64,
    /// Commands of people that were refused.
    pub refused: u64,
    /// Forks that were made.
    pub forks: u64,
    /// Budgets of subtrees that were used up.
    pub used_up: u64,
    /// Runs that drivers handed over because others had permits to spare.
    pub handed_over: u64,
    /// Nodes of runs with commands that were compared with the same runs without.
    pub compared: u64,
}

/// The command that replays one seed with its trace.
pub fn replay_command(seed: u64) -> String {
    format!("TREE_AGENT_SEED={seed} cargo test -p tree-agent-simulation one_seed -- --nocapture")
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Runs the world of `seed` to its end, optionally with a flaw. A flaw that has nothing to do with commands is looked
/// for without people.
pub fn simulate(seed: u64, flaw: Option<Flaw>) -> Outcome {
    let plan = Plan::of(seed);
    let steered = flaw.map_or(plan.steered, Flaw::is_about_commands);
    simulate_plan(Plan { steered, ..plan }, flaw)
}

/// As [`simulate`], in a world without people.
pub fn simulate_alone(seed: u64) -> Outcome {
    simulate_plan(Plan { steered: false, ..Plan::of(seed) }, None)
}

fn simulate_plan(plan: Plan, flaw: Option<Flaw>) -> Outcome {
    count_panics();
    PANICS.set(0);
    // The production code takes its jitter from here.
    fastrand::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can always be built");
    let mut outcome = runtime.block_on(run(plan, flaw));
    let panics = PANICS.get();
    if panics > 0 {
        outcome.violations.push(format!("{panics} panics"));
    }
    outcome
}

/// The runtime catches a panic within a task. This counts it anyway.
fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

async fn run(plan: Plan, flaw: Option<Flaw>) -> Outcome {
    let began = Instant::now();
    let world = World::new(plan, flaw);
    let mut cluster = Cluster::start(&world);
    let runs: Vec<RunId> = (1..=world.plan.runs as u128)
        .map(|n| RunId(Uuid::from_u128(u128::from(world.plan.seed) << 8 | n)))
        .collect();
    let mut views = Vec::new();
    for run in &runs {
        for n in 1..=world.plan.subscribers {
            let view = View::new(format!("client{n}"), *run);
            views.push(tokio::spawn(client::watch(world.clone(), cluster.handles.clone(), view)));
        }
    }
    let mut people = world.plan.steered.then(|| People::new(&world, cluster.handles.clone()));
    let mut to_create = runs;
    let mut trouble_at = began + world.dice.millis(100..=1_500);
    let healthy_at = began + world.plan.trouble;
    let (mut create_at, mut act_at) = (began, began);
    loop {
        let now = Instant::now();
        if now >= create_at && !to_create.is_empty() {
            cluster.create_run(to_create.remove(0)).await;
            create_at = now + world.dice.millis(0..=4_000);
        }
        // What happens after a flaw was found does not matter.
        if flaw.is_some_and(|flaw| world.checks().shows(flaw)) {
            return finish(&world, began);
        }
        if let Some(people) = people.as_mut().filter(|_| now >= act_at) {
            people.act();
            act_at = now + people.pause();
        }
        for (fork, shared) in people.as_ref().map(People::made).unwrap_or_default() {
            let view = View::of_fork("client9".into(), fork, shared);
            views.push(tokio::spawn(client::watch(world.clone(), cluster.handles.clone(), view)));
        }
        let content = people.as_mut().is_none_or(People::are_content);
        let ended = content && to_create.is_empty() && views.iter().all(tokio::task::JoinHandle::is_finished);
        if ended || now >= healthy_at + REST {
            break;
        }
        if world.healed() {
        } else if now >= healthy_at {
            cluster.heal();
        } else if now >= trouble_at {
            cluster.trouble().await;
            trouble_at = now + world.dice.millis(50..=1_500);
        }
        cluster.tend();
        cluster.check_takeover();
        cluster.check_commands();
        tokio::time::sleep(TICK).await;
    }
    let mut seen = Vec::new();
    for view in views {
        let who = view.abort_handle();
        who.abort();
        match view.await {
            Ok(view) => seen.push(view),
            Err(_) => world.violation("a subscriber has not seen the end of its run".into()),
        }
    }
    // Requests that are still in transit arrive and change nothing.
    tokio::time::sleep(Duration::from_secs(10)).await;
    if let Some(people) = &mut people
        && !people.are_content()
    {
        world.violation("somebody has no answer to a command".into());
        people.leave();
    }
    cluster.stop().await;
    for text in check_ending(&world, &seen) {
        world.violation(text);
    }
    finish(&world, began)
}

fn finish(world: &Arc<World>, began: Instant) -> Outcome {
    let (events, forks) = {
        let model = world.model();
        let forks = model.runs.values().filter(|run| run.fork.is_some()).count() as u64;
        (model.runs.values().map(|run| run.head()).sum(), forks)
    };
    let mut checks = world.checks();
    let (fenced, stale, found) = checks.refused();
    checks.violations.extend(found);
    let (applied, refused) = checks.commands.answered();
    let used_up = checks.log.used_up();
    Outcome {
        plan: world.plan.clone(),
        violations: std::mem::take(&mut checks.violations),
        calls: checks.calls.made(),
        fenced,
        stale,
        applied,
        refused,
        forks,
        used_up,
        handed_over: checks.handed_over(),
        compared: checks.compared,
        trace: world.take_trace(),
        simulated: began.elapsed(),
        events,
    }
}

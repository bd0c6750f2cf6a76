//! The processes of a world, and what happens to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::command::Action;
use tree_agent_contract::{
    Command, ReviewRule, RunId, RunSpec, RunStatus, SearchConfig, Strategy, Timestamp,
};
use tree_agent_driver::{Driver, DriverConfig};
use tree_agent_engine::{Decision, Graph, start};
use tree_agent_event_gateway::{Config, Gateway, WatchConfig};
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{NewRun, Projection};

use crate::check::Counters;
use crate::client::{GatewayHandle, GatewayHandles};
use crate::fanout::SimFanout;
use crate::flaw::Flaw;
use crate::node::{Node, NodeClock};
use crate::plan::Fault;
use crate::roles::SimRoles;
use crate::store::{SimStore, create};
use crate::world::{World, run_name};

/// Time after the end of a lease within which another driver must have taken the run over.
const TAKEOVER: Duration = Duration::from_secs(2);
/// Time within which a command is answered, from when somebody could do so. An append may be repeated only after a
/// quarter of a lease, and half as long again.
const ANSWER: Duration = Duration::from_secs(3);
/// How far clocks can be off, in seconds.
const CLOCKS_OFF: u64 = 600;
/// How far a clock that jumps can be off, in seconds.
const JUMPS: u64 = 5 * 3_600;

/// All processes.
pub(crate) struct Cluster {
    world: Arc<World>,
    drivers: Vec<DriverSlot>,
    gateways: Vec<GatewaySlot>,
    pub(crate) handles: GatewayHandles,
    /// Runs that nobody drives although somebody could, and since when.
    orphans: BTreeMap<RunId, (Orphaned, Instant)>,
    /// Commands that are not answered, although somebody could: how long that may take, and since when.
    unheard: BTreeMap<(RunId, i64), (Duration, Instant)>,
    fanout_was_down: bool,
}

/// Why nobody drives a run: its epoch, whether its driver is gone or frozen (otherwise its task hangs), and when a
/// driver that is gone or frozen last renewed its lease.
type Orphaned = (u64, bool, Option<Timestamp>);

struct DriverSlot {
    lives: u32,
    clock_off: i64,
    node: Arc<Node>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    back_at: Option<Instant>,
}

struct GatewaySlot {
    lives: u32,
    handle: GatewayHandle,
    back_at: Option<Instant>,
}

impl Cluster {
    pub(crate) fn start(world: &Arc<World>) -> Self {
        let drivers = (0..world.plan.drivers)
            .map(|place| {
                let off = match world.plan.has(Fault::Clocks) {
                    true => world.dice.within(0..=2 * CLOCKS_OFF) as i64 - CLOCKS_OFF as i64,
                    false => 0,
                };
                start_driver(world, place, 1, off * 1_000_000)
            })
            .collect();
        let gateways = (0..world.plan.gateways).map(|place| start_gateway(world, place, 1)).collect();
        let mut cluster = Self {
            world: world.clone(),
            drivers,
            gateways,
            handles: GatewayHandles::default(),
            orphans: BTreeMap::new(),
            unheard: BTreeMap::new(),
            fanout_was_down: false,
        };
        cluster.publish_handles();
        cluster
    }

    /// Creates a run as a gateway does: it writes the run, then publishes it.
    pub(crate) async fn create_run(&self, run_id: RunId) {
        let mut spec = RunSpec::new(format!("objective of {}", run_name(run_id)));
        if searches(run_id) {
            spec.strategy = Strategy::Search;
            let search = SearchConfig { max_depth: 3, concurrency: 2, ..SearchConfig::default() };
            spec.search = Some(Box::new(search));
        } else if does_homework(run_id) {
            spec.strategy = Strategy::Homework;
            spec.budgets.max_iterations = 3;
        }
        // Half of the runs of each strategy.
        spec.verify = (run_id.0.as_u128() / 3).is_multiple_of(2);
        // A fifth of them waits for a person, who may never come.
        spec.review = run_id
            .0
            .as_u128()
            .is_multiple_of(5)
            .then_some(ReviewRule { goes_on_after_ms: Some(3_000), per_call: None });
        spec.keep_prompts = spec.verify;
        spec.budgets.max_depth = 2;
        spec.budgets.max_nodes = 14;
        spec.budgets.max_wall_clock_ms = 60_000;
        spec.budgets.call_timeout_ms = 4_000;
        let started = start(run_id, spec.clone(), self.world.now());
        let mut graph = Graph::new(run_id);
        started.events.iter().for_each(|event| graph.apply(event).expect("the first events apply"));
        let projection = Projection::of(&started.events, &graph);
        let batch = pb::EventBatch { events: started.events.to_wire() };
        let Decision { events, documents, sessions } = started;
        let run = NewRun { run_id, spec, request_id: String::new(), events, projection, documents, sessions };
        create(&self.world, &mut self.world.model(), run).expect("a fresh run can be created");
        let hint = prost::Message::encode_to_vec(&batch).into();
        self.tell(vec![(Topic::Run(run_id), hint), (Topic::Wake, bytes::Bytes::new())]).await;
    }

    async fn tell(&self, messages: Vec<(Topic, bytes::Bytes)>) {
        let node = Node::new("user".into(), self.world.clone(), 0);
        let _ = SimFanout { node }.publish(messages).await;
    }

    /// Makes one of the enabled faults happen.
    pub(crate) async fn trouble(&mut self) {
        let world = self.world.clone();
        let dice = &world.dice;
        let enabled: Vec<Fault> = world.plan.faults.iter().copied().collect();
        let Some(fault) = dice.pick(&enabled) else { return };
        let place = dice.within(0..=self.drivers.len() as u64 - 1) as usize;
        let gateway = dice.within(0..=self.gateways.len() as u64 - 1) as usize;
        let lease = world.plan.lease.as_millis() as u64;
        match fault {
            Fault::KillDriver => self.drivers[place].node.kill("at some moment"),
            Fault::KillAtPoint => world.kill_after_points(dice.within(0..=40)),
            Fault::StopDriver => {
                world.note(&self.drivers[place].node.name, format_args!("is told to stop"));
                self.drivers[place].stop.cancel();
            }
            Fault::FreezeDriver => self.drivers[place].node.freeze(dice.millis(lease / 2..=3 * lease)),
            Fault::WedgeDriver => self.drivers[place].node.wedge(dice.millis(lease..=4 * lease)),
            Fault::ClockJumps => {
                let slot = &mut self.drivers[place];
                slot.clock_off = (dice.within(0..=2 * JUMPS) as i64 - JUMPS as i64) * 1_000_000;
                slot.node.set_clock(slot.clock_off);
            }
            Fault::KillGateway => self.gateways[gateway].handle.node.kill("at some moment"),
            Fault::DrainGateway => {
                world.note(&self.gateways[gateway].handle.node.name, format_args!("drains"));
                self.gateways[gateway].handle.drain.cancel();
            }
            Fault::CutStore => {
                let node = match dice.chance(70) {
                    true => &self.drivers[place].node,
                    false => &self.gateways[gateway].handle.node,
                };
                node.cut(dice.millis(100..=2 * lease));
            }
            Fault::StoreDown => {
                let time = dice.millis(100..=2 * lease);
                world.note("store", format_args!("down for {} ms", time.as_millis()));
                world.store_down_for(time);
            }
            Fault::DeafFanout => {
                world.note("fanout", format_args!("goes deaf"));
                world.topics.deafen(dice.millis(500..=8_000));
            }
            Fault::FanoutDown => {
                world.note("fanout", format_args!("is gone"));
                world.fanout_down_for(dice.millis(100..=6_000));
                world.topics.lose();
                self.fanout_was_down = true;
            }
            Fault::Cancel if world.flaw == Some(Flaw::DeafToCommands) || dice.chance(15) => {
                let runs: Vec<RunId> = world.model().runs.keys().copied().collect();
                if let Some(run) = dice.pick(&runs) {
                    world.note("user", format_args!("cancels {}", run_name(*run)));
                    let _ = world
                        .model()
                        .send_command(*run, Command::new(Action::Cancel { reason: "enough".into() }));
                    self.tell(vec![(Topic::Wake, bytes::Bytes::new())]).await;
                }
            }
            _ => {}
        }
    }

    /// Ends all faults and starts all processes that are down.
    pub(crate) fn heal(&mut self) {
        self.world.note("world", format_args!("heals"));
        self.world.heal();
        self.world.topics.restore();
        self.drivers.iter_mut().for_each(|slot| {
            slot.node.heal();
            slot.back_at = slot.back_at.map(|_| Instant::now());
        });
        self.gateways.iter_mut().for_each(|slot| {
            slot.handle.node.heal();
            slot.back_at = slot.back_at.map(|_| Instant::now());
        });
        self.tend();
    }

    /// Restarts processes that have vanished, after a while.
    pub(crate) fn tend(&mut self) {
        let (world, now) = (self.world.clone(), Instant::now());
        if self.fanout_was_down && !world.fanout_is_down() {
            self.fanout_was_down = false;
            world.note("fanout", format_args!("is back"));
            world.topics.restore();
        }
        let back = || now + if world.healed() { Duration::ZERO } else { world.dice.millis(200..=6_000) };
        for (place, slot) in self.drivers.iter_mut().enumerate() {
            if slot.task.is_finished() && now >= *slot.back_at.get_or_insert_with(back) {
                *slot = start_driver(&world, place, slot.lives + 1, slot.clock_off);
            }
        }
        let mut changed = false;
        for (place, slot) in self.gateways.iter_mut().enumerate() {
            let gone = slot.handle.node.is_gone();
            if !gone && slot.handle.drain.is_cancelled() {
                // Its streams have a moment to end cleanly.
                match slot.back_at {
                    None => slot.back_at = Some(now + Duration::from_millis(500)),
                    Some(at) if now >= at => {
                        slot.handle.node.kill("after its drain");
                        slot.back_at = None;
                    }
                    Some(_) => {}
                }
                changed = true;
            } else if gone {
                changed = true;
                if now >= *slot.back_at.get_or_insert_with(back) {
                    *slot = start_gateway(&world, place, slot.lives + 1);
                }
            }
        }
        if changed {
            self.publish_handles();
        }
    }

    fn publish_handles(&mut self) {
        let open = self.gateways.iter().map(|slot| &slot.handle);
        self.handles.set(open.filter(|d| !d.node.is_gone() && !d.drain.is_cancelled()).cloned().collect());
    }

    /// No run waits longer than its lease plus two seconds while somebody could drive it.
    pub(crate) fn check_takeover(&mut self) {
        let world = self.world.clone();
        let uncertain = world.plan.erratic_store() && !world.healed();
        if uncertain || world.plan.has(Fault::FewPlaces) || world.plan.has(Fault::FewPermits) {
            return self.orphans.clear();
        }
        let (now, lease) = (Instant::now(), world.plan.lease);
        let mut late = Vec::new();
        let model = world.model();
        for (id, run) in &model.runs {
            let holder = self.drivers.iter().find(|d| Some(&d.node.name) == run.owner.as_ref());
            let stuck = holder.is_none_or(|d| d.node.is_gone() || d.node.is_stuck());
            let hung = holder.is_some_and(|d| d.node.hangs_since(*id).is_some());
            let others = self.drivers.iter().filter(|d| !d.stop.is_cancelled() && d.node.is_healthy());
            let able = others.filter(|d| Some(&d.node.name) != run.owner.as_ref()).count() > 0;
            let called = model.commands.range((*id, 0)..=(*id, i64::MAX)).next().is_some();
            let rests = run.row.status == RunStatus::Paused && !called && !run.is_timed();
            let waits = run.owner.is_none() && (rests || run.not_before > world.now());
            if run.row.status.is_final() || waits || !(stuck || hung) || !able || world.store_is_down() {
                self.orphans.remove(id);
                continue;
            }
            // Another kind of fault starts a new wait, because the lease may have been renewed until then. So does a
            // request of a driver that is gone, when it takes effect only now.
            let lease_of = |owner: &String| model.drivers.get(owner).map(|driver| driver.renewed_at);
            let renewed = run.owner.as_ref().filter(|_| stuck).and_then(lease_of);
            let fault = (run.epoch, stuck, renewed);
            let orphan = self.orphans.entry(*id).or_insert((fault, now));
            if orphan.0 != fault {
                *orphan = (fault, now);
            }
            // A stuck task has the length of a lease to make progress; then its lease expires.
            let bound = TAKEOVER + if stuck { lease } else { 2 * lease };
            if now - orphan.1 > bound {
                late.push(format!("{}: nobody took it over within {} ms", run_name(*id), bound.as_millis()));
                orphan.1 = now + Duration::from_secs(86_400);
            }
        }
        late.into_iter().for_each(|text| world.violation(text));
    }

    /// A command is answered soon while somebody could do so, whatever its run does: also if it rests, or waits for a
    /// driver with room. A run that was claimed with the command and lost its driver may rest.
    pub(crate) fn check_commands(&mut self) {
        let world = self.world.clone();
        // Calls that began while the store was erratic may linger.
        let works = world.store_works_since().is_some_and(|since| Instant::now() >= since);
        if world.plan.erratic_store() && !works {
            return self.unheard.clear();
        }
        let (now, lease, model) = (Instant::now(), world.plan.lease, world.model());
        let works = |d: &&DriverSlot| !d.stop.is_cancelled() && d.node.is_healthy();
        let few = world.plan.has(Fault::FewPlaces) || world.plan.has(Fault::FewPermits);
        let is_full =
            |d: &DriverSlot| few && model.runs.values().any(|run| run.owner.as_ref() == Some(&d.node.name));
        let mut late = Vec::new();
        self.unheard.retain(|key, _| model.commands.contains_key(key));
        for key in model.commands.keys() {
            let Some(run) = model.runs.get(&key.0) else { continue };
            let owner = run.owner.as_ref();
            let holder = self.drivers.iter().find(|d| Some(&d.node.name) == owner);
            let bound = match holder {
                Some(driver) if works(&driver) => ANSWER,
                Some(driver) if driver.node.is_stuck() || driver.node.is_gone() => ANSWER + lease,
                Some(_) => ANSWER + 2 * lease,
                None if owner.is_some() => ANSWER + lease,
                None => ANSWER,
            };
            // Whoever took it for the command has vanished with it, or let it go: it may be a run that kills its
            // drivers. It waits for its time, and then for a place as if it had no command.
            let rests = run.not_before > world.now() || self.drivers.iter().filter(works).all(is_full);
            let tried = owner.is_none() && rests && run.claimed_command >= key.1;
            if tried || world.store_is_down() || !self.drivers.iter().any(|d| works(&d)) {
                self.unheard.remove(key);
                continue;
            }
            let waits = self.unheard.entry(*key).or_insert((bound, now));
            if waits.0 != bound {
                *waits = (bound, now);
            }
            if now - waits.1 > bound {
                let ms = bound.as_millis();
                late.push(format!("{}: command {} was not heard within {ms} ms", run_name(key.0), key.1));
                waits.1 = now + Duration::from_secs(86_400);
            }
        }
        drop(model);
        late.into_iter().for_each(|text| world.violation(text));
    }

    /// Ends every driver as SIGTERM does.
    pub(crate) async fn stop(self) {
        for slot in &self.drivers {
            slot.stop.cancel();
        }
        for slot in self.drivers {
            let name = slot.node.name.clone();
            match tokio::time::timeout(Duration::from_secs(15), slot.task).await {
                Ok(Err(error)) if error.is_panic() => self.world.violation(format!("{name} panicked")),
                Ok(_) => {}
                Err(_) => self.world.violation(format!("{name} does not stop")),
            }
        }
        self.gateways.iter().for_each(|slot| slot.handle.node.kill("at the end"));
    }
}

fn start_driver(world: &Arc<World>, place: usize, lives: u32, clock_off: i64) -> DriverSlot {
    let node = Node::new(format!("driver{}.{lives}", place + 1), world.clone(), clock_off);
    world.note(&node.name, format_args!("starts"));
    let mut config = DriverConfig::new(node.name.clone());
    config.lease = world.plan.lease;
    if world.plan.has(Fault::FewPlaces) {
        config.max_runs = 1;
    }
    if world.plan.has(Fault::FewPermits) {
        config.max_calls = 2;
    }
    // What ends several nodes is then written in parts, between which a driver may vanish.
    if world.plan.steered && world.plan.seed.is_multiple_of(3) {
        config.commit.max_events = 4;
    }
    let driver = Driver::new(
        Arc::new(SimStore::of(node.clone())),
        Arc::new(SimFanout { node: node.clone() }),
        Arc::new(SimRoles { node: node.clone() }),
        config,
    );
    let driver = driver.with_clock(Arc::new(NodeClock(node.clone())));
    let counters = Counters { driver: driver.stats(), commits: driver.commits(), told_fenced: 0 };
    world.checks().drivers.insert(node.name.clone(), counters);
    let stop = CancellationToken::new();
    let task = tokio::spawn(driver.run(stop.clone()));
    node.runs_in(task.abort_handle());
    DriverSlot { lives, clock_off, node, stop, task, back_at: None }
}

fn start_gateway(world: &Arc<World>, place: usize, lives: u32) -> GatewaySlot {
    let node = Node::new(format!("gateway{}.{lives}", place + 1), world.clone(), 0);
    world.note(&node.name, format_args!("starts"));
    let mut config = WatchConfig { stream_age: Duration::from_secs(20), ..WatchConfig::default() };
    if world.flaw == Some(Flaw::SeldomHeads) {
        config.head_check = Duration::from_millis(1_500);
    }
    if world.plan.has(Fault::SmallWindow) {
        config.window_events = 8;
    }
    let drain = CancellationToken::new();
    let gateway = Gateway::new(
        Arc::new(SimStore::of(node.clone())),
        Arc::new(SimFanout { node: node.clone() }),
        &Config { watch: config, ..Config::default() },
        drain.clone(),
        node.gone.clone(),
    );
    GatewaySlot { lives, handle: GatewayHandle { node, gateway, drain }, back_at: None }
}

/// Every third run is homework.
fn does_homework(run_id: RunId) -> bool {
    run_id.0.as_u128() % 3 == 1
}

/// Every third run is a guided search.
fn searches(run_id: RunId) -> bool {
    run_id.0.as_u128().is_multiple_of(3)
}

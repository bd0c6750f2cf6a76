//! People who steer runs, and fork them. Each command is about a node of the run as its log is at the moment, or about
//! something that it has not. It is sent through any gateway again and again until it is answered, and once more after
//! that.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tree_agent_contract::command::Action;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::{BandDraft, PlanDraft, StepDraft};
use tree_agent_contract::{
    BudgetChange, Command, Event, NodeId, NodeStatus, RunId, StepId, StepStatus, SubtreeBudget,
};
use tree_agent_engine::{Graph, Run};
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_store::{Runs, Sent};

use crate::client::GatewayHandles;
use crate::fanout::SimFanout;
use crate::forks::{Made, Wanted, ask, moment};
use crate::rng::SeededRng;
use crate::store::SimStore;
use crate::world::{World, run_name};

/// Commands for one run while it is in trouble.
const COMMANDS: usize = 12;
/// Forks of one world.
const FORKS: u64 = 2;

/// Everybody who gives commands. Their dice are their own, so that a world without them is what it was before.
pub(crate) struct People {
    world: Arc<World>,
    gateways: GatewayHandles,
    dice: SeededRng,
    given: u64,
    forked: u64,
    /// Plans that were edited.
    plans: Cell<u64>,
    made: Made,
    senders: Vec<JoinHandle<()>>,
}

impl People {
    pub(crate) fn new(world: &Arc<World>, gateways: GatewayHandles) -> Self {
        let dice = SeededRng::new(world.plan.seed ^ 0x9e0b_1e00_0000_0007);
        Self {
            world: world.clone(),
            gateways,
            dice,
            given: 0,
            forked: 0,
            plans: Cell::new(0),
            made: Made::default(),
            senders: Vec::new(),
        }
    }

    /// Somebody gives a command. When everything has healed, what is paused is resumed.
    pub(crate) fn act(&mut self) {
        let live: Vec<RunId> = {
            let model = self.world.model();
            let live = model.runs.iter().filter(|(_, run)| !run.row.status.is_final());
            live.map(|(id, _)| *id).collect()
        };
        if self.world.healed() {
            return live.into_iter().for_each(|run| self.resume(run));
        }
        if self.forked < FORKS && self.dice.chance(8) {
            return self.fork();
        }
        let Some(run) = self.dice.pick(&live).copied() else { return };
        if self.world.checks().commands.of(run) >= COMMANDS {
            return;
        }
        let world = self.world.clone();
        let checks = world.checks();
        let Some(graph) = checks.log.of(run).map(|log| log.graph()) else { return };
        let Some(action) = self.action(graph) else { return };
        let seen = graph.seq() - self.dice.within(0..=6).min(graph.seq() - 1);
        let expected_seq = self.dice.chance(20).then_some(seen);
        drop(checks);
        self.give(run, action, expected_seq);
    }

    /// Somebody forks a run at some event, often at its last one.
    fn fork(&mut self) {
        let runs: Vec<RunId> = self.world.model().runs.keys().copied().collect();
        let Some(run) = self.dice.pick(&runs).copied() else { return };
        let world = self.world.clone();
        let (at_seq, edits) = {
            let checks = world.checks();
            let Some(log) = checks.log.of(run) else { return };
            let events: Vec<&Event> = log.events.iter().map(|(_, event)| event).collect();
            let head = events.len() as u64;
            let at_seq = if self.dice.chance(30) { head } else { self.dice.within(1..=head) };
            let seq = moment(events.iter().copied(), at_seq) as usize;
            let Ok(then) = Run::replay(run, events[..seq].iter().copied()) else { return };
            (at_seq, self.edits(&then))
        };
        self.forked += 1;
        let number = self.forked;
        let what: Vec<&str> = edits.iter().map(verb).collect();
        let (name, what) = (run_name(run), what.join(", "));
        world.note("ann", format_args!("f{number}: forks {name} at {at_seq}: {what}"));
        let wanted = Wanted { number, run, at_seq, edits };
        self.senders.push(tokio::spawn(ask(world, self.gateways.clone(), wanted, self.made.clone())));
    }

    /// What a fork may do differently. A run that has ended goes on only if something is done again.
    fn edits(&self, run: &Run) -> Vec<Action> {
        let mut edits = Vec::new();
        for _ in 0..6 {
            let Some(edit) = self.action(run.graph()).filter(Action::is_edit) else { continue };
            edits.push(edit);
            if run.fork(&edits, self.world.now()).is_err() {
                edits.pop();
            }
        }
        if self.dice.chance(20) {
            edits.push(Action::SetModel { model: "other".into() });
        }
        edits
    }

    /// Forks that are there since this was last asked, each with the last event that it shares.
    pub(crate) fn made(&self) -> Vec<(RunId, u64)> {
        self.made.take()
    }

    fn resume(&mut self, run: RunId) {
        let paused = self.world.checks().log.of(run).and_then(|log| {
            let paused = log.graph().nodes().iter().find(|node| node.paused && !node.status.is_final());
            paused.map(|node| node.id)
        });
        if let Some(node) = paused {
            self.give(run, Action::Resume { node_id: Some(node) }, None);
        }
    }

    fn give(&mut self, run: RunId, action: Action, expected_seq: Option<u64>) {
        self.given += 1;
        let command =
            Command { request_id: format!("c{}", self.given), author: "ann".into(), expected_seq, action };
        let what = verb(&command.action);
        self.world.note("ann", format_args!("{}: {what} of {}", command.request_id, run_name(run)));
        self.world.checks().commands.given(run, &command);
        self.senders.push(tokio::spawn(send(self.world.clone(), self.gateways.clone(), run, command)));
    }

    /// How long until somebody acts again.
    pub(crate) fn pause(&self) -> Duration {
        self.dice.millis(200..=2_500)
    }

    /// Everybody has their answer.
    pub(crate) fn are_content(&mut self) -> bool {
        self.senders.retain(|sender| !sender.is_finished());
        self.senders.is_empty()
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn leave(&mut self) {
        self.senders.iter().for_each(JoinHandle::abort);
    }

    fn action(&self, graph: &Graph) -> Option<Action> {
        let dice = &self.dice;
        let kind = dice.within(0..=16);
        let fits = |node: &&GraphNode| match kind {
            3..=5 => node.paused,
            9..=11 => node.status.is_final(),
            12 | 13 => node.plan.is_some() && node.status == NodeStatus::Waiting,
            _ => !node.status.is_final(),
        };
        let nodes = graph.nodes();
        let fitting: Vec<&GraphNode> = nodes.iter().filter(fits).collect();
        let any: Vec<&GraphNode> = nodes.iter().collect();
        let node = *dice.pick(&fitting).filter(|_| !dice.chance(10)).or_else(|| dice.pick(&any))?;
        let node_id = match dice.chance(3) {
            true => NodeId::child(node.id, 99, &StepId::new("nobody")),
            false => node.id,
        };
        let is_root = node.parent_id.is_none();
        Some(match kind {
            0..=2 => {
                let node_id = Some(node_id).filter(|_| !(is_root && dice.chance(50)));
                Action::Pause { node_id, now: dice.chance(50) }
            }
            3..=5 => Action::Resume { node_id: Some(node_id) },
            6 | 7 => {
                let (subtree, restart) = (dice.chance(50), dice.chance(50));
                Action::Guide { node_id, text: "look closer".into(), subtree, restart }
            }
            // Not so often the whole run.
            8 if is_root && dice.chance(70) => return None,
            8 => Action::Stop { node_id, discard: dice.chance(50) },
            9..=11 => {
                let guidance = if dice.chance(50) { "again" } else { "" };
                let budget = step_budget(dice, 30);
                Action::Retry { node_id, guidance: guidance.into(), model: String::new(), budget }
            }
            12 | 13 => Action::EditPlan { node_id, plan: self.edited(node)? },
            14 => Action::SetBudget { node_id: None, change: self.change() },
            15 => {
                let change = BudgetChange { max_nodes: None, max_parallel_steps: None, ..self.change() };
                Action::SetBudget { node_id: Some(node_id), change }
            }
            _ if dice.chance(85) => return None,
            _ => Action::Cancel { reason: "enough".into() },
        })
    }

    /// The plan of a node without a step that waits, or with one more.
    fn edited(&self, node: &GraphNode) -> Option<PlanDraft> {
        let (plan, dice, n) = (node.plan.as_ref()?, &self.dice, self.plans.get() + 1);
        self.plans.set(n);
        let mut bands: Vec<BandDraft> = Vec::new();
        for band in &plan.bands {
            let kept = band.steps.iter().filter(|s| s.status != StepStatus::Pending || dice.chance(70));
            let steps = kept.map(|step| StepDraft {
                reason: step.reason.clone(),
                success_criteria: step.success_criteria.clone(),
                strategy: step.strategy,
                search: step.search,
                branch_id: step.branch_id.clone(),
                budget: step.budget,
                deliverable: step.deliverable,
                profile: step.profile,
                ..StepDraft::new(step.step_id.clone(), step.title.clone())
            });
            let (goal, parallelizable) = (band.goal.clone(), dice.chance(70));
            bands.push(BandDraft { index: band.index, goal, parallelizable, steps: steps.collect() });
        }
        if let Some(last) = bands.last_mut().filter(|_| dice.chance(70)) {
            let branch_id = plan.iteration.map(|_| format!("new-{n}"));
            let id = StepId::new(format!("e{n}"));
            let budget = step_budget(dice, 30);
            last.steps.push(StepDraft { branch_id, budget, ..StepDraft::new(id, format!("extra {n}")) });
        }
        bands.retain(|band| !band.steps.is_empty());
        for (index, band) in (0..).zip(&mut bands) {
            band.index = index;
            (0..).zip(&mut band.steps).for_each(|(n, step)| step.step_index = n);
        }
        Some(PlanDraft { summary: format!("edited plan {n}"), bands })
    }

    fn change(&self) -> BudgetChange {
        let dice = &self.dice;
        BudgetChange {
            max_tokens: dice.chance(40).then(|| dice.within(0..=60)),
            max_tool_calls: dice.chance(40).then(|| dice.within(0..=40)),
            max_wall_clock_ms: dice.chance(20).then(|| dice.within(10..=60) * 1_000),
            max_nodes: dice.chance(20).then(|| dice.within(4..=20) as u32),
            max_parallel_steps: dice.chance(20).then(|| dice.within(1..=3) as u32),
            ..BudgetChange::default()
        }
    }
}

/// The budget of a step, in so many of a hundred cases. A call uses two tokens, and one tool call or none.
pub(crate) fn step_budget(dice: &SeededRng, percent: u64) -> Option<SubtreeBudget> {
    if !dice.chance(percent) {
        return None;
    }
    let budget = SubtreeBudget {
        max_tokens: dice.chance(50).then(|| dice.within(0..=20)),
        max_cost_micros: dice.chance(20).then(|| dice.within(0..=10)),
        max_tool_calls: dice.chance(40).then(|| dice.within(0..=8)),
        max_wall_clock_ms: dice.chance(20).then(|| dice.within(1..=8) * 1_000),
    };
    Some(budget).filter(|budget| !budget.is_empty())
}

/// A command's name in traces.
fn verb(action: &Action) -> &'static str {
    match action {
        Action::Cancel { .. } => "cancel",
        Action::Pause { .. } => "pause",
        Action::Resume { .. } => "resume",
        Action::Guide { .. } => "guide",
        Action::Stop { .. } => "stop",
        Action::Retry { .. } => "retry",
        Action::EditPlan { .. } => "edit plan",
        Action::SetBudget { .. } => "set budget",
        Action::SetModel { .. } => "set model",
    }
}

/// Sends a command until it is answered, and once more. A run that has ended takes none.
async fn send(world: Arc<World>, gateways: GatewayHandles, run: RunId, command: Command) {
    let mut answers = 0;
    while answers < 2 {
        let Some(gateway) = gateways.pick(&world) else {
            tokio::time::sleep(world.dice.millis(100..=400)).await;
            continue;
        };
        let store = SimStore::of(gateway.node.clone());
        let sent = tokio::select! {
            biased;
            () = gateway.node.gone.cancelled() => None,
            sent = store.send_command(run, command.clone()) => sent.ok(),
        };
        match sent {
            Some(Sent::Answered(reply)) => {
                answers += 1;
                world.note("ann", format_args!("{}: hears {reply:?}", command.request_id));
                let mut checks = world.checks();
                let checks = &mut *checks;
                let found = checks.commands.heard(run, &command.request_id, &reply, &checks.log);
                checks.violations.extend(found);
            }
            Some(Sent::Ended) => return,
            Some(Sent::Pending(_)) => {
                let fanout = SimFanout { node: gateway.node.clone() };
                tokio::select! {
                    biased;
                    () = gateway.node.gone.cancelled() => {}
                    _ = fanout.publish(vec![(Topic::Wake, bytes::Bytes::new())]) => {}
                }
            }
            None => {}
        }
        tokio::time::sleep(world.dice.millis(50..=1_200)).await;
    }
}

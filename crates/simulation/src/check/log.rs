//! Checks the log against the promises of the port while it grows. Kept apart from the store, which may be flawed.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::{Event, NodeId, RunId, Timestamp};
use tree_agent_engine::{Audit, Graph};
use tree_agent_store::Claim;

use crate::world::run_name;

/// Every log, as far as it is written.
#[derive(Default)]
pub(crate) struct Logs {
    runs: BTreeMap<RunId, Log>,
    /// The end of each driver's lease by the store's clock.
    leases: BTreeMap<String, Timestamp>,
}

pub(crate) struct Log {
    /// Each event with the epoch that it was written in.
    pub(crate) events: Vec<(u64, Event)>,
    /// When each was written.
    pub(crate) written: Vec<Instant>,
    /// The recorded answers, each with its node and the generation of that. No two may be equal.
    answers: BTreeMap<String, (NodeId, u32)>,
    graph: Graph,
    audit: Audit,
    noted: usize,
    /// The epoch of the last claim.
    epoch: u64,
    /// The driver that owns it.
    owner: Option<String>,
}

/// The part of a role's answer that identifies it.
fn answer(event: &Event) -> Option<String> {
    match &event.body {
        EventBody::PlanCreated(e) => e.summary.clone(),
        EventBody::NodeResult(e) if e.result.summary.starts_with("did ") => Some(e.result.summary.clone()),
        _ => None,
    }
}

impl Log {
    /// The graph that the log gives.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl Logs {
    /// How many budgets of subtrees were used up.
    pub(crate) fn used_up(&self) -> u64 {
        let events = self.runs.values().flat_map(|log| &log.events);
        let is_lease = |event: &Event| {
            event.parent_node_id.is_some() && matches!(event.body, EventBody::BudgetExhausted(_))
        };
        events.filter(|(_, event)| is_lease(event)).count() as u64
    }

    pub(crate) fn of(&self, run: RunId) -> Option<&Log> {
        self.runs.get(&run)
    }

    fn entry(&mut self, run: RunId) -> &mut Log {
        self.runs.entry(run).or_insert_with(|| Log {
            events: Vec::new(),
            written: Vec::new(),
            answers: BTreeMap::new(),
            graph: Graph::new(run),
            audit: Audit::new(),
            noted: 0,
            epoch: 0,
            owner: None,
        })
    }

    /// Events were written: seq must be contiguous from 1, epochs never decrease, and an old epoch writes nothing.
    pub(crate) fn wrote(&mut self, run: RunId, new: &[(u64, Event)]) -> Vec<String> {
        let name = run_name(run);
        let log = self.entry(run);
        let mut found = Vec::new();
        for (epoch, event) in new {
            let expected = log.events.len() as u64 + 1;
            if event.seq != expected {
                found.push(format!("{name}: event {} was written where {expected} belongs", event.seq));
            }
            if *epoch != log.epoch {
                let text =
                    format!("{name}: event {expected} is of epoch {epoch}, the run is in {}", log.epoch);
                found.push(text);
            }
            if let Some((_, last)) = log.events.last().filter(|(_, last)| last.timestamp > event.timestamp) {
                let at = event.timestamp;
                found.push(format!("{name}: event {expected} is of {at:?}, after {:?}", last.timestamp));
            }
            if let Err(error) = log.graph.apply(event) {
                found.push(format!("{name}: the log does not replay: {error}"));
            }
            log.audit.event(event);
            if let Some(answer) = answer(event) {
                let generation = log.graph.node(event.node_id).map_or(0, |node| node.generation);
                let before = log.answers.insert(answer.clone(), (event.node_id, generation));
                // A node that was reopened for the sake of others returns again what it returned before.
                if before.is_some_and(|(node, before)| node != event.node_id || before == generation) {
                    found.push(format!("{name}: event {expected}: {answer:?} is recorded twice"));
                }
            }
            log.written.push(Instant::now());
            log.events.push((*epoch, event.clone()));
        }
        for violation in &log.audit.violations()[log.noted..] {
            found.push(format!("{name}: event {} {}", violation.seq, violation.message));
        }
        log.noted = log.audit.violations().len();
        found
    }

    /// A claim was granted to `driver` at `now`: a later epoch, and not before the lease of the last owner had ended.
    pub(crate) fn claimed(&mut self, claim: &Claim, driver: &str, now: Timestamp) -> Option<String> {
        let owner = self.entry(claim.run_id).owner.replace(driver.to_owned());
        let early = owner.is_some_and(|owner| self.leases.get(&owner).is_some_and(|end| now < *end));
        let log = self.entry(claim.run_id);
        let again = claim.epoch <= log.epoch;
        let (before, head) = (log.epoch, log.events.len() as u64);
        log.epoch = claim.epoch.max(log.epoch);
        let name = run_name(claim.run_id);
        match () {
            () if again => Some(format!("{name}: claimed with epoch {} after epoch {before}", claim.epoch)),
            () if early => Some(format!("{name}: claimed before the lease of epoch {before} had ended")),
            () if claim.head_seq != head => {
                Some(format!("{name}: claimed at head {}, not {head}", claim.head_seq))
            }
            () => None,
        }
    }

    pub(crate) fn renewed(&mut self, driver: &str, until: Timestamp) {
        self.leases.insert(driver.to_owned(), until);
    }

    pub(crate) fn released(&mut self, run: RunId, epoch: u64) {
        let log = self.entry(run);
        if log.epoch == epoch {
            log.owner = None;
        }
    }
}

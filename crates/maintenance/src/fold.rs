//! Derives everything that follows from a whole log.

use std::collections::BTreeMap;

use tree_agent_contract::command::Action;
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::{ArtifactId, NodeId, PlanId, RunId, RunSpec, Timestamp};
use tree_agent_engine::{ReplayError, Run};
use tree_agent_store::{ArtifactRow, NodeRow, PlanRow, Projection, RunRow, WholeProjection};

/// Events whose rows are derived together.
const SEGMENT: usize = 1_000;

/// Folds a log, event by event, into the rows that the store must have for it.
///
/// Events of types that this version does not know change nothing, so that a log which holds some can be restored from
/// an archive. What is derived from such a log may differ from what the version derives that wrote it.
#[derive(Clone, Debug)]
pub struct Fold {
    run: Run,
    /// What was asked for. Budgets that people change later are in the log alone.
    spec: RunSpec,
    root: NodeId,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Events that are applied to the run, but whose rows are not derived yet.
    segment: Vec<Event>,
    row: Option<RunRow>,
    nodes: BTreeMap<NodeId, NodeRow>,
    plans: BTreeMap<PlanId, PlanRow>,
    artifacts: BTreeMap<ArtifactId, ArtifactRow>,
    fork_edits: Vec<String>,
}

impl Fold {
    /// The fold of a log of which only the first event is known.
    ///
    /// # Errors
    /// If that event is not `tree.run_created` with seq 1.
    pub fn begin(first: &Event) -> Result<Self, ReplayError> {
        let run = Run::begin(first)?;
        let root = match &first.body {
            EventBody::RunCreated(created) => created.root_node_id,
            // Refused above.
            _ => first.node_id,
        };
        Ok(Self {
            spec: run.spec().clone(),
            run,
            root,
            created_at: first.timestamp,
            updated_at: first.timestamp,
            segment: Vec::new(),
            row: None,
            nodes: BTreeMap::new(),
            plans: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            fork_edits: Vec::new(),
        })
    }

    /// Folds `events` into `fold`, which is created if there is none yet.
    ///
    /// # Errors
    /// If an event cannot follow those before it. Then the fold must be dropped.
    pub fn extend(fold: &mut Option<Self>, events: &[Event]) -> Result<(), ReplayError> {
        for event in events {
            match fold {
                Some(fold) => fold.apply(event)?,
                None => *fold = Some(Self::begin(event)?),
            }
        }
        Ok(())
    }

    /// Folds the next event.
    ///
    /// # Errors
    /// As for [`extend`](Self::extend).
    pub fn apply(&mut self, event: &Event) -> Result<(), ReplayError> {
        // A node shows only its latest plan, so the rows of the previous plan are derived before it is replaced.
        if self.segment.len() >= SEGMENT || matches!(&event.body, EventBody::PlanCreated(e) if e.version > 1)
        {
            self.derive();
        }
        if let EventBody::RunForked(e) = &event.body {
            self.begin_fork(e, event.timestamp);
        }
        self.run.apply(event)?;
        if matches!(event.body, EventBody::RunForked(_)) {
            self.spec = self.run.spec().clone();
        }
        self.updated_at = event.timestamp;
        self.segment.push(event.clone());
        Ok(())
    }

    /// The run is a fork from here on: it has rows for what its own events touch.
    fn begin_fork(&mut self, e: &RunForked, now: Timestamp) {
        self.derive();
        (self.nodes, self.plans, self.artifacts) = Default::default();
        self.created_at = now;
        self.fork_edits = e.edits.iter().map(Action::words).collect();
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run.graph().run_id()
    }

    /// The last event that was folded.
    pub fn seq(&self) -> u64 {
        self.run.graph().seq()
    }

    /// Everything that follows from the log so far.
    pub fn whole(mut self) -> WholeProjection {
        self.derive();
        let graph = self.run.graph();
        let row = self.row.unwrap_or(RunRow {
            status: graph.status(),
            partial: graph.partial(),
            error: None,
            node_count: graph.nodes().len() as u64,
            ended_nodes: graph.ended_nodes(),
            usage: graph.usage(),
            models: graph.models().to_vec(),
            started_at: graph.started_at(),
            ended_at: graph.ended_at(),
        });
        WholeProjection {
            spec: self.spec,
            root_node_id: self.root,
            created_at: self.created_at,
            updated_at: self.updated_at,
            rows: Projection {
                run: Some(row),
                nodes: self.nodes.into_values().collect(),
                plans: self.plans.into_values().collect(),
                artifacts: self.artifacts.into_values().collect(),
            },
            fork_edits: self.fork_edits,
        }
    }

    /// Merges the rows of the segment into the earlier ones, as the store's upserts do.
    fn derive(&mut self) {
        let Projection { run, nodes, plans, artifacts } = Projection::of(&self.segment, self.run.graph());
        self.row = run.or(self.row.take());
        self.nodes.extend(nodes.into_iter().map(|row| (row.id, row)));
        for mut row in plans {
            if let Some(before) = self.plans.get(&row.id) {
                row.created_at = before.created_at;
            }
            self.plans.insert(row.id, row);
        }
        self.artifacts.extend(artifacts.into_iter().map(|row| (row.id, row)));
        self.segment.clear();
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::BudgetChange;
    use tree_agent_contract::event::BudgetSet;
    use tree_agent_engine::start;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_row_of_a_run_keeps_the_budgets_that_were_asked_for() {
        let (id, spec) = (RunId(Uuid::from_u128(1)), RunSpec::new("Why?"));
        let mut events = start(id, spec.clone(), Timestamp(1)).events;
        let change = BudgetChange { max_nodes: Some(7), ..BudgetChange::default() };
        let body = BudgetSet { author: "ann".into(), request_id: "r".into(), change, clamped: false }.into();
        let seq = events.len() as u64 + 1;
        events.push(Event {
            run_id: id,
            seq,
            node_id: NodeId::root(id),
            parent_node_id: None,
            timestamp: Timestamp(2),
            body,
        });
        let mut fold = None;
        Fold::extend(&mut fold, &events).unwrap();
        let fold = fold.unwrap();
        assert_eq!(fold.run.spec().budgets.max_nodes, 7);
        assert_eq!(fold.whole().spec, spec);
    }
}

//! People who fork runs: at any event of a live run or of one that has ended, with edits or without. A fork is asked
//! for through any gateway, as the gateway writes it, again and again until it is there, and once more after that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message as _;
use tree_agent_contract::command::Action;
use tree_agent_contract::event::RunForked;
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::{Event, RunId, RunSpec, RunStatus};
use tree_agent_engine::Run;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{Created, EventLog, Forks, NewFork, RunRow, Runs, StoreError};
use uuid::Uuid;

use crate::client::{GatewayHandle, GatewayHandles};
use crate::fanout::SimFanout;
use crate::store::SimStore;
use crate::world::{World, run_name};

/// Who asks for them.
const USER: &str = "ann";

/// A fork that somebody wants.
pub(crate) struct Wanted {
    /// The number of the wish, from 1 on.
    pub(crate) number: u64,
    pub(crate) run: RunId,
    pub(crate) at_seq: u64,
    pub(crate) edits: Vec<Action>,
}

/// Forks that are there and that nobody watches yet, each with the last event that it shares.
#[derive(Clone, Default)]
pub(crate) struct Made(Arc<Mutex<Vec<(RunId, u64)>>>);

impl Made {
    /// Takes them all.
    pub(crate) fn take(&self) -> Vec<(RunId, u64)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, fork: (RunId, u64)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fork);
    }
}

/// The end of what was decided with the event `at_seq`: the whole of it was written at once.
pub(crate) fn moment<'a>(events: impl IntoIterator<Item = &'a Event>, at_seq: u64) -> u64 {
    let mut later = events.into_iter().skip(at_seq as usize - 1);
    let time = later.next().map(|event| event.timestamp);
    at_seq + later.take_while(|event| Some(event.timestamp) == time).count() as u64
}

/// Asks for a fork until it is there, and once more. If its edits are refused, there is none.
pub(crate) async fn ask(world: Arc<World>, gateways: GatewayHandles, wanted: Wanted, made: Made) {
    let what = format!("f{}", wanted.number);
    let (mut fork, mut there): (Option<NewFork>, Option<RunId>) = (None, None);
    let (mut answers, mut attempts) = (0, 0);
    while answers < 2 {
        let Some(gateway) = gateways.pick(&world) else {
            tokio::time::sleep(world.dice.millis(100..=400)).await;
            continue;
        };
        let store = SimStore::of(gateway.node.clone());
        if fork.is_none() {
            let planned = tokio::select! {
                biased;
                () = gateway.node.gone.cancelled() => Err(away()),
                planned = plan(&world, &store, &wanted, &what) => planned,
            };
            match planned {
                Ok(Some(planned)) => fork = Some(planned),
                Ok(None) => return world.note(USER, format_args!("{what}: is refused")),
                Err(_) => {}
            }
        }
        if let Some(fork) = &fork {
            // Each attempt gives the fork another id, so that only the request tells that it is the same.
            attempts += 1;
            let id = u128::from(wanted.number) << 4 | (attempts % 16);
            let run_id = RunId(Uuid::from_u128(u128::from(world.plan.seed) << 8 | id));
            let event =
                Event { run_id, timestamp: world.now().max(fork.event.timestamp), ..fork.event.clone() };
            let attempt = NewFork { run_id, event, ..fork.clone() };
            let written = tokio::select! {
                biased;
                () = gateway.node.gone.cancelled() => Err(away()),
                written = write(&gateway, &store, attempt) => written,
            };
            match written {
                Ok(run) if there.replace(run).is_none_or(|before| before == run) => {
                    answers += 1;
                    world.note(USER, format_args!("{what}: is {}", run_name(run)));
                    if answers == 1 {
                        made.push((run, fork.parent_seq));
                    }
                }
                Ok(run) => world.violation(format!("{what} was forked again as {}", run_name(run))),
                Err(StoreError::Conflict(why)) => {
                    return world.violation(format!("{what} cannot be written: {why}"));
                }
                Err(_) => {}
            }
        }
        tokio::time::sleep(world.dice.millis(50..=1_200)).await;
    }
}

fn away() -> StoreError {
    StoreError::Unavailable { message: "the gateway vanished".into(), source: None }
}

/// The fork as the gateway writes it; none if its edits are refused.
async fn plan(
    world: &World,
    store: &SimStore,
    wanted: &Wanted,
    what: &str,
) -> Result<Option<NewFork>, StoreError> {
    let log = store.read(wanted.run, 0, usize::MAX).await?;
    let parts = store.segments(wanted.run).await?;
    let seq = moment(&log, wanted.at_seq);
    let shared = &log[..(seq as usize).min(log.len())];
    let Ok(run) = Run::replay(wanted.run, shared) else {
        world.violation(format!("{} does not replay up to event {seq}", run_name(wanted.run)));
        return Ok(None);
    };
    let now = shared.last().map_or(world.now(), |last| last.timestamp.max(world.now()));
    let Ok((_, goes_on)) = run.fork(&wanted.edits, now) else { return Ok(None) };
    let parent = parts.iter().find(|part| seq <= part.until).map_or(wanted.run, |part| part.writer);
    // What is shared may end before the run itself was forked, so its log does not tell.
    let origin = parts.first().map_or_else(|| run.origin(), |part| part.writer);
    let graph = run.graph();
    let mut spec = RunSpec { user_id: USER.into(), labels: BTreeMap::new(), ..run.spec().clone() };
    for edit in &wanted.edits {
        if let Action::SetModel { model } = edit {
            spec.model.clone_from(model);
        }
    }
    let body = RunForked {
        source_run_id: parent,
        at_seq: seq,
        origin_run_id: Some(origin),
        author: USER.into(),
        by_administrator: false,
        request_id: what.to_owned(),
        display_name: spec.display_name.clone(),
        labels: BTreeMap::new(),
        edits: wanted.edits.clone(),
        goes_on,
    };
    let (run_id, node_id) = (wanted.run, graph.nodes()[0].id);
    let event =
        Event { run_id, seq: seq + 1, node_id, parent_node_id: None, timestamp: now, body: body.into() };
    let row = RunRow {
        status: if goes_on { RunStatus::Running } else { graph.status() },
        partial: graph.partial() && !goes_on,
        error: graph.error().filter(|_| !goes_on).map(str::to_owned),
        node_count: graph.nodes().len() as u64,
        ended_nodes: graph.ended_nodes(),
        usage: Default::default(),
        models: Vec::new(),
        started_at: graph.started_at().map(|_| now),
        ended_at: graph.ended_at().filter(|_| !goes_on).map(|_| now),
    };
    Ok(Some(NewFork {
        run_id,
        parent_run_id: parent,
        parent_seq: seq,
        spec,
        request_id: what.to_owned(),
        event,
        row,
        edits: wanted.edits.iter().map(Action::words).collect(),
    }))
}

/// Writes the fork, unless its request did so before, and publishes it.
async fn write(gateway: &GatewayHandle, store: &SimStore, mut fork: NewFork) -> Result<RunId, StoreError> {
    if let Some(earlier) = store.run_of_request(USER, &fork.request_id).await? {
        return Ok(earlier);
    }
    let at = Some(fork.event.timestamp);
    (fork.row.started_at, fork.row.ended_at) = (fork.row.started_at.and(at), fork.row.ended_at.and(at));
    let batch = pb::EventBatch { events: vec![fork.event.to_wire()] }.encode_to_vec();
    let (run, hints) = match store.fork_run(fork).await? {
        Created::New(run) => (run, vec![(Topic::Run(run), batch.into()), (Topic::Wake, bytes::Bytes::new())]),
        Created::Existing(run) => (run, vec![(Topic::Wake, bytes::Bytes::new())]),
    };
    let _ = SimFanout { node: gateway.node.clone() }.publish(hints).await;
    Ok(run)
}

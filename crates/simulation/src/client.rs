//! A subscriber: watches one run through any available gateway and resumes by seq.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tree_agent_event_gateway::{Gateway, messages_of_run};
use tree_agent_fanout::{Fanout, Signal, Topic};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_run_response::Message;

use crate::check::View;
use crate::fanout::SimFanout;
use crate::flaw::Flaw;
use crate::node::Node;
use crate::plan::Fault;
use crate::world::World;

/// A gateway that is available.
#[derive(Clone)]
pub(crate) struct GatewayHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) gateway: Arc<Gateway>,
    /// Cancelled when it drains.
    pub(crate) drain: CancellationToken,
}

/// The available gateways, by position.
#[derive(Clone, Default)]
pub(crate) struct GatewayHandles(Arc<Mutex<Vec<GatewayHandle>>>);

impl GatewayHandles {
    pub(crate) fn set(&self, gateways: Vec<GatewayHandle>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = gateways;
    }

    /// Any of them.
    pub(crate) fn pick(&self, world: &World) -> Option<GatewayHandle> {
        world.dice.pick(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).cloned()
    }
}

type Stream = BoxStream<'static, Result<Message, String>>;

/// Watches until the run's last event has been seen, and once more after it.
pub(crate) async fn watch(world: Arc<World>, gateways: GatewayHandles, mut view: View) -> View {
    let mut after_end = 0;
    while after_end < 2 {
        after_end += u32::from(view.ended);
        let Some(gateway) = gateways.pick(&world) else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let head = world.model().runs.get(&view.run).map_or(0, |run| run.head());
        view.begin(head);
        world.note(&view.who, format_args!("watches after {} through {}", view.cursor, gateway.node.name));
        let opened = tokio::select! {
            biased;
            () = gateway.node.gone.cancelled() => Err("the gateway vanished".to_owned()),
            opened = open(&world, &gateway, &view) => opened,
        };
        match opened {
            Ok(stream) => {
                view.reads();
                follow(&world, &gateway, &mut view, stream).await;
                // It had no time to see the rest of the log.
                note_late(&world, &gateway, &view);
            }
            Err(error) => world.note(&view.who, format_args!("is refused: {error}")),
        }
        if !view.ended {
            tokio::time::sleep(world.dice.millis(10..=300)).await;
        }
    }
    view
}

async fn open(world: &Arc<World>, gateway: &GatewayHandle, view: &View) -> Result<Stream, String> {
    if world.flaw == Some(Flaw::TrustedFanout) {
        return trusting(world, gateway, view).await;
    }
    let snapshot = world.on(Fault::Snapshots) && world.dice.chance(30);
    let request = pb::WatchRunRequest {
        run_id: view.run.to_string(),
        after_seq: view.cursor,
        snapshot,
        ..Default::default()
    };
    let messages = messages_of_run(&gateway.gateway, request).await.map_err(|status| status.to_string())?;
    let decoded = messages.map(|message| {
        let bytes = message.map_err(|status| status.to_string())?.slice(5..);
        let response = pb::WatchRunResponse::decode(bytes).map_err(|error| error.to_string())?;
        response.message.ok_or_else(|| "an empty message".to_owned())
    });
    Ok(decoded.boxed())
}

/// A gateway that trusts fan-out: it reads the log once, then passes on every message.
async fn trusting(world: &Arc<World>, gateway: &GatewayHandle, view: &View) -> Result<Stream, String> {
    let fanout = SimFanout { node: gateway.node.clone() };
    let heard = fanout.subscribe(Topic::Run(view.run)).await.map_err(|error| error.to_string())?;
    let old = world.model().read(view.run, view.cursor, usize::MAX);
    let head = old.last().map_or(view.cursor, |event| event.seq);
    let mut first: Vec<Message> =
        old.iter().map(|event| Message::Event(tree_agent_proto::Wire::to_wire(event))).collect();
    first.push(Message::CaughtUp(pb::CaughtUp { seq: head }));
    let live = futures::stream::unfold(heard, |mut heard| async move {
        loop {
            if let Signal::Message(message) = heard.next().await? {
                let batch = pb::EventBatch::decode(message).unwrap_or_default();
                let events = batch.events.into_iter().map(Message::Event).map(Ok);
                return Some((futures::stream::iter(events.collect::<Vec<_>>()), heard));
            }
        }
    });
    Ok(futures::stream::iter(first.into_iter().map(Ok)).chain(live.flatten()).boxed())
}

fn note_late(world: &World, gateway: &GatewayHandle, view: &View) {
    let late = view.is_late(gateway.node.reaches_store_since(), &world.checks().log);
    late.into_iter().for_each(|text| world.violation(text));
}

async fn follow(world: &World, gateway: &GatewayHandle, view: &mut View, mut stream: Stream) {
    let lasts = match world.on(Fault::Disconnects) && world.dice.chance(60) {
        true => world.dice.millis(20..=3_000),
        false => Duration::from_secs(86_400),
    };
    let breaks_at = Instant::now() + lasts;
    loop {
        let message = tokio::select! {
            biased;
            () = gateway.node.gone.cancelled() => return,
            () = tokio::time::sleep_until(breaks_at) => {
                return world.note(&view.who, format_args!("loses its connection at {}", view.cursor));
            }
            message = stream.next() => message,
        };
        if matches!(message, Some(Ok(Message::Event(_)))) {
            note_late(world, gateway, view);
        }
        match message {
            Some(Ok(message)) => {
                let before = view.cursor;
                let found = view.hear(message, &world.checks().log);
                found.into_iter().for_each(|text| world.violation(text));
                if view.cursor != before {
                    world.note(&view.who, format_args!("has {}", view.cursor));
                }
                // A stream that trusts fan-out does not notice the end.
                if view.ended && world.flaw == Some(Flaw::TrustedFanout) {
                    return;
                }
            }
            Some(Err(error)) => return world.note(&view.who, format_args!("stream fails: {error}")),
            None => {
                world.note(&view.who, format_args!("stream ends at {}", view.cursor));
                return view.end().into_iter().for_each(|text| world.violation(text));
            }
        }
        if world.on(Fault::SlowReaders) && world.dice.chance(30) {
            tokio::time::sleep(world.dice.millis(1..=900)).await;
            view.reads();
        }
    }
}

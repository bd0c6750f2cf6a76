//! What every handler shares: the store, the fan-out, the watched runs, and the settings. Handlers import it, and it
//! imports none of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tree_agent_contract::command::Action;
use tree_agent_contract::{ProjectStatus, RunId, RunSpec};
use tree_agent_convert::Converter;
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::Metrics;
use tree_agent_store::{Created, Store};

use crate::auth::Caller;
use crate::config::Config;
use crate::errors;
use crate::graphs::{Graphs, Snapshot};
use crate::maxima::Maxima;
use crate::meaning::Meaning;
use crate::models::Models;
use crate::places::{Place, Places};
use crate::quotas::Users;
use crate::standing::Standing;
use crate::view::View;
use crate::watch::{Board, Stalls, Until, WatchConfig, Watches};

/// Runs that are replayed at the same time for previews and forks. The state of a large one takes much memory.
const REPLAYS: usize = 4;
/// How long the conversion of a file may take. Others wait for its place.
const CONVERSION: Duration = Duration::from_secs(20);

/// The state behind all services: what [`serve`](crate::serve) puts on the wire. Callers in the same process watch runs
/// through it without a socket ([`messages_of_run`](crate::messages_of_run)).
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fanout: Arc<dyn Fanout>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) board: Arc<Board>,
    /// Streams on the wire whose clients may take nothing any more.
    pub(crate) stalls: Arc<Stalls>,
    pub(crate) graphs: Graphs,
    /// How many more runs may be replayed at the same time.
    pub(crate) replays: Places,
    pub(crate) models: Models,
    /// Converts imported files, a few at the same time.
    pub(crate) converter: Converter,
    /// None without vectors.
    pub(crate) meaning: Option<Meaning>,
    pub(crate) maxima: Maxima,
    /// What each user has and may have.
    pub(crate) users: Users,
    /// Whether those who watch may still do so.
    pub(crate) standing: Arc<Standing>,
    pub(crate) keep_prompts: bool,
    pub(crate) watching: WatchConfig,
    /// How long a driver has to answer a command.
    pub(crate) answer_within: Duration,
    /// Cancelled when the gateway begins to drain: streams end with a resume hint.
    pub(crate) drain: CancellationToken,
}

impl Gateway {
    /// `drain` ends streams, `done` everything that runs in the background. Must be called within a tokio runtime.
    pub fn new(
        store: Arc<dyn Store>,
        fanout: Arc<dyn Fanout>,
        config: &Config,
        drain: CancellationToken,
        done: CancellationToken,
    ) -> Arc<Self> {
        let watching = config.watch.clone();
        let embedder = config.embedder.clone();
        let meaning = embedder
            .map(|embedder| Meaning::start(embedder, store.clone(), config.vector_bytes, done.clone()));
        Arc::new(Self {
            watches: Watches::new(store.clone(), fanout.clone(), watching.clone(), done.clone()),
            board: Board::new(store.clone(), fanout.clone(), watching.clone(), done),
            stalls: Arc::new(Stalls::new(watching.stall)),
            graphs: Graphs::new(store.clone()),
            replays: Places::new(REPLAYS),
            models: Models::new(&config.roles),
            converter: Converter::new(config.converter.clone()).patience(CONVERSION),
            meaning,
            maxima: config.maxima.clone(),
            users: Users::new(&config.quotas),
            standing: Arc::new(Standing::new(store.clone(), config.auth.clone(), config.watch.rights_check)),
            keep_prompts: config.keep_prompts,
            answer_within: config.answer_within,
            store,
            fanout,
            watching,
            drain,
        })
    }

    /// Adds what it counts.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        self.watches.measure(metrics);
        self.stalls.measure(metrics);
        let store = self.store.clone();
        metrics.levels("tree_agent_store_connections", "Connections to the store", "state", move || {
            store.connections()
        });
    }

    /// What the caller of a request may see and do.
    pub(crate) async fn view(&self, extensions: &Extensions) -> Result<View, Status> {
        View::of(&*self.store, Caller::of(extensions)).await
    }

    /// What ends a stream from outside.
    pub(crate) fn until(&self, caller: &Caller) -> Until {
        Until { drain: self.drain.clone(), expires_at: caller.expires_at }
    }

    /// The tree after event `at_seq`, or at the head. `OUT_OF_RANGE` beyond it.
    pub(crate) async fn graph_at(
        &self,
        view: &View,
        run: RunId,
        at_seq: Option<u64>,
    ) -> Result<(Arc<Snapshot>, Option<Place>), Status> {
        let head = view.run(&*self.store, run).await?.head_seq;
        match at_seq {
            Some(at_seq) if at_seq > head => Err(errors::beyond_head("at_seq", at_seq, head)),
            at_seq => self.graphs.shown(run, at_seq, head).await,
        }
    }

    /// The projects of a run exist for the caller and take new runs, and its model can be used.
    pub(crate) async fn require(&self, view: &View, spec: &RunSpec) -> Result<(), Status> {
        let (field, ids) = ("context.project_ids", &spec.context.project_ids);
        let projects = view.reading().projects(&*self.store, field, ids).await?;
        if let Some(at) = projects.iter().position(|project| project.status == ProjectStatus::Archived) {
            return Err(errors::archived_project(&format!("{field}[{at}]"), projects[at].id));
        }
        self.models.require(&spec.model).await
    }

    /// The models that the actions name can be used.
    pub(crate) async fn require_models(&self, actions: &[Action]) -> Result<(), Status> {
        for action in actions {
            match action {
                Action::SetModel { model } | Action::Retry { model, .. } if !model.is_empty() => {
                    self.models.require(model).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells others that there is something new. A hint: when it fails, they find out by themselves a little later.
    pub(crate) async fn hint(&self, messages: Vec<(Topic, Bytes)>) {
        if let Err(error) = self.fanout.publish(messages).await {
            tracing::debug!("a hint was not published: {error}");
        }
    }

    /// Tells drivers that there is something to do.
    pub(crate) async fn wake(&self) {
        self.hint(vec![(Topic::Wake, Bytes::new())]).await;
    }

    /// There are new passages, which get vectors.
    pub(crate) fn wake_embedder(&self) {
        self.meaning.iter().for_each(Meaning::wake);
    }

    /// Tells everybody who waits of a run that was created with this `batch` of events; drivers alone if it was there
    /// before, in case the first hint was lost.
    pub(crate) async fn announce(&self, created: Created, batch: pb::EventBatch) -> RunId {
        let wake = (Topic::Wake, Bytes::new());
        let (run, hints) = match created {
            Created::New(run) => (run, vec![(Topic::Run(run), batch.encode_to_vec().into()), wake]),
            Created::Existing(run) => (run, vec![wake]),
        };
        self.hint(hints).await;
        self.board.nudge();
        run
    }
}

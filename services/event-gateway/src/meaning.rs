//! Search by meaning: passages and queries as vectors.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunContext;
use tree_agent_embedding::worker::{self, Pace, Passages, StoreFailure};
use tree_agent_embedding::{Embedder, UNIT};
use tree_agent_retrieval::nearest;
use tree_agent_store::{
    CANDIDATES, PassageId, ProjectVectors, Store, StoreError, StoredPassage, VectorCache, text_hash,
};
use uuid::Uuid;

use crate::shares::Share;

/// How long a query and the best passages may take to become vectors. After that, a search goes by what it has.
const EMBEDDING: Duration = Duration::from_millis(2_500);
/// How often a search looks that waits for vectors.
const LOOK: Duration = Duration::from_millis(250);
/// If none comes for so long, it waits no longer.
const STUCK: Duration = Duration::from_secs(5);
/// Passages that get their vectors during a search: of those that hold its words, the best.
const AT_ONCE: usize = 30;
/// If the time is over, it is enough for an order if so many of them have vectors.
const ENOUGH: usize = 10;
/// So many of them at a time, so that what is done in time counts.
const SOME: usize = 3;

/// Makes vectors: of passages in the background, and of queries.
pub(crate) struct Meaning {
    embedder: Arc<dyn Embedder>,
    store: Arc<dyn Store>,
    wake: Arc<Notify>,
    pace: Arc<Pace>,
    vectors: Arc<VectorCache>,
    /// It was said that the vectors of a context do not fit into memory.
    said_too_many: AtomicBool,
}

/// What a search by meaning found.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// The passages that have a vector; none without a model.
    pub(crate) embedded: Option<u64>,
    /// The passages of most similar meaning, best first, each with its similarity; none without a search.
    pub(crate) order: Option<Vec<(PassageId, f64)>>,
}

impl Meaning {
    /// Passages get vectors until `done`. `memory` is how many bytes of vectors are kept.
    pub(crate) fn start(
        embedder: Arc<dyn Embedder>,
        store: Arc<dyn Store>,
        memory: usize,
        done: CancellationToken,
    ) -> Self {
        let (wake, pace) = (Arc::new(Notify::new()), Arc::new(Pace::default()));
        let (worker, passages) = (embedder.clone(), StorePassages(store.clone()));
        let (woken, paced) = (wake.clone(), pace.clone());
        tokio::spawn(async move { worker::run(&passages, &*worker, &woken, &paced, &done).await });
        let vectors = VectorCache::new(store.clone(), embedder.model(), embedder.dimensions(), memory);
        let vectors = Arc::new(vectors);
        Self { embedder, store, wake, pace, vectors, said_too_many: AtomicBool::new(false) }
    }

    /// There are new passages.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the passages of `context` have vectors, if that can be expected within this time.
    pub(crate) async fn wait(&self, context: &RunContext, within: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + within;
        let mut last = (u64::MAX, Instant::now());
        loop {
            // Those of others are no reason to wait.
            let kept = self.vectors.of(context).await?;
            if kept.is_none_or(|kept| kept.iter().all(|vectors| vectors.lacking == 0)) {
                return Ok(());
            }
            let waiting = self.store.count_unembedded().await?;
            let comes = self.pace.time_for(waiting);
            if waiting < last.0 {
                last = (waiting, Instant::now());
            }
            let is_stuck = last.1.elapsed() >= STUCK;
            if waiting == 0 || is_stuck || comes.is_none_or(|comes| Instant::now() + comes > until) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// The passages of `context` below `path_prefix` that mean what `query` means. `best` are those that hold its
    /// words, best first: they count even if they have had no vector yet.
    pub(crate) async fn order(
        &self,
        query: &str,
        context: &RunContext,
        path_prefix: &str,
        best: &[&StoredPassage],
        place: Arc<Share>,
    ) -> Result<Meant, StoreError> {
        let kept = match query {
            "" => None,
            _ => self.vectors.of(context).await?,
        };
        let Some(kept) = kept else {
            if !query.is_empty() && !self.said_too_many.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "the vectors of a search do not fit into TREE_AGENT_VECTORS_MIB; such searches go by words"
                );
            }
            return self.by_words(context, path_prefix).await;
        };
        let until = Instant::now() + EMBEDDING;
        let within = match path_prefix {
            "" => None,
            _ => Some(
                self.store.documents_below(context, path_prefix).await?.into_iter().collect::<HashSet<_>>(),
            ),
        };
        let is_within =
            move |id: &PassageId| within.as_ref().is_none_or(|within| within.contains(&id.document));
        let Some(vector) = self
            .embedded(vec![query.to_owned()], until)
            .await
            .and_then(|mut all| all.pop())
            .filter(|vector| !vector.is_empty())
        else {
            return self.by_words(context, path_prefix).await;
        };
        let Some(made) = self.make(&kept, best, until).await? else {
            return self.by_words(context, path_prefix).await;
        };
        // Here, and not where requests are served: it takes a while. It has its place until it is done.
        let found = tokio::task::spawn_blocking(move || {
            let _place = place;
            let known = kept.iter().flat_map(|vectors| vectors.iter()).filter(|(id, _)| is_within(id));
            let new = made.iter().map(|(id, vector)| (*id, &vector[..]));
            let order = nearest(&vector, known.chain(new), CANDIDATES).into_iter();
            let order = order.map(|(id, product)| (id, f64::from(product) / (UNIT * UNIT))).collect();
            (kept.iter().map(|vectors| vectors.embedded()).sum::<u64>() + made.len() as u64, order)
        });
        let (embedded, order) =
            found.await.map_err(|error| StoreError::broken("the comparison of vectors broke off", error))?;
        let embedded = match path_prefix {
            "" => embedded,
            _ => self.store.embedded(self.embedder.model(), context, path_prefix).await?,
        };
        Ok(Meant { embedded: Some(embedded), order: Some(order) })
    }

    /// What is found without vectors.
    async fn by_words(&self, context: &RunContext, path_prefix: &str) -> Result<Meant, StoreError> {
        let embedded = self.store.embedded(self.embedder.model(), context, path_prefix).await?;
        Ok(Meant { embedded: Some(embedded), order: None })
    }

    /// Vectors of the best passages that have none yet. They are kept, so nobody makes them again. None if they cannot
    /// be had in time: an order without the best would be worse than that of the words.
    async fn make(
        &self,
        kept: &[Arc<ProjectVectors>],
        best: &[&StoredPassage],
        until: Instant,
    ) -> Result<Option<Vec<(PassageId, Vec<i8>)>>, StoreError> {
        let mut made = Vec::new();
        if kept.iter().all(|vectors| vectors.lacking == 0) {
            return Ok(Some(made));
        }
        let lacking =
            best.iter().take(AT_ONCE).filter(|best| !kept.iter().any(|vectors| vectors.has(best.id)));
        let lacking: Vec<&&StoredPassage> = lacking.collect();
        let known = best.len().min(AT_ONCE) - lacking.len();
        let _urgent = self.pace.urgent();
        for some in lacking.chunks(SOME) {
            let texts: Vec<String> = some.iter().map(|passage| passage.ranked().embedded()).collect();
            let hashes: Vec<Uuid> = texts.iter().map(|text| text_hash(text)).collect();
            let Some(vectors) = self.embedded(texts, until).await else { break };
            made.extend(some.iter().map(|passage| passage.id).zip(vectors.iter().cloned()));
            let kept = hashes.into_iter().zip(vectors).collect();
            if let Err(error) = self.store.put_vectors(self.embedder.model(), kept).await {
                error.note("vectors that a search has made cannot be kept");
            }
        }
        let is_enough = made.len() == lacking.len() || known + made.len() >= ENOUGH;
        Ok(is_enough.then_some(made))
    }

    /// The vectors of these texts, if they can be had in time.
    async fn embedded(&self, texts: Vec<String>, until: Instant) -> Option<Vec<Vec<i8>>> {
        let failure = match timeout_at(until, self.embedder.embed(texts)).await {
            Ok(Ok(vectors)) => return Some(vectors),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no vector in time".to_owned(),
        };
        tracing::debug!("a search goes by what it has: {failure}");
        None
    }
}

/// The store as the worker sees it.
struct StorePassages(Arc<dyn Store>);

#[async_trait]
impl Passages for StorePassages {
    type Hash = Uuid;

    async fn find(&self, model: &str) -> Result<(), StoreFailure> {
        Ok(self.0.find_unembedded(model).await?)
    }

    async fn take(
        &self,
        model: &str,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<(Uuid, String)>, StoreFailure> {
        let texts = self.0.take_unembedded(model, limit, hold).await?;
        Ok(texts.into_iter().map(|text| (text.hash, text.text)).collect())
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreFailure> {
        Ok(self.0.put_vectors(model, vectors).await?)
    }
}

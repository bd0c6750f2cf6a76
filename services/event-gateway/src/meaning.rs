//! Search by meaning: passages and queries as vectors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tree_agent_contract::RunContext;
use tree_agent_embedding::worker::{self, Passages, StoreFailure};
use tree_agent_embedding::{Embedder, UNIT};
use tree_agent_retrieval::nearest;
use tree_agent_store::{CANDIDATES, PassageId, PassageQuery, Store, StoreError};
use uuid::Uuid;

/// How long a query may take to become a vector. After that, a search goes by words.
const QUERY: Duration = Duration::from_secs(5);
/// How often a search looks that waits for vectors.
const LOOK: Duration = Duration::from_millis(250);
/// After so long, a search knows how fast passages get vectors, and waits no longer if that is too slow.
const SEEN: Duration = Duration::from_secs(5);

/// Makes vectors: of passages in the background, and of queries.
pub(crate) struct Meaning {
    embedder: Arc<dyn Embedder>,
    store: Arc<dyn Store>,
    wake: Arc<Notify>,
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
    /// Passages get vectors until `done`.
    pub(crate) fn start(embedder: Arc<dyn Embedder>, store: Arc<dyn Store>, done: CancellationToken) -> Self {
        let wake = Arc::new(Notify::new());
        let (worker, passages, woken) = (embedder.clone(), StorePassages(store.clone()), wake.clone());
        tokio::spawn(async move { worker::run(&passages, &*worker, &woken, &done).await });
        Self { embedder, store, wake }
    }

    /// There are new passages.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The passages of `context` below `path_prefix` that mean what `query` means. With `whole_within`, there is no
    /// order unless all passages of the context have vectors within that time.
    pub(crate) async fn order(
        &self,
        query: &str,
        context: &RunContext,
        path_prefix: &str,
        whole_within: Option<Duration>,
    ) -> Result<Meant, StoreError> {
        let (store, model) = (&*self.store, self.embedder.model());
        let is_whole = match whole_within {
            Some(within) => self.is_whole(context, within).await?,
            None => true,
        };
        let vector = match is_whole && !query.is_empty() {
            true => self.vector(query).await,
            false => None,
        };
        let Some(vector) = vector else {
            let embedded = store.embedded(model, context, path_prefix).await?;
            return Ok(Meant { embedded: Some(embedded), order: None });
        };
        let vectors = store.vectors(model, context, path_prefix).await?;
        let embedded = Some(vectors.len() as u64);
        let order = nearest(&vector, &vectors, CANDIDATES).into_iter();
        let order = order.map(|(id, product)| (id, f64::from(product) / (UNIT * UNIT)));
        Ok(Meant { embedded, order: Some(order.collect()) })
    }

    /// Whether all passages of `context` have vectors, now or before the time is over.
    async fn is_whole(&self, context: &RunContext, within: Duration) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let mut lacked_first = None;
        loop {
            let counted = PassageQuery { context: context.clone(), ..PassageQuery::default() };
            let all = self.store.find_passages(counted).await?.counts.passages;
            let embedded = self.store.embedded(self.embedder.model(), context, "").await?;
            let lacked = all.saturating_sub(embedded);
            let lacked_first = *lacked_first.get_or_insert(lacked);
            let waited = begun.elapsed();
            let at_this_pace = lacked_first.saturating_sub(lacked) as f64 / waited.as_secs_f64();
            let is_hopeless =
                waited >= SEEN && at_this_pace * within.saturating_sub(waited).as_secs_f64() < lacked as f64;
            if lacked == 0 || waited >= within || is_hopeless {
                return Ok(lacked == 0);
            }
            sleep(LOOK).await;
        }
    }

    async fn vector(&self, query: &str) -> Option<Vec<i8>> {
        let failure = match timeout(QUERY, self.embedder.embed(vec![query.to_owned()])).await {
            Ok(Ok(mut vectors)) => return vectors.pop().filter(|vector| !vector.is_empty()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no vector within {} s", QUERY.as_secs()),
        };
        tracing::debug!("a search goes by words: {failure}");
        None
    }
}

/// The store as the worker sees it.
struct StorePassages(Arc<dyn Store>);

#[async_trait]
impl Passages for StorePassages {
    type Hash = Uuid;

    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<(Uuid, String)>, StoreFailure> {
        let texts = self.0.unembedded(model, limit).await?;
        Ok(texts.into_iter().map(|text| (text.hash, text.text)).collect())
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreFailure> {
        Ok(self.0.put_vectors(model, vectors).await?)
    }
}

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::*;
use crate::EmbedError;

/// Texts by their hash, and the vectors of those that have one.
#[derive(Default)]
struct Store {
    texts: Mutex<BTreeMap<usize, Option<Vec<i8>>>>,
    largest: AtomicUsize,
}

impl Store {
    fn add(&self, range: std::ops::Range<usize>) {
        self.texts.lock().unwrap().extend(range.map(|hash| (hash, None)));
    }

    fn embedded(&self) -> usize {
        self.texts.lock().unwrap().values().flatten().count()
    }
}

#[async_trait]
impl Passages for Store {
    type Hash = usize;

    async fn find(&self, model: &str) -> Result<(), StoreFailure> {
        assert_eq!(model, "lengths");
        Ok(())
    }

    async fn take(
        &self,
        model: &str,
        limit: usize,
        _: Duration,
    ) -> Result<Vec<(usize, String)>, StoreFailure> {
        assert_eq!(model, "lengths");
        let texts = self.texts.lock().unwrap();
        let without = texts.iter().filter(|(_, vector)| vector.is_none());
        Ok(without.take(limit).map(|(hash, _)| (*hash, "x".repeat(*hash))).collect())
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<(usize, Vec<i8>)>) -> Result<(), StoreFailure> {
        assert_eq!(model, "lengths");
        self.largest.fetch_max(vectors.len(), SeqCst);
        let mut texts = self.texts.lock().unwrap();
        texts.extend(vectors.into_iter().map(|(hash, vector)| (hash, Some(vector))));
        Ok(())
    }
}

/// A text's vector is its length. The first requests fail.
#[derive(Default)]
struct Lengths {
    failures: AtomicUsize,
    asked: AtomicUsize,
}

#[async_trait]
impl Embedder for Lengths {
    fn model(&self) -> &str {
        "lengths"
    }

    fn dimensions(&self) -> usize {
        1
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<i8>>, EmbedError> {
        self.asked.fetch_add(1, SeqCst);
        match self.failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(EmbedError("down".into())),
            Err(_) => Ok(texts.iter().map(|text| vec![text.len() as i8]).collect()),
        }
    }
}

/// A worker on the paused clock.
struct Working {
    store: Arc<Store>,
    embedder: Arc<Lengths>,
    wake: Arc<Notify>,
    pace: Arc<Pace>,
    ended: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(texts: usize, failures: usize) -> Working {
    let store = Arc::new(Store::default());
    store.add(0..texts);
    let embedder = Arc::new(Lengths { failures: failures.into(), asked: 0.into() });
    let (wake, pace) = (Arc::new(Notify::new()), Arc::new(Pace::default()));
    let ended = CancellationToken::new();
    let task = {
        let (store, embedder, wake) = (store.clone(), embedder.clone(), wake.clone());
        let (pace, ended) = (pace.clone(), ended.clone());
        tokio::spawn(async move { run(&*store, &*embedder, &wake, &pace, &ended).await })
    };
    Working { store, embedder, wake, pace, ended, task }
}

impl Working {
    /// When `count` passages have vectors.
    async fn until(&self, count: usize) -> Duration {
        let began = Instant::now();
        while self.store.embedded() < count {
            sleep(Duration::from_millis(1)).await;
        }
        began.elapsed()
    }

    async fn end(self) {
        self.ended.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_passage_gets_its_own_vector_batch_by_batch() {
    let working = start(70, 0);
    working.until(70).await;
    let texts = working.store.texts.lock().unwrap().clone();
    assert!(texts.iter().all(|(hash, vector)| vector.as_deref() == Some(&[*hash as i8][..])), "{texts:?}");
    assert_eq!(working.store.largest.load(SeqCst), BATCH);
    assert_eq!(working.embedder.asked.load(SeqCst), 3);
    working.end().await;
}

#[tokio::test(start_paused = true)]
async fn new_passages_are_found_at_once_when_the_worker_is_woken_and_soon_when_not() {
    let working = start(1, 0);
    working.until(1).await;
    working.store.add(1..2);
    working.wake.notify_one();
    assert!(working.until(2).await < Duration::from_secs(1));
    working.store.add(2..3);
    let took = working.until(3).await;
    assert!(took > IDLE / 2 && took < IDLE * 2, "{took:?}");
    working.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_embedder_that_is_down_is_asked_ever_less_often_and_again_in_the_end() {
    let working = start(40, 8);
    let took = working.until(40).await;
    // 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 seconds.
    assert_eq!(took.as_secs(), 183);
    assert_eq!(working.embedder.asked.load(SeqCst), 10);
    working.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_worker_ends_in_the_middle_of_an_outage() {
    let working = start(1, usize::MAX);
    assert!(working.pace.time_for(1).is_some(), "nothing has failed yet");
    sleep(Duration::from_secs(100)).await;
    assert_eq!(working.pace.time_for(1), None);
    let began = Instant::now();
    let store = working.store.clone();
    working.end().await;
    assert_eq!((began.elapsed(), store.embedded()), (Duration::ZERO, 0));
}

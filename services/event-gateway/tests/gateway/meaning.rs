//! Search by meaning, with a model that knows what few words mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tree_agent_embedding::{EmbedError, Embedder};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;

use super::common::{Gateway, SOON};

/// A text is about ships, about birds, or about neither. Each vector but that of a query takes a
/// permit, until that ends.
#[derive(Debug)]
struct Subjects {
    permits: Semaphore,
    is_down: AtomicBool,
    is_free: AtomicBool,
}

#[async_trait]
impl Embedder for Subjects {
    fn model(&self) -> &str {
        "subjects"
    }

    fn dimensions(&self) -> usize {
        3
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<i8>>, EmbedError> {
        if self.is_down.load(SeqCst) {
            return Err(EmbedError("down".into()));
        }
        let mut vectors = Vec::new();
        for text in texts {
            if !text.ends_with('?') && !self.is_free.load(SeqCst) {
                self.permits.acquire().await.unwrap().forget();
            }
            let holds = |words: [&str; 2]| words.iter().any(|word| text.contains(word));
            vectors.push(match (holds(["ship", "vessel"]), holds(["bird", "gull"])) {
                (true, _) => vec![127, 0, 0],
                (_, true) => vec![0, 127, 0],
                _ => vec![0, 0, 127],
            });
        }
        Ok(vectors)
    }
}

struct World {
    gateway: Gateway,
    project: String,
    subjects: Arc<Subjects>,
}

impl World {
    async fn start(permits: usize) -> Self {
        let subjects = Arc::new(Subjects {
            permits: Semaphore::new(permits),
            is_down: false.into(),
            is_free: false.into(),
        });
        let config = Config { embedder: Some(subjects.clone()), ..Config::default() };
        let gateway = Gateway::start(config).await;
        let project = gateway.create_project("harbour").await.project_id;
        for (path, body) in [
            ("a.md", "# Gulls\n\nThe white ones follow everything that floats.\n"),
            ("b.md", "# Boats\n\nEvery vessel has a name and a home port.\n"),
            ("c.md", "# Home\n\nA house has a door.\n"),
        ] {
            let document = pb::CreateDocumentRequest {
                project_id: project.clone(),
                path: path.into(),
                body: body.into(),
                ..Default::default()
            };
            gateway.documents().create_document(document).await.unwrap();
        }
        Self { gateway, project, subjects }
    }

    async fn search(&self, query: &str, whole_within_seconds: Option<u32>) -> pb::SearchDocumentsResponse {
        let project_ids = vec![self.project.clone()];
        let request = pb::SearchDocumentsRequest {
            query: query.into(),
            context: Some(pb::RunContext { scope: pb::Scope::Project as i32, project_ids }),
            whole_within_seconds,
            ..Default::default()
        };
        self.gateway.documents().search_documents(request).await.unwrap().into_inner()
    }

    /// Waits until `count` passages have vectors.
    async fn embedded(&self, count: u64) {
        let begun = Instant::now();
        while self.search("", None).await.embedded < Some(count) {
            assert!(begun.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn paths(found: &pb::SearchDocumentsResponse) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.document.as_ref().unwrap().path.as_str()).collect()
}

#[tokio::test]
async fn passages_are_found_by_what_they_mean() {
    let world = World::start(100).await;
    world.embedded(3).await;
    let found = world.search("Which ship is it?", None).await;
    assert_eq!((found.passages, found.embedded, found.vectors, found.total_size), (3, Some(3), true, 0));
    assert_eq!(paths(&found)[0], "b.md");
    let first = &found.hits[0];
    assert_eq!((first.lexical_rank, first.vector_rank, first.similarity), (0, 1, Some(1.0)));
    // The words of one and the meaning of the other.
    let found = world.search("Has a ship a door?", None).await;
    assert_eq!(paths(&found)[..2], ["c.md", "b.md"], "{found:?}");
    // Nothing is looked for, and all is counted.
    for nothing in ["", "!?"] {
        let counted = world.search(nothing, Some(0)).await;
        assert_eq!((counted.hits.len(), counted.passages, counted.embedded), (0, 3, Some(3)), "{nothing:?}");
    }
    world.gateway.stop().await;
}

#[tokio::test]
async fn a_search_goes_by_words_until_the_best_passages_have_vectors() {
    let world = World::start(0).await;
    let found = world.search("a ship in its port?", Some(0)).await;
    assert_eq!((paths(&found), found.vectors), (vec!["b.md"], false));
    assert_eq!((found.passages, found.embedded, found.hits[0].similarity), (3, Some(0), None));
    // It makes those that it needs. The worker still waits for a permit.
    world.subjects.is_free.store(true, SeqCst);
    let found = world.search("a vessel in its port?", Some(0)).await;
    assert_eq!((paths(&found)[0], found.vectors, found.embedded), ("b.md", true, Some(1)));
    assert_eq!(found.hits[0].similarity, Some(1.0));
    // It waits for all of them.
    let (found, ()) = tokio::join!(world.search("a ship in its port?", Some(30)), async {
        world.subjects.permits.add_permits(100);
    });
    assert_eq!((found.vectors, found.embedded, found.hits.len()), (true, Some(3), 3));
    world.gateway.stop().await;
}

#[tokio::test]
async fn a_search_does_not_wait_for_vectors_that_do_not_come_and_goes_on_without_its_model() {
    let world = World::start(0).await;
    let begun = Instant::now();
    let found = world.search("a ship in its port?", Some(30)).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!found.vectors);
    world.subjects.permits.add_permits(100);
    world.embedded(3).await;
    world.subjects.is_down.store(true, SeqCst);
    let found = world.search("a ship in its port?", None).await;
    assert_eq!((paths(&found), found.vectors, found.embedded), (vec!["b.md"], false, Some(3)));
    world.gateway.stop().await;
}

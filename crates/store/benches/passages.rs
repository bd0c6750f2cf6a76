//! How long a search takes among more and more passages, from the words of a question, and from its vector, to the
//! order of its passages, in both stores; Postgres is durable.
//!
//! Prints one JSON object per line.

#![allow(missing_docs, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use tree_agent_contract::document::{Document, DocumentKind, DocumentProps};
use tree_agent_contract::{DocumentId, ProjectId, RunContext, Timestamp};
use tree_agent_retrieval::{Query, nearest, rank};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{CANDIDATES, NewProject, PassageQuery, Project, Store, VectorCache};
use tree_agent_testkit::services::PrivatePostgres;
use uuid::Uuid;

const PASSAGES: [u64; 3] = [1_000, 10_000, 100_000];
/// Passages of a document.
const EACH: u64 = 20;
const QUESTIONS: u64 = 50;
const MODEL: &str = "random@384";
const DIMENSIONS: usize = 384;
/// Words that there are. A word is as frequent as its number is small, as in a language.
const WORDS: f64 = 30_000.0;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let server = PrivatePostgres::start_durable()?;
    let url = server.create_database()?;
    PostgresStore::migrate(&url).await?;
    let folder = tempfile::tempdir()?;
    let stores: [(&str, Arc<dyn Store>); 2] = [
        ("postgres", Arc::new(PostgresStore::connect(&url, PoolConfig::default()).await?)),
        ("embedded", Arc::new(EmbeddedStore::open(folder.path().join("data")).await?)),
    ];
    for (name, store) in stores {
        let project = ProjectId(Uuid::from_u128(1));
        let new = Project::new(project, "Bench", Timestamp(0));
        store
            .create_project(NewProject { project: new, user_id: String::new(), request_id: String::new() })
            .await?;
        let mut random = Random(1);
        let short: String = (0..70_000).map(|section| format!("# s{section}\n\ntext\n\n")).collect();
        let body = tree_agent_contract::text::prefix(&short, 1024 * 1024).to_owned();
        let begun = Instant::now();
        let short = Document {
            id: DocumentId::source(project, "short.md"),
            body,
            ..document(project, 0, &mut random)
        };
        store.put_document(short.clone()).await?;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{}",
            serde_json::json!({ "bench": format!("store 1 MiB of short sections/{name}"), "value": took, "unit": "s" })
        );
        store.delete_source(short.id, None).await?;
        let mut written = 0;
        for passages in PASSAGES {
            while written < passages {
                store.put_document(document(project, written, &mut random)).await?;
                written += EACH;
            }
            loop {
                let new = store.take_unembedded(MODEL, 1_000, Duration::from_secs(600)).await?;
                if new.is_empty() {
                    break;
                }
                let new = new.into_iter().map(|text| (text.hash, random.vector())).collect();
                store.put_vectors(MODEL, new).await?;
            }
            let context = RunContext::project(project);
            let vectors = Arc::new(VectorCache::new(store.clone(), MODEL, DIMENSIONS, 1 << 30));
            let begun = Instant::now();
            vectors.of(&context).await?;
            let read = begun.elapsed();
            let (mut took, mut took_by_meaning) = (Vec::new(), Vec::new());
            let mut total = 0;
            for _ in 0..QUESTIONS {
                let question = random.words(8);
                let begun = Instant::now();
                let query = Query::new(&question);
                let asked = PassageQuery {
                    query: query.clone(),
                    context: RunContext::project(project),
                    path_prefix: String::new(),
                };
                let found = store.find_passages(asked).await?;
                let candidates: Vec<_> = found.passages.iter().map(|passage| passage.ranked()).collect();
                let ranked = rank(&query, &candidates, &found.counts);
                took.push(begun.elapsed());
                anyhow::ensure!(found.counts.passages == passages && !ranked.is_empty());
                total += found.total;
                let vector = random.vector();
                let begun = Instant::now();
                let kept = vectors.of(&context).await?.context("they fit")?;
                let near = nearest(&vector, kept.iter().flat_map(|kept| kept.iter()), CANDIDATES);
                took_by_meaning.push(begun.elapsed());
                anyhow::ensure!(kept[0].embedded() == passages && near.len() == CANDIDATES);
            }
            let mut took_beside = Vec::new();
            for _ in 0..QUESTIONS / 10 {
                let begun = Instant::now();
                let mut searches = JoinSet::new();
                for _ in 0..10 {
                    let (vectors, context, vector) = (vectors.clone(), context.clone(), random.vector());
                    searches.spawn(async move {
                        let kept = vectors.of(&context).await?.context("they fit")?;
                        let compare = move || {
                            let near = nearest(&vector, kept.iter().flat_map(|kept| kept.iter()), CANDIDATES);
                            (near.len(), begun.elapsed())
                        };
                        anyhow::Ok(tokio::task::spawn_blocking(compare).await?)
                    });
                }
                while let Some(done) = searches.join_next().await {
                    let (found, time) = done??;
                    anyhow::ensure!(found == CANDIDATES);
                    took_beside.push(time);
                }
            }
            let matching = total as f64 * 100.0 / (QUESTIONS * passages) as f64;
            for (what, mut took) in [
                ("search", took),
                ("search by meaning", took_by_meaning),
                ("ten searches by meaning at once", took_beside),
            ] {
                took.sort_unstable();
                println!(
                    "{}",
                    serde_json::json!({
                        "bench": format!("{what}/{name}, {passages} passages, p50"),
                        "value": took[took.len() / 2].as_secs_f64() * 1_000.0,
                        "unit": "ms",
                        "p95_ms": took[took.len() * 95 / 100].as_secs_f64() * 1_000.0,
                        "matching_percent": if what == "search" { matching } else { 100.0 },
                        "first_ms": if what == "search" { 0.0 } else { read.as_secs_f64() * 1_000.0 },
                    })
                );
            }
        }
    }
    Ok(())
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn vector(&mut self) -> Vec<i8> {
        (0..DIMENSIONS).map(|_| (self.next() * 30.0 - 15.0) as i8).collect()
    }

    fn words(&mut self, n: usize) -> String {
        let words = (0..n).map(|_| format!("w{}x", WORDS.powf(self.next()) as u64));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn document(project: ProjectId, n: u64, random: &mut Random) -> Document {
    let path = format!("notes/{n}.md");
    let body: String =
        (0..EACH).map(|i| format!("## {} {i}\n\n{}.\n\n", random.words(3), random.words(80))).collect();
    Document {
        id: DocumentId::source(project, &path),
        kind: DocumentKind::Source,
        project_id: Some(project),
        run_id: None,
        path,
        title: format!("Note {n}"),
        body,
        props: DocumentProps::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

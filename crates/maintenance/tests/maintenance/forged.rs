//! Archives that somebody has changed, with a checksum that is right: they take nothing over from another run.

use std::path::Path;

use serde_json::{Value, json};
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_maintenance::archive::{archive, path_of, restore};
use uuid::Uuid;

use crate::archive::{everything, forge, lines_of, refused, remove};
use crate::fixture::Fixture;
use crate::forks::fork;

async fn another(f: &Fixture) -> Fixture {
    if f.is_postgres() { Fixture::postgres().await } else { Fixture::embedded().await }
}

/// Writes the archive of `from` as one of `to`, with what `change` does to each line and all of its texts.
fn rewrite(folder: &Path, from: RunId, to: RunId, change: impl Fn(&mut Value)) {
    let mut lines = Vec::new();
    for line in lines_of(&path_of(folder, from)) {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        if let Some(head) = line.get_mut("run") {
            head["runId"] = json!(to);
        }
        if let Some(document) = line.get_mut("document") {
            document["runId"] = json!(to);
            document["title"] = json!("Forged");
            document["createdAt"] = json!("2020-01-01T00:00:00Z");
        }
        if let Some(chunk) = line.get_mut("chunk") {
            chunk["body"] = json!("X".repeat(chunk["body"].as_str().unwrap().len()));
        }
        change(&mut line);
        lines.push(line.to_string());
    }
    // A payload stays as it is stored: no member of it may move.
    let originals = lines_of(&path_of(folder, from));
    for (line, original) in lines.iter_mut().zip(originals) {
        if original.starts_with("{\"event\"") && serde_json::from_str::<Value>(&original).unwrap() == *line {
            *line = original;
        }
    }
    forge(&path_of(folder, to), &lines);
}

/// What a caller gets that names no run: the run and the title, and all there is to read.
async fn shown(f: &Fixture, id: DocumentId) -> (Option<RunId>, String, Vec<String>) {
    let document = f.store.document(id).await.unwrap();
    let early = f.store.document_at(id, Some(1)).await.map(|placed| placed.document);
    let late = f.store.document_at(id, Some(u64::MAX)).await.unwrap().document;
    let versions = f.store.document_versions(id, 0, 1_000).await.unwrap().items;
    let tail = f.store.document_tail(id, 0, 1_000_000).await.unwrap();
    let read = vec![
        document.body.clone(),
        format!("{early:?}"),
        format!("{late:?}"),
        format!("{versions:?}"),
        format!("{tail:?}"),
    ];
    (document.run_id, document.title, read)
}

pub async fn an_archive_takes_over_no_run_that_the_store_knows(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let (victim, forged) = (f.write("offline").await, RunId(Uuid::from_u128(77)));
    let documents = f.store.run_documents(victim, None, usize::MAX).await.unwrap();
    let mut before = Vec::new();
    for stored in &documents {
        before.push(shown(&f, stored.document.id).await);
    }
    archive(&*f.store, victim, folder.path()).await.unwrap();
    rewrite(folder.path(), victim, forged, |_| {});
    let as_own = format!("no fork in the line of run {victim}");
    refused(&f, forged, folder.path(), &as_own).await;
    for (stored, before) in documents.iter().zip(&before) {
        assert_eq!(shown(&f, stored.document.id).await, *before);
        assert_eq!(before.0, Some(victim));
    }
    assert!(f.store.run_record(forged).await.is_err(), "nothing was restored");
    // With a root of its own, the documents betray it.
    let root = json!(f.store.run(victim).await.unwrap().root_node_id);
    let (root, other) = (root.as_str().unwrap().to_owned(), Uuid::from_u128(78).to_string());
    rewrite(folder.path(), victim, forged, |line| {
        if line.get("event").is_some() {
            *line = serde_json::from_str(&line.to_string().replace(&root, &other)).unwrap();
        }
    });
    refused(&f, forged, folder.path(), &format!("exists outside of run {forged}")).await;
    // A run that was pruned is known, too.
    remove(&f, victim, folder.path()).await;
    rewrite(folder.path(), victim, forged, |_| {});
    refused(&f, forged, folder.path(), &as_own).await;
    assert!(restore(&*f.store, victim, folder.path()).await.unwrap());
    for (stored, before) in documents.iter().zip(&before) {
        assert_eq!(shown(&f, stored.document.id).await, *before);
    }
    // Where nobody knows it, it is a run like any other, and of the two only one can be there.
    let store = another(&f).await;
    assert!(restore(&*store.store, forged, folder.path()).await.unwrap());
    refused(&store, victim, folder.path(), &format!("no fork in the line of run {forged}")).await;
}

pub async fn a_document_without_a_run_is_that_of_the_run_that_created_it(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let real = fork(&f, 5, run).await;
    let documents = f.store.run_documents(run, None, usize::MAX).await.unwrap();
    let mut before = Vec::new();
    for stored in &documents {
        before.push(shown(&f, stored.document.id).await);
    }
    // A fork by its log and its segments, with documents that are older than those of its origin.
    archive(&*f.store, real, folder.path()).await.unwrap();
    let forged = RunId(Uuid::from_u128(6));
    rewrite(folder.path(), real, forged, |line| {
        if let Some(head) = line.get_mut("run") {
            head["segments"][0]["run"] = json!(forged);
        }
        if let Some(document) = line.get_mut("document") {
            (document["createdSeq"], document["baseSeq"]) = (json!(1), json!(1));
        }
    });
    assert!(restore(&*f.store, forged, folder.path()).await.unwrap());
    for (stored, before) in documents.iter().zip(&before) {
        let id = stored.document.id;
        assert_eq!(shown(&f, id).await, *before);
        assert_eq!(f.store.document_of(forged, id, None).await.unwrap().document.title, "Forged");
        assert_eq!(f.store.document_of(run, id, None).await.unwrap().document.title, before.1);
    }
    // One that names the origin, but not its nodes, is no fork of it.
    let root = json!(f.store.run(run).await.unwrap().root_node_id);
    let (root, other) = (root.as_str().unwrap().to_owned(), Uuid::from_u128(78).to_string());
    let strange = RunId(Uuid::from_u128(7));
    rewrite(folder.path(), real, strange, |line| {
        if let Some(head) = line.get_mut("run") {
            head["segments"][0]["run"] = json!(strange);
        } else if line.get("event").is_some() {
            *line = serde_json::from_str(&line.to_string().replace(&root, &other)).unwrap();
        }
    });
    refused(&f, strange, folder.path(), "is no fork in the line of run").await;
}

pub async fn of_forks_alone_the_oldest_has_the_documents(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let first = fork(&f, 5, run).await;
    let second = fork(&f, 4, first).await;
    let id = f.store.run_documents(run, None, 1).await.unwrap().remove(0).document.id;
    for fork in [second, first] {
        archive(&*f.store, fork, folder.path()).await.unwrap();
    }
    remove(&f, run, folder.path()).await;
    let store = another(&f).await;
    // The younger one comes back first, and has them until the older one is there.
    for (back, expected) in [(second, second), (first, first), (run, run)] {
        assert!(restore(&*store.store, back, folder.path()).await.unwrap());
        assert_eq!(shown(&store, id).await.0, Some(expected), "{back}");
    }
    assert_eq!(store.findings(second).await, Vec::<String>::new());
}

pub async fn the_segments_of_an_archive_are_those_of_its_log(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let (first, second) = (fork(&f, 5, run).await, RunId(Uuid::from_u128(4)));
    assert_eq!(fork(&f, 4, first).await, second);
    for run in [run, second] {
        archive(&*f.store, run, folder.path()).await.unwrap();
    }
    let head = f.store.run(run).await.unwrap().head_seq;
    let forged = RunId(Uuid::from_u128(77));
    let changed = async |from: RunId, to: RunId, expected: &str, change: &dyn Fn(&mut Value)| {
        let original = std::fs::read(path_of(folder.path(), from)).unwrap();
        rewrite(folder.path(), from, to, |line| {
            if let Some(head) = line.get_mut("run") {
                change(head);
            }
        });
        refused(&f, to, folder.path(), expected).await;
        std::fs::write(path_of(folder.path(), from), original).unwrap();
    };
    // A run that is no fork, with a part that is stored under another run.
    let part = |run: RunId, until: u64| json!([{"run": run, "writer": first, "epoch": 1, "until": until}]);
    changed(run, forged, "segments[0].run", &|head| head["segments"] = part(run, 3)).await;
    changed(run, forged, "was forked 0 times", &|head| head["segments"] = part(forged, 3)).await;
    changed(run, forged, "segments[0].until", &|head| head["segments"] = part(forged, 0)).await;
    let at_head = |to: &mut Value| to["segments"] = part(forged, head);
    changed(run, forged, "segments[0].until", &at_head).await;
    // A fork of a fork, with other parts than its log tells of.
    changed(second, second, "but its log was forked 2 times", &|head| head["segments"] = json!([])).await;
    changed(second, second, "but its log was forked 2 times", &|head| {
        head["segments"].as_array_mut().unwrap().truncate(1);
    })
    .await;
    changed(second, second, "segments[1].run", &|head| head["segments"][1]["run"] = json!(run)).await;
    changed(second, second, "segments[0].until", &|head| head["segments"][0]["until"] = json!(3)).await;
    changed(second, second, "segments[1].until", &|head| head["segments"][1]["until"] = json!(2)).await;
    changed(second, second, "segments[0].writer", &|head| head["segments"][0]["writer"] = json!(forged))
        .await;
    changed(second, second, "segments[1].writer", &|head| head["segments"][1]["writer"] = json!(run)).await;
    // As it was written, it comes back, and the runs before it can still be pruned.
    let store = another(&f).await;
    assert!(restore(&*store.store, second, folder.path()).await.unwrap());
    remove(&f, run, folder.path()).await;
    assert!(everything(&f, second).await.1.len() as u64 == head + 2);
}

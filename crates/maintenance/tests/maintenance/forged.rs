//! Archives that somebody has changed, with a checksum that is right: they take nothing over from another run.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tree_agent_contract::{ArtifactId, DocumentId, EventBody, NodeId, RunId};
use tree_agent_maintenance::archive::{archive, path_of};
use tree_agent_store::StoreError;
use uuid::Uuid;

use crate::archive::{everything, forge, lines_of, refused, remove};
use crate::fixture::{Fixture, recorded, restore};
use crate::forks::{end_of_decision, fork, fork_at, work};

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
        lines.push(line);
    }
    // Documents and their chunks stand in the order of their ids, and after the events.
    lines.sort_by_key(|line| match (line.get("document"), line.get("chunk")) {
        (Some(document), _) => (1, document["id"].to_string(), 0),
        (_, Some(chunk)) => (2, chunk["documentId"].to_string(), chunk["seq"].as_u64().unwrap()),
        _ if line.get("session").is_some() => (3, String::new(), 0),
        _ => (0, String::new(), 0),
    });
    // A payload stays as it is stored: no member of it may move.
    let originals = lines_of(&path_of(folder, from));
    let kept = |(line, original): (Value, String)| {
        let is_same =
            original.starts_with("{\"event\"") && serde_json::from_str::<Value>(&original).unwrap() == line;
        if is_same { original } else { line.to_string() }
    };
    let lines: Vec<String> = lines.into_iter().zip(originals).map(kept).collect();
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

pub async fn an_archive_takes_over_no_other_run(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let (victim, forged) = (f.write("replan").await, RunId(Uuid::from_u128(77)));
    let unrelated = f.write("offline").await;
    let documents = f.store.run_documents(victim, None, usize::MAX).await.unwrap();
    let mut before = Vec::new();
    for stored in &documents {
        before.push(shown(&f, stored.document.id).await);
    }
    archive(&*f.store, victim, folder.path()).await.unwrap();
    archive(&*f.store, unrelated, folder.path()).await.unwrap();
    let original = std::fs::read(path_of(folder.path(), unrelated)).unwrap();
    // A store that has the run, one that had it, and one that never had it or will have it later.
    let other = another(&f).await;
    for round in 0..2 {
        for store in [&f, &other] {
            rewrite(folder.path(), victim, forged, |_| {});
            refused(store, forged, folder.path(), "is not named after its run").await;
            // A run of its own that holds one document of the victim, or says that it made one.
            rewrite(folder.path(), unrelated, forged, |line| of_run(line, unrelated, forged));
            let sound = std::fs::read(path_of(folder.path(), forged)).unwrap();
            std::fs::write(path_of(folder.path(), unrelated), sound).unwrap();
            let stolen = documents[0].document.id;
            let own = DocumentId::scratchpad(NodeId::root(forged)).to_string();
            rewrite(folder.path(), unrelated, forged, |line| {
                if line.get("document").or(line.get("chunk")).is_some() {
                    let text = line.to_string().replace(&own, &stolen.to_string());
                    *line = serde_json::from_str(&text).unwrap();
                }
            });
            refused(store, forged, folder.path(), &format!("holds document {stolen}, which its log does"))
                .await;
            let artifact = |line: &Value| line["event"]["payload"]["documentId"].is_string();
            rewrite(folder.path(), unrelated, forged, |line| {
                if artifact(line) {
                    line["event"]["payload"]["documentId"] = json!(stolen);
                }
            });
            refused(
                store,
                forged,
                folder.path(),
                &format!("document {stolen} is not named after its artifact"),
            )
            .await;
            rewrite(folder.path(), unrelated, forged, |line| {
                if artifact(line) {
                    line["event"]["payload"]["artifactId"] = json!(Uuid::from_u128(9));
                }
            });
            refused(store, forged, folder.path(), "is not named after its node and label").await;
            std::fs::write(path_of(folder.path(), unrelated), &original).unwrap();
            assert!(store.store.run_record(forged).await.is_err(), "nothing was restored");
        }
        if round == 0 {
            remove(&f, victim, folder.path()).await;
        }
    }
    // With nothing of another run it is a run like any other, and is in nobody's way.
    rewrite(folder.path(), unrelated, forged, |line| of_run(line, unrelated, forged));
    for store in [&f, &other] {
        assert!(restore(&*store.store, forged, folder.path()).await.unwrap());
        assert!(restore(&*store.store, victim, folder.path()).await.unwrap());
        for (stored, before) in documents.iter().zip(&before) {
            assert_eq!(shown(store, stored.document.id).await, *before);
            assert_eq!(before.0, Some(victim));
        }
        assert_eq!(store.findings(victim).await, Vec::<String>::new());
    }
}

/// Gives everything in a line the names that it has in the run `to`.
fn of_run(line: &mut Value, from: RunId, to: RunId) {
    let text = line.to_string();
    *line =
        serde_json::from_str(&renamed(from, to).iter().fold(text, |text, (old, new)| text.replace(old, new)))
            .unwrap();
}

/// The ids of a recorded run, and what they are if another run does the same.
fn renamed(from: RunId, to: RunId) -> Vec<(String, String)> {
    let log = recorded("offline");
    assert_eq!(log[0].run_id, from);
    let mut nodes = BTreeMap::from([(NodeId::root(from), NodeId::root(to))]);
    let mut ids = vec![(NodeId::root(from).to_string(), NodeId::root(to).to_string())];
    ids.push((DocumentId::workspace(from).to_string(), DocumentId::workspace(to).to_string()));
    for event in &log {
        let node = event.node_id;
        match &event.body {
            EventBody::NodeCreated(e) => {
                if let (Some(parent), Some(step)) = (e.parent_node_id, &e.step_id) {
                    let is_it = |version: &u32| NodeId::child(parent, *version, step) == node;
                    let version = (1..100).find(is_it).unwrap();
                    nodes.insert(node, NodeId::child(nodes[&parent], version, step));
                    ids.push((node.to_string(), nodes[&node].to_string()));
                }
                let (old, new) = (DocumentId::scratchpad(node), DocumentId::scratchpad(nodes[&node]));
                ids.push((old.to_string(), new.to_string()));
            }
            EventBody::ArtifactCreated(e) => {
                let label = e.label.as_deref().unwrap();
                let number = (0..100).find(|n| ArtifactId::of(node, *n, label) == e.artifact_id).unwrap();
                let new = ArtifactId::of(nodes[&node], number, label);
                ids.push((e.artifact_id.to_string(), new.to_string()));
                let (old, new) = (DocumentId::of_artifact(e.artifact_id), DocumentId::of_artifact(new));
                ids.push((old.to_string(), new.to_string()));
            }
            _ => {}
        }
    }
    ids
}

pub async fn a_fork_from_elsewhere_answers_for_no_run_of_the_store(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let log = recorded("retries");
    let run = f.write("retries").await;
    let early = end_of_decision(&log, log.len() / 3);
    // A fork that writes documents of its own.
    let real = fork_at(&f, 5, run, early).await;
    work(&f, real, &log, log.len() as u64).await;
    let mut documents = f.store.run_documents(real, None, usize::MAX).await.unwrap();
    let of_run = f.store.run_documents(run, None, usize::MAX).await.unwrap();
    documents.extend(of_run);
    let mut before = Vec::new();
    for stored in &documents {
        before.push(shown(&f, stored.document.id).await);
    }
    assert!(before.iter().any(|before| before.0 == Some(run)));
    // One by its log and its segments, with documents that are older than all others.
    archive(&*f.store, real, folder.path()).await.unwrap();
    let forged = RunId(Uuid::from_u128(6));
    rewrite(folder.path(), real, forged, |line| {
        if let Some(head) = line.get_mut("run") {
            head["segments"][0]["run"] = json!(forged);
        }
        if let Some(document) = line.get_mut("document") {
            (document["createdSeq"], document["baseSeq"]) = (json!(1), json!(1));
        }
        if line["event"]["seq"].as_u64() == Some(early + 1) {
            line["event"]["timestamp"] = json!("2020-01-01T00:00:00Z");
        }
    });
    assert!(restore(&*f.store, forged, folder.path()).await.unwrap());
    let made = async |run| f.store.run(run).await.unwrap().created_at;
    assert!(made(forged).await < made(real).await);
    for (stored, before) in documents.iter().zip(&before) {
        let id = stored.document.id;
        assert_eq!(shown(&f, id).await, *before);
        assert_eq!(f.store.document_of(forged, id, None).await.unwrap().document.title, "Forged");
    }
    // Nor does a fork of it, nor when those are pruned. They come back as they were.
    let laundered = fork(&f, 8, forged).await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    remove(&f, forged, folder.path()).await;
    assert!(!f.store.run_documents(laundered, None, usize::MAX).await.unwrap().is_empty());
    for pruned in [real, run] {
        remove(&f, pruned, folder.path()).await;
    }
    for stored in &documents {
        let id = stored.document.id;
        assert!(matches!(f.store.document(id).await, Err(StoreError::NotFound { .. })));
        assert!(matches!(f.store.document_at(id, Some(u64::MAX)).await, Err(StoreError::NotFound { .. })));
        assert!(matches!(f.store.document_versions(id, 0, 10).await, Err(StoreError::NotFound { .. })));
        assert!(matches!(f.store.document_tail(id, 0, 10).await, Err(StoreError::NotFound { .. })));
    }
    for back in [real, run] {
        assert!(restore(&*f.store, back, folder.path()).await.unwrap());
    }
    for (stored, before) in documents.iter().zip(&before) {
        assert_eq!(shown(&f, stored.document.id).await, *before);
    }
    // One that names the origin, but not its nodes, is no fork of it.
    let root = NodeId::root(run).to_string();
    let strange = RunId(Uuid::from_u128(7));
    rewrite(folder.path(), real, strange, |line| {
        if let Some(head) = line.get_mut("run") {
            head["segments"][0]["run"] = json!(strange);
        } else if line.get("event").is_some() {
            let other = Uuid::from_u128(78).to_string();
            *line = serde_json::from_str(&line.to_string().replace(&root, &other)).unwrap();
        }
    });
    refused(&f, strange, folder.path(), "is not named after its run").await;
}

pub async fn an_archive_from_elsewhere_is_taken_by_those_who_trust_it(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    let other = another(&f).await;
    let error = tree_agent_maintenance::archive::restore(&*other.store, run, folder.path(), false).await;
    assert!(error.unwrap_err().to_string().contains("--trusted"));
    assert!(other.store.run_record(run).await.is_err(), "nothing was restored");
    assert!(restore(&*other.store, run, folder.path()).await.unwrap());
    // One that the store pruned needs no trust.
    remove(&f, run, folder.path()).await;
    let back = tree_agent_maintenance::archive::restore(&*f.store, run, folder.path(), false).await;
    assert!(back.unwrap());
}

pub async fn an_archive_with_numbers_and_names_that_cannot_be_is_refused(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    let original = std::fs::read(path_of(folder.path(), run)).unwrap();
    let other = another(&f).await;
    let victim = RunId(Uuid::from_u128(5));
    let (foreign, stolen) = (NodeId::root(victim), ArtifactId::of(NodeId::root(victim), 0, "quotations"));
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Value));
    let changes: [Change<'_>; 8] = [
        ("epochs are below", &|line| {
            if let Some(head) = line.get_mut("run") {
                head["epoch"] = json!(u64::MAX >> 1);
            }
        }),
        ("years 1 to 9999", &|line| {
            if let Some(event) = line.get_mut("event") {
                event["timestamp"] = json!("0000-01-01T00:00:00Z");
            }
        }),
        ("an event or a length that cannot be", &|line| {
            if let Some(document) = line.get_mut("document") {
                document["createdSeq"] = json!(u64::MAX);
            }
        }),
        ("an event or a length that cannot be", &|line| {
            if let Some(document) = line.get_mut("document") {
                document["droppedBytes"] = json!(u64::MAX);
            }
        }),
        ("in a place that cannot be", &|line| {
            if let Some(document) = line.get_mut("document").filter(|document| document["edge"].is_object()) {
                document["edge"]["parentId"] = document["id"].clone();
            }
        }),
        ("a place that cannot be", &|line| {
            if let Some(chunk) = line.get_mut("chunk") {
                chunk["startByte"] = json!(u64::MAX);
            }
        }),
        ("root node", &|line| {
            if line["event"]["type"] == "tree.run_created" {
                line["event"]["payload"]["rootNodeId"] = json!(Uuid::from_u128(9));
            }
        }),
        // After an event of an unknown type nobody knows which nodes there are.
        ("is not named after its node and label", &|line| {
            if line["event"]["type"] == "tree.scratchpad_linked" {
                line["event"]["type"] = json!("tree.from_the_future");
            }
            if line["event"]["type"] == "tree.artifact_created" {
                line["event"]["nodeId"] = json!(foreign);
                line["event"]["payload"]["artifactId"] = json!(stolen);
                line["event"]["payload"]["label"] = json!("quotations");
                line["event"]["payload"]["documentId"] = json!(DocumentId::of_artifact(stolen));
            }
        }),
    ];
    for (expected, change) in changes {
        let mut lines: Vec<Value> = lines_of(&path_of(folder.path(), run))
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines.iter_mut().for_each(change);
        forge(&path_of(folder.path(), run), &lines.iter().map(Value::to_string).collect::<Vec<_>>());
        refused(&other, run, folder.path(), expected).await;
        std::fs::write(path_of(folder.path(), run), &original).unwrap();
    }
    assert!(restore(&*other.store, run, folder.path()).await.unwrap());
}

pub async fn a_fork_shares_what_the_store_has_of_the_runs_before_it(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let real = fork(&f, 5, run).await;
    archive(&*f.store, real, folder.path()).await.unwrap();
    let forged = RunId(Uuid::from_u128(6));
    rewrite(folder.path(), real, forged, |line| {
        if let Some(head) = line.get_mut("run") {
            head["segments"][0]["run"] = json!(forged);
        }
        if line["event"]["type"] == "tree.run_created" {
            line["event"]["payload"]["objective"] = json!("forged");
        }
    });
    refused(&f, forged, folder.path(), "but they are not those of the store").await;
    // A store that does not have the run believes the archive.
    assert!(restore(&*another(&f).await.store, forged, folder.path()).await.unwrap());
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

//! What leaves the store comes back as it was, and nothing leaves it that could not.

use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};
use tree_agent_contract::session::Session;
use tree_agent_contract::{RunId, Timestamp};
use tree_agent_maintenance::archive::{archive, path_of, prune, read, restore};
use tree_agent_maintenance::{MaintenanceError, rebuild};
use tree_agent_store::{StoreError, Stored, StoredChunk, StoredDocument, StoredEvent};
use uuid::Uuid;

use crate::fixture::{Fixture, RECORDED, recorded};

/// Everything that is stored of a run.
async fn everything(
    f: &Fixture,
    run: RunId,
) -> (Stored, Vec<StoredEvent>, (Vec<StoredDocument>, Vec<StoredChunk>, Vec<Session>)) {
    let events = f.store.stored_events(run, 0, usize::MAX).await.unwrap();
    let documents = f.store.run_documents(run, None, usize::MAX).await.unwrap();
    let chunks = f.store.document_chunks(run, None, usize::MAX).await.unwrap();
    let sessions = f.store.run_sessions(run, None, usize::MAX).await.unwrap();
    (f.store.stored(run).await.unwrap(), events, (documents, chunks, sessions))
}

async fn remove(f: &Fixture, run: RunId, folder: &Path) {
    archive(&*f.store, run, folder).await.unwrap();
    assert!(prune(&*f.store, run, folder).await.unwrap());
}

pub async fn runs_come_back_as_they_were(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    for name in RECORDED {
        let run = f.write(name).await;
        let (before, summary) = (everything(&f, run).await, f.store.run(run).await.unwrap());
        let archived = archive(&*f.store, run, folder.path()).await.unwrap();
        assert_eq!(archived.events, before.0.head_seq);
        assert_eq!(archived.documents, before.2.0.len() as u64);
        assert!(prune(&*f.store, run, folder.path()).await.unwrap());
        f.store.tidy().await.unwrap();
        let (stored, events, documents) = everything(&f, run).await;
        assert!(before.2.1.len() > 2, "{name}: scratchpads have grown");
        assert_eq!(before.2.2.is_empty(), name != "search", "{name}: a search has conversations");
        let left = (events.len(), documents.0.len(), documents.1.len(), documents.2.len(), stored.rows.len());
        assert_eq!(left, (0, 0, 0, 0, 1), "{name}");
        assert!(restore(&*f.store, run, folder.path()).await.unwrap());
        assert_eq!(everything(&f, run).await, before, "{name}");
        assert_eq!(f.store.run(run).await.unwrap(), summary);
        assert_eq!(f.findings(run).await, Vec::<String>::new(), "{name}");
    }
    // Into a store that never knew them.
    let other = f.another().await;
    for name in RECORDED {
        let run = recorded(name)[0].run_id;
        assert!(restore(&*other.store, run, folder.path()).await.unwrap());
        assert_eq!(everything(&other, run).await, everything(&f, run).await, "{name}");
        assert_eq!(other.store.run(run).await.unwrap(), f.store.run(run).await.unwrap());
    }
}

pub async fn labels_and_times_survive_archive_and_restore(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write_labelled("retries").await;
    let summary = f.store.run(run).await.unwrap();
    assert_eq!(
        (summary.spec.labels["env"].as_str(), summary.spec.display_name.as_str()),
        ("prod", "Labelled")
    );
    assert!(summary.started_at > Some(summary.created_at), "{summary:?}");
    assert_eq!(summary.ended_at, Some(summary.updated_at));
    f.damage(run, "UPDATE tree_agent_runs SET labels = '{}', started_at = NULL, ended_at = NULL").await;
    assert_eq!(f.findings(run).await.len(), 3);
    rebuild(&*f.store, run).await.unwrap();
    assert_eq!(f.findings(run).await, Vec::<String>::new());
    remove(&f, run, folder.path()).await;
    assert_eq!(f.store.run(run).await.unwrap(), summary, "the row says so while the rest is archived");
    let other = f.another().await;
    for store in [&f.store, &other.store] {
        assert!(restore(&**store, run, folder.path()).await.unwrap());
        assert_eq!(store.run(run).await.unwrap(), summary);
    }
}

pub async fn a_deleted_run_is_pruned_with_its_row_and_restored_hidden(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let is_gone = |error: StoreError| matches!(error, StoreError::NotFound { .. });
    let later = Timestamp(i64::MAX);
    // Deleted before it was archived: the archive says so.
    let early = f.write("retries").await;
    let user = f.store.run(early).await.unwrap().spec.user_id;
    let asked = async |request: RunId| f.store.run_of_request(&user, &request.to_string()).await.unwrap();
    assert!(f.store.delete_run(early).await.unwrap());
    assert_eq!(asked(early).await, Some(early));
    assert_eq!(f.store.ended_runs(later, None, 10).await.unwrap(), [early]);
    remove(&f, early, folder.path()).await;
    assert!(is_gone(f.store.run_record(early).await.unwrap_err()), "nothing is left, its row included");
    assert_eq!(asked(early).await, None, "its request can be made again");
    assert_eq!(f.store.stored_events(early, 0, 10).await.unwrap(), []);
    assert_eq!(f.store.ended_runs(later, None, 10).await.unwrap(), []);
    assert!(restore(&*f.store, early, folder.path()).await.unwrap());
    assert!(is_gone(f.store.run(early).await.unwrap_err()), "it stays hidden");
    assert!(f.store.run_record(early).await.unwrap().deleted_at.is_some());
    assert_eq!(asked(early).await, Some(early));
    remove(&f, early, folder.path()).await;
    // Its request has created another run since. It finds that one, and the archived run comes back all the same.
    let (again, _) = f.begin_for(&recorded("failures"), &early.to_string()).await;
    assert!(restore(&*f.store, early, folder.path()).await.unwrap());
    assert_eq!(asked(early).await, Some(again.run_id));
    remove(&f, early, folder.path()).await;
    assert_eq!(asked(early).await, Some(again.run_id));
    // Deleted after it was archived and pruned: pruning it again removes its row.
    let late = f.write("offline").await;
    remove(&f, late, folder.path()).await;
    assert_eq!(asked(late).await, Some(late), "an archived run answers its request");
    assert!(f.store.delete_run(late).await.unwrap());
    assert_eq!(f.store.ended_runs(later, None, 10).await.unwrap(), [late]);
    assert!(prune(&*f.store, late, folder.path()).await.unwrap());
    assert!(is_gone(f.store.run_record(late).await.unwrap_err()));
    assert_eq!(asked(late).await, None);
    f.store.tidy().await.unwrap();
}

pub async fn what_is_archived_says_so(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("retries").await;
    let head = f.report(run).await.head_seq;
    let summary = f.store.run(run).await.unwrap();
    remove(&f, run, folder.path()).await;
    f.store.tidy().await.unwrap();
    assert!(matches!(f.store.read(run, 0, 10).await.unwrap_err(), StoreError::Archived(r) if r == run));
    assert_eq!(f.store.read(run, head, 10).await.unwrap(), []);
    assert_eq!(f.store.run(run).await.unwrap(), summary);
    assert_eq!(f.store.heads(&[run]).await.unwrap(), [(run, head)]);
    let report = f.report(run).await;
    assert!(report.archived && report.is_sound(), "{report:?}");
    assert!(matches!(rebuild(&*f.store, run).await.unwrap_err(), MaintenanceError::Archived(_)));
    let error = archive(&*f.store, run, folder.path()).await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Archived(_)), "{error:?}");
}

pub async fn nothing_is_removed_without_its_archive(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("retries").await;
    let before = everything(&f, run).await;
    let file = path_of(folder.path(), run);
    let refused = async |expected: &str| {
        let error = prune(&*f.store, run, folder.path()).await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let text = format!("{error}: {source}");
        assert!(text.contains(expected) && text.contains(&run.to_string()), "{text}");
        assert_eq!(everything(&f, run).await, before);
        assert!(restore(&*f.store, run, folder.path()).await.is_err());
    };
    refused("cannot be read").await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    refused("").await;
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    std::fs::write(&file, flipped).unwrap();
    refused("").await;
    let text = text_of(&whole);
    std::fs::write(&file, gzip(&text.replacen("\"seq\":7,", "\"seq\":8,", 1))).unwrap();
    refused("it was changed").await;
    std::fs::write(&file, gzip(&text.replacen("\"version\":1", "\"version\":9", 1))).unwrap();
    refused("reads tree-agent-run version 1").await;
    let without_end =
        text.lines().filter(|line| !line.starts_with("{\"end\"")).collect::<Vec<_>>().join("\n");
    std::fs::write(&file, gzip(&without_end)).unwrap();
    refused("cut off").await;
    // The store has moved on from what the archive holds.
    std::fs::write(&file, &whole).unwrap();
    f.damage(run, "UPDATE tree_agent_documents SET title = 'Changed' WHERE run_id = {run}").await;
    let error = prune(&*f.store, run, folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("something else than the store"), "{error}");
    archive(&*f.store, run, folder.path()).await.unwrap();
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
}

/// Writes an archive whose checksum is right, whatever its lines say.
fn forge(file: &Path, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let sha256: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = json!({"end": {"sha256": sha256}});
    std::fs::write(file, gzip(&format!("{text}{end}\n"))).unwrap();
}

/// The lines of an archive but its last.
fn lines_of(file: &Path) -> Vec<String> {
    let mut lines: Vec<_> = text_of(&std::fs::read(file).unwrap()).lines().map(str::to_owned).collect();
    lines.pop();
    lines
}

async fn refused(f: &Fixture, run: RunId, folder: &Path, expected: &str) {
    let error = restore(&*f.store, run, folder).await.unwrap_err();
    let text = tree_agent_contract::error::chain(&error);
    assert!(text.contains(expected), "{text}");
}

pub async fn a_pruned_run_comes_back_only_from_its_own_archive(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    let before = everything(&f, run).await;
    remove(&f, run, folder.path()).await;
    let pruned = everything(&f, run).await;
    let file = path_of(folder.path(), run);
    let original = std::fs::read(&file).unwrap();
    let mut lines = lines_of(&file);
    let document = lines.iter_mut().find(|line| line.starts_with("{\"document\"")).unwrap();
    *document = document.replacen("\"title\":\"", "\"title\":\"Forged: ", 1);
    forge(&file, &lines);
    read(&file).expect("by itself it is a good archive");
    refused(&f, run, folder.path(), "was pruned for the archive with SHA-256").await;
    let error = prune(&*f.store, run, folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("not the archive that the run was pruned for"), "{error}");
    assert_eq!(everything(&f, run).await, pruned);
    std::fs::write(&file, original).unwrap();
    assert!(restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(everything(&f, run).await, before);
}

pub async fn a_run_of_the_store_is_not_overwritten(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    archive(&*f.store, run, folder.path()).await.unwrap();
    f.damage(run, "UPDATE tree_agent_documents SET title = 'Changed' WHERE run_id = {run}").await;
    let before = everything(&f, run).await;
    assert!(!restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(everything(&f, run).await, before);
}

pub async fn an_archive_is_of_the_run_that_it_is_named_for_and_has_nothing_after_its_end(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let (run, named) = (f.write("retries").await, RunId(Uuid::from_u128(9)));
    archive(&*f.store, run, folder.path()).await.unwrap();
    let file = path_of(folder.path(), run);
    std::fs::copy(&file, path_of(folder.path(), named)).unwrap();
    refused(&f, named, folder.path(), &format!("holds run {run}, not {named}")).await;
    let (text, lines) = (text_of(&std::fs::read(&file).unwrap()), lines_of(&file));
    std::fs::write(&file, gzip(&format!("{text}{}\n", lines[1]))).unwrap();
    refused(&f, run, folder.path(), "goes on after its end").await;
    forge(&file, &lines[1..]);
    refused(&f, run, folder.path(), "does not say which run it holds").await;
    forge(&file, &lines[..5]);
    refused(&f, run, folder.path(), "events, but holds 4").await;
}

fn text_of(gzip: &[u8]) -> String {
    std::io::read_to_string(flate2::read::GzDecoder::new(gzip)).unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

pub async fn every_step_can_be_repeated(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("offline").await;
    f.damage(run, "UPDATE tree_agent_documents SET dropped_bytes = 17 WHERE run_id = {run}").await;
    let before = everything(&f, run).await;
    // What a crash in the middle of writing leaves behind.
    let file = path_of(folder.path(), run);
    std::fs::write(file.with_extension("gz.new"), "half").unwrap();
    std::fs::write(&file, "half").unwrap();
    let archived = archive(&*f.store, run, folder.path()).await.unwrap();
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(archive(&*f.store, run, folder.path()).await.unwrap(), archived);
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written, "a good file is kept");
    assert_eq!(read(&file).unwrap().sha256, archived.sha256);
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    assert!(!prune(&*f.store, run, folder.path()).await.unwrap());
    // Before what was pruned has been tidied.
    assert!(restore(&*f.store, run, folder.path()).await.unwrap());
    assert!(!restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(everything(&f, run).await, before);
    f.store.tidy().await.unwrap();
    assert_eq!(everything(&f, run).await, before);
    assert!(prune(&*f.store, run, folder.path()).await.unwrap());
    for _ in 0..2 {
        f.store.tidy().await.unwrap();
    }
    assert!(restore(&*f.store, run, folder.path()).await.unwrap());
    assert_eq!(everything(&f, run).await, before);
}

pub async fn only_ended_runs_of_some_age_are_chosen(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let log = recorded("failures");
    let (claim, _) = f.begin(&log).await;
    let error = archive(&*f.store, claim.run_id, folder.path()).await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Live(_)), "{error:?}");
    let (offline, replan) = (f.write("offline").await, f.write("replan").await);
    let end = |name: &str| recorded(name).last().unwrap().timestamp;
    let later = Timestamp(end("offline").micros().max(end("replan").micros()) + 1);
    let mut both = [offline, replan];
    both.sort_unstable();
    assert_eq!(f.store.ended_runs(later, None, 10).await.unwrap(), both);
    assert_eq!(f.store.ended_runs(later, Some(both[0]), 10).await.unwrap(), [both[1]]);
    assert!(!f.store.ended_runs(end("offline"), None, 10).await.unwrap().contains(&offline));
    remove(&f, offline, folder.path()).await;
    assert_eq!(f.store.ended_runs(later, None, 10).await.unwrap(), [replan]);
}

/// A run that was made in the month that `moment` lies in.
fn run_of(moment: Timestamp, n: u128) -> RunId {
    let millis = (moment.micros() / 1_000) as u128;
    RunId(Uuid::from_u128((millis << 80) | (7 << 76) | (2 << 62) | n))
}

pub async fn an_ended_month_goes_as_a_whole_and_comes_back(f: Fixture) {
    if !f.is_postgres() {
        assert_eq!(f.store.make_partitions(3).await.unwrap(), 0);
        assert_eq!(f.store.partitions().await.unwrap(), []);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = async || {
        let partitions = f.store.partitions().await.unwrap();
        partitions.into_iter().map(|p| p.name).collect::<Vec<_>>()
    };
    let at_first = names().await;
    assert_eq!(at_first.len(), 5, "this month, three ahead, the default: {at_first:?}");
    assert_eq!(f.store.make_partitions(3).await.unwrap(), 0);
    assert_eq!(f.store.make_partitions(5).await.unwrap(), 2);
    // Two runs of March 2026, and one of this month.
    let march = Timestamp(1_773_000_000_000_000);
    let (one, two) = (run_of(march, 1), run_of(march, 2));
    f.damage(one, "SELECT tree_agent_make_partition('2026-03-05')").await;
    f.write_as("offline", one).await;
    f.write_as("replan", two).await;
    let now = f.write("retries").await;
    let before = everything(&f, one).await;
    remove(&f, one, folder.path()).await;
    assert_eq!(f.store.tidy().await.unwrap(), Vec::<String>::new(), "the month is still needed");
    assert_eq!(f.store.stored_events(one, 0, 10).await.unwrap(), []);
    assert!(!f.store.stored_events(two, 0, 10).await.unwrap().is_empty());
    remove(&f, two, folder.path()).await;
    remove(&f, now, folder.path()).await;
    assert_eq!(f.store.tidy().await.unwrap(), ["tree_agent_events_2026_03"]);
    assert!(!names().await.contains(&"tree_agent_events_2026_03".to_owned()));
    // Its month is made again for it, and is then the only one of its time.
    assert!(restore(&*f.store, one, folder.path()).await.unwrap());
    assert!(names().await.contains(&"tree_agent_events_2026_03".to_owned()), "{:?}", names().await);
    assert_eq!(everything(&f, one).await, before);
    assert_eq!(f.findings(one).await, Vec::<String>::new());
    remove(&f, one, folder.path()).await;
    assert_eq!(f.store.tidy().await.unwrap(), ["tree_agent_events_2026_03"]);
    assert!(restore(&*f.store, now, folder.path()).await.unwrap());
}

pub async fn events_of_a_newer_version_come_back_byte_for_byte(f: Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let run = f.write("retries").await;
    crate::verify::from_the_future(&f, run).await;
    let (_, events, documents) = everything(&f, run).await;
    remove(&f, run, folder.path()).await;
    let other = f.another().await;
    for store in [&f, &other] {
        assert!(restore(&*store.store, run, folder.path()).await.unwrap());
        let (stored, brought, written) = everything(store, run).await;
        assert_eq!((brought, written), (events.clone(), documents.clone()));
        assert!(stored.rows.len() > 1, "what this version can derive is there");
    }
}

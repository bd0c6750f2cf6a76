//! Folders that grow on disks that fail.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tree_agent_contract::role::{ResearchOutput, ScratchpadDraft};
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::{RunSpec, SearchConfig, Strategy};
use tree_agent_engine::{CallOutput, Input, Run};
use tree_agent_mirror::{Disk, Folder, LocalDisk, Root, edits};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Projection, RunAppend, Store};

use super::growing::Growing;
use super::logged::{Logged, titles, wanted};
use super::taking_over::NewSearch;
use crate::client::watch::Update;
use crate::exit::Exit;

/// A disk that becomes full after so many files.
struct FillingDisk(usize);

impl Disk for FillingDisk {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.create_dir(path)
    }

    fn write_new(&mut self, path: &Path, content: &[u8], lasting: bool) -> io::Result<()> {
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => return Err(io::ErrorKind::StorageFull.into()),
        }
        LocalDisk.write_new(path, content, lasting)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.rename(from, to)
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_file(path)
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        LocalDisk.sync_dir(path)
    }
}

const LIST: &str = r#"[{"title": "A", "slug": "a"}, {"title": "B", "slug": "b"}]"#;
const BELOW_A: &str = r#"[{"title": "A one", "slug": "one"}]"#;

/// A folder with a complete topic and an open one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "children.json", LIST);
    put(folder.path(), "a/document.md", "# A\n\nAll of it.\n");
    put(folder.path(), "a/children.json", BELOW_A);
    folder
}

fn put(dir: &Path, path: &str, text: &str) {
    let file = dir.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn open(dir: &Path) -> (Root, Folder) {
    let root = Root::open(dir, "a test").unwrap();
    let folder = root.read().unwrap();
    (root, folder)
}

fn taking_over(folder: &Folder, known: &HashMap<String, String>) -> NewSearch {
    let spec = RunSpec { strategy: Strategy::Search, ..RunSpec::new("why?") };
    NewSearch::of(spec, folder, known).unwrap()
}

#[test]
fn a_document_that_breaks_the_schema_is_not_taken_over_and_nothing_below_it() {
    let dir = folder();
    put(dir.path(), "a/one/document.md", "---\nkind: fact\n---\n\n# One\n");
    put(dir.path(), "a/one/children.json", "[]");
    let schema = serde_json::json!({"required": ["kind"]}).as_object().cloned();
    let search = SearchConfig { frontmatter_schema: schema, ..SearchConfig::default() };
    let spec = RunSpec { strategy: Strategy::Search, search: Some(Box::new(search)), ..RunSpec::new("why?") };
    let taken = |text: &str| {
        put(dir.path(), "a/document.md", text);
        let next = NewSearch::of(spec.clone(), &open(dir.path()).1, &HashMap::new()).unwrap();
        (next.taken_over(), next.notices.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(taken("---\nkind: idea\n---\n\n# A\n"), (2, String::new()));
    for text in ["# A\n\nNo frontmatter.\n", "---\ntitle: A\n---\n\n# A\n", "---\nkind: [\n---\n"] {
        let (documents, notice) = taken(text);
        assert_eq!(documents, 0, "{text}");
        assert!(notice.starts_with("a/document.md: breaks the schema of --frontmatter-schema ("), "{notice}");
        assert!(
            notice.ends_with("its topic is researched again; what is below is not taken over"),
            "{notice}"
        );
    }
}

async fn store() -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open_in_memory().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_and_the_folder_is_completed_when_there_is_room() {
    let dir = folder();
    let store = store().await;
    let search = taking_over(&open(dir.path()).1, &HashMap::new());
    assert_eq!(search.taken_over(), 1);
    let graph = search.graph;
    store.create_run(search.run).await.unwrap();

    // The lists in our own form, and a file for each of three nodes: one more each time.
    let mut room = 0;
    loop {
        let logged = Logged::latest(&*store).await.unwrap().unwrap();
        assert_eq!(logged.graph.snapshot(), graph.snapshot());
        let ((root, held), run) = (open(dir.path()), (logged.graph, logged.growth));
        let disk = Box::new(FillingDisk(usize::from(room > 0)));
        let growing = Growing::new(store.clone(), (root, &held), disk, run, HashSet::new());
        let Err(error) = growing.unwrap().write().await else { break };
        assert_eq!(error.exit(), Exit::Internal);
        assert!(error.to_string().contains("free some space"), "{error}");
        room += 1;
    }
    assert_eq!(room, 3);
    let (_root, held) = open(dir.path());
    let said: Vec<_> = held.nodes.iter().map(|node| (node.path.as_str(), node.file.is_some())).collect();
    assert_eq!(said, [("a", true), ("b", true), ("a/one", true)]);
    assert_eq!(std::fs::read_to_string(dir.path().join("a/document.md")).unwrap(), "# A\n\nAll of it.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_by_hand_survives_a_crash_at_any_write_of_the_search_that_takes_it_over() {
    let list = LIST.replace(r#""title": "A""#, r#""title": "Mine""#);
    let node = r#"{"title": "Mine", "slug": "a", "status": "expanded"}"#;
    for (file, text) in [("children.json", list.as_str()), ("a/node.json", node)] {
        let (mut writes, mut is_whole) = (0, false);
        while !is_whole {
            let (dir, store) = (folder(), store().await);
            // The last search, whole on the disk.
            let ((root, held), disk) = (open(dir.path()), Box::new(LocalDisk));
            let last = taking_over(&held, &HashMap::new());
            let run = (last.graph, last.growth);
            let mut growing = Growing::new(store.clone(), (root, &held), disk, run, last.documents).unwrap();
            growing.write().await.unwrap();
            drop(growing);
            store.create_run(last.run).await.unwrap();
            let mut logged = Logged::latest(&*store).await.unwrap().unwrap();
            let known = titles(&logged.growth.take(&logged.graph));

            put(dir.path(), file, text);
            let (root, held) = open(dir.path());
            let next = taking_over(&held, &known);
            let (run, disk) = ((next.graph, next.growth), Box::new(FillingDisk(writes)));
            let growing = Growing::new(store.clone(), (root, &held), disk, run, next.documents);
            is_whole = growing.unwrap().write().await.is_ok();
            writes += 1;

            let after = taking_over(&open(dir.path()).1, &known);
            assert_eq!(after.graph.nodes()[1].title, "Mine", "{file}, {writes} writes");
            assert_eq!(after.taken_over(), 1);
        }
        assert!(writes > 1, "{writes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_topics_is_written_whole_wherever_the_process_dies() {
    let mut told = 0;
    loop {
        let (dir, store) = (folder(), store().await);
        let (root, held) = open(dir.path());
        let search = taking_over(&held, &HashMap::new());
        let (run_id, now) = (search.run.run_id, search.run.events[0].timestamp.plus_millis(1_000));
        let mut run = Run::replay(run_id, &search.run.events).unwrap();
        store.create_run(search.run).await.unwrap();
        let mut growing = Growing::new(
            store.clone(),
            (root, &held),
            Box::new(LocalDisk),
            (search.graph, search.growth),
            search.documents,
        )
        .unwrap();
        growing.write().await.unwrap();

        // The research of B ends: its document and its topics are one append.
        let term = store.begin_term("driver", std::time::Duration::from_secs(60)).await.unwrap();
        let claim = store.claim("driver", term.number, 1, 1, 0).await.unwrap().remove(0);
        let mut decision = run.handle(Input::Claimed, now);
        let call = run.take_due(now, 1).remove(0);
        let drafts = ["B one", "B two"].map(|title| ChildDraft { title: title.into(), ..Default::default() });
        let found = ResearchOutput {
            document_markdown: Some("# B\n".into()),
            scratchpad: ScratchpadDraft::of("noted\n".into()),
            summary: "found".into(),
            children: tidy(drafts).children,
            dropped: 0,
            messages: Vec::new(),
        };
        decision.merge(run.handle(Input::Output(call.key, CallOutput::Research(found)), now));
        let events = decision.events.clone();
        let append = RunAppend {
            run_id,
            epoch: claim.epoch,
            expected_head: claim.head_seq,
            projection: Projection::of(&decision.events, run.graph()),
            events: decision.events,
            documents: decision.documents,
            sessions: decision.sessions,
            answers: Vec::new(),
        };
        store.append([append].into()).await.unwrap();

        // The process dies after it has heard of so many events.
        let (tell, hear) = mpsc::channel(events.len() + 1);
        for event in events.iter().take(told) {
            tell.send(Ok(Update::Event(Box::new(event.clone())))).await.unwrap();
        }
        drop(tell);
        assert!(growing.take(hear).await.is_err(), "it hears no more");
        drop(growing);

        let mut logged = Logged::latest(&*store).await.unwrap().unwrap();
        let changes = logged.growth.take(&logged.graph);
        let (_root, held) = open(dir.path());
        assert_eq!(edits(&wanted(&*store, &changes).await.unwrap(), &held), [], "after {told} events");
        let is_written = dir.path().join("b/children.json").exists();
        assert_eq!(is_written, told == events.len(), "after {told} of {} events", events.len());
        if is_written {
            break;
        }
        told += 1;
    }
}

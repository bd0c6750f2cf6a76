//! Runs as folders, and folders as the beginning of runs.

use std::fs;
use std::path::Path;

use tree_agent_contract::graph::{GraphArtifact, GraphNode, GraphSnapshot, GraphTopic};
use tree_agent_contract::role::ResearchForm;
use tree_agent_contract::search::Expansion;
use tree_agent_contract::{
    ArtifactId, ArtifactType, DocumentId, NodeId, NodeStatus, Role, RunId, RunStatus, StepId, Timestamp,
    limits,
};
use tree_agent_mirror::*;

use crate::support::*;

/// Path, title, status, document and number of children of an exported node.
type Row = (String, String, &'static str, Option<DocumentId>, Option<usize>);

/// A graph in the making.
struct Graph(GraphSnapshot);

impl Graph {
    fn new() -> Self {
        let run_id = RunId("0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".parse().expect("an id"));
        let nodes = Vec::new();
        let snapshot = GraphSnapshot {
            run_id,
            seq: 1,
            status: RunStatus::Running,
            partial: false,
            goes_on_at: None,
            nodes,
        };
        let mut graph = Self(snapshot);
        graph.add(None, "The objective", "", None, NodeStatus::Waiting);
        graph
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        title: &str,
        step: &str,
        band: Option<u32>,
        status: NodeStatus,
    ) -> usize {
        let parent_id = parent.map(|i| self.0.nodes[i].id);
        let step_id = parent_id.map(|_| StepId::new(step));
        let id = match (parent_id, &step_id) {
            (Some(parent), Some(step)) => NodeId::child(parent, self.0.nodes.len() as u32, step),
            _ => NodeId::root(self.0.run_id),
        };
        let at = Timestamp(1);
        self.0.nodes.push(GraphNode {
            review: None,
            task: None,
            id,
            parent_id,
            title: title.into(),
            reason: String::new(),
            success_criteria: Vec::new(),
            status,
            role: Role::Executor,
            depth: parent.map_or(0, |i| self.0.nodes[i].depth + 1),
            band_index: band,
            step_index: None,
            step_id,
            message: None,
            decisions: Vec::new(),
            progress: None,
            outcome: None,
            error: None,
            scratchpad_doc_id: None,
            scratchpad_tail: None,
            last_tool: None,
            plan: None,
            result: None,
            artifacts: Vec::new(),
            usage: Default::default(),
            verification: None,
            written_by: Vec::new(),
            subtree_usage: Default::default(),
            strategy: None,
            topic: (parent_id.is_some() && band.is_none()).then(|| {
                let session_id = Some(format!("sess_{}", self.0.nodes.len()));
                Box::new(GraphTopic { session_id, ..GraphTopic::default() })
            }),
            paused: false,
            stopped: false,
            generation: 0,
            lease: None,
            created_at: at,
            started_at: (status != NodeStatus::Waiting).then_some(at),
            ended_at: None,
        });
        self.0.nodes.len() - 1
    }

    /// Gives a node documents, the last of them the one to read first.
    fn documents(&mut self, node: usize, n: u32) -> DocumentId {
        let id = self.0.nodes[node].id;
        for i in 0..n {
            let artifact_id = ArtifactId::of(id, i, "document");
            self.0.nodes[node].artifacts.push(GraphArtifact {
                artifact_id,
                artifact_type: ArtifactType::Document,
                document_id: Some(DocumentId::of_artifact(artifact_id)),
                label: "document".into(),
                title: "A document".into(),
                is_primary: i + 1 == n,
                json_payload: None,
                citations: None,
            });
        }
        DocumentId::of_artifact(ArtifactId::of(id, n - 1, "document"))
    }

    fn exported(&self) -> Vec<Row> {
        let of = |node: ExportedNode| {
            let children = node.children.map(|children| children.len());
            (node.path, node.file.title, node.file.status.as_str(), node.document, children)
        };
        Export::of(&self.0.nodes).nodes.into_iter().map(of).collect()
    }
}

#[test]
fn a_search_is_laid_out_by_its_slugs() {
    let mut graph = Graph::new();
    let a = graph.add(Some(0), "Tides", "tides-2", None, NodeStatus::Waiting);
    let b = graph.add(Some(0), "Winds", "winds", None, NodeStatus::Failed);
    let c = graph.add(Some(0), "Fog", "fog", None, NodeStatus::Executing);
    let x = graph.add(Some(a), "The moon", "the-moon", None, NodeStatus::Completed);
    let y = graph.add(Some(a), "Dates", "dates", None, NodeStatus::Waiting);
    let z = graph.add(Some(x), "Too deep", "too-deep", None, NodeStatus::Cancelled);
    let (of_a, of_x) = (graph.documents(a, 1), graph.documents(x, 1));
    let row = |path: &str, title: &str, status, document, children| {
        (path.to_owned(), title.to_owned(), status, document, children)
    };
    assert_eq!(
        graph.exported(),
        [
            row("tides-2", "Tides", "expanded", Some(of_a), Some(2)),
            row("winds", "Winds", "unexpanded", None, None),
            row("fog", "Fog", "in-progress", None, None),
            row("tides-2/the-moon", "The moon", "expanded", Some(of_x), Some(1)),
            row("tides-2/dates", "Dates", "unexpanded", None, None),
            row("tides-2/the-moon/too-deep", "Too deep", "unexpanded", None, None),
        ]
    );
    let export = Export::of(&graph.0.nodes);
    assert_eq!((export.children.map(|c| c.len()), export.document), (Some(3), None));
    let session =
        |i: usize| export.nodes.iter().find(|n| n.id == graph.0.nodes[i].id).unwrap().file.session_id.clone();
    assert_eq!(session(a), Some(format!("sess_{a}")), "the conversation that the log names");
    assert!(session(c).is_some() && [b, y, z].into_iter().all(|i| session(i).is_none()));
}

#[test]
fn a_run_of_plans_is_laid_out_by_its_titles() {
    let mut graph = Graph::new();
    let a = graph.add(Some(0), "What/ is\u{7} said?", "s1", Some(0), NodeStatus::Completed);
    graph.add(Some(0), "What is said", "s2", Some(0), NodeStatus::Completed);
    graph.add(Some(0), " ", "s3", Some(1), NodeStatus::Completed);
    graph.add(Some(0), &"x".repeat(5_000), "s3", Some(1), NodeStatus::Planning);
    let (of_a, of_root) = (graph.documents(a, 3), graph.documents(0, 1));
    let seen: Vec<_> =
        graph.exported().into_iter().map(|(path, _, status, document, _)| (path, status, document)).collect();
    let long = "x".repeat(60);
    let row = |path: &str, status, document| (path.to_owned(), status, document);
    assert_eq!(
        seen,
        [
            row("what-is-said", "leaf", Some(of_a)),
            row("what-is-said-2", "unexpanded", None),
            row("untitled", "unexpanded", None),
            row(&long, "in-progress", None),
        ]
    );
    let export = Export::of(&graph.0.nodes);
    assert_eq!(export.document, Some(of_root), "the synthesis is not lost");
    assert!(
        export.nodes.iter().all(|n| n.file.session_id.is_none() && n.file.title.len() <= limits::TITLE_BYTES)
    );
}

#[test]
fn what_is_exported_can_be_read_and_adopted() {
    let mut graph = Graph::new();
    let a = graph.add(Some(0), "Tides / .. \u{1b}[2J", "tides", None, NodeStatus::Waiting);
    let b = graph.add(Some(a), "🦀", "crab", None, NodeStatus::Completed);
    graph.add(Some(a), "Dates", "dates", None, NodeStatus::Failed);
    graph.documents(a, 1);
    graph.documents(b, 1);
    let dir = tempfile::tempdir().expect("a folder");
    let root = open(dir.path());
    let folder = root.read().unwrap();
    let mut mirror = Mirror::new(root, &folder, Box::new(FastDisk)).unwrap();
    let export = Export::of(&graph.0.nodes);
    mirror.record_root(export.children.as_deref().unwrap(), None).unwrap();
    for node in &export.nodes {
        let text = format!("---\ntitle: x\n---\n\n# {0}\n\nAbout {0}.\n", node.file.slug);
        let document = node.document.map(|_| text.as_str());
        let record = Record { file: node.file.clone(), document, children: node.children.as_deref() };
        mirror.record(&node.path, &record).unwrap();
    }
    drop(mirror);

    let folder = read(dir.path());
    let adoption = adoption(&folder, |_| None, |_| None).unwrap().expect("there is a first level");
    adoption.first_level.validate(ResearchForm::Root).unwrap();
    let paths: Vec<&str> = adoption.finished.iter().map(|&i| folder.nodes[i].path.as_str()).collect();
    assert_eq!(paths, ["tides", "tides/crab"], "the failed one is open");
    let tides = adopted(&folder, &folder.nodes[adoption.finished[0]], |_| None).unwrap();
    tides.validate(ResearchForm::Topic).unwrap();
    assert_eq!(tides.summary, "About tides.");
    let slugs: Vec<&str> = tides.children.iter().map(|c| c.slug.as_str()).collect();
    assert_eq!((slugs, tides.messages.len()), (vec!["crab", "dates"], 4));
    let crab = adopted(&folder, &folder.nodes[adoption.finished[1]], |_| None).unwrap();
    crab.validate(ResearchForm::Topic).unwrap();
    assert!(crab.children.is_empty());
}

fn adopt(change: impl FnOnce(&Path)) -> (Folder, Adoption, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    complete(dir.path(), steps().len()).expect("it can be written");
    change(dir.path());
    let folder = read(dir.path());
    let known = |path: &str| Some(format!("About {}", path.rsplit('/').next().unwrap()));
    let adoption = adoption(&folder, known, |_| None).unwrap();
    (folder, adoption.expect("there is a first level"), dir)
}

fn finished((folder, adoption, _): &(Folder, Adoption, tempfile::TempDir)) -> Vec<&str> {
    adoption.finished.iter().map(|&i| folder.nodes[i].path.as_str()).collect()
}

#[test]
fn complete_topics_are_taken_over_and_all_others_are_open() {
    assert_eq!(finished(&adopt(|_| {})), ["a", "b", "a/x"]);
    // Without its document a topic is researched again, and what is below it is not taken over.
    let removed = adopt(|dir| fs::remove_file(dir.join("a/document.md")).unwrap());
    assert_eq!(finished(&removed), ["b"]);
    assert!(removed.1.notices[0].to_string().starts_with("a: has topics below it and no document"));
    assert_eq!(finished(&adopt(|dir| fs::write(dir.join("b/document.md"), " \n").unwrap())), ["a", "a/x"]);
    // Both files are there: whatever the status says, the work is done.
    let node = r#"{"title": "About b", "slug": "b", "status": "in-progress"}"#;
    assert_eq!(finished(&adopt(|dir| fs::write(dir.join("b/node.json"), node).unwrap())), ["a", "b", "a/x"]);
    let marked = |dir: &Path| {
        fs::write(dir.join("b/node.json"), node).unwrap();
        fs::remove_file(dir.join("b/children.json")).unwrap();
    };
    assert_eq!(finished(&adopt(marked)), ["a", "a/x"], "one left in progress is done again");
    assert_eq!(read_empty(), None);
}

fn read_empty() -> Option<Adoption> {
    let dir = tempfile::tempdir().expect("a folder");
    adoption(&read(dir.path()), |_| None, |_| None).unwrap()
}

#[test]
fn titles_and_topics_by_hand_are_honoured() {
    let list = r#"[{"title": "Mine", "slug": "a"}, {"title": "About b", "slug": "b"}, {"title": "New", "slug": "new"}]"#;
    let node = r#"{"title": "Mine too", "slug": "x", "status": "leaf"}"#;
    let (folder, adoption, _dir) = adopt(|dir| {
        fs::write(dir.join("children.json"), list).unwrap();
        fs::write(dir.join("a/x/node.json"), node).unwrap();
    });
    let titles: Vec<&str> = adoption.first_level.children.iter().map(|c| c.title.as_str()).collect();
    assert_eq!(titles, ["Mine", "About b", "New"]);
    let a = adopted(&folder, &folder.nodes[0], |path| Some(format!("About {}", &path[path.len() - 1..])))
        .unwrap();
    assert_eq!(a.children[0].title, "Mine too");
    assert_eq!(folder.nodes[2].state(), Expansion::Unexpanded);
}

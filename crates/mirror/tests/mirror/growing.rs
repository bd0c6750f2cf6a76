//! A folder that grows with a search, event by event, and a search that begins with a folder.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::{
    Budgets, DocumentId, PickerPolicy, RunId, RunSpec, SearchConfig, Strategy as Grows, Timestamp,
};
use tree_agent_engine::{CallInput, CallOutput, Decision, Input, Run, start};
use tree_agent_mirror::*;

use crate::support::*;

/// A search whose roles answer by dice, and the folder that grows with it.
struct World {
    run: Run,
    now: Timestamp,
    dice: Vec<u8>,
    rolled: usize,
    bodies: HashMap<DocumentId, String>,
    growth: Growth,
    mirror: Mirror,
}

impl World {
    fn new(dir: &Path, dice: Vec<u8>) -> Self {
        let id = RunId(uuid::Uuid::from_u128(5));
        let search = SearchConfig {
            max_depth: 3,
            picker: PickerPolicy::BreadthFirst,
            synthesis: false,
            ..SearchConfig::default()
        };
        let budgets = Budgets { max_nodes: 60, max_attempts: 1, ..Budgets::default() };
        let spec = RunSpec {
            strategy: Grows::Search,
            search: Some(Box::new(search)),
            budgets,
            ..RunSpec::new("find out")
        };
        let now = Timestamp::from_millis(1_000);
        let decision = start(id, spec, now);
        let root = open(dir);
        let folder = root.read().expect("it can be read");
        let mut world = Self {
            run: Run::begin(&decision.events[0]).expect("it begins"),
            now,
            dice,
            rolled: 0,
            bodies: HashMap::new(),
            growth: Growth::new(),
            mirror: Mirror::new(root, &folder, Box::new(FastDisk)).expect("nothing to remove"),
        };
        for event in &decision.events[1..] {
            world.run.apply(event).expect("it applies");
        }
        world.follow(&decision);
        world
    }

    fn roll(&mut self) -> usize {
        self.rolled += 1;
        usize::from(self.dice[self.rolled % self.dice.len()])
    }

    fn follow(&mut self, decision: &Decision) {
        for op in &decision.documents {
            if let DocumentOp::Create(document) = op {
                self.bodies.insert(document.id, document.body.clone());
            }
        }
        for event in &decision.events {
            self.growth.follow(event, self.run.graph());
        }
        // Not after every event: several are written together.
        if self.roll().is_multiple_of(3) {
            self.write();
        }
    }

    fn feed(&mut self, input: Input) {
        self.now = self.now.plus_millis(2_000);
        let decision = self.run.handle(input, self.now);
        self.follow(&decision);
    }

    fn write(&mut self) {
        for change in self.growth.take(self.run.graph()) {
            let body = |id: Option<DocumentId>| id.map(|id| self.bodies[&id].as_str());
            let written = match &change {
                Change::Root { children, document } => self.mirror.record_root(children, body(*document)),
                Change::Node(node) => {
                    let (document, children) = (body(node.document), node.children.as_deref());
                    self.mirror.record(&node.path, &Record { file: node.file.clone(), document, children })
                }
            };
            written.expect("it can be written");
        }
    }

    fn found(&mut self, is_root: bool, title: &str) -> ResearchOutput {
        let n = (self.roll() % 4).max(usize::from(is_root));
        let drafts = (0..n).map(|i| ChildDraft { title: format!("{title} {i}"), ..ChildDraft::default() });
        ResearchOutput {
            document_markdown: (!is_root).then(|| format!("# {title}\n\nIt says {}.\n", self.rolled)),
            summary: "found".into(),
            children: tidy(drafts).children,
            dropped: 0,
            messages: Vec::new(),
            scratchpad: ScratchpadDraft { append_markdown: "noted\n".into(), tail_preview: "noted\n".into() },
        }
    }

    /// Runs to the end, or until so many answers.
    fn drive(&mut self, answers: usize) {
        self.feed(Input::Claimed);
        for _ in 0..answers {
            let due = self.run.take_due(self.now, usize::MAX);
            if due.is_empty() {
                break;
            }
            for call in due {
                let CallInput::Research(input) = &call.input else { panic!("nobody is asked to pick") };
                let is_root = input.form == ResearchForm::Root;
                if self.roll().is_multiple_of(5) && !is_root {
                    self.feed(Input::Failed(call.key, RoleError::new(RoleErrorKind::Rejected, "no")));
                } else {
                    let output = self.found(is_root, if is_root { "Topic" } else { &input.call.title });
                    self.feed(Input::Output(call.key, CallOutput::Research(output)));
                }
            }
        }
        self.write();
    }

    /// The folder of the whole graph, written at once.
    fn exported(&self) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().expect("a folder");
        let root = open(dir.path());
        let folder = root.read().expect("it is empty");
        let mut mirror = Mirror::new(root, &folder, Box::new(FastDisk)).expect("nothing to remove");
        let export = Export::of(self.run.graph().nodes());
        let body = |id: Option<DocumentId>| id.map(|id| self.bodies[&id].as_str());
        if let Some(children) = &export.children {
            mirror.record_root(children, body(export.document)).expect("it can be written");
        }
        for node in &export.nodes {
            let (document, children) = (body(node.document), node.children.as_deref());
            let record = Record { file: node.file.clone(), document, children };
            mirror.record(&node.path, &record).expect("it can be written");
        }
        files(dir.path())
    }

    /// Takes over what a folder holds.
    fn adopt(&mut self, folder: &Folder) {
        let adoption = adoption(folder, |_| None, |_| None).unwrap().expect("there is a first level");
        let decision = self.run.adopt("", adoption.first_level, self.now).expect("a first level");
        self.follow(&decision);
        for index in adoption.finished {
            let node = &folder.nodes[index];
            let output = adopted(folder, node, |_| None).expect("it can be read");
            let decision = self.run.adopt(&node.path, output, self.now).expect("an open topic");
            self.follow(&decision);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_folder_that_grows_is_the_folder_of_the_whole(
        dice in prop::collection::vec(any::<u8>(), 1..40),
        answers in 0usize..12,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut world = World::new(dir.path(), dice);
        world.drive(answers);
        prop_assert_eq!(files(dir.path()), world.exported(), "while topics are under research");
        world.drive(usize::MAX);
        prop_assert!(world.run.is_final());
        prop_assert_eq!(files(dir.path()), world.exported());
    }

    #[test]
    fn a_search_that_was_stopped_is_taken_over_and_nothing_that_was_finished_is_lost(
        dice in prop::collection::vec(any::<u8>(), 1..40),
        answers in 1usize..12,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut first = World::new(dir.path(), dice.clone());
        first.drive(answers);
        drop(first);
        let documents = |path: &Path| -> Vec<(String, String)> {
            files(path).into_iter().filter(|(name, _)| name.ends_with(DOCUMENT_MD)).collect()
        };
        let before = documents(dir.path());

        let folder = read(dir.path());
        let mut second = World::new(dir.path(), dice);
        second.adopt(&folder);
        second.drive(usize::MAX);
        prop_assert!(second.run.is_final());
        let after = documents(dir.path());
        prop_assert!(before.iter().all(|document| after.contains(document)), "{before:#?}\n{after:#?}");
        prop_assert_eq!(files(dir.path()), second.exported());
    }
}

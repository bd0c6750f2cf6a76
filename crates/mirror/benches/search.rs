//! What a step of a guided search costs while its tree grows: the pick with its outline, the answer of a research, and
//! the folder. Roles answer at once. Prints one JSON object per line.

#![allow(missing_docs, clippy::print_stdout)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::{Budgets, DocumentId, RunId, RunSpec, SearchConfig, Strategy, Timestamp};
use tree_agent_engine::{CallInput, CallOutput, Decision, Input, Run, start};
use tree_agent_mirror::{Change, Growth, LocalDisk, Mirror, Record, Root};

/// Sizes of the tree, in nodes.
const SIZES: [usize; 3] = [100, 1_000, 10_000];
/// Steps that are measured at each size.
const STEPS: usize = 200;
/// Topics below each topic. Each research adds as many, so the tree has always something to pick.
const FANOUT: usize = 8;

struct Search {
    run: Run,
    now: Timestamp,
    growth: Growth,
    mirror: Mirror,
    bodies: HashMap<DocumentId, String>,
    picks: usize,
    /// Of picks, answers of researches, and the folder after these.
    spent: [Vec<Duration>; 3],
}

fn main() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut search = Search::new(dir.path());
    let begun = Instant::now();
    for size in SIZES {
        while search.run.graph().nodes().len() < size {
            search.step();
        }
        search.spent = Default::default();
        for _ in 0..STEPS {
            search.step();
        }
        for (name, spent) in
            ["pick, with its outline", "answer of a research", "folder"].iter().zip(&search.spent)
        {
            let mut spent = spent.clone();
            spent.sort_unstable();
            let median = spent.get(spent.len() / 2).map_or(0.0, |d| d.as_secs_f64() * 1e6);
            let line = serde_json::json!({
                "bench": format!("search, {size} nodes: {name}"), "value": (median * 10.0).round() / 10.0,
                "unit": "µs", "repeat": spent.len(),
            });
            println!("{line}");
        }
    }
    let nodes = search.run.graph().nodes().len();
    let rate = nodes as f64 / begun.elapsed().as_secs_f64();
    let line = serde_json::json!({
        "bench": "search with its folder, roles that answer at once", "value": rate.round(), "unit": "nodes/s",
        "nodes": nodes,
    });
    println!("{line}");
}

impl Search {
    fn new(dir: &std::path::Path) -> Self {
        let id = RunId(uuid::Uuid::from_u128(42));
        let search = SearchConfig { max_depth: 8, ..SearchConfig::default() };
        let budgets = Budgets { max_nodes: 100_000, ..Budgets::default() };
        let spec = RunSpec {
            strategy: Strategy::Search,
            search: Some(Box::new(search)),
            budgets,
            ..RunSpec::new("benchmark")
        };
        let now = Timestamp::from_millis(1_000_000);
        let begun = start(id, spec, now);
        let root = Root::open(dir, "the benchmark").expect("a new folder");
        let folder = root.read().expect("it is empty");
        let mut search = Self {
            run: Run::begin(&begun.events[0]).expect("it begins"),
            now,
            growth: Growth::new(),
            mirror: Mirror::new(root, &folder, Box::new(LocalDisk)).expect("nothing to remove"),
            bodies: HashMap::new(),
            picks: 0,
            spent: Default::default(),
        };
        begun.events[1..].iter().for_each(|event| search.run.apply(event).expect("it applies"));
        search.write(&begun);
        let decision = search.run.handle(Input::Claimed, now);
        search.write(&decision);
        search
    }

    /// One role call: it is made, answered and written.
    fn step(&mut self) {
        // Far enough apart for every note to be written at once.
        self.now = self.now.plus_millis(1);
        let begun = Instant::now();
        let call = self.run.take_due(self.now, 1).pop().expect("a search without end");
        let (output, what) = match &call.input {
            CallInput::Pick(input) => {
                // Any of them, but the same ones in every measurement.
                self.picks += 1;
                let leaf = &input.leaves[self.picks * 7_919 % input.leaves.len()];
                (CallOutput::Pick(PickOutput { path: leaf.path.clone(), reason: "any".into() }), 0)
            }
            CallInput::Research(input) => (CallOutput::Research(found(input)), 1),
            _ => unreachable!("a search picks and researches"),
        };
        let decision = self.run.handle(Input::Output(call.key, output), self.now);
        self.spent[what].push(begun.elapsed());
        let begun = Instant::now();
        self.write(&decision);
        if what == 1 {
            self.spent[2].push(begun.elapsed());
        }
    }

    fn write(&mut self, decision: &Decision) {
        for op in &decision.documents {
            if let DocumentOp::Create(document) = op {
                self.bodies.insert(document.id, document.body.clone());
            }
        }
        decision.events.iter().for_each(|event| self.growth.follow(event, self.run.graph()));
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
}

fn found(input: &ResearchInput) -> ResearchOutput {
    let is_root = input.form == ResearchForm::Root;
    let title = if is_root { "Topic" } else { input.call.title.as_str() };
    let drafts = (0..FANOUT).map(|i| ChildDraft { title: format!("{title}.{i}"), ..ChildDraft::default() });
    ResearchOutput {
        document_markdown: (!is_root)
            .then(|| format!("---\ntitle: {title}\n---\n\n# {title}\n\nIt is known.\n")),
        summary: "It is known.".into(),
        children: tidy(drafts).children,
        dropped: 0,
        messages: Vec::new(),
        scratchpad: ScratchpadDraft { append_markdown: "noted\n".into(), tail_preview: "noted\n".into() },
    }
}

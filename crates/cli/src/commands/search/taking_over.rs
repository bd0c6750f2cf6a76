//! A new search, which takes over what a folder holds.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::{DocumentId, RunId, RunSpec};
use tree_agent_engine::{Decision, Graph, Run, start};
use tree_agent_frontmatter::{Schema, parse};
use tree_agent_mirror::{Folder, Growth, Problem, adopted, adoption};
use tree_agent_store::{NewRun, Projection};
use uuid::Uuid;

use crate::cluster::chain;
use crate::commands::export::unusable;
use crate::commands::follow::now;
use crate::error::CliError;
use crate::view::paint::count;

/// A search that has not been written yet.
pub(super) struct NewSearch {
    /// With everything that it takes over in its first events: nobody can claim it before all of that is known.
    pub(super) run: NewRun,
    /// Its tree.
    pub(super) graph: Graph,
    /// Its folder.
    pub(super) growth: Growth,
    /// The documents that it takes over.
    pub(super) documents: HashSet<DocumentId>,
    /// What it does not take over, and why.
    pub(super) notices: Vec<Problem>,
}

impl NewSearch {
    /// A search that begins with what `folder` holds. `known` are the titles that the last search gave the nodes.
    pub(super) fn of(
        spec: RunSpec,
        folder: &Folder,
        known: &HashMap<String, String>,
    ) -> Result<Self, CliError> {
        let (run_id, now) = (RunId::from(Uuid::now_v7()), now());
        let mut decision = start(run_id, spec.clone(), now);
        let mut run = Run::replay(run_id, &decision.events).map_err(|e| CliError::Other(chain(&e)))?;
        let (mut documents, mut notices) = (HashSet::new(), Vec::new());
        let title = |path: &str| known.get(path).cloned();
        let schema = spec.search().frontmatter_schema.as_ref().map(Schema::new).transpose();
        let schema = schema.map_err(CliError::Usage)?;
        let fault = |document: &str| schema.as_ref().and_then(|schema| fault(schema, document));
        if let Some(adoption) = adoption(folder, title, fault).map_err(unusable)? {
            let listed = |index: &usize| folder.nodes[*index].children.as_ref().map_or(0, Vec::len);
            let topics =
                adoption.first_level.children.len() + adoption.finished.iter().map(listed).sum::<usize>();
            check_room(&spec, topics)?;
            notices = adoption.notices;
            decision.merge(run.adopt("", adoption.first_level, now).map_err(|e| refused("", &e))?);
            for index in adoption.finished {
                let node = &folder.nodes[index];
                let found = adopted(folder, node, title).map_err(unusable)?;
                let taken = run.adopt(&node.path, found, now).map_err(|e| refused(&node.path, &e))?;
                documents.extend(taken.documents.iter().filter_map(created));
                decision.merge(taken);
            }
        }
        let graph = run.graph().clone();
        let mut growth = Growth::new();
        decision.events.iter().for_each(|event| growth.follow(event, &graph));
        let projection = Projection::of(&decision.events, &graph);
        let Decision { events, documents: texts, sessions } = decision;
        let request_id = String::new();
        let run = NewRun { run_id, spec, request_id, events, projection, documents: texts, sessions };
        Ok(Self { run, graph, growth, documents, notices })
    }

    /// Topics that it takes over with their documents.
    pub(super) fn taken_over(&self) -> usize {
        self.graph.nodes().iter().filter(|node| node.parent_id.is_some() && node.result.is_some()).count()
    }
}

/// What in the frontmatter of `document` breaks the schema of the new search.
fn fault(schema: &Schema, document: &str) -> Option<String> {
    let errors = parse(document).map_or_else(|error| vec![error], |document| schema.errors(&document.fields));
    (!errors.is_empty()).then(|| format!("breaks the schema of --frontmatter-schema ({})", errors.join("; ")))
}

/// Without room for all topics, the lists on the disk would be cut.
fn check_room(spec: &RunSpec, topics: usize) -> Result<(), CliError> {
    let most = spec.budgets.max_nodes as usize;
    // The root is a node, too.
    if topics < most {
        return Ok(());
    }
    let (topics, needed) = (count(topics, "topic"), topics + 1);
    Err(CliError::Usage(format!(
        "the folder lists {topics}, and a search may have {most} nodes; allow at least {needed} with --max-nodes"
    )))
}

const fn created(op: &DocumentOp) -> Option<DocumentId> {
    match op {
        DocumentOp::Create(document) => Some(document.id),
        _ => None,
    }
}

fn refused(path: &str, error: &dyn std::error::Error) -> CliError {
    let place = if path.is_empty() { "children.json" } else { path };
    CliError::Usage(format!("{place}: {}", chain(error)))
}

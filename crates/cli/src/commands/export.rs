//! `export`: a run as a folder.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tree_agent_contract::error::chain;
use tree_agent_contract::search::Expansion;
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_mirror::{
    Digest, ExportedNode, LocalDisk, Mirror, MirrorError, Record, Root, Wanted, WantedNode, edits,
};

use super::doc;
use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::paint::count;

/// Documents that are read at the same time.
const PARALLEL: usize = 8;
/// Differences that an error names; further ones are counted.
const NAMED: usize = 5;

/// Write a run as a folder: a folder for each node, with its document
///
/// DIR gets children.json, and for each node a folder with node.json (its title and status), document.md and
/// children.json. DIR must be empty, new, or an earlier export of the same run, which is brought up to date. Nothing
/// else is overwritten.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// The folder
    dir: PathBuf,
}

/// What an export did.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Exported {
    run_id: Option<RunId>,
    dir: PathBuf,
    /// Nodes below the root.
    nodes: usize,
    /// Documents, with that of the root.
    documents: usize,
    /// Nodes with a document and nodes below them.
    expanded: usize,
    /// Nodes with a document and nothing below them.
    leaves: usize,
    /// Nodes without a document.
    unexpanded: usize,
}

impl Export {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        let export = tree_agent_mirror::Export::of(&client.graph(run, None).await?.nodes);
        let holder = format!("process {} (tree-agent export)", std::process::id());
        let root = Root::open(&self.dir, &holder).map_err(unusable)?;
        let folder = root.read().map_err(unusable)?;
        if !folder.is_empty() {
            let found = edits(&wanted(&client, run, &export).await?, &folder);
            if !found.is_empty() {
                let mut message = format!(
                    "{} holds another run, or was edited; name another folder. Nothing was changed:",
                    self.dir.display()
                );
                found.iter().take(NAMED).for_each(|edit| message.push_str(&format!("\n  {edit}")));
                if found.len() > NAMED {
                    message.push_str(&format!("\n  and {} more", found.len() - NAMED));
                }
                return Err(CliError::Usage(message));
            }
        }
        let mut mirror = Mirror::new(root, &folder, Box::new(LocalDisk)).map_err(unusable)?;
        let exported = Exported { run_id: Some(run), dir: self.dir.clone(), ..Exported::default() };
        let exported = write(&client, run, &export, &mut mirror, exported).await?;
        context.out.done(&exported, || exported.sentence())?;
        Ok(Exit::Success)
    }
}

impl Exported {
    fn sentence(&self) -> String {
        format!(
            "wrote {} with {} to {}",
            count(self.nodes, "node"),
            count(self.documents, "document"),
            self.dir.display()
        )
    }

    fn count(&mut self, node: &ExportedNode) {
        self.nodes += 1;
        self.documents += usize::from(node.document.is_some());
        match node.file.status {
            Expansion::Expanded => self.expanded += 1,
            Expansion::Leaf => self.leaves += 1,
            Expansion::Unexpanded | Expansion::InProgress => self.unexpanded += 1,
        }
    }
}

/// Writes the nodes in their order, parents first, while the next documents are read.
async fn write(
    client: &Client,
    run: RunId,
    export: &tree_agent_mirror::Export,
    mirror: &mut Mirror,
    mut exported: Exported,
) -> Result<Exported, CliError> {
    let document = match export.document {
        Some(id) => Some(body(client, run, id).await?),
        None => None,
    };
    exported.documents += usize::from(document.is_some());
    mirror
        .record_root(export.children.as_deref().unwrap_or_default(), document.as_deref())
        .map_err(unusable)?;
    let mut read = stream::iter(&export.nodes)
        .map(|node| async move {
            let document = match node.document {
                Some(id) => Some(body(client, run, id).await?),
                None => None,
            };
            Ok::<_, CliError>((node, document))
        })
        .buffered(PARALLEL);
    while let Some((node, document)) = read.try_next().await? {
        let children = node.children.as_deref();
        let record = Record { file: node.file.clone(), document: document.as_deref(), children };
        mirror.record(&node.path, &record).map_err(unusable)?;
        exported.count(node);
    }
    Ok(exported)
}

/// What the folder should hold, to be compared with what it holds.
async fn wanted(client: &Client, run: RunId, export: &tree_agent_mirror::Export) -> Result<Wanted, CliError> {
    let ids = export.nodes.iter().filter_map(|node| node.document).chain(export.document);
    let digests: HashMap<DocumentId, Digest> = stream::iter(ids)
        .map(|id| async move { Ok::<_, CliError>((id, Digest::of(&body(client, run, id).await?))) })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let digest = |id: Option<DocumentId>| digests.get(&id?).copied();
    let nodes = export.nodes.iter().map(|node| WantedNode {
        path: node.path.clone(),
        file: node.file.clone(),
        document: digest(node.document),
        children: node.children.clone(),
    });
    Ok(Wanted {
        children: export.children.clone(),
        document: digest(export.document),
        nodes: nodes.collect(),
        lists_grow: true,
    })
}

/// A document as the run has it.
async fn body(client: &Client, run: RunId, id: DocumentId) -> Result<String, CliError> {
    Ok(doc::fetch(client, id, Some(run), None).await?.1.body)
}

/// A folder that cannot be used is a mistake in what was asked for, unless the disk failed.
pub(super) fn unusable(error: MirrorError) -> CliError {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        MirrorError::Io { ref source, .. }
            if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) =>
        {
            CliError::Other(chain(&error))
        }
        other => CliError::Usage(chain(&other)),
    }
}

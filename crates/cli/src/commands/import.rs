//! `import`: the documents of a folder into a project.

use std::path::{Path, PathBuf};

use clap::Args;
use futures::{StreamExt, stream};
use serde::Serialize;
use tonic::Code;
use tree_agent_contract::ProjectId;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use uuid::Uuid;

use super::text_files::{Candidate, Found, Skipped, find};
use crate::client::{Client, request};
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;
use crate::view::printable::one_line;
use crate::{Context, complete};

/// Documents that are sent at the same time.
const PARALLEL: usize = 8;
/// Documents that are left out and named with the reason; further ones are only counted.
const NAMED: usize = 20;

/// Import the Markdown and plain text of a folder into a project
///
/// A document that was imported before is replaced. The documents of a search that was written as a folder keep their
/// titles.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder; the paths of the documents are relative to it
    dir: PathBuf,
    /// The name of the project; it is created if it does not exist
    #[arg(short, long, value_name = "NAME", add = complete::projects())]
    project: String,
}

/// What an import did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Imported {
    /// The project.
    pub(crate) project_id: ProjectId,
    /// Its name.
    pub(crate) project: String,
    /// Documents written.
    pub(crate) imported: usize,
    /// Files left out, `otherTypes` among them.
    pub(crate) skipped: usize,
    /// Files left out because by name they are neither Markdown nor plain text.
    pub(crate) other_types: usize,
    /// Bytes of the documents.
    pub(crate) bytes: u64,
}

impl Import {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        check_folder(&self.dir)?;
        let client = context.connect().await?;
        let imported = import(context, &client, &self.dir, None, &self.project).await?;
        if context.out.is_json() {
            context.out.json(&imported)?;
        } else {
            context.out.line(imported.sentence())?;
        }
        Ok(Exit::Success)
    }
}

impl Imported {
    /// The summary in words.
    pub(crate) fn sentence(&self) -> String {
        let mut text = format!(
            "imported {} ({} bytes) into project {} ({})",
            count(self.imported, "document"),
            self.bytes,
            one_line(&self.project),
            self.project_id,
        );
        let unusable = self.skipped - self.other_types;
        if unusable > 0 {
            text.push_str(&format!("; skipped {}", count(unusable, "document")));
        }
        if self.other_types > 0 {
            let that = if self.other_types == 1 { "that is" } else { "that are" };
            text.push_str(&format!(
                "; skipped {} {that} neither Markdown nor plain text",
                count(self.other_types, "file")
            ));
        }
        text
    }
}

/// An error unless `dir` is a folder.
pub(crate) fn check_folder(dir: &Path) -> Result<(), CliError> {
    match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(CliError::Usage(format!(
            "{} is not a folder; name the folder that holds the documents",
            dir.display()
        ))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(CliError::Usage(format!("the folder {} does not exist", dir.display())))
        }
        Err(e) => Err(CliError::Usage(format!("the folder {} cannot be opened: {e}", dir.display()))),
    }
}

/// Imports `dir`, but not the folder `except` in it, into the project named `project`, and reports on stderr what is left
/// out.
pub(crate) async fn import(
    context: &Context,
    client: &Client,
    dir: &Path,
    except: Option<&Path>,
    project: &str,
) -> Result<Imported, CliError> {
    let mut report = Report { context, dir, skipped: 0, others: 0 };
    let mut candidates = Vec::new();
    for found in find(dir, except) {
        match found {
            Found::Document(candidate) => candidates.push(candidate),
            Found::Skipped(skipped) => report.skip(&skipped),
        }
    }
    let nothing =
        || CliError::Usage(format!("{} holds no Markdown or plain text that can be imported", dir.display()));
    if candidates.is_empty() {
        report.finish();
        return Err(nothing());
    }
    let project = ensure_project(client, project).await?;
    let (mut imported, mut bytes) = (0, 0);
    let mut writes = stream::iter(candidates)
        .map(|candidate| write(client, &project.project_id, candidate))
        .buffer_unordered(PARALLEL);
    while let Some(written) = writes.next().await {
        match written? {
            Ok(size) => {
                imported += 1;
                bytes += size;
            }
            Err(skipped) => report.skip(&skipped),
        }
    }
    drop(writes);
    report.finish();
    if imported == 0 {
        return Err(nothing());
    }
    Ok(Imported {
        project_id: Wire::from_wire(project.project_id)?,
        project: project.name,
        imported,
        skipped: report.skipped,
        other_types: report.others,
        bytes,
    })
}

/// The project named `name`, created if it does not exist. Another client may create it at the same time.
async fn ensure_project(client: &Client, name: &str) -> Result<pb::Project, CliError> {
    if let Some(project) = client.project_by_name(name).await? {
        return Ok(project);
    }
    let request_id = Uuid::new_v4().to_string();
    let created = client
        .call(|| {
            let mut projects = client.projects();
            let message = pb::CreateProjectRequest {
                name: name.to_owned(),
                description: String::new(),
                request_id: request_id.clone(),
            };
            async move { projects.create_project(request(message)).await }
        })
        .await;
    let project = match created {
        Ok(answer) => answer.project,
        Err(CliError::Refused(status)) if status.code() == Code::AlreadyExists => {
            client.project_by_name(name).await?
        }
        Err(error) => return Err(error),
    };
    project.ok_or_else(|| CliError::Other("the server's answer holds no project".into()))
}

/// Writes one document and returns its bytes. The outer error ends the import, the inner one skips the file.
async fn write(
    client: &Client,
    project_id: &str,
    candidate: Candidate,
) -> Result<Result<u64, Skipped>, CliError> {
    let path = candidate.path.clone();
    let read = tokio::task::spawn_blocking(move || candidate.read().map(|body| (body, candidate.title())))
        .await
        .map_err(|e| CliError::Other(format!("reading {path} failed: {e}")))?;
    let (body, title) = match read {
        Ok(read) => read,
        Err(skipped) => return Ok(Err(skipped)),
    };
    let written = client
        .call(|| {
            let mut documents = client.documents();
            let message = pb::CreateDocumentRequest {
                project_id: project_id.to_owned(),
                path: path.clone(),
                title: title.clone(),
                body: body.clone(),
                run_id: String::new(),
                import: None,
            };
            async move { documents.create_document(request(message)).await }
        })
        .await;
    match written {
        Ok(_) => Ok(Ok(body.len() as u64)),
        Err(CliError::Refused(status)) if status.code() == Code::InvalidArgument => {
            Ok(Err(Skipped { path, why: CliError::Refused(status).to_string(), other_type: false }))
        }
        Err(error) => Err(error),
    }
}

/// Reports on stderr what is left out, and counts it.
struct Report<'a> {
    context: &'a Context,
    dir: &'a Path,
    skipped: usize,
    others: usize,
}

impl Report<'_> {
    fn skip(&mut self, skipped: &Skipped) {
        self.skipped += 1;
        if skipped.other_type {
            self.others += 1;
            return;
        }
        if self.skipped - self.others > NAMED {
            return;
        }
        let path = Path::new(&skipped.path);
        let path = if path.is_absolute() { path.to_owned() } else { self.dir.join(path) };
        self.context.out.warn(format!("skipped {}: {}", one_line(&path.to_string_lossy()), skipped.why));
    }

    fn finish(&self) {
        if let Some(more @ 1..) = (self.skipped - self.others).checked_sub(NAMED) {
            self.context.out.warn(format!("skipped {}", count(more, "further document")));
        }
    }
}

//! `import`: the documents of a folder into a project.
//!
//! An import compares the folder with what the project says of it, and sends only what differs. It writes nothing that
//! the next import needs, so one that is interrupted anywhere is completed by the next.

mod folder;
mod project;
mod report;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::{StreamExt, stream};
use tree_agent_contract::limits::IMPORT_BYTES;
use tree_agent_contract::text::check_name;
use tree_agent_convert::{Converter, file_hash, sha256, split, worker};
use tree_agent_proto::v1 as pb;

pub(crate) use self::folder::Selection;
use self::folder::{Candidate, Skipped};
use self::project::Project;
pub(crate) use self::report::Imported;
use self::report::Report;
use crate::client::Client;
use crate::complete;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;

/// Files that are read and sent at the same time.
const PARALLEL: usize = 8;

/// Import a folder of documents into a project
///
/// Text in any encoding, source code, HTML, PDF, office documents, sheets, CSV and mail are imported; see
/// docs/import.md. Every file that is left out is named with the reason. Only files that are new or have changed are
/// sent. A document that was imported before is replaced. An import that was interrupted is completed by the next. The
/// documents of a search that was written as a folder keep their titles.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder; the paths of the documents are relative to it
    dir: PathBuf,
    /// The name of the project; it is created if it does not exist
    #[arg(short, long, value_name = "NAME", add = complete::projects())]
    project: String,
    /// Remove documents that an earlier import of this folder wrote and this one does not
    #[arg(long)]
    prune: bool,
    /// The name by which --prune knows this folder again [default: from the machine and the path of the folder]
    #[arg(long, value_name = "NAME", value_parser = source_name)]
    source: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

impl Import {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        check_folder(&self.dir)?;
        self.selection.check()?;
        let client = context.connect().await?;
        let source = self.source.clone().map_or_else(|| source_of(&self.dir), Ok)?;
        let folder = DocumentFolder {
            dir: &self.dir,
            except: None,
            project: &self.project,
            source,
            selection: &self.selection,
            prune: self.prune,
        };
        let interrupt = interrupt()?;
        let imported = tokio::select! {
            imported = folder.import(context, &client) => imported?,
            () = interrupt.cancelled() => {
                context.out.note("interrupted; the next import continues where this one ended");
                return Ok(Exit::Interrupted);
            }
        };
        context.out.done(&imported, || imported.sentence())?;
        Ok(Exit::Success)
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

/// The whole path of a folder.
pub(crate) fn whole(dir: &Path) -> Result<PathBuf, CliError> {
    dir.canonicalize()
        .map_err(|e| CliError::Usage(format!("the folder {} cannot be opened: {e}", dir.display())))
}

/// The name of a folder, as `--source` gives it.
fn source_name(name: &str) -> Result<String, String> {
    check_name(name)?;
    if name.len() > IMPORT_BYTES {
        return Err(format!("must have at most {IMPORT_BYTES} bytes"));
    }
    Ok(name.to_owned())
}

/// The name of a folder that was not given one. It shows neither the machine nor the path.
fn source_of(dir: &Path) -> Result<String, CliError> {
    let path = whole(dir)?;
    let machine = rustix::system::uname();
    let hash = sha256(&[machine.nodename().to_bytes(), path.as_os_str().as_encoded_bytes()]);
    Ok(format!("folder:{}", &hash[..32]))
}

/// This program, which converts files, too.
fn program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|e| CliError::Other(format!("this program cannot find itself: {e}")))
}

/// Convert a file on stdin to text (for the import itself)
#[derive(Debug, Args)]
pub(crate) struct ConvertFile {
    /// The extension of its name
    extension: String,
    /// Seconds of processor time
    #[arg(long, default_value_t = worker::PROCESSOR_SECONDS)]
    seconds: u64,
}

impl ConvertFile {
    pub(crate) fn run(&self) -> Result<Exit, CliError> {
        match worker::serve(&self.extension, self.seconds)? {}
    }
}

/// A folder that is to be imported.
pub(crate) struct DocumentFolder<'a> {
    dir: &'a Path,
    except: Option<&'a Path>,
    project: &'a str,
    source: String,
    selection: &'a Selection,
    prune: bool,
}

impl<'a> DocumentFolder<'a> {
    /// A folder that is imported into a project of the folder's name, for a run. The folder `except` in it is left out.
    /// With `mirror` the project holds nothing else that was imported this way.
    pub(crate) fn of_run(
        dir: &'a Path,
        except: Option<&'a Path>,
        project: &'a str,
        selection: &'a Selection,
        mirror: bool,
    ) -> Self {
        // Two folders of one name share a project, so they share its documents: the later one takes over.
        let name = sha256(&[project.as_bytes()]);
        Self { dir, except, project, source: format!("dir:{}", &name[..32]), selection, prune: mirror }
    }

    /// Imports the folder, and reports on stderr what is left out.
    pub(crate) async fn import(&self, context: &Context, client: &Client) -> Result<Imported, CliError> {
        let mut report = Report::new(context);
        let mut found = {
            let (selection, dir) = (self.selection.clone(), self.dir.to_owned());
            let except = self.except.map(Path::to_owned);
            let walk = tokio::task::spawn_blocking(move || selection.find(&dir, except.as_deref()));
            walk.await.map_err(|e| CliError::Other(format!("looking into the folder failed: {e}")))??
        };
        std::mem::take(&mut found.skipped).into_iter().for_each(|skipped| report.skip(skipped));
        let candidates = std::mem::take(&mut found.candidates);
        let nothing =
            || CliError::Usage(format!("{} holds nothing that can be imported", self.dir.display()));
        // A folder that is empty by mistake, such as a disk that is not mounted, empties no project.
        if candidates.is_empty() {
            report.finish();
            return Err(nothing());
        }
        report.begin(candidates.len());
        let project = Project::open(client, self.project, &self.source).await?;
        let work = Work { project: &project, converter: Converter::new(program()?), owned: self.prune };
        let mut kept = HashSet::new();
        let mut files = stream::iter(candidates)
            .map(|candidate| async {
                let done = work.file(&candidate).await;
                (candidate, done)
            })
            .buffer_unordered(PARALLEL);
        while let Some((candidate, done)) = files.next().await {
            match done? {
                Ok(done) => {
                    report.counts.imported += done.documents;
                    report.counts.removed += done.removed;
                    report.counts.unchanged += usize::from(done.documents == 0);
                    report.counts.bytes += done.bytes;
                    report.file(candidate.kind);
                    report.left_out(&candidate.path, done.left_out);
                    kept.insert(candidate.path);
                }
                Err(skipped) => {
                    if skipped.reason.is_uncertain() {
                        kept.insert(candidate.path);
                    }
                    report.skip(skipped);
                }
            }
            report.advance();
        }
        drop(files);
        if self.prune {
            for file in project.files().filter(|file| !kept.contains(*file) && !found.may_hold(file)) {
                report.counts.removed += project.remove_but(file, &[]).await?;
            }
        }
        report.finish();
        if report.counts.types.is_empty() {
            return Err(nothing());
        }
        let request = pb::SearchDocumentsRequest {
            context: Some(pb::RunContext {
                scope: pb::Scope::Project as i32,
                project_ids: vec![project.id.to_string()],
            }),
            ..Default::default()
        };
        let counted = client.ask(request).await?;
        Ok(Imported {
            project_id: project.id,
            project: project.name,
            counts: report.counts,
            passages: counted.passages,
            embedded: counted.embedded,
        })
    }
}

/// What every file needs.
struct Work<'a> {
    project: &'a Project<'a>,
    converter: Converter,
    /// Whether documents that another import wrote are to become this one's.
    owned: bool,
}

/// What was done with a file.
#[derive(Default)]
struct Done {
    /// Documents written; none if the file is unchanged.
    documents: usize,
    /// Documents of the file that it has no more.
    removed: usize,
    bytes: u64,
    /// What of the file is not in them.
    left_out: String,
}

impl Work<'_> {
    /// Imports one file, if it has changed. The outer error ends the import, the inner one skips the file.
    async fn file(&self, candidate: &Candidate) -> Result<Result<Done, Skipped>, CliError> {
        let (bytes, title, hash) = match read(candidate).await? {
            Ok(read) => read,
            Err(skipped) => return Ok(Err(skipped)),
        };
        if self.project.has_file(&candidate.path, &hash, self.owned) {
            return Ok(Ok(Done::default()));
        }
        let converted = match self.converter.convert(&candidate.path, candidate.kind, bytes).await {
            Ok(converted) => converted,
            Err(fault) => return Ok(Err(candidate.fault(fault))),
        };
        let left_out = converted.left_out_in_words();
        let parts = split(&candidate.path, &title.unwrap_or(converted.title), converted.text);
        if let [part] = &parts[..]
            && self.project.has_text(part)
        {
            return Ok(Ok(Done::default()));
        }
        for part in &parts {
            let written = self.project.write(part, &candidate.path, &hash, parts.len(), &left_out).await?;
            if let Err((reason, why)) = written {
                return Ok(Err(candidate.skip(reason, why)));
            }
        }
        let removed = self.project.remove_but(&candidate.path, &parts).await?;
        let bytes = parts.iter().map(|part| part.body.len() as u64).sum();
        Ok(Ok(Done { documents: parts.len(), removed, bytes, left_out }))
    }
}

/// The bytes of a file, its title if it has one beside it, and a hash of all that its documents are made of.
async fn read(candidate: &Candidate) -> Result<Result<(Vec<u8>, Option<String>, String), Skipped>, CliError> {
    let (path, candidate) = (candidate.path.clone(), candidate.clone());
    let read = move || {
        let bytes = candidate.read()?;
        let title = candidate.title();
        let hash = file_hash(title.as_deref().unwrap_or_default(), &bytes);
        Ok((bytes, title, hash))
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|e| CliError::Other(format!("reading {path} failed: {e}")))
}

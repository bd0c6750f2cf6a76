//! What a project holds of a folder, and the calls that change it.

use std::collections::HashMap;
use std::time::Duration;

use tonic::Code;
use tree_agent_contract::ProjectId;
use tree_agent_contract::text::nfc;
use tree_agent_convert::{Part, fingerprint, sha256};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use uuid::Uuid;

use super::folder::Reason;
use crate::client::{Client, present};
use crate::commands::docs::each;
use crate::error::CliError;

/// How long a document may take, and wait for its turn on the server.
const WITHIN: Duration = Duration::from_secs(120);

/// A project before an import into it.
pub(super) struct Project<'a> {
    client: &'a Client,
    /// Its id.
    pub(super) id: ProjectId,
    /// Its name.
    pub(super) name: String,
    /// The name of this import.
    source: String,
    /// Documents that no import wrote, by path.
    others: HashMap<String, pb::DocumentSummary>,
    /// Documents that imports wrote, by file.
    imported: HashMap<String, Vec<pb::DocumentSummary>>,
}

impl<'a> Project<'a> {
    /// The project named `name`, created if it does not exist, and what it holds.
    pub(super) async fn open(client: &'a Client, name: &str, source: &str) -> Result<Self, CliError> {
        let project = ensure(client, name).await?;
        let mut opened = Self {
            client,
            id: ProjectId::from_wire(project.project_id.clone())?,
            name: project.name,
            source: source.to_owned(),
            others: HashMap::new(),
            imported: HashMap::new(),
        };
        let filter = pb::ListDocumentsRequest {
            project_ids: vec![project.project_id],
            kinds: vec![pb::DocumentKind::Source as i32],
            ..Default::default()
        };
        each(client, filter, |document| {
            opened.note(document);
            Ok(())
        })
        .await?;
        Ok(opened)
    }

    fn note(&mut self, stored: pb::DocumentSummary) {
        match &stored.import {
            Some(import) => self.imported.entry(nfc(&import.file)).or_default().push(stored),
            None => drop(self.others.insert(nfc(&stored.path), stored)),
        }
    }

    /// True if the project holds the file as it is, all parts of it. With `owned`, only if this import wrote them.
    pub(super) fn has_file(&self, file: &str, hash: &str, owned: bool) -> bool {
        // Another import may have written a file of this name whose letters are encoded otherwise.
        let stored = self.imported.get(file).into_iter().flatten();
        let stored: Vec<_> = stored.filter(|document| document.path == nfc(&document.path)).collect();
        let wanted = fingerprint(hash, stored.len());
        let mut imports = stored.iter().filter_map(|document| document.import.as_ref());
        !stored.is_empty()
            && imports.all(|import| import.fingerprint == wanted && (!owned || import.source == self.source))
    }

    /// True if a document that no import wrote has this path, this text and, if it is given, this title.
    pub(super) fn has_text(&self, part: &Part) -> bool {
        self.others.get(&part.path).is_some_and(|stored| {
            stored.content_hash == sha256(&[part.body.as_bytes()])
                && (part.title.is_empty() || part.title == stored.title)
        })
    }

    /// Writes one of the `number` documents of a file. The outer error ends the import, the inner one skips the file.
    pub(super) async fn write(
        &self,
        part: &Part,
        file: &str,
        hash: &str,
        number: usize,
        left_out: &str,
    ) -> Result<Result<(), (Reason, String)>, CliError> {
        let message = pb::CreateDocumentRequest {
            project_id: self.id.to_wire(),
            path: part.path.clone(),
            title: part.title.clone(),
            body: part.body.clone(),
            run_id: String::new(),
            import: Some(pb::DocumentImport {
                source: self.source.clone(),
                file: file.to_owned(),
                fingerprint: fingerprint(hash, number),
                left_out: left_out.to_owned(),
            }),
        };
        match self.client.ask_within(message, WITHIN).await {
            Ok(_) => Ok(Ok(())),
            Err(CliError::Refused(status)) if status.code() == Code::InvalidArgument => {
                Ok(Err((Reason::Refused, CliError::Refused(status).to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the documents of a file that this import wrote before, except those with these paths. Returns how many.
    pub(super) async fn remove_but(&self, file: &str, parts: &[Part]) -> Result<usize, CliError> {
        let mut removed = 0;
        for stored in self.imported.get(file).into_iter().flatten() {
            if self.owns(stored)
                && !parts.iter().any(|part| part.path == stored.path)
                && self.remove(stored).await?
            {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The files of which this import wrote documents before.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let owned = |(_, stored): &(_, &Vec<_>)| stored.iter().any(|document| self.owns(document));
        self.imported.iter().filter(owned).map(|(file, _)| file.as_str())
    }

    /// True if this import wrote the document before.
    fn owns(&self, document: &pb::DocumentSummary) -> bool {
        document.import.as_ref().is_some_and(|import| import.source == self.source)
    }

    /// Removes a document, unless somebody else has written it since.
    async fn remove(&self, stored: &pb::DocumentSummary) -> Result<bool, CliError> {
        let message = pb::DeleteDocumentRequest {
            document_id: stored.document_id.clone(),
            import_source: self.source.clone(),
            allow_missing: true,
        };
        match self.client.ask(message).await {
            Ok(_) => Ok(true),
            Err(CliError::Refused(status)) if status.code() == Code::FailedPrecondition => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The project named `name`, created if it does not exist. Another client may create it at the same time.
async fn ensure(client: &Client, name: &str) -> Result<pb::Project, CliError> {
    if let Some(project) = client.project_by_name(name).await? {
        return Ok(project);
    }
    let message = pb::CreateProjectRequest {
        name: name.to_owned(),
        description: String::new(),
        request_id: Uuid::new_v4().to_string(),
    };
    let project = match client.ask(message).await {
        Ok(answer) => answer.project,
        Err(CliError::Refused(status)) if status.code() == Code::AlreadyExists => {
            client.project_by_name(name).await?.ok_or_else(|| {
                CliError::Usage(format!(
                    "a project named {name:?} belongs to others; ask an owner to share it, or import into another one \
                     with `tree-agent import DIR --project NAME`"
                ))
            })?
            .into()
        }
        Err(error) => return Err(error),
    };
    present(project, "project")
}

//! A provider's content filter that refuses a prompt because of a document in it.

use tree_agent_contract::DocumentId;
use tree_agent_contract::event::PromptDocument;

use super::stream::ScratchpadWriter;
use crate::io::RoleIo;

/// The search for the document that a content filter refuses: without each of them in turn, and then without all.
#[derive(Default)]
pub(super) struct Filter {
    documents: Vec<(DocumentId, u64)>,
    at: usize,
    is_told: bool,
}

impl Filter {
    /// Documents that are left out in turn.
    const TRIES: usize = 12;

    /// Goes on after a refusal of a prompt with these documents. False if there is nothing left to try.
    pub(super) fn go_on(&mut self, shown: &[PromptDocument]) -> bool {
        self.is_told = false;
        if self.documents.is_empty() {
            self.documents = shown.iter().map(|one| (one.document_id, one.offset)).collect();
        } else {
            self.at += 1;
        }
        !self.documents.is_empty() && self.at <= self.documents.len().min(Self::TRIES)
    }

    /// What is left out.
    pub(super) fn left_out(&self) -> &[(DocumentId, u64)] {
        match self.at < self.documents.len().min(Self::TRIES) {
            true => &self.documents[self.at..=self.at],
            false => &self.documents,
        }
    }

    /// Says which documents it has refused, once that is known.
    pub(super) async fn tell(&mut self, io: &RoleIo, writer: &mut ScratchpadWriter<'_>) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        for (id, _) in self.left_out() {
            let source = io.tools().document(*id).await.ok();
            let name = source.map(|found| if found.path.is_empty() { found.title } else { found.path });
            let name = name.unwrap_or_else(|| id.to_string());
            let remark = format!("a content filter refuses {name}: this answer does without it");
            tracing::warn!("{remark}");
            writer.remark(&remark).await;
        }
    }
}

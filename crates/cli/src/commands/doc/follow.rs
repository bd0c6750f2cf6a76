//! `doc --follow`: a document as it grows, through any failure.

use std::time::Duration;

use serde::Serialize;
use tonic::{Response, Status, Streaming};
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;

use crate::client::Client;
use crate::client::reconnect::{self, Follower, Next, Policy};
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::List;

/// A piece of text as `-o json` and `-o jsonl` print it.
#[derive(Debug, Serialize)]
struct PieceJson<'a> {
    /// Where it begins, in bytes.
    offset: u64,
    text: &'a str,
    /// The text takes the place of what came before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replaces: bool,
}

/// What is followed.
pub(super) struct From {
    pub(super) document: DocumentId,
    /// The run that has it: the one that created it if there is none.
    pub(super) run: Option<RunId>,
    /// Where the text begins that is printed.
    pub(super) byte: u64,
}

/// Prints the text of a document as it is written, until its run has ended.
pub(super) async fn follow(
    context: &Context,
    client: Client,
    from: From,
    policy: Policy,
) -> Result<Exit, CliError> {
    let From { document, run, byte: at } = from;
    let mut printed = Printed { context, document, run, at, list: context.out.list() };
    let interrupt = interrupt()?;
    tokio::select! {
        ended = reconnect::follow(&client, policy, &mut printed) => ended?,
        () = interrupt.cancelled() => return Ok(Exit::Interrupted),
    }
    printed.list.finish()?;
    Ok(Exit::Success)
}

struct Printed<'a> {
    context: &'a Context,
    document: DocumentId,
    run: Option<RunId>,
    /// Where the text that was printed ends.
    at: u64,
    list: List<'a>,
}

impl Follower for Printed<'_> {
    type Message = pb::WatchDocumentResponse;
    type End = ();

    async fn open(&self, client: &Client) -> Result<Response<Streaming<pb::WatchDocumentResponse>>, Status> {
        let request = pb::WatchDocumentRequest {
            document_id: self.document.to_wire(),
            after_bytes: self.at,
            run_id: self.run.map_or_else(String::new, |run| run.to_wire()),
        };
        client.documents().watch_document(request).await
    }

    async fn take(&mut self, answer: pb::WatchDocumentResponse) -> Result<Next<()>, CliError> {
        match answer.message {
            Some(Message::Text(piece)) => self.print(&piece)?,
            Some(Message::ResumeHint(_)) => return Ok(Next::Again),
            Some(Message::Document(_) | Message::Heartbeat(_)) | None => {}
        }
        Ok(Next::More)
    }

    /// Nothing more will be written.
    async fn closed(&mut self, _: &Client) -> Result<Next<()>, CliError> {
        Ok(Next::End(()))
    }

    async fn lost(&mut self, reason: String, pause: Duration) {
        self.context.out.note(format!("connection lost ({reason}); trying again in {pause:.1?}"));
    }

    fn given_up(&self, reason: String) -> CliError {
        let reason = format!("{reason}; the text that was printed ends at byte {}", self.at);
        CliError::Unreachable { server: self.context.server.clone(), reason }
    }
}

impl Printed<'_> {
    fn print(&mut self, piece: &pb::DocumentText) -> Result<(), CliError> {
        if piece.replaces {
            if self.at > 0 {
                self.context.out.note("the text was replaced; the new one follows");
            }
        } else if piece.offset > self.at {
            let lost = piece.offset - self.at;
            self.context.out.warn(format!("{lost} bytes are missing: the document outgrew its limit"));
        }
        self.at = piece.offset + piece.text.len() as u64;
        if !self.context.out.is_json() {
            return self.context.out.document(&piece.text);
        }
        let (offset, replaces) = (piece.offset, piece.replaces);
        self.list.item(&PieceJson { offset, text: &piece.text, replaces })
    }
}

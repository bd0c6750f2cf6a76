//! `doc --follow`: a document as it grows, through any failure.

use serde::Serialize;
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;

use crate::client::Client;
use crate::client::reconnect::{Broken, Policy, Retries, resume_pause};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::List;
use crate::{Context, interrupt};

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

/// How one stream ended.
enum Ended {
    /// Nothing more will be written.
    Whole,
    /// The server asked to call again.
    Asked,
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
    let list = context.out.list();
    let From { document: id, run, byte: at } = from;
    let follower = Follower { context, client, id, run, at, retries: Retries::new(policy), list };
    let interrupt = interrupt()?;
    tokio::select! {
        result = follower.run() => result,
        () = interrupt.cancelled() => Ok(Exit::Interrupted),
    }
}

struct Follower<'a> {
    context: &'a Context,
    client: Client,
    id: DocumentId,
    run: Option<RunId>,
    /// Where the text that was printed ends.
    at: u64,
    retries: Retries,
    list: List<'a>,
}

impl Follower<'_> {
    async fn run(mut self) -> Result<Exit, CliError> {
        loop {
            let broken = match self.stream().await? {
                Ok(Ended::Whole) => {
                    self.list.finish()?;
                    return Ok(Exit::Success);
                }
                Ok(Ended::Asked) => {
                    tokio::time::sleep(resume_pause()).await;
                    continue;
                }
                Err(broken) => broken,
            };
            let reason = self.retries.reason(&self.client, broken, false).await?;
            let Some(pause) = self.retries.pause() else {
                let server = self.context.server.clone();
                let reason = format!("{reason}; the text that was printed ends at byte {}", self.at);
                return Err(CliError::Unreachable { server, reason });
            };
            self.context.out.note(format!("connection lost ({reason}); trying again in {pause:.1?}"));
            tokio::time::sleep(pause).await;
        }
    }

    /// One stream, from its opening to its end. The outer error is final, the inner one is a broken connection.
    async fn stream(&mut self) -> Result<Result<Ended, Broken>, CliError> {
        let request = pb::WatchDocumentRequest {
            document_id: self.id.to_wire(),
            after_bytes: self.at,
            run_id: self.run.map_or_else(String::new, |run| run.to_wire()),
        };
        let mut documents = self.client.documents();
        let mut stream = match self.retries.open(&self.client, documents.watch_document(request)).await {
            Ok(stream) => stream,
            Err(broken) => return Ok(Err(broken)),
        };
        let mut asked = false;
        loop {
            match self.retries.message(&mut stream).await {
                Ok(Some(answer)) => match answer.message {
                    Some(Message::Text(piece)) => self.print(&piece)?,
                    Some(Message::ResumeHint(_)) => asked = true,
                    Some(Message::Document(_) | Message::Heartbeat(_)) | None => {}
                },
                Ok(None) => return Ok(Ok(if asked { Ended::Asked } else { Ended::Whole })),
                Err(broken) => return Ok(Err(broken)),
            }
        }
    }

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

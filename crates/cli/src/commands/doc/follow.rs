//! `doc --follow`: a document as it grows, through any failure.

use std::time::Instant;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status, Streaming};
use tree_agent_contract::DocumentId;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;

use crate::Context;
use crate::client::watch::{Policy, jittered};
use crate::client::{Client, root_cause};
use crate::error::{CliError, is_transient};
use crate::exit::Exit;
use crate::view::paint::many_lines;

/// A piece of text as `-o jsonl` prints it.
#[derive(Debug, Serialize)]
struct PieceJson<'a> {
    /// Where it begins, in bytes.
    offset: u64,
    text: &'a str,
}

/// How one stream ended.
enum Ended {
    /// Nothing more will be written.
    Whole,
    /// To be called again at once.
    Asked,
    /// To be called again after a pause.
    Lost(String),
}

/// Prints the text of `id` behind `after_bytes` as it is written, until its run has ended.
pub(super) async fn follow(
    context: &Context,
    id: DocumentId,
    after_bytes: u64,
    policy: Policy,
    interrupt: &CancellationToken,
) -> Result<Exit, CliError> {
    let client = context.connect().await?;
    let follower =
        Follower { context, client, id, at: after_bytes, policy, heard: Instant::now(), failures: 0 };
    tokio::select! {
        result = follower.run() => result,
        () = interrupt.cancelled() => Ok(Exit::Interrupted),
    }
}

struct Follower<'a> {
    context: &'a Context,
    client: Client,
    id: DocumentId,
    /// Where the text that was printed ends.
    at: u64,
    policy: Policy,
    /// When the server was last heard.
    heard: Instant,
    failures: u32,
}

impl Follower<'_> {
    async fn run(mut self) -> Result<Exit, CliError> {
        loop {
            let reason = match self.stream().await? {
                Ended::Whole => return Ok(Exit::Success),
                Ended::Asked => {
                    tokio::time::sleep(jittered(std::time::Duration::from_millis(50), 1)).await;
                    continue;
                }
                Ended::Lost(reason) => reason,
            };
            if self.heard.elapsed() >= self.policy.give_up_after {
                let server = self.context.server.clone();
                let reason = format!("{reason}; what was printed ends at byte {}", self.at);
                return Err(CliError::Unreachable { server, reason });
            }
            self.failures += 1;
            let pause = jittered(self.policy.backoff, self.failures);
            self.context.out.note(format!("connection lost ({reason}); trying again in {pause:.1?}"));
            tokio::time::sleep(pause).await;
        }
    }

    /// One stream, from its opening to its end.
    async fn stream(&mut self) -> Result<Ended, CliError> {
        let request = pb::WatchDocumentRequest { document_id: self.id.to_wire(), after_bytes: self.at };
        let token = self.client.token();
        let mut documents = self.client.documents();
        let opened = tokio::time::timeout(self.policy.silence, documents.watch_document(request)).await;
        let mut stream: Streaming<pb::WatchDocumentResponse> = match opened {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return self.failed(status, token).await,
            Err(_) => return Ok(Ended::Lost("the server does not answer".into())),
        };
        let mut hinted = false;
        loop {
            let message = match tokio::time::timeout(self.policy.silence, stream.message()).await {
                Ok(Ok(Some(answer))) => answer.message,
                Ok(Ok(None)) => return Ok(if hinted { Ended::Asked } else { Ended::Whole }),
                Ok(Err(status)) => return self.failed(status, token).await,
                Err(_) => return Ok(Ended::Lost(format!("no sign of life for {:?}", self.policy.silence))),
            };
            self.heard = Instant::now();
            self.failures = 0;
            match message {
                Some(Message::Text(piece)) => self.print(&piece)?,
                Some(Message::ResumeHint(_)) => hinted = true,
                Some(Message::Document(_) | Message::Heartbeat(_)) | None => {}
            }
        }
    }

    /// A call or a stream failed: it is begun again when that may help, for an expired token when a successor comes.
    async fn failed(&self, status: Status, token: Option<MetadataValue<Ascii>>) -> Result<Ended, CliError> {
        if is_transient(&status) {
            return Ok(Ended::Lost(root_cause(&status)));
        }
        let again = status.code() == Code::Unauthenticated
            && self.client.another_token(token.as_ref(), self.policy.token_patience).await;
        if again {
            Ok(Ended::Lost("the token has expired, and there is a new one".into()))
        } else {
            Err(status.into())
        }
    }

    fn print(&mut self, piece: &pb::DocumentText) -> Result<(), CliError> {
        if piece.offset > self.at {
            let lost = piece.offset - self.at;
            self.context.out.note(format!("{lost} bytes are missing: the document outgrew its limit"));
        }
        self.at = piece.offset + piece.text.len() as u64;
        let out = &self.context.out;
        if out.is_jsonl() {
            return out.json(&PieceJson { offset: piece.offset, text: &piece.text });
        }
        if out.is_terminal() { out.text(many_lines(&piece.text)) } else { out.text(&piece.text) }
    }
}

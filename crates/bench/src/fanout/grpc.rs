//! A minimal gRPC client: it reads HTTP/2 frames and counts whole messages.

use anyhow::{Context, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use prost::Message;
use tokio::net::TcpStream;
use tree_agent_proto::v1 as pb;

/// Flow-control window in bytes, of a stream and of a connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// A connection to the gateway.
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    server: String,
    driver: tokio::task::JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to the gateway that the environment names.
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let server = std::env::var("TREE_AGENT_SERVER").context("TREE_AGENT_SERVER is not set")?;
        let address = server.trim_start_matches("http://").trim_end_matches('/');
        let socket = TcpStream::connect(address).await.context("the gateway cannot be reached")?;
        socket.set_nodelay(true)?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(socket)
            .await?;
        // Ends with the last stream, or when the gateway exits; then the streams end too.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, server, driver })
    }

    /// Begins a `WatchRun`.
    pub(crate) async fn watch(&self, run_id: &str, after_seq: u64) -> anyhow::Result<Messages> {
        let request = pb::WatchRunRequest { run_id: run_id.to_owned(), after_seq, ..Default::default() };
        self.call("treeagent.v1.RunService/WatchRun", &request.encode_to_vec()).await
    }

    /// Begins a health watch, which sends one message and then nothing while the service is healthy.
    pub(crate) async fn watch_health(&self) -> anyhow::Result<Messages> {
        self.call("grpc.health.v1.Health/Watch", &[]).await
    }

    async fn call(&self, method: &str, message: &[u8]) -> anyhow::Result<Messages> {
        let request = http::Request::post(format!("{}/{method}", self.server.trim_end_matches('/')))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let mut sender = self.sender.clone().ready().await?;
        let (response, mut body) = sender.send_request(request, false)?;
        let mut framed = BytesMut::with_capacity(5 + message.len());
        framed.put_u8(0);
        framed.put_u32(message.len() as u32);
        framed.extend_from_slice(message);
        body.send_data(framed.freeze(), true)?;
        let response = response.await?;
        let status = response.headers().get("grpc-status").cloned();
        ensure!(status.is_none_or(|s| s == "0"), "{method} was refused: {:?}", response.headers());
        Ok(Messages {
            body: response.into_body(),
            chunk: Bytes::new(),
            partial: BytesMut::new(),
            message: Bytes::new(),
        })
    }
}

/// The messages of one call.
pub(crate) struct Messages {
    body: h2::RecvStream,
    /// Received, not yet parsed.
    chunk: Bytes,
    /// A message that did not fit one frame.
    partial: BytesMut,
    message: Bytes,
}

impl Messages {
    /// Waits for the next message and returns its first byte (0 for an empty one), which shows what it holds; none at
    /// the end of the stream.
    pub(crate) async fn next_kind(&mut self) -> anyhow::Result<Option<u8>> {
        loop {
            if let Some(message) = self.take() {
                self.message = message;
                return Ok(Some(self.message.first().copied().unwrap_or_default()));
            }
            match self.body.data().await {
                Some(data) => {
                    let data = data?;
                    self.body.flow_control().release_capacity(data.len())?;
                    if self.partial.is_empty() {
                        self.chunk = data;
                    } else {
                        self.partial.extend_from_slice(&data);
                        self.chunk = self.partial.split().freeze();
                    }
                }
                None => return Ok(None),
            }
        }
    }

    /// The last message.
    pub(crate) fn body(&self) -> &[u8] {
        &self.message
    }

    /// The next whole message of the chunk. An incomplete one is kept for the next chunk.
    fn take(&mut self) -> Option<Bytes> {
        if self.chunk.is_empty() {
            return None;
        }
        let length = self.chunk.get(1..5).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize);
        match length.filter(|length| self.chunk.len() >= 5 + length) {
            Some(length) => {
                let whole = self.chunk.split_to(5 + length);
                Some(whole.slice(5..))
            }
            None => {
                self.partial.extend_from_slice(&self.chunk);
                self.chunk = Bytes::new();
                None
            }
        }
    }
}

//! Minimal Redis clients: a publisher that pipelines, and subscribers that count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::{MessageBuilder, delay_of_batch};
use super::{Handles, SharedState};

async fn connect() -> anyhow::Result<TcpStream> {
    let url = std::env::var("TREE_AGENT_REDIS_URL").context("TREE_AGENT_REDIS_URL is not set")?;
    let socket =
        TcpStream::connect(url.trim_start_matches("redis://")).await.context("Redis cannot be reached")?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Publishes, many messages in one round trip.
pub(super) struct Publisher {
    socket: TcpStream,
    buffer: BytesMut,
}

impl Publisher {
    pub(super) async fn connect() -> anyhow::Result<Self> {
        Ok(Self { socket: connect().await?, buffer: BytesMut::new() })
    }

    pub(super) async fn publish(&mut self, topic: &str, messages: &[Bytes]) -> anyhow::Result<()> {
        self.buffer.clear();
        for message in messages {
            let head =
                format!("*3\r\n$7\r\nPUBLISH\r\n${}\r\n{topic}\r\n${}\r\n", topic.len(), message.len());
            self.buffer.extend_from_slice(head.as_bytes());
            self.buffer.extend_from_slice(message);
            self.buffer.extend_from_slice(b"\r\n");
        }
        self.socket.write_all(&self.buffer).await?;
        // One line such as `:100` per message.
        let mut lines = 0;
        self.buffer.clear();
        while lines < messages.len() {
            ensure!(self.socket.read_buf(&mut self.buffer).await? > 0, "Redis closed the publisher");
            ensure!(self.buffer.first() == Some(&b':'), "Redis refused: {:?}", self.buffer);
            lines = self.buffer.iter().filter(|&&byte| byte == b'\n').count();
        }
        Ok(())
    }
}

/// Subscribes one client for each place of the board and waits until Redis has confirmed each.
pub(super) async fn subscribers(
    topic: &str,
    maker: &MessageBuilder,
    board: &Arc<SharedState>,
) -> anyhow::Result<Handles> {
    let (single, prefix) = (maker.single(), head(topic, maker.single()).len());
    let each = prefix + single + 2;
    let mut tasks = Vec::new();
    for client in 0..board.heard.len() {
        let mut socket = connect().await?;
        socket.write_all(format!("SUBSCRIBE {topic}\r\n").as_bytes()).await?;
        let confirmation = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{topic}\r\n:1\r\n", topic.len());
        let mut answer = vec![0; confirmation.len()];
        socket.read_exact(&mut answer).await?;
        ensure!(answer == confirmation.as_bytes(), "Redis answers {:?}", String::from_utf8_lossy(&answer));
        let board = board.clone();
        tasks.push(tokio::spawn(async move {
            let mut buffer = BytesMut::with_capacity(256 * 1024);
            while socket.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
                let whole = buffer.len() / each;
                if board.timing.load(Ordering::Relaxed) {
                    for i in 0..whole {
                        let at = i * each + prefix;
                        board.delays().extend(delay_of_batch(&buffer[at..at + single]));
                    }
                }
                board.heard[client].fetch_add(whole as u64, Ordering::Release);
                // Every message has the same length, so that counting is a division.
                let _ = buffer.split_to(whole * each);
                buffer.reserve(64 * 1024);
            }
        }));
    }
    Ok(Handles(tasks))
}

fn head(topic: &str, length: usize) -> String {
    format!("*3\r\n$7\r\nmessage\r\n${}\r\n{topic}\r\n${length}\r\n", topic.len())
}

//! A private Redis Cluster.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use super::server_process::{ServerProcess, find_in_path};
use crate::ports::Port;
use crate::tls::{Authority, ServerCertificate};

/// Slots of every Redis Cluster.
const SLOTS: usize = 16_384;
/// Nodes that own slots.
const MASTERS: usize = 3;

/// Three Redis servers that share the slots, and a replica of the first. Dropping it stops all of them.
#[derive(Debug)]
pub struct PrivateRedisCluster {
    program: PathBuf,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    folder: TempDir,
    port: Port,
    bus: Port,
    /// Where it speaks TLS to clients, if it does. Tests give commands through the plain port.
    tls: Option<Port>,
    server: Option<ServerProcess>,
}

impl PrivateRedisCluster {
    /// Starts the servers and waits until they form a cluster.
    ///
    /// # Errors
    /// When Redis is not installed or the cluster does not come together.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(None)
    }

    /// Starts servers that speak TLS to clients and to each other, with a certificate that `authority` issued.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with_tls(authority: &Authority, certificate: &ServerCertificate) -> anyhow::Result<Self> {
        Self::start_with(Some((authority, certificate)))
    }

    fn start_with(tls: Option<(&Authority, &ServerCertificate)>) -> anyhow::Result<Self> {
        let program = find_in_path("redis-server")
            .context("Redis is not installed; run scripts/setup, which installs it")?;
        let mut cluster = Self { program, nodes: Vec::new() };
        for n in 0..=MASTERS {
            let folder = tempfile::Builder::new().prefix("tree-agent-redis-").tempdir()?;
            if let Some((authority, certificate)) = tls {
                authority.write(folder.path());
                certificate.write(folder.path())?;
            }
            let tls = tls.map(|_| Port::claim()).transpose()?;
            cluster.nodes.push(Node { folder, port: Port::claim()?, bus: Port::claim()?, tls, server: None });
            cluster.start_again(n)?;
        }
        for n in 0..MASTERS {
            let (first, last) = (n * SLOTS / MASTERS, (n + 1) * SLOTS / MASTERS - 1);
            cluster.ask(n, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
        }
        for n in 1..=MASTERS {
            let Node { port, bus, tls, .. } = &cluster.nodes[0];
            let (port, bus) = (tls.as_ref().unwrap_or(port).number(), bus.number());
            cluster.ask(n, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"))?;
        }
        cluster.wait("the cluster comes together", |cluster| {
            for n in 0..=MASTERS {
                let info = cluster.ask(n, "CLUSTER INFO")?;
                let whole = format!("cluster_known_nodes:{}", MASTERS + 1);
                ensure!(info.contains("cluster_state:ok") && info.contains(&whole), "{info}");
            }
            Ok(())
        })?;
        let first = cluster.id(0)?;
        cluster.wait("a server stands by", |cluster| {
            cluster.ask(MASTERS, &format!("CLUSTER REPLICATE {first}"))?;
            let replication = cluster.ask(MASTERS, "INFO replication")?;
            ensure!(replication.contains("master_link_status:up"), "{replication}");
            Ok(())
        })?;
        Ok(cluster)
    }

    /// Starts server `n` again on its port, with its view of the cluster. Does nothing while it runs.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_again(&mut self, n: usize) -> anyhow::Result<()> {
        let node = &mut self.nodes[n];
        if node.server.is_some() {
            return Ok(());
        }
        let folder = node.folder.path();
        let (log, dir) = (folder.join("log"), folder.display().to_string());
        let (port, bus) = (node.port.number().to_string(), node.bus.number().to_string());
        let args = [
            "--port",
            &port,
            "--cluster-port",
            &bus,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            &dir,
            "--cluster-enabled",
            "yes",
            "--cluster-config-file",
            "nodes.conf",
            "--cluster-node-timeout",
            "1000",
            // A slot without a node must not stop the others.
            "--cluster-require-full-coverage",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let mut args = args.map(str::to_owned).to_vec();
        if let Some(tls) = &node.tls {
            let (port, authority) = (tls.number().to_string(), folder.join("ca.pem").display().to_string());
            let settings = ["--tls-port", &port, "--tls-cluster", "yes", "--tls-replication", "yes"];
            args.extend(settings.map(str::to_owned));
            args.extend(["--tls-ca-cert-file".to_owned(), authority]);
            args.extend(ServerCertificate::redis_settings(folder));
        }
        let mut server = ServerProcess::start(&self.program, &args, "KILL", &log, folder, None)?;
        server.wait_until("Redis", &log, || ask(&node.port, "PING").is_ok())?;
        node.server = Some(server);
        Ok(())
    }

    /// Kills server `n`.
    pub fn kill(&mut self, n: usize) {
        self.nodes[n].server = None;
    }

    /// The URL of the cluster, naming two of its nodes.
    pub fn url(&self) -> String {
        let address = |n: usize| {
            let node: &Node = &self.nodes[n];
            node.tls.as_ref().unwrap_or(&node.port).address()
        };
        let scheme = if self.nodes[0].tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}-cluster://{},{}", address(0), address(1))
    }

    /// The servers among the first three that own slots now, as server `by` sees it, and the one that owns `slot`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn owner(&self, by: usize, slot: u16) -> anyhow::Result<usize> {
        let nodes = self.ask(by, "CLUSTER NODES")?;
        let owns = |line: &str| {
            line.split_whitespace().skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(f), Ok(l)) if f <= slot && slot <= l)
            })
        };
        let line = nodes.lines().find(|line| !line.contains("fail") && owns(line));
        let line = line.with_context(|| format!("nobody owns slot {slot}:\n{nodes}"))?;
        let of = |node: &Node| line.contains(&format!(":{}@", node.port.number()));
        self.nodes.iter().position(of).with_context(|| format!("an unknown server owns slot {slot}: {line}"))
    }

    /// The slot of a topic or key.
    ///
    /// # Errors
    /// When no server answers.
    pub fn slot(&self, key: &str) -> anyhow::Result<u16> {
        let answer = self.ask(1, &format!("CLUSTER KEYSLOT {key}"))?;
        Ok(answer.trim().trim_start_matches(':').parse()?)
    }

    /// Moves a slot to server `to` (one of the first three), as rebalancing does.
    ///
    /// # Errors
    /// When a server refuses.
    pub fn move_slot(&self, slot: u16, to: usize) -> anyhow::Result<()> {
        let (from, id) = (self.owner(to, slot)?, self.id(to)?);
        let source = self.id(from)?;
        self.ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {source}"))?;
        self.ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {id}"))?;
        for n in [to, from] {
            self.ask(n, &format!("CLUSTER SETSLOT {slot} NODE {id}"))?;
        }
        self.wait("everybody knows of the move", |cluster| {
            for n in (0..MASTERS).filter(|n| cluster.nodes[*n].server.is_some()) {
                ensure!(cluster.owner(n, slot)? == to, "server {n} knows another owner");
            }
            Ok(())
        })
    }

    fn id(&self, n: usize) -> anyhow::Result<String> {
        Ok(self.ask(n, "CLUSTER MYID")?.trim().to_owned())
    }

    fn ask(&self, n: usize, command: &str) -> anyhow::Result<String> {
        ask(&self.nodes[n].port, command)
    }

    fn wait(&self, what: &str, ready: impl Fn(&Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match ready(self) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("{what}: not in time")));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for PrivateRedisCluster {
    fn drop(&mut self) {
        // Before their folders are removed.
        self.nodes.iter_mut().for_each(|node| node.server = None);
    }
}

/// Asks one server and returns its answer as text.
fn ask(port: &Port, command: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(port.address())?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    match line.split_at_checked(1) {
        Some(("$", length)) => {
            let mut text = vec![0; length.trim().parse()?];
            reader.read_exact(&mut text)?;
            Ok(String::from_utf8(text)?)
        }
        Some(("+" | ":", text)) => Ok(text.trim().to_owned()),
        _ => bail!("{command}: {line:?}"),
    }
}

//! A private Redis server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use super::server_process::{ServerProcess, find_in_path};
use crate::ports::Port;
use crate::tls::ServerCertificate;

/// A Redis server with its own port and without persistence. Dropping it stops the server.
#[derive(Debug)]
pub struct PrivateRedis {
    program: PathBuf,
    folder: TempDir,
    port: Port,
    tls: bool,
    server: Option<ServerProcess>,
}

impl PrivateRedis {
    /// Starts a server.
    ///
    /// # Errors
    /// When Redis is not installed or does not start; the message says what to do.
    pub fn start() -> anyhow::Result<Self> {
        let mut redis = Self::reserve()?;
        redis.start_again()?;
        Ok(redis)
    }

    /// Starts a server that accepts connections over TLS only, with `certificate`.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with_tls(certificate: &ServerCertificate) -> anyhow::Result<Self> {
        let mut redis = Self::reserve()?;
        redis.tls = true;
        certificate.write(redis.folder.path())?;
        redis.start_again()?;
        Ok(redis)
    }

    /// A server that is not running yet, for tests of what happens before it starts.
    ///
    /// # Errors
    /// When Redis is not installed.
    pub fn reserve() -> anyhow::Result<Self> {
        let program = find_in_path("redis-server")
            .context("Redis is not installed; run scripts/setup, which installs it")?;
        let folder = tempfile::Builder::new().prefix("tree-agent-redis-").tempdir()?;
        Ok(Self { program, folder, port: Port::claim()?, tls: false, server: None })
    }

    /// Starts a stopped server again on its port. Does nothing while it runs.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let folder = self.folder.path();
        let log = folder.join("log");
        let port = self.port.number().to_string();
        let dir = folder.display().to_string();
        let common = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", &dir];
        let mut args = common.map(str::to_owned).to_vec();
        match self.tls {
            true => {
                args.extend(["--port", "0", "--tls-port", &port].map(str::to_owned));
                args.extend(ServerCertificate::redis_settings(folder));
            }
            false => args.extend(["--port", &port].map(str::to_owned)),
        }
        let mut server = ServerProcess::start(&self.program, &args, "TERM", &log, folder, None)?;
        let tls = self.tls;
        server.wait_until("Redis", &log, || match tls {
            true => TcpStream::connect(self.port.address()).is_ok(),
            false => answers(self.port.address()),
        })?;
        self.server = Some(server);
        Ok(())
    }

    /// Stops the server. Its data is lost.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// The process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.pid)
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.port.address())
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        // Before the folder is removed.
        self.stop();
    }
}

fn answers(address: SocketAddr) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG")
    };
    ping().unwrap_or(false)
}

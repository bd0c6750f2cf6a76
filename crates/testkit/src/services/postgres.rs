//! A private Postgres server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use super::server_process::{Account, ServerProcess, find_in_path};
use crate::ports::Port;
use crate::tls::ServerCertificate;

/// A Postgres server with its own folder and port and without a password, for one test or one test binary.
///
/// Dropping it stops the server and removes its folder. A server kept in a `static` ends with the process.
#[derive(Debug)]
pub struct PrivatePostgres {
    bin: PathBuf,
    folder: TempDir,
    port: Port,
    fsync: bool,
    account: Option<Account>,
    small_disk: Option<u64>,
    server: Option<ServerProcess>,
    databases: AtomicU32,
}

impl PrivatePostgres {
    /// Starts a server for tests. It does not wait for the disk.
    ///
    /// # Errors
    /// When Postgres is not installed or does not start; the message says what to do.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(false, None)
    }

    /// Starts a server for tests whose databases are on a separate disk of `bytes` bytes. The disk is a tmpfs that
    /// only the server and [`disk`](Self::disk) see. The write-ahead log is not on it. Mounting it needs root, and its
    /// content is lost when the server stops.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and if the disk cannot be mounted.
    pub fn start_with_small_disk(bytes: u64) -> anyhow::Result<Self> {
        Self::start_with(false, Some(bytes))
    }

    /// Starts a server that waits for the disk at each commit, as benchmarks and crash tests need it.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_durable() -> anyhow::Result<Self> {
        Self::start_with(true, None)
    }

    /// Starts a server for tests that accepts connections over TLS only, with `certificate`. Clients choose TLS with
    /// `sslmode` in the URL.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with_tls(certificate: &ServerCertificate) -> anyhow::Result<Self> {
        let mut server = Self::start()?;
        server.stop();
        let data = server.folder.path().join("data");
        let files = [
            ("server.crt", certificate.certificate.as_str()),
            ("server.key", certificate.key.as_str()),
            ("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n"),
        ];
        for (name, text) in files {
            let file = data.join(name);
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            if let Some(account) = server.account {
                std::os::unix::fs::chown(&file, Some(account.uid), Some(account.gid))?;
            }
        }
        let settings = data.join("postgresql.conf");
        let before = std::fs::read_to_string(&settings)?;
        std::fs::write(&settings, format!("{before}\nssl = on\n"))?;
        server.start_again()?;
        Ok(server)
    }

    fn start_with(fsync: bool, small_disk: Option<u64>) -> anyhow::Result<Self> {
        let bin = find_bin()?;
        let account = server_account()?;
        let folder = tempfile::Builder::new().prefix("tree-agent-pg-").tempdir()?;
        if let Some(account) = account {
            std::os::unix::fs::chown(folder.path(), Some(account.uid), Some(account.gid))
                .context("the server's folder cannot be given to the user postgres")?;
        }
        let mut initdb = Command::new(bin.join("initdb"));
        initdb.current_dir(folder.path()).arg("-D").arg(folder.path().join("data"));
        initdb.args(["-U", "ta", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]);
        Account::apply(account, &mut initdb);
        let output = initdb.output().context("initdb cannot be started")?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        let mut server = Self {
            bin,
            folder,
            port: Port::claim()?,
            fsync,
            account,
            small_disk,
            server: None,
            databases: AtomicU32::new(0),
        };
        if small_disk.is_some() {
            let account = account.context("a small disk can be mounted only by root")?;
            std::fs::create_dir(server.folder.path().join("disk"))?;
            std::os::unix::fs::chown(
                server.folder.path().join("disk"),
                Some(account.uid),
                Some(account.gid),
            )?;
        }
        server.start_again()?;
        if let Some(disk) = server.disk() {
            let account = server.account.context("checked above")?;
            std::fs::create_dir(disk.join("tables"))?;
            std::os::unix::fs::chown(disk.join("tables"), Some(account.uid), Some(account.gid))?;
            let place = server.folder.path().join("disk/tables");
            server.psql(&format!("CREATE TABLESPACE small LOCATION '{}'", place.display()))?;
        }
        Ok(server)
    }

    /// Starts a stopped server again, with its data and on its port. Does nothing while it runs.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let folder = self.folder.path();
        let log = folder.join("log");
        let fsync = if self.fsync { "fsync=on" } else { "fsync=off" };
        let port = format!("port={}", self.port.number());
        let sockets = format!("unix_socket_directories={}", folder.display());
        let mut args = vec!["-D".to_owned(), folder.join("data").display().to_string()];
        for setting in ["listen_addresses=127.0.0.1", "max_connections=200", fsync, &port, &sockets] {
            args.extend(["-c".to_owned(), setting.to_owned()]);
        }
        // INT is Postgres' fast shutdown: it does not wait for clients.
        let (program, args, account) = match (self.small_disk, self.account) {
            (Some(bytes), Some(account)) => {
                let args = self.behind_small_disk(bytes, account, args);
                (PathBuf::from("unshare"), args, None)
            }
            _ => (self.bin.join("postgres"), args, self.account),
        };
        let mut server = ServerProcess::start(&program, &args, "INT", &log, folder, account)?;
        let pg_isready = self.bin.join("pg_isready");
        let port = self.port.number().to_string();
        server.wait_until("Postgres", &log, || {
            Command::new(&pg_isready)
                .args(["-q", "-h", "127.0.0.1", "-p", &port])
                .status()
                .is_ok_and(|status| status.success())
        })?;
        self.server = Some(server);
        Ok(())
    }

    /// The command for `unshare`. It mounts the disk in the server's own namespace, drops root and becomes the server.
    /// However the server ends, nothing stays mounted.
    fn behind_small_disk(&self, bytes: u64, account: Account, args: Vec<String>) -> Vec<String> {
        const SCRIPT: &str = r#"
            set -e
            disk=$0; size=$1; uid=$2; gid=$3; shift 3
            mount -t tmpfs -o "size=$size,uid=$uid,gid=$gid,mode=700" tree-agent-test "$disk"
            exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"
        "#;
        let disk = self.folder.path().join("disk").display().to_string();
        let program = self.bin.join("postgres").display().to_string();
        let (bytes, uid, gid) = (bytes.to_string(), account.uid.to_string(), account.gid.to_string());
        let shell = ["--mount", "/bin/sh", "-c", SCRIPT, &disk, &bytes, &uid, &gid, &program];
        shell.map(str::to_owned).into_iter().chain(args).collect()
    }

    /// The folder of the small disk as this process sees it, if the server has one and runs.
    pub fn disk(&self) -> Option<PathBuf> {
        let (pid, _) = self.pid().zip(self.small_disk)?;
        let folder = self.folder.path().join("disk");
        Some(Path::new("/proc").join(pid.to_string()).join("root").join(folder.strip_prefix("/").ok()?))
    }

    fn psql(&self, command: &str) -> anyhow::Result<()> {
        let output = Command::new(self.bin.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", command, &self.url()])
            .output()
            .context("psql cannot be started")?;
        ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// The address on which the server listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    /// Stops the server; its data stays until it is dropped.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// The process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.pid)
    }

    /// The URL of the server's own database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn create_database(&self) -> anyhow::Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let place = if self.small_disk.is_some() { " TABLESPACE small" } else { "" };
        self.psql(&format!("CREATE DATABASE {name}{place}"))?;
        Ok(self.url_of(&name))
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://ta@{}/{database}", self.port.address())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // Before the folder is removed.
        self.stop();
    }
}

/// The folder with the programs of the newest installed Postgres.
fn find_bin() -> anyhow::Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .collect();
    found.sort();
    let newest = found.pop().map(|(_, bin)| bin);
    newest
        .or_else(|| find_in_path("initdb").and_then(|file| file.parent().map(Path::to_path_buf)))
        .context("Postgres is not installed; run scripts/setup, which installs it")
}

/// Postgres refuses to run as root. Then the user `postgres` of its package runs it.
fn server_account() -> anyhow::Result<Option<Account>> {
    if id(&["-u"])? != 0 {
        return Ok(None);
    }
    let missing = "there is no user postgres to run Postgres as; run scripts/setup, which makes it";
    Ok(Some(Account {
        uid: id(&["-u", "postgres"]).context(missing)?,
        gid: id(&["-g", "postgres"]).context(missing)?,
    }))
}

fn id(args: &[&str]) -> anyhow::Result<u32> {
    let output = Command::new("id").args(args).output().context("the program id cannot be started")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

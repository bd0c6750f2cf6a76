//! One service process, which cannot outlive the test.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tree_agent_runtime::channel;
use tree_agent_runtime::metrics::PATH;
use tree_agent_testkit::ports::Port;

use crate::program;

/// A signal that a process can receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Shut down cleanly.
    Terminate,
    /// Die at once.
    Kill,
    /// Freeze.
    Stop,
    /// Thaw.
    Continue,
    /// What Postgres calls an immediate shutdown: end without a checkpoint, as in a crash.
    Quit,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Signal::Terminate => "-TERM",
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
            Signal::Quit => "-QUIT",
        }
    }

    /// Sends the signal to the process `pid`, which must be one that this test started.
    pub fn send(self, pid: u32) {
        let sent = Command::new("kill").args([self.name(), &pid.to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{self:?} cannot be sent to process {pid}");
    }
}

/// A service: its program, its settings and, while it runs, its process.
#[derive(Debug)]
pub struct Process {
    name: String,
    program: PathBuf,
    settings: Vec<(String, String)>,
    log: PathBuf,
    port: Port,
    running: Option<Running>,
}

/// A shell that waits for the end of a pipe and then kills the service. This process holds the other end of the pipe.
#[derive(Debug)]
struct Running {
    watcher: Child,
    pipe: Option<ChildStdin>,
    pid: u32,
}

impl Process {
    pub(crate) fn new(
        name: String,
        program_name: &str,
        port: Port,
        log: PathBuf,
        settings: Vec<(String, String)>,
    ) -> Self {
        Self { name, program: program(program_name), settings, log, port, running: None }
    }

    /// Starts or restarts it. Its address stays.
    pub fn start(&mut self) {
        // `$0` is the log, the rest is the service. The watcher exits with the service's code. Unless it is told to
        // keep the log, the test is over or was killed. Then the watcher removes the log, and with the last log its
        // folder.
        const SCRIPT: &str = r#"
            "$@" </dev/null >>"$0" 2>&1 &
            service=$!
            echo "$service"
            read -r word
            kill -KILL "$service" 2>/dev/null
            wait "$service"
            code=$?
            [ "$word" = keep ] || { rm -f "$0"; rmdir "${0%/*}" 2>/dev/null; }
            exit "$code"
        "#;
        assert!(self.running.is_none(), "{} runs", self.name);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SCRIPT).arg(&self.log).arg(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TREE_AGENT_") {
                command.env_remove(name);
            }
        }
        command.envs(self.settings.iter().cloned()).env("TREE_AGENT_LISTEN", self.address().to_string());
        // The watcher's own messages ("Killed") are not interesting.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut watcher = command.spawn().expect("/bin/sh starts");
        let pipe = watcher.stdin.take();
        let mut line = String::new();
        BufReader::new(watcher.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let pid = line.trim().parse().expect("the shell prints a process id");
        self.running = Some(Running { watcher, pipe, pid });
    }

    /// Its name in messages, such as `planner-2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// From its next start on it uses the program in `folder`, which is from another build.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn take_from(&mut self, folder: &Path) {
        let name = self.program.file_name().expect("a program has a name");
        let program = folder.join(name);
        assert!(program.is_file(), "{} does not exist", program.display());
        self.program = program;
    }

    /// Its resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.expect("a process that runs has memory") * 1024
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it is not running.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name)).pid
    }

    /// True if it runs as the process `pid`.
    pub(crate) fn has_pid(&self, pid: u32) -> bool {
        self.running.as_ref().is_some_and(|running| running.pid == pid)
    }

    /// Sends a signal. Returns at once, but for SIGSTOP: then it waits until every thread has stopped. On a busy
    /// machine a thread on another core goes on for a moment.
    pub fn signal(&self, signal: Signal) {
        signal.send(self.pid());
        if signal == Signal::Stop {
            let patience = Instant::now() + Duration::from_secs(10);
            while !is_stopped(self.pid()) {
                assert!(Instant::now() < patience, "{} does not stop", self.name());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::Kill);
        self.wait(Duration::from_secs(10));
    }

    /// SIGTERM, and waits until it is gone. Returns its exit code.
    ///
    /// # Panics
    /// When it does not end within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> i32 {
        self.signal(Signal::Terminate);
        self.wait(limit)
    }

    /// Waits until it is gone and returns its exit code.
    ///
    /// # Panics
    /// When it does not end within `limit`.
    pub fn wait(&mut self, limit: Duration) -> i32 {
        let deadline = Instant::now() + limit;
        while self.alive() {
            assert!(
                Instant::now() < deadline,
                "{} does not end within {limit:?}:\n{}",
                self.name,
                self.tail()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut running = self.running.take().expect("it ran");
        if let Some(mut pipe) = running.pipe.take() {
            // A watcher that has exited has nothing to keep.
            let _ = pipe.write_all(b"keep\n");
        }
        running.watcher.wait().ok().and_then(|status| status.code()).unwrap_or(-1)
    }

    /// True while it runs (a process that ended and was not waited for does not).
    pub fn alive(&self) -> bool {
        let Some(running) = &self.running else { return false };
        // The state follows the name, which is in parentheses.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// Its log, over all of its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The end of its log, without the lines that only [`calls`](Self::calls) needs.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().rev().filter(|line| !line.contains(" DEBUG ")).take(25).collect();
        lines.into_iter().rev().map(|line| format!("  {}: {line}\n", self.name)).collect()
    }

    /// Role calls of `method` (such as `ExecutorService/Execute`) that it has served to the end.
    pub fn calls(&self, method: &str) -> usize {
        let end = format!("method=\"/treeagent.internal.v1.{method}\"");
        self.log().lines().filter(|line| line.contains(&end) && line.contains("code=")).count()
    }

    /// The value of the metric `name`, with its labels as they are written; none if the process does not answer.
    ///
    /// # Panics
    /// When there is no such metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(self.address()).await.ok()?;
        let request = format!("GET {PATH} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address());
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("{} has no metric {name}:\n{text}", self.name));
        Some(value.parse().expect("a number"))
    }

    /// What its health service reports about `service` (empty for the whole); none if it does not answer.
    pub async fn health(&self, service: &str) -> Option<ServingStatus> {
        let mut client = HealthClient::new(channel::single(self.url().parse().expect("a URL")));
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = tokio::time::timeout(Duration::from_secs(5), client.check(request)).await.ok()?;
        answer.ok().map(|answer| answer.into_inner().status())
    }

    /// True if it reports that it serves.
    pub async fn serving(&self) -> bool {
        self.health("").await == Some(ServingStatus::Serving)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.pipe.take());
            let _ = running.watcher.wait();
        }
    }
}

/// Whether every thread of a process has stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name is in parentheses and may contain anything; the state follows.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

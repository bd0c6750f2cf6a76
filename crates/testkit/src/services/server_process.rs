//! A server process that cannot outlive this one.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// The user and group that a server runs as, if not ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    pub(super) fn apply(account: Option<Account>, command: &mut Command) {
        if let Some(account) = account {
            command.uid(account.uid).gid(account.gid);
        }
    }
}

/// A running server and the shell that watches over it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    shell: Child,
    /// Closing it tells the shell to stop the server.
    pipe: Option<ChildStdin>,
    pub(super) pid: u32,
}

impl ServerProcess {
    /// Starts `program args…`; `signal` stops it. The folder `remove` is removed when this process is gone.
    pub(super) fn start(
        program: &Path,
        args: &[String],
        signal: &str,
        log: &Path,
        remove: &Path,
        account: Option<Account>,
    ) -> anyhow::Result<Self> {
        // `$0` is the signal, `$1` the folder, `$2` the log, the rest is the server. The shell removes the folder only
        // if its parent vanished: a clean stop sends `keep` first.
        const SCRIPT: &str = r#"
            signal=$0; folder=$1; log=$2; shift 2
            "$@" </dev/null >>"$log" 2>&1 &
            server=$!
            echo "$server"
            read -r word
            kill "-$signal" "$server" 2>/dev/null
            wait "$server" 2>/dev/null
            [ "$word" = keep ] || rm -rf "$folder"
        "#;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SCRIPT).arg(signal).arg(remove).arg(log).arg(program).args(args);
        // Ctrl-C in a terminal ends the tests. The closing pipe then stops the server cleanly.
        command.current_dir(remove).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        Account::apply(account, &mut command);
        let mut shell = command.spawn().context("/bin/sh cannot be started")?;
        let pipe = shell.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let pid = line.trim().parse().with_context(|| format!("{} did not start", program.display()))?;
        Ok(Self { shell, pipe, pid })
    }

    /// Stops the server and waits until it is gone; its folder stays.
    pub(super) fn stop(&mut self) {
        use std::io::Write;
        if let Some(mut pipe) = self.pipe.take() {
            // A shell that has exited has already stopped its server.
            let _ = pipe.write_all(b"keep\n");
        }
        let _ = self.shell.wait();
    }

    /// Waits until `ready` returns true. The error has the end of the log if the server exits or takes too long.
    pub(super) fn wait_until(
        &mut self,
        what: &str,
        log: &Path,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while !ready() {
            if ended(self.pid) || Instant::now() > deadline {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<_> = text.lines().rev().take(10).collect();
                let tail = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
                bail!("{what} is not ready; the end of its log:\n{tail}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

/// True if the process is gone, or dead and not yet waited for. False where there is no `/proc`.
fn ended(pid: u32) -> bool {
    if !Path::new("/proc/self/stat").exists() {
        return false;
    }
    // The state follows the name, which is in parentheses. An empty command line would prove nothing: a process that is
    // about to become another program has none for a moment.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The program `name` from `PATH`.
pub(super) fn find_in_path(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

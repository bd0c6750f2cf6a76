//! The program as a process, and a `dev` at work.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program, talking to `server`, without settings from outside.
pub(crate) fn program(server: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    for name in ["TREE_AGENT_LOG", "TREE_AGENT_DATA_DIR", "TREE_AGENT_LISTEN", "TREE_AGENT_MODEL"] {
        command.env_remove(name);
    }
    command.env("TREE_AGENT_SERVER", server).env("TREE_AGENT_SCRIPTED", "on");
    command
}

pub(crate) fn run(server: &str, args: &[&str]) -> Output {
    program(server).args(args).output().expect("the program starts")
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", stderr(output)))
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn succeeded(output: Output) -> Output {
    assert_eq!(code(&output), 0, "stdout: {}\nstderr: {}", stdout(&output), stderr(&output));
    output
}

pub(crate) fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A `dev` at work; killed when the test is over, however it ends.
pub(crate) struct Dev {
    pub(crate) child: Child,
    pub(crate) server: String,
}

impl Dev {
    pub(crate) fn start(data_dir: &Path) -> Self {
        Self::start_on("127.0.0.1:0", data_dir)
    }

    pub(crate) fn start_on(address: &str, data_dir: &Path) -> Self {
        Self::start_with(address, data_dir, &[])
    }

    pub(crate) fn start_with(address: &str, data_dir: &Path, args: &[&str]) -> Self {
        let mut child = program("")
            .args(["dev", "--listen", address, "-o", "jsonl", "--log", "warn", "--data-dir"])
            .arg(data_dir)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ready: Value = serde_json::from_str(&first).unwrap_or_else(|e| panic!("{first:?}: {e}"));
        assert_eq!(ready["dataDir"], data_dir.to_str().unwrap());
        Self { server: ready["server"].as_str().unwrap().to_owned(), child }
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().expect("ended by itself");
            }
            assert!(Instant::now() < deadline, "does not drain");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small folder of documents, with things in it that are none.
pub(crate) fn documents(dir: &Path) {
    let put = |path: &str, bytes: &[u8]| {
        let file = dir.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    };
    put("overview.md", b"# Overview\n\nThe lease decides who writes. A lease lasts five seconds.\n\n## Log\n\nThe log is append-only.\n");
    put("guide/fencing.md", b"# Fencing\n\nA writer without the lease is fenced off by its epoch.\n");
    put("guide/notes.txt", b"Leases are renewed every second.\n");
    put("guide/blob.md", &[0, 159, 146, 150]);
    put("logo.png", &[0x89, b'P', b'N', b'G']);
}

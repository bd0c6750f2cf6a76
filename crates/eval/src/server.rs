//! A real server, `tree-agent dev` in a process of its own, and the runs on it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::answer::Answer;
use crate::load::QuestionSet;

/// A server that ends with this value.
pub struct Server {
    program: PathBuf,
    child: Child,
    url: String,
    /// Its store. Removed at the end.
    _data: tempfile::TempDir,
}

impl Server {
    /// Starts `program`, a `tree-agent`, on a free loopback port with an empty store. Language models are configured as
    /// for `tree-agent dev`, by the environment.
    ///
    /// # Errors
    /// The program cannot be started, or does not say within its first line where it listens.
    pub fn start(program: &Path) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let mut child = Command::new(program)
            .args(["dev", "--listen", "127.0.0.1:0", "-o", "jsonl", "--log", "error", "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut first = String::new();
        let out = child.stdout.take().context("the output of the server")?;
        BufReader::new(out).read_line(&mut first)?;
        let ready: serde_json::Value =
            serde_json::from_str(&first).with_context(|| format!("the server said {first:?}"))?;
        let url = ready["server"].as_str().context("the address of the server")?.to_owned();
        Ok(Self { program: program.to_owned(), child, url, _data: data })
    }

    /// What the program prints for `args`.
    fn says(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.program).args(args).env("TREE_AGENT_SERVER", &self.url).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tree-agent {}: {said}", args.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Imports the documents of `set` into a project of its name.
    ///
    /// # Errors
    /// The import fails.
    pub fn import(&self, set: &QuestionSet) -> anyhow::Result<()> {
        let folder = set.folder.to_str().context("a folder with a name in UTF-8")?;
        self.says(&["import", folder, "--project", &set.name]).map(drop)
    }

    /// Answers `question` with a run of `strategy` over the documents of `set`.
    ///
    /// # Errors
    /// The run fails.
    pub fn answer(
        &self,
        set: &QuestionSet,
        question: &str,
        strategy: &str,
        model: &str,
    ) -> anyhow::Result<Answer> {
        let begun = Instant::now();
        let args = ["run", question, "--project", &set.name, "--strategy", strategy, "--model", model];
        let text = self.says(&args)?;
        Ok(Answer::of(&text, begun.elapsed().as_secs_f64()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that anybody needs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

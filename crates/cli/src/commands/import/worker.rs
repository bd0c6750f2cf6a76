//! HTML and PDF are converted in a process of their own, so that no file can take more than its time and memory, and
//! none can end an import: a panic, an overflow of the stack or an endless loop costs that one file.
//!
//! The process is this program with a hidden command. It gets the file on its standard input and no environment, and
//! writes a line with the title and then the text. It limits itself before it reads: memory, processor time and files.
//! The import waits for it at most [`PATIENCE`], takes at most [`FILE_BYTES`] of text, and kills it.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::convert::{self, Converted};
use super::folder::{FILE_BYTES, Reason};
use crate::error::CliError;
use crate::exit::Exit;

/// How long the conversion of one file may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// MiB of memory that the conversion of one file may take.
const MEMORY_MIB: u64 = 1024;
/// Without it, the allocator reserves 1 GiB at the start, which would count.
const NO_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// Seconds of processor time that the conversion of one file may take.
const PROCESSOR_SECONDS: u64 = 30;
/// Bytes of stack. The libraries recurse for what is nested.
const STACK: usize = 64 * 1024 * 1024;
/// The exit code that says that the file is at fault; the reason is on standard output.
const AT_FAULT: i32 = 65;

/// A format that is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Html,
    Pdf,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Pdf => "pdf",
        }
    }
}

/// Convert a file on stdin to text (for the import itself)
#[derive(Debug, Args)]
pub(crate) struct ConvertFile {
    #[arg(value_enum)]
    format: Format,
    /// Seconds of processor time
    #[arg(long, default_value_t = PROCESSOR_SECONDS)]
    seconds: u64,
}

impl ConvertFile {
    pub(crate) async fn run(&self) -> Result<Exit, CliError> {
        self.limit();
        let format = self.format;
        let work = std::thread::Builder::new().stack_size(STACK).spawn(move || -> io::Result<Infallible> {
            let mut bytes = Vec::new();
            io::stdin().lock().take(FILE_BYTES as u64).read_to_end(&mut bytes)?;
            let converted = match format {
                Format::Html => convert::html(&bytes),
                Format::Pdf => convert::pdf(&bytes),
            };
            let mut out = io::stdout().lock();
            match &converted {
                Ok(Converted { title, text }) => write!(out, "{}\n{text}", title.replace('\n', " "))?,
                Err(why) => out.write_all(why.as_bytes())?,
            }
            out.flush()?;
            // At once: where memory is short, every further step may fail. Nothing else is running here, and the
            // number of a failure is not one of this program's exit codes.
            std::process::exit(if converted.is_ok() { 0 } else { AT_FAULT })
        });
        let work = work.map_err(|e| CliError::Other(format!("cannot start a thread: {e}")))?;
        let done = tokio::task::spawn_blocking(move || work.join()).await;
        match done {
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(Err(_)) | Err(_) => Err(CliError::Other("the conversion panicked".into())),
        }
    }

    /// Limits this process for good. A system that does not know a limit goes without it; the import still stops
    /// waiting.
    fn limit(&self) {
        for (resource, most) in [
            (Resource::As, MEMORY_MIB * 1024 * 1024),
            (Resource::Cpu, self.seconds),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ] {
            let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
        }
    }
}

/// Converts files.
#[derive(Clone, Debug)]
pub(super) struct Converter {
    program: PathBuf,
    patience: Duration,
}

impl Converter {
    /// A converter that runs this program.
    pub(super) fn new() -> Result<Self, CliError> {
        let program = std::env::current_exe()
            .map_err(|e| CliError::Other(format!("this program cannot find itself: {e}")))?;
        Ok(Self { program, patience: PATIENCE })
    }

    /// The text of a file, or why there is none.
    pub(super) async fn convert(&self, format: Format, file: Vec<u8>) -> Result<Converted, (Reason, String)> {
        match tokio::time::timeout(self.patience, self.talk(format, file)).await {
            Ok(done) => done,
            Err(_) => Err(failed(format!("was not converted within {} s", self.patience.as_secs()))),
        }
    }

    async fn talk(&self, format: Format, file: Vec<u8>) -> Result<Converted, (Reason, String)> {
        let cannot = |e: io::Error| failed(format!("cannot be converted: {e}"));
        let mut worker = Command::new(&self.program)
            .args(["_convert-file", format.name()])
            .env_clear()
            .env(NO_RESERVE.0, NO_RESERVE.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // When nobody waits any more: the patience is over, or the import was interrupted.
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let (stdin, stdout) = (worker.stdin.take(), worker.stdout.take());
        let give = async {
            if let Some(mut stdin) = stdin {
                // A process that has ended takes no more; its exit code says what happened.
                let _ = stdin.write_all(&file).await;
            }
        };
        let mut answer = Vec::new();
        let take = async {
            match stdout {
                Some(stdout) => stdout.take(FILE_BYTES as u64 + 1).read_to_end(&mut answer).await,
                None => Ok(0),
            }
        };
        let ((), taken) = tokio::join!(give, take);
        taken.map_err(cannot)?;
        if answer.len() > FILE_BYTES {
            let why = format!("holds more than {FILE_BYTES} bytes of text");
            return Err((Reason::TooLarge, why));
        }
        let status = worker.wait().await.map_err(cannot)?;
        let answer = String::from_utf8_lossy(&answer);
        match status.code() {
            Some(0) => {
                let (title, text) = answer.split_once('\n').unwrap_or((&answer, ""));
                Ok(Converted { title: title.to_owned(), text: text.to_owned() })
            }
            Some(AT_FAULT) => Err(failed(answer.into_owned())),
            _ => Err(failed(format!(
                "cannot be converted: its {} is broken, or needs too much",
                format.name().to_uppercase()
            ))),
        }
    }
}

fn failed(why: String) -> (Reason, String) {
    (Reason::NotConverted, why)
}

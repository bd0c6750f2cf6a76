//! Everything but text is converted in a process of its own, so that no file can take more than its time and memory,
//! and none can end its caller: a panic, an overflow of the stack or an endless loop costs that one file.
//!
//! The process is a program that calls [`serve`]. It gets the file on its standard input and no environment, and writes
//! what it found as JSON. It limits itself before it reads: memory, processor time and files. The [`Converter`] waits
//! for it only so long, takes a bounded answer, and kills it.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tree_agent_contract::limits::TITLE_BYTES;
use tree_agent_contract::text::prefix;

use crate::{Converted, FILE_BYTES, Fault, Kind, Reason, html, mail, office, pdf, text};

/// The hidden command of the program that calls [`serve`]; the extension of the file follows.
pub const COMMAND: &str = "_convert-file";
/// Seconds of processor time that the conversion of one file may take.
pub const PROCESSOR_SECONDS: u64 = 30;
/// Files that are converted at the same time.
pub const PARALLEL: usize = 2;
/// How long the conversion of one file may take, unless it is set.
const PATIENCE: Duration = Duration::from_secs(60);
/// MiB of memory that the conversion of one file may take.
const MEMORY_MIB: u64 = 1024;
/// Without it, the allocator reserves 1 GiB at the start, which would count.
const NO_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// Bytes of stack. The libraries recurse for what is nested.
const STACK: usize = 64 * 1024 * 1024;
/// Bytes of an answer: JSON writes quotation marks and ends of lines as two.
const ANSWER_BYTES: usize = 2 * FILE_BYTES + 64 * 1024;

/// The extension of the file, if this process was started to convert one.
pub fn asked() -> Option<String> {
    let mut args = std::env::args().skip(1);
    (args.next()? == COMMAND).then(|| args.next().unwrap_or_default())
}

/// Converts the file on the standard input, writes what it holds to the standard output, and ends this process.
/// `seconds` of processor time are the most that this may take.
///
/// # Errors
/// When the file cannot be read, the answer cannot be written, or a library panicked.
pub fn serve(extension: &str, seconds: u64) -> io::Result<Infallible> {
    limit(seconds);
    let extension = extension.to_owned();
    let work = std::thread::Builder::new().stack_size(STACK).spawn(move || -> io::Result<Infallible> {
        let mut bytes = Vec::new();
        io::stdin().lock().take(FILE_BYTES as u64).read_to_end(&mut bytes)?;
        let answer = serde_json::to_vec(&convert(&extension, &bytes))?;
        let mut out = io::stdout().lock();
        out.write_all(&answer)?;
        out.flush()?;
        // At once: where memory is short, every further step may fail. Nothing else is running here.
        std::process::exit(0)
    })?;
    work.join().unwrap_or_else(|_| Err(io::Error::other("the conversion panicked")))
}

/// What a file with this extension says. Only a process that limits itself may call it.
pub(crate) fn convert(extension: &str, bytes: &[u8]) -> Result<Converted, Fault> {
    let converted = match Kind::of_extension(extension) {
        Some(Kind::Html) => html::html(bytes),
        Some(Kind::Pdf) => pdf::pdf(bytes),
        Some(Kind::Mail) => mail::mail(bytes),
        Some(kind @ (Kind::Office | Kind::Sheet)) => office::office(kind, extension, bytes),
        Some(Kind::Markdown) => text::decode(bytes, None)
            .map(|text| Converted { text: text::without_pictures(&text), ..Converted::default() }),
        _ => text::decode(bytes, None).map(|text| Converted { text, ..Converted::default() }),
    }?;
    if converted.text.len() > FILE_BYTES {
        let why = format!("too large: more than {} MiB of text", FILE_BYTES >> 20);
        return Err(Fault::new(Reason::TooLarge, why));
    }
    Ok(converted)
}

/// Limits this process for good. A system that does not know a limit goes without it; the caller still stops waiting.
fn limit(seconds: u64) {
    for (resource, most) in [
        (Resource::As, MEMORY_MIB * 1024 * 1024),
        (Resource::Cpu, seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

/// Converts files.
#[derive(Debug)]
pub struct Converter {
    program: PathBuf,
    permits: Semaphore,
    patience: Duration,
}

impl Converter {
    /// A converter that starts `program`, which calls [`serve`] for the command [`COMMAND`].
    pub fn new(program: PathBuf) -> Self {
        Self { program, permits: Semaphore::new(PARALLEL), patience: PATIENCE }
    }

    /// Sets how long the conversion of one file may take. Default: a minute.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What a file of this kind says. `path` gives its extension, and its title if nothing better is there.
    ///
    /// # Errors
    /// When it has no text; the fault says why.
    pub async fn convert(&self, path: &str, kind: Kind, bytes: Vec<u8>) -> Result<Converted, Fault> {
        let converted = match kind {
            Kind::Markdown => convert("md", &bytes)?,
            Kind::Text | Kind::Code => {
                Converted { text: text::decode(&bytes, None)?, ..Converted::default() }
            }
            _ => {
                let extension = Path::new(path).extension().unwrap_or_default().to_string_lossy();
                // The semaphore is never closed.
                let _permit = self.permits.acquire().await;
                let talk = self.talk(extension.to_ascii_lowercase(), bytes);
                let late = |_| broken(format!("needs more than {} s", self.patience.as_secs()));
                tokio::time::timeout(self.patience, talk).await.map_err(late)??
            }
        };
        let is_marked = |line: &str| line.trim().is_empty() || line.starts_with("<!-- ");
        if converted.text.lines().all(is_marked) {
            let hint = if kind == Kind::Pdf { "; it may be a scan" } else { "" };
            return Err(Fault::new(Reason::Empty, format!("holds no text{hint}")));
        }
        let title = match kind {
            // Their first heading is that of a page or a sheet, and the first # of code is a comment.
            Kind::Code | Kind::Pdf | Kind::Sheet => path.rsplit('/').next().unwrap_or_default(),
            _ => prefix(&converted.title, TITLE_BYTES),
        };
        Ok(Converted { title: title.to_owned(), ..converted })
    }

    async fn talk(&self, extension: String, file: Vec<u8>) -> Result<Converted, Fault> {
        let cannot = |e: io::Error| broken(e.to_string());
        let mut worker = Command::new(&self.program)
            .args([COMMAND, &extension])
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
                // A process that has ended takes no more; its answer says what happened.
                let _ = stdin.write_all(&file).await;
            }
        };
        let mut answer = Vec::new();
        let take = async {
            match stdout {
                Some(stdout) => stdout.take(ANSWER_BYTES as u64).read_to_end(&mut answer).await,
                None => Ok(0),
            }
        };
        let ((), taken) = tokio::join!(give, take);
        taken.map_err(cannot)?;
        let needs =
            || broken(format!("its {} breaks the conversion, or needs too much", extension.to_uppercase()));
        serde_json::from_slice(&answer).unwrap_or_else(|_| Err(needs()))
    }
}

fn broken(why: impl Into<String>) -> Fault {
    Fault::new(Reason::Broken, format!("broken: {}", why.into()))
}

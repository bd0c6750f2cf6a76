//! Where the objective of a run comes from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tree_agent_contract::limits::OBJECTIVE_BYTES;

use crate::error::CliError;

/// What the run is to do.
#[derive(Debug, Args)]
pub(crate) struct ObjectiveArgs {
    /// What to find out or to do; - reads it from stdin
    #[arg(value_name = "OBJECTIVE", value_hint = ValueHint::Other)]
    objective: Option<String>,
    /// Read the objective from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "objective")]
    file: Option<PathBuf>,
}

impl ObjectiveArgs {
    /// The objective; empty only if it `may_be_missing`.
    pub(super) fn read(&self, may_be_missing: bool) -> Result<String, CliError> {
        let file = match (&self.objective, &self.file) {
            (_, Some(file)) => file,
            (Some(text), None) if text == "-" => Path::new("-"),
            (Some(text), None) => return Ok(text.clone()),
            (None, None) if may_be_missing => return Ok(String::new()),
            (None, None) => {
                return Err(CliError::Usage(
                    "there is no OBJECTIVE: give one, read it from stdin with -, or from a file with --file"
                        .into(),
                ));
            }
        };
        Ok(text_from(file, "the objective", OBJECTIVE_BYTES)?.trim().to_owned())
    }
}

/// What is called `what`, of at most `max` bytes, from a file, or from stdin for `-`.
pub(super) fn text_from(file: &Path, what: &str, max: usize) -> Result<String, CliError> {
    let text = match file == Path::new("-") {
        true => text_of(io::stdin(), max),
        false => File::open(file).map_err(|error| error.to_string()).and_then(|file| text_of(file, max)),
    };
    text.map_err(|why| CliError::Usage(format!("{what} cannot be read from {}: {why}", name_of(file))))
}

/// What a file is called in messages.
pub(super) fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() }
}

/// Reads a text of at most `max` bytes. An error says why it cannot be used.
pub(super) fn text_of(source: impl Read, max: usize) -> Result<String, String> {
    let mut text = String::new();
    source.take(max as u64 + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    match text.trim().is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_that_cannot_be_used_says_where_it_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            ObjectiveArgs { objective: None, file: Some(file.clone()) }.read(false)
        };
        assert_eq!(read(b"\n why?\n").unwrap(), "why?");
        for (bytes, why) in [
            (&b" \n"[..], "f: it is empty"),
            (&[0xff][..], "UTF-8"),
            (&vec![b'x'; OBJECTIVE_BYTES + 1][..], "larger than"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

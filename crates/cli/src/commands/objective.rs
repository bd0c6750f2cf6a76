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
        match (&self.objective, &self.file) {
            (_, Some(file)) if file == Path::new("-") => read(io::stdin(), "stdin"),
            (_, Some(file)) => {
                let name = file.display().to_string();
                let opened = File::open(file).map_err(|e| cannot_read(&name, &e.to_string()))?;
                read(opened, &name)
            }
            (Some(text), None) if text == "-" => read(io::stdin(), "stdin"),
            (Some(text), None) => Ok(text.clone()),
            (None, None) if may_be_missing => Ok(String::new()),
            (None, None) => Err(CliError::Usage(
                "there is no OBJECTIVE: give one, read it from stdin with -, or from a file with --file"
                    .into(),
            )),
        }
    }
}

/// Reads an objective from `source`, without the white space around it.
fn read(source: impl Read, name: &str) -> Result<String, CliError> {
    let text = text_of(source, OBJECTIVE_BYTES).map_err(|why| cannot_read(name, &why))?;
    Ok(text.trim().to_owned())
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

fn cannot_read(name: &str, why: &str) -> CliError {
    CliError::Usage(format!("the objective cannot be read from {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_that_cannot_be_used_says_where_it_came_from() {
        assert_eq!(read(&b"\n why?\n"[..], "f").unwrap(), "why?");
        for (bytes, why) in [
            (&b" \n"[..], "f: it is empty"),
            (&[0xff][..], "UTF-8"),
            (&vec![b'x'; OBJECTIVE_BYTES + 1][..], "larger than"),
        ] {
            let error = read(bytes, "f").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

//! Measures how statements are compared with quotes, over the documents of a folder: `pairs FOLDER`.

use std::time::Instant;

use anyhow::Context;
use tree_agent_eval::pairs::Pairs;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("give a folder of text files")?;
    let begun = Instant::now();
    let pairs = Pairs::of_folder(folder.as_ref())?;
    let each = begun.elapsed().as_secs_f64() * 1e3 / pairs.total().max(1) as f64;
    eprintln!("{}{each:.2} ms a pair", pairs.table());
    Ok(())
}

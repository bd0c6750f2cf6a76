//! `make eval`: answers the questions of a set and writes the table.

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tree_agent_eval::load::question_sets;
use tree_agent_eval::score::Score;
use tree_agent_eval::server::Server;
use tree_agent_eval::table;

/// Measures answers against question sets with gold evidence
#[derive(Parser)]
struct Args {
    /// The tree-agent program under test
    #[arg(long, env = "TREE_AGENT_BIN")]
    program: PathBuf,
    /// A set of questions, about documents or about paragraphs
    #[arg(long, env = "QUESTIONS")]
    questions: PathBuf,
    /// The folder of its documents, or the file of its passages; without it the passages of its questions
    #[arg(long, env = "CORPUS")]
    corpus: Option<PathBuf>,
    /// Models by name, as for `tree-agent run --model`
    #[arg(long, env = "MODELS", value_delimiter = ',', default_value = "offline")]
    models: Vec<String>,
    /// Strategies
    #[arg(long, value_delimiter = ',', default_value = "tree")]
    strategies: Vec<String>,
    /// The page whose table is replaced; the table is printed in any case
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let server = Server::start(&args.program)?;
    let mut rows = Vec::new();
    for set in question_sets(&args.questions, args.corpus.as_deref())? {
        server.import(&set)?;
        for model in &args.models {
            for strategy in &args.strategies {
                let mut score = Score::default();
                for question in &set.questions {
                    score.add(question, &server.answer(&set, &question.text, strategy, model)?);
                }
                let name = format!("{}, {} ({strategy}, {model})", set.name, set.questions.len());
                eprintln!("eval: {name} done");
                rows.push((name, score));
            }
        }
    }
    let text = table::markdown(&rows);
    eprintln!("{text}");
    if let Some(page) = &args.page {
        let old = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
        std::fs::write(page, table::replace(&old, &text)?)?;
    }
    Ok(())
}

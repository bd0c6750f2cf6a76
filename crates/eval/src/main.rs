//! `make eval`: answers the questions of a generated world, and of a set from a file, and writes the table.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tree_agent_eval::run::{self, Way};
use tree_agent_eval::server::Server;
use tree_agent_eval::set::QuestionSet;
use tree_agent_eval::table::{self, Row};
use tree_agent_eval::{load, world};
use tree_agent_proto::v1 as pb;

/// Measures answers against question sets with gold evidence
#[derive(Parser)]
struct Args {
    /// The tree-agent program under test
    #[arg(long, env = "TREE_AGENT_BIN")]
    program: PathBuf,
    /// A set of questions in the common JSON form; without it only the generated world is measured
    #[arg(long, env = "QUESTIONS")]
    questions: Option<PathBuf>,
    /// The passages of that set; without it those of its questions
    #[arg(long, env = "CORPUS", requires = "questions")]
    corpus: Option<PathBuf>,
    /// Models by name, as for `tree-agent run --model`
    #[arg(long, env = "MODELS", value_delimiter = ',', default_value = "offline")]
    models: Vec<String>,
    /// Ways to answer
    #[arg(long, value_delimiter = ',', default_values = ["tree", "homework", "search", "single"])]
    ways: Vec<Way>,
    /// Seed of the generated world
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Documents of the generated world
    #[arg(long, default_value_t = 400)]
    documents: usize,
    /// Questions of the generated world
    #[arg(long, default_value_t = 100)]
    world_questions: usize,
    /// Leave the generated world out
    #[arg(long)]
    no_world: bool,
    /// Nodes that one run may have
    #[arg(long, default_value_t = 60)]
    max_nodes: u32,
    /// Tool calls that one run may make
    #[arg(long)]
    max_tool_calls: Option<u64>,
    /// Runs at the same time; times are those of one run alone only with 1
    #[arg(long, default_value_t = 1)]
    parallel: usize,
    /// The page whose tables are replaced; the tables are printed in any case
    #[arg(long)]
    page: Option<PathBuf>,
    /// Writes what each run answered to this file, one JSON object a line
    #[arg(long)]
    answers: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut sets: Vec<(&str, QuestionSet)> = Vec::new();
    if !args.no_world {
        sets.push(("world", world::world(args.seed, args.documents, args.world_questions)));
    }
    if let Some(questions) = &args.questions {
        sets.push(("set", load::question_set(questions, args.corpus.as_deref())?));
    }
    let server = Server::start(&args.program).await?;
    let mut kept = String::new();
    for (section, set) in &sets {
        let rows = measure(&args, &server, set, &mut kept).await?;
        let text = section_text(set, &rows);
        eprintln!("{text}");
        if let Some(page) = &args.page {
            let old = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
            std::fs::write(page, table::replace(&old, section, &text)?)?;
        }
    }
    if let Some(file) = &args.answers {
        std::fs::write(file, kept)?;
    }
    Ok(())
}

/// Every row of one set.
async fn measure(
    args: &Args,
    server: &Server,
    set: &QuestionSet,
    kept: &mut String,
) -> anyhow::Result<Vec<Row>> {
    let project = server.import(set).await?;
    let budgets = pb::Budgets {
        max_nodes: Some(args.max_nodes),
        max_tool_calls: args.max_tool_calls,
        ..Default::default()
    };
    let (mut rows, mut results) = (Vec::new(), None);
    for model in &args.models {
        for &way in &args.ways {
            eprintln!("eval: {}: {} with {model}", set.name, way.name());
            let settings = way.settings(model, budgets);
            let answers = run::answers(server, &project, set, &settings, args.parallel).await?;
            for (question, answer) in set.questions.iter().zip(&answers) {
                let cited: Vec<&str> = answer.cited.iter().map(|&i| set.passages[i].path.as_str()).collect();
                let line = serde_json::json!({
                    "way": way.name(), "model": model, "id": question.id, "cited": cited, "text": answer.text,
                });
                writeln!(kept, "{line}")?;
            }
            let scores = run::scores(set, &answers);
            results.get_or_insert(scores[0].cited());
            rows.push(Row { way: way.name().to_owned(), model: model.clone(), scores });
        }
    }
    // As many results as the first way cites.
    let most = results.unwrap_or(10.0).round() as usize;
    let scores = run::scores(set, &run::plain(set, most));
    rows.push(Row { way: format!("plain BM25, best {most}"), model: "–".to_owned(), scores });
    Ok(rows)
}

fn section_text(set: &QuestionSet, rows: &[Row]) -> String {
    let mut text =
        format!("{} {} questions over {} passages.\n\n", set.source, set.questions.len(), set.passages.len());
    for (part, name) in
        ["All questions", "Even questions (tuning half)", "Odd questions (held out)"].iter().enumerate()
    {
        text.push_str(&format!("{name}:\n\n{}\n", table::markdown(rows, part)));
    }
    text
}

//! A small evaluation on every change: what it measures may not go down unnoticed.

use std::path::PathBuf;

use tree_agent_eval::run::{self, Way};
use tree_agent_eval::score::Score;
use tree_agent_eval::server::Server;
use tree_agent_eval::set::QuestionSet;
use tree_agent_eval::world::world;
use tree_agent_proto::v1::Budgets;

/// The program of the same build; `make test` builds it before the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().find(|folder| !folder.ends_with("deps") && folder.is_dir()).unwrap();
    let program = folder.join("tree-agent");
    assert!(program.is_file(), "`cargo build --workspace --bins` builds {}", program.display());
    program
}

async fn score(set: &QuestionSet, way: Way) -> Score {
    let server = Server::start(&program()).await.unwrap();
    let project = server.import(set).await.unwrap();
    let settings = way.settings("offline", Budgets { max_nodes: Some(60), ..Budgets::default() });
    let answers = run::answers(&server, &project, set, &settings, 4).await.unwrap();
    let [all, ..] = run::scores(set, &answers);
    all
}

/// A figure that got better moves its threshold here; one that got worse needs a reason.
#[tokio::test]
async fn a_tree_on_a_small_world_keeps_its_figures() {
    let set = world(1, 60, 12);
    let tree = score(&set, Way::Tree).await;
    let [plain, ..] = run::scores(&set, &run::plain(&set, tree.cited().ceil() as usize));
    let at_least =
        |name: &str, value: f64, least: f64| assert!(value >= least, "{name}: {value:.3} < {least}");
    let at_most = |name: &str, value: f64, most: f64| assert!(value <= most, "{name}: {value:.3} > {most}");
    at_least("gold cited", tree.gold_cited(), 0.80);
    at_least("gold read", tree.gold_read().unwrap(), 1.0);
    at_least("hop coverage", tree.hop_coverage(), 0.80);
    at_least("answer in the text", tree.answer_in_text(), 0.83);
    at_least("gold cited beside plain BM25", tree.gold_cited(), plain.gold_cited());
    at_most("cited passages", tree.cited(), 9.0);
    at_most("repeated tool calls", tree.duplicates(), 0.01);
    assert_eq!(tree.verified(), Some(1.0), "what the offline model cites stands in the source");
}

//! A small evaluation on every change: what it measures may not go down unnoticed.

use std::path::{Path, PathBuf};

use tree_agent_eval::load::question_sets;
use tree_agent_eval::score::Score;
use tree_agent_eval::server::Server;

/// The program of the same build; `make test` builds it before the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().find(|folder| !folder.ends_with("deps") && folder.is_dir()).unwrap();
    let program = folder.join("tree-agent");
    assert!(program.is_file(), "`cargo build --workspace --bins` builds {}", program.display());
    program
}

/// Questions about the documentation of this project. A figure that got better moves its threshold here; one that got
/// worse needs a reason.
#[test]
fn a_tree_over_small_documents_keeps_its_figures() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests");
    let question = |id: &str, text: &str, parts: &[(&str, &str)]| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(path, quote)| serde_json::json!({ "gold": [{ "path": path, "quote": quote }] }))
            .collect();
        serde_json::json!({ "id": id, "corpus": "corpus", "question": text, "parts": parts })
    };
    let refuse =
        ("operations/pilots.md", "A pilot may refuse to board when waves at the Ytre buoy are higher");
    let tides = ("operations/tides.md", "The tidal range is 1.4 metres at springs.");
    let order = ("operations/pilots.md", "Order a pilot at least four hours before arrival.");
    let lines = ("operations/berths.md", "Every ship over 60 metres uses at least six mooring lines.");
    let questions = [
        question("refuse", "When may a pilot refuse to board?", &[refuse]),
        question("tides", "What is the tidal range?", &[tides]),
        question("order", "How early must a pilot be ordered?", &[order]),
        question(
            "two",
            "How many mooring lines does a ship use, and when may a pilot refuse?",
            &[lines, refuse],
        ),
        question("none", "Which Zeppelin carries plutonium?", &[]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("questions.json");
    std::fs::write(&file, serde_json::to_string(&questions).unwrap()).unwrap();
    let set = question_sets(&file, Some(&corpus)).unwrap().remove(0);
    let server = Server::start(&program()).unwrap();
    server.import(&set).unwrap();
    let mut score = Score::default();
    for question in &set.questions {
        score.add(question, &server.answer(&set, &question.text, "tree", "offline").unwrap());
    }
    assert_eq!((score.first(), score.within()), (1.0, 1.0), "{score:?}");
    assert!(score.words() <= 350.0 && score.precision() > 0.3, "{score:?}");
    assert_eq!(score.not_found(), (1.0, 1.0, 0.0));
}

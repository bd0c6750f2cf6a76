use std::path::PathBuf;

use super::*;
use crate::files::{FilesError, MINILM, sha256};

mod tiny;

fn similarity(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

/// A model of a few words, whose files are in a folder.
fn tiny() -> (tempfile::TempDir, KnownModel) {
    let folder = tempfile::tempdir().unwrap();
    let hash = |bytes: &[u8]| -> &'static str { sha256(bytes).leak() };
    let (model, tokenizer) = (tiny::model(), tiny::tokenizer());
    let known = KnownModel { name: "tiny", model: hash(&model), tokenizer: hash(&tokenizer) };
    std::fs::create_dir(folder.path().join("tiny")).unwrap();
    std::fs::write(folder.path().join("tiny/model.onnx"), model).unwrap();
    std::fs::write(folder.path().join("tiny/tokenizer.json"), tokenizer).unwrap();
    (folder, known)
}

#[tokio::test]
async fn words_of_one_meaning_are_near_each_other() {
    let (folder, known) = tiny();
    let local = Local::load(&known, known.read(folder.path()).unwrap()).unwrap();
    assert_eq!((local.dimensions(), local.model().len()), (tiny::DIMENSIONS, "tiny:".len() + 8));
    let asked = texts(["The boat!", "a ship", "a cat", "", "Zürich"]);
    let vectors = local.embed(asked.clone()).await.unwrap();
    let [boat, ship, cat] = [0, 1, 2].map(|at: usize| &vectors[at]);
    assert!(similarity(boat, ship) > 2 * similarity(boat, cat), "{vectors:?}");
    // What else is in a batch, and its order, change nothing.
    let reversed = local.embed(asked.into_iter().rev().collect()).await.unwrap();
    assert!(reversed.iter().rev().eq(&vectors));
}

#[tokio::test]
async fn only_the_beginning_of_a_long_text_counts() {
    let (folder, known) = tiny();
    let local = Local::load(&known, known.read(folder.path()).unwrap()).unwrap();
    let long = "ship ".repeat(TOKENS);
    let vectors =
        local.embed(vec![format!("{long} cat"), format!("{long} ship"), "é".repeat(BYTES)]).await.unwrap();
    assert_eq!(vectors[0], vectors[1]);
}

#[test]
fn files_that_are_no_model_are_named() {
    let (folder, known) = tiny();
    let files = ModelFiles { model: b"no model".into(), ..known.read(folder.path()).unwrap() };
    let error = Local::load(&known, files).err().unwrap().to_string();
    assert!(error.starts_with("tiny cannot be used: "), "{error}");
    std::fs::write(folder.path().join("tiny/tokenizer.json"), "{}").unwrap();
    let error = known.read(folder.path()).err().unwrap();
    assert!(
        matches!(&error, FilesError::Wrong { path, .. } if path.ends_with("tiny/tokenizer.json")),
        "{error}"
    );
    std::fs::remove_file(folder.path().join("tiny/model.onnx")).unwrap();
    assert!(
        matches!(known.read(folder.path()), Err(FilesError::Missing(path)) if path.ends_with("model.onnx"))
    );
}

/// Runs where `make models` has installed the model, and says so where it has not.
#[tokio::test]
async fn the_installed_model_ranks_a_paraphrase_first() {
    let set = std::env::var_os("TREE_AGENT_MODELS_DIR").map(PathBuf::from);
    let Some(folder) = set.or_else(|| Some(tree_agent_runtime::config::user_data_folder()?.join("models")))
    else {
        return;
    };
    let files = match MINILM.read(&folder) {
        Err(FilesError::Missing(path)) => {
            eprintln!("skipped: {} is not installed; run `make models`", path.display());
            return;
        }
        files => files.unwrap(),
    };
    let local = Local::load(&MINILM, files).unwrap();
    assert_eq!((local.model(), local.dimensions()), ("minilm-l6-v2-int8:8199be6f", 384));
    let passages = [
        "Employees receive their pay on the last Friday of each month.",
        "The database keeps its files in a folder that only its owner can read.",
        "If the primary server stops, a replica takes over within ten seconds.",
        "Bake the bread for forty minutes.",
    ];
    for (question, expected) in [
        ("When do I get my salary?", 0),
        ("Who has access to the stored data?", 1),
        ("What happens during a failover?", 2),
        ("How long does the loaf stay in the oven?", 3),
    ] {
        let vectors =
            local.embed(texts(passages).into_iter().chain([question.into()]).collect()).await.unwrap();
        let (question_vector, passages) = vectors.split_last().unwrap();
        let best = (0..passages.len()).max_by_key(|at| similarity(question_vector, &passages[*at]));
        assert_eq!(best, Some(expected), "{question}");
    }
}

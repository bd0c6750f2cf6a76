//! `doctor`, on a machine with little.

use crate::support::dev::{lines, program, stdout, succeeded};

#[test]
fn the_doctor_says_what_is_there_and_what_is_missing_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = |args: &[&str]| {
        let mut command = program("http://127.0.0.1:1");
        command.env("OPENAI_API_KEY", "sk-SECRET").env_remove("GEMINI_API_KEY");
        command.arg("doctor").args(["--data-dir", "data", "--models-dir", "models"]).args(args);
        succeeded(command.current_dir(folder.path()).output().unwrap())
    };
    let shown = stdout(&doctor(&[]));
    for expected in [
        "none yet; the first run makes it",
        "models/minilm-l6-v2-int8/model.onnx is missing; `make models` installs it",
        "OPENAI_API_KEY is set",
        "GEMINI_API_KEY is not set",
        "in order",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert!(shown.contains("none is set; a server with users asks for one"), "{shown}");
    assert!(!shown.contains("SECRET") && !folder.path().join("data").exists(), "{shown}");

    let files = folder.path().join("models/minilm-l6-v2-int8");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("model.onnx"), "half").unwrap();
    let found = &lines(&doctor(&["--embeddings", "local", "-o", "jsonl"]))[0];
    assert!(found["localModel"].as_str().unwrap().contains("is damaged or of another model"), "{found}");
    assert!(found["settings"].as_str().unwrap().contains("TREE_AGENT_EMBEDDINGS: "), "{found}");
    let found = stdout(&doctor(&["--embeddings", "https://me:SECRET@localhost/v1", "-o", "jsonl"]));
    assert!(found.contains(r#""vectors":"a server""#) && !found.contains("SECRET"), "{found}");
}

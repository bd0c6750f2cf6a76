use super::*;

fn args(mode: &str, model: &str) -> EmbeddingArgs {
    EmbeddingArgs {
        embeddings: mode.into(),
        embeddings_model: model.into(),
        models_dir: String::new(),
        vectors_mib: "512".into(),
    }
}

fn problems(args: &EmbeddingArgs, key: Option<&str>) -> String {
    let mut problems = Problems::default();
    args.check_with(&Connector::default(), &mut problems, key.map(str::to_owned));
    problems.finish().map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn what_is_wrong_is_named_with_its_variable() {
    for (args, key, expected) in [
        (args("maybe", ""), None, "TREE_AGENT_EMBEDDINGS: \"maybe\" is not auto, none, local or a URL"),
        (args("ftp://a/v1", "m@3"), None, "TREE_AGENT_EMBEDDINGS: is not a URL"),
        (args("http://u:p@127.0.0.1/v1", "m@3"), None, "put the key into TREE_AGENT_EMBEDDINGS_KEY"),
        (args("http://127.0.0.1:1/v1", "m"), None, "TREE_AGENT_EMBEDDINGS_MODEL: \"m\" is not enough"),
        (args("http://127.0.0.1:1/v1", "m@0"), None, "such as text-embedding-3-small@1536"),
        (args("http://127.0.0.1:1/v1", "m@3"), Some("sk a"), "TREE_AGENT_EMBEDDINGS_KEY: holds characters"),
        (
            args("http://a.example/v1", "m@3"),
            Some("sk"),
            "TREE_AGENT_EMBEDDINGS: the key in TREE_AGENT_EMBEDDINGS_KEY",
        ),
    ] {
        let text = problems(&args, key);
        assert!(text.contains(expected), "{expected} is not in {text:?}");
    }
    for mode in ["auto", "", "none", "http://127.0.0.1:1/v1", "https://a.example"] {
        assert_eq!(problems(&args(mode, "a@b@3"), Some("sk")), "", "{mode}");
    }
    let both = problems(&args("ftp://a", ""), None);
    assert!(
        both.contains("\n  TREE_AGENT_EMBEDDINGS: ") && both.contains("\n  TREE_AGENT_EMBEDDINGS_MODEL: "),
        "{both}"
    );
}

#[tokio::test]
async fn files_that_are_missing_or_wrong_are_an_error_only_if_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = async |mode: &str| {
        let args = EmbeddingArgs { models_dir: folder.path().display().to_string(), ..args(mode, "") };
        let mut problems = Problems::default();
        let settings = args.check(&Connector::default(), &mut problems);
        problems.finish().map_err(|error| EmbedError(error.to_string()))?;
        from_settings(&settings).await.map(|embedder| embedder.is_some())
    };
    assert_eq!(embedder("none").await, Ok(false));
    assert_eq!(embedder("auto").await, Ok(false));
    let missing = embedder("local").await.unwrap_err().to_string();
    assert!(missing.contains("model.onnx is missing; `make models` installs it"), "{missing}");

    let files = folder.path().join(MINILM.name);
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("model.onnx"), "half of a download").unwrap();
    assert_eq!(embedder("auto").await, Ok(false));
    let wrong = embedder("local").await.unwrap_err().to_string();
    assert!(wrong.contains("model.onnx is damaged or of another model (SHA-256 "), "{wrong}");
    assert!(wrong.contains("`make models` replaces it"), "{wrong}");
}

#[tokio::test]
async fn a_server_is_not_asked_at_the_start_and_its_vectors_have_a_name() {
    let mut problems = Problems::default();
    let settings = args("http://127.0.0.1:1/v1", "nomic@768").check(&Connector::default(), &mut problems);
    let embedder = from_settings(&settings).await.unwrap().unwrap();
    assert_eq!((embedder.model(), embedder.dimensions()), ("nomic@768", 768));
}

//! The adapter for servers, against a server that misbehaves.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tree_agent_embedding::{EmbedError, Embedder, EmbeddingArgs, from_settings};
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::config::Problems;

/// What the server answers to one request.
type Answer = Box<dyn Fn(&Value) -> Response + Send>;

/// The answers to come, in reverse; afterwards the server answers well. And what it was asked.
#[derive(Default)]
struct Script {
    answers: Mutex<Vec<Answer>>,
    asked: Mutex<Vec<Value>>,
}

/// A vector that tells the length of its text.
fn embedding(text: &Value) -> [usize; 3] {
    [text.as_str().unwrap().len(), 1, 0]
}

/// A good answer, in another order than the texts.
fn good(request: &Value) -> Response {
    let texts = request["input"].as_array().unwrap().iter().enumerate();
    let items: Vec<_> =
        texts.rev().map(|(index, text)| json!({"index": index, "embedding": embedding(text)})).collect();
    Json(json!({"object": "list", "data": items})).into_response()
}

async fn answer(
    State(script): State<Arc<Script>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    assert_eq!(headers.get("authorization"), None);
    script.asked.lock().unwrap().push(request.clone());
    match script.answers.lock().unwrap().pop() {
        Some(answer) => answer(&request),
        None => good(&request),
    }
}

async fn serve(answers: Vec<Answer>) -> (Arc<Script>, Arc<dyn Embedder>) {
    let script =
        Arc::new(Script { answers: Mutex::new(answers.into_iter().rev().collect()), ..Script::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/embeddings", post(answer)).with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (script, embedder(&url).await)
}

async fn embedder(url: &str) -> Arc<dyn Embedder> {
    let args = EmbeddingArgs {
        embeddings: url.into(),
        embeddings_model: "small@3".into(),
        models_dir: String::new(),
        vectors_mib: "512".into(),
    };
    let mut problems = Problems::default();
    let settings = args.check(&Connector::default(), &mut problems);
    problems.finish().unwrap();
    from_settings(&settings).await.unwrap().unwrap()
}

fn status(status: u16, body: &'static str) -> Answer {
    Box::new(move |_| (StatusCode::from_u16(status).unwrap(), body).into_response())
}

fn body(body: &'static str) -> Answer {
    status(200, body)
}

fn texts(count: usize) -> Vec<String> {
    (1..=count).map(|length| "x".repeat(length)).collect()
}

async fn refused(answers: Vec<Answer>) -> String {
    let (_, embedder) = serve(answers).await;
    let EmbedError(message) = embedder.embed(texts(2)).await.unwrap_err();
    assert!(message.starts_with("the embedding server http://127.0.0.1:"), "{message}");
    message
}

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts_and_in_batches() {
    let (script, embedder) = serve(Vec::new()).await;
    let vectors = embedder.embed(texts(70)).await.unwrap();
    assert_eq!((vectors.len(), &vectors[0][..]), (70, &[90, 90, 0][..]));
    assert!(vectors.windows(2).all(|pair| pair[0][1] >= pair[1][1]), "{vectors:?}");
    let asked = script.asked.lock().unwrap();
    let sizes: Vec<_> = asked.iter().map(|request| request["input"].as_array().unwrap().len()).collect();
    assert_eq!((sizes, &asked[0]["model"]), (vec![32, 32, 6], &json!("small")));
}

#[tokio::test]
async fn a_server_that_is_down_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let EmbedError(message) = embedder(&url).await.embed(texts(1)).await.unwrap_err();
    assert!(message.contains(&url) && message.to_lowercase().contains("refused"), "{message}");
}

#[tokio::test]
async fn a_busy_or_broken_server_is_asked_again_but_not_for_ever() {
    let (script, embedder) = serve(vec![status(429, "slow down"), status(503, "starting")]).await;
    assert_eq!(embedder.embed(texts(1)).await.unwrap().len(), 1);
    assert_eq!(script.asked.lock().unwrap().len(), 3);
    let busy = refused((0..10).map(|_| status(429, "slow down")).collect()).await;
    assert!(busy.ends_with("HTTP 429: slow down"), "{busy}");
}

#[tokio::test]
async fn answers_that_cannot_be_used_are_refused_with_the_reason() {
    for (answer, expected) in [
        (
            body(r#"{"data": [{"embedding": [1, 2]}, {"embedding": [1, 2]}]}"#),
            "its vectors have 2 dimensions and not 3; set TREE_AGENT_EMBEDDINGS_MODEL=small@2",
        ),
        (body(r#"{"data": [{"embedding": [1, 2, 3]}]}"#), "it answered 1 vectors for 2 texts"),
        (
            body(r#"{"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]}"#),
            "not one for each",
        ),
        // By the features of the JSON library, this number is infinite or out of range.
        (body(r#"{"data": [{"embedding": [1, 1e39, 3]}, {"embedding": [1, 2, 3]}]}"#), "cannot be used: "),
        (body(r#"{"data": [{"embedding": [0, 0, 0]}, {"embedding": [1, 2, 3]}]}"#), "a vector is zero"),
        (body(r#"{"data": [{"embedding": [1, NaN, 3]}]}"#), "its answer is not a list of embeddings"),
        (body("<html>Please sign in</html>"), "its answer is not a list of embeddings"),
        (Box::new(|_| " ".repeat(1 << 20).into_response()), "it was not read on"),
        (status(401, "the key sk-1 is wrong"), "TREE_AGENT_EMBEDDINGS_KEY is not set (401)"),
        (status(307, ""), "HTTP 307"),
        (status(404, "no model small"), "HTTP 404: no model small"),
    ] {
        let message = refused(vec![answer]).await;
        assert!(message.contains(expected), "{expected} is not in {message}");
        assert!(!message.contains("sk-1"), "{message}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_for_the_model_is_cut_and_the_others_stay_whole() {
    let window = |bytes: usize| -> Answer {
        Box::new(move |request| {
            let texts = request["input"].as_array().unwrap();
            match texts.iter().any(|text| text.as_str().unwrap().len() > bytes) {
                true => (StatusCode::BAD_REQUEST, "input is too long").into_response(),
                false => good(request),
            }
        })
    };
    let (script, embedder) = serve((0..4).map(|_| window(800)).collect()).await;
    let vectors = embedder.embed(vec!["x".repeat(700), "x".repeat(900)]).await.unwrap();
    assert_eq!(vectors.len(), 2);
    let asked = script.asked.lock().unwrap();
    let lengths = asked.iter().map(|request| request["input"].as_array().unwrap().iter().map(embedding));
    let lengths: Vec<Vec<_>> = lengths.map(|texts| texts.map(|[length, ..]| length).collect()).collect();
    assert_eq!(lengths, [vec![700, 900], vec![700], vec![900], vec![500]]);
}

/// A refused text, such as one of a language that needs many tokens, is left to a search by words.
#[tokio::test]
async fn a_text_that_is_refused_at_any_length_keeps_out_no_other() {
    let picky = || -> Answer {
        Box::new(|request| {
            let texts = request["input"].as_array().unwrap();
            match texts.iter().any(|text| text.as_str().unwrap().starts_with('y')) {
                true => (StatusCode::BAD_REQUEST, "not this one").into_response(),
                false => good(request),
            }
        })
    };
    let (_, embedder) = serve((0..20).map(|_| picky()).collect()).await;
    let vectors = embedder.embed(vec!["x".into(), "y".repeat(700), "x".into()]).await.unwrap();
    assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [3, 0, 3]);
    let all = refused((0..20).map(|_| status(400, "no such model")).collect()).await;
    assert!(all.ends_with("HTTP 400: no such model"), "{all}");
}

//! A search that grows as a folder, as its user meets it: real processes, killed, resumed and locked out.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tree_agent_proto::v1::ListDocumentsRequest;
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;

use crate::support::folder::{self, complete, files, put, tree};

const PROMPT: &str = "How do tides work?";

/// The program, without settings from outside.
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tree-agent"));
    for name in ["TREE_AGENT_LOG", "TREE_AGENT_DATA_DIR", "TREE_AGENT_MODEL", "TREE_AGENT_SERVER"] {
        command.env_remove(name);
    }
    command.env("TREE_AGENT_SCRIPTED", "on").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    program(args).output().expect("the program starts")
}

/// A search in `dir`.
fn search_args<'a>(dir: &'a Path, model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let dir = dir.to_str().expect("UTF-8");
    [&["search", PROMPT, "--root-dir", dir, "--model", model], more].concat()
}

fn search(dir: &Path, model: &str, more: &[&str]) -> Output {
    run(&search_args(dir, model, more))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", stderr(output)))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn succeeded(output: Output) -> Output {
    assert_eq!(code(&output), 0, "stdout: {}\nstderr: {}", stdout(&output), stderr(&output));
    output
}

fn events(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["type"] == kind)
}

/// The events of every search in the log of `dir`, the oldest first.
fn logged(dir: &Path) -> Vec<Vec<Value>> {
    let data = dir.join(".tree-agent");
    let listed = run(&["verify", "--all", "--data-dir", data.to_str().unwrap(), "-o", "jsonl"]);
    let runs = events(&succeeded(listed));
    let dev = Dev::start(&data);
    let of = |run: &Value| {
        assert_eq!(run["sound"], true, "{run}");
        let id = run["runId"].as_str().unwrap();
        events(&succeeded(self::run(&["events", id, "-o", "jsonl", "--server", &dev.server])))
    };
    runs.iter().map(of).collect()
}

/// A process that is killed when the test is over, however it ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `dev` at work.
struct Dev {
    server: String,
    _child: Killed,
}

impl Dev {
    fn start(data: &Path) -> Self {
        let mut command = program(&["dev", "--listen", "127.0.0.1:0", "-o", "jsonl", "--log", "warn"]);
        let spawned = command.arg("--data-dir").arg(data).stdout(Stdio::piped()).spawn();
        let mut child = Killed(spawned.expect("the program starts"));
        let mut first = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ready: Value = serde_json::from_str(&first).unwrap();
        Self { server: ready["server"].as_str().unwrap().to_owned(), _child: child }
    }
}

/// The status with which a search ended.
fn status(log: &[Value]) -> &str {
    log.last().and_then(|event| event["payload"]["status"].as_str()).unwrap_or("not ended")
}

/// Begins a search in `dir` and kills it when `enough` says so of what it has told.
fn killed_when(dir: &Path, model: &str, enough: impl Fn(&Value) -> bool) {
    let mut command = program(&search_args(dir, model, &["-o", "jsonl"]));
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = Killed(spawned.expect("the program starts"));
    let said = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let event = |line: std::io::Result<String>| serde_json::from_str(&line.unwrap()).unwrap();
    assert!(said.map(event).any(|event: Value| enough(&event)), "the search ended");
}

fn is_first_document(event: &Value) -> bool {
    event["type"] == "tree.artifact_created"
}

#[test]
fn a_search_is_written_in_the_layout_of_the_seed_and_told_in_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("tides");
    let model = "scripted:fanout=2,depth=4,tools=1";
    let output = succeeded(search(&dir, model, &["--max-depth", "3", "--max-nodes", "40"]));
    assert_eq!(stdout(&output), "Tree search complete: 6 expanded, 0 leaves, 0 skipped\n");
    let said = stderr(&output);
    for step in [
        "Generating root children...",
        "Walking root level: s0 (1/2)",
        "Walking root level: s1 (2/2)",
        "Picking next leaf to research...",
        "Researching: s0.s1 (depth 2)",
        "Depth limit reached: s1.s0.s1",
        "Tree search complete: 6 expanded, 0 leaves, 0 skipped",
    ] {
        assert!(said.contains(step), "{step}\n{said}");
    }
    assert!(!said.contains("list_documents"), "the calls of tools are in the log: {said}");
    assert!(
        !dir.join("document.md").exists() && !dir.join("node.json").exists(),
        "the root has children alone"
    );
    let json = |path: &str| -> Value { serde_json::from_str(&folder::read(&dir, path)).unwrap() };
    let listed = |n: &str| serde_json::json!({"title": format!("s{n}"), "slug": format!("s{n}")});
    assert_eq!(json("children.json"), Value::from(vec![listed("0"), listed("1")]));
    let node = json("s0/s1/node.json");
    assert_eq!(
        (&node["title"], &node["slug"], &node["status"]),
        (&"s0.s1".into(), &"s1".into(), &"expanded".into())
    );
    assert!(node["sessionId"].is_string());
    assert!(folder::read(&dir, "s0/s1/document.md").starts_with("---\ntitle: "));
    let too_deep = json("s0/s1/s0/node.json");
    assert_eq!((&too_deep["status"], too_deep.get("sessionId")), (&"unexpanded".into(), None));
    assert!(!dir.join("s0/s1/s0/document.md").exists());

    // Once more: everything is there.
    let again = succeeded(search(&dir, model, &["--max-depth", "3", "--max-nodes", "40"]));
    assert_eq!(stdout(&again), "Tree search complete: 0 expanded, 0 leaves, 6 skipped\n");
    assert!(stderr(&again).contains("takes over 6 documents"), "{}", stderr(&again));
    assert!(stderr(&again).contains("Skipped (cached): s0.s1"), "{}", stderr(&again));
    // Deeper: what was only listed is researched now.
    let deeper = succeeded(search(&dir, model, &["--max-depth", "4", "--max-nodes", "40", "-o", "json"]));
    let counts: Value = serde_json::from_str(&stdout(&deeper)).unwrap();
    assert_eq!((&counts["expanded"], &counts["skipped"]), (&8.into(), &6.into()), "{counts}");
    assert_eq!((&counts["status"], &counts["partial"]), (&"completed".into(), &false.into()), "{counts}");
    assert!(dir.join("s0/s1/s0/document.md").exists());
    // Without its log, which went to an archive, the folder is all that there is.
    let (archive, data) = (dir.join(".tree-agent/archive"), dir.join(".tree-agent"));
    let prune = ["log", "prune", archive.to_str().unwrap(), "--older-than", "0s", "--yes", "--data-dir"];
    std::fs::create_dir(&archive).unwrap();
    succeeded(run(&[&prune[..], &[data.to_str().unwrap()]].concat()));
    let later = succeeded(search(&dir, model, &["--max-depth", "4", "--max-nodes", "40"]));
    assert_eq!(stdout(&later), "Tree search complete: 0 expanded, 0 leaves, 14 skipped\n");
}

/// A generator of small numbers; each seed has its own series.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn a_search_that_is_killed_twenty_times_ends_in_the_same_tree_and_researches_nothing_twice() {
    const KILLS: usize = 20;
    // 10 + 100 topics; slow enough that several are under research whenever the process dies.
    let model = "scripted:fanout=10,depth=2,latency_ms=20";
    let flags = ["-o", "jsonl"];
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let killed = |search: u32| folder.path().join(format!("killed {search}"));
    succeeded(search(&whole, model, &flags));

    let mut dice = Dice(20);
    let (mut kills, mut searches) = (0, 1);
    while kills < KILLS {
        let dir = killed(searches);
        let mut child = Killed(
            program(&search_args(&dir, model, &flags))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts"),
        );
        // Some die before they say anything: while they read the folder and the log.
        let lines = if dice.roll(5) == 0 { 0 } else { dice.roll(40) };
        let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let heard = said.by_ref().take(lines as usize).count() as u64;
        // The folder is opened first, so one that says nothing dies somewhere behind that.
        while lines == 0 && !dir.join(".tree-agent/lock").exists() {
            std::thread::yield_now();
        }
        child.0.kill().unwrap();
        let ended = child.0.wait().unwrap();
        if ended.signal() == Some(9) && heard == lines {
            kills += 1;
        } else {
            // On a busy machine it may end before it is killed.
            let said = std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap();
            assert_eq!(ended.code(), Some(0), "after {kills} kills: {said}");
            check(&dir, &whole);
            searches += 1;
            continue;
        }
        let (nodes, half) = complete(&dir);
        assert!(half.is_empty(), "kill {kills}, of {nodes} nodes: {half:?}");
    }
    let last = killed(searches);
    let output = succeeded(search(&last, model, &flags));
    assert!(!stderr(&output).contains("was edited"), "{}", stderr(&output));
    check(&last, &whole);
}

/// The folder `killed` is that of the `whole` search, and its log is that of one search.
fn check(killed: &Path, whole: &Path) {
    let (is, should) = (tree(killed), tree(whole));
    let differs = is.iter().zip(&should).find(|(is, should)| is != should);
    assert_eq!((differs, is.len()), (None, should.len()));
    let logs = logged(killed);
    assert_eq!(logs.len(), 1, "one search, however often it was killed");
    let documents: Vec<&str> = of_type(&logs[0], "tree.artifact_created")
        .filter(|event| event["payload"]["label"] == "document")
        .map(|event| event["nodeId"].as_str().unwrap())
        .collect();
    let nodes: std::collections::HashSet<_> = documents.iter().collect();
    assert_eq!((documents.len(), nodes.len()), (110, 110), "one document for each topic");
    assert_eq!(of_type(&logs[0], "tree.node_skipped").count(), 0);
}

#[test]
fn what_was_edited_by_hand_is_kept_and_what_was_added_is_researched() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let model = "scripted:fanout=2,depth=2";
    let output = succeeded(search(&dir, model, &[]));
    assert_eq!(stdout(&output), "Tree search complete: 2 expanded, 4 leaves, 0 skipped\n");

    let list = json!([
        {"title": "The moon / \u{1f315}", "slug": "s0"},
        {"title": "s1", "slug": "s1"},
        {"title": "../../etc", "slug": "neap-tides"},
    ]);
    put(&dir, "children.json", &list.to_string());
    put(&dir, "s1/s0/document.md", "# Mine\n\nMy own words.\n");
    // Left in progress, as by a process that died: it is done again.
    put(
        &dir,
        "s1/s1/node.json",
        &json!({"title": "s1.s1", "slug": "s1", "status": "in-progress"}).to_string(),
    );
    std::fs::remove_file(dir.join("s1/s1/children.json")).unwrap();
    let output = succeeded(search(&dir, model, &[]));
    assert_eq!(stdout(&output), "Tree search complete: 1 expanded, 3 leaves, 5 skipped\n");
    assert_eq!(folder::read(&dir, "s1/s0/document.md"), "# Mine\n\nMy own words.\n");
    let node = |path: &str| -> Value { serde_json::from_str(&folder::read(&dir, path)).unwrap() };
    assert_eq!(node("s0/node.json")["title"], "The moon / \u{1f315}");
    assert_eq!(node("neap-tides/node.json")["title"], "../../etc");
    assert_eq!(node("s1/s1/node.json")["status"], "leaf");
    assert_eq!(node("children.json"), list);

    // Without its log the folder is all that there is.
    let before = tree(&dir);
    std::fs::remove_dir_all(dir.join(".tree-agent")).unwrap();
    let output = succeeded(search(&dir, model, &["-o", "json"]));
    let counts: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&counts["expanded"], &counts["leaves"], &counts["skipped"]),
        (&0.into(), &0.into(), &9.into())
    );
    assert_eq!(tree(&dir), before, "nothing is researched again");
}

#[test]
fn an_unfinished_search_whose_folder_was_edited_is_cancelled_and_its_documents_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let slow = "scripted:fanout=2,depth=2,latency_ms=30";
    killed_when(&dir, slow, is_first_document);
    put(&dir, "s1/document.md", "# Mine\n");
    put(&dir, "s1/children.json", "[]\n");
    let output = succeeded(search(&dir, slow, &[]));
    let said = stderr(&output);
    assert!(said.contains("was edited: its unfinished search is cancelled"), "{said}");
    assert!(said.contains("s1/document.md: was "), "{said}");
    let logs = logged(&dir);
    assert_eq!(logs.iter().map(|log| status(log)).collect::<Vec<_>>(), ["cancelled", "completed"]);
    assert_eq!(folder::read(&dir, "s1/document.md"), "# Mine\n");
}

#[test]
fn an_unfinished_search_continues_only_as_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let slow = "scripted:fanout=2,depth=2,latency_ms=30";
    killed_when(&dir, slow, is_first_document);
    let output = succeeded(search(&dir, slow, &["--picker", "breadth-first"]));
    let said = stderr(&output);
    assert!(said.contains("was asked for something else (How do tides work?)"), "{said}");
    let logs = logged(&dir);
    assert_eq!(logs.iter().map(|log| status(log)).collect::<Vec<_>>(), ["cancelled", "completed"]);
    let skipped = of_type(&logs[1], "tree.node_skipped").count();
    let found =
        of_type(&logs[0], "tree.node_result").filter(|event| event["parentNodeId"].is_string()).count();
    assert_eq!((skipped, skipped >= 1), (found, true), "also what was not yet on the disk when it died");
}

#[test]
fn a_second_search_in_a_folder_is_told_who_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let endless = "scripted:fanout=2,depth=1,latency_ms=600000";
    let mut command = program(&search_args(&dir, endless, &["-o", "jsonl"]));
    let mut first = Killed(command.stdout(Stdio::piped()).spawn().expect("the program starts"));
    let mut said = BufReader::new(first.0.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let second = search(&dir, endless, &[]);
    assert_eq!(code(&second), 2);
    let holder = format!("in use by process {} (tree-agent search)", first.0.id());
    assert!(stderr(&second).contains(&holder), "{}", stderr(&second));
}

#[test]
fn a_search_that_is_interrupted_is_kept_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let slow = "scripted:fanout=2,depth=2,latency_ms=30";
    let mut command = program(&search_args(&dir, slow, &["-o", "jsonl"]));
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines();
    said.find(|line| is_first_document(&serde_json::from_str(line.as_ref().unwrap()).unwrap()));
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    said.for_each(drop);
    let note = std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130), "{note}");
    assert!(note.contains("the same command continues it"), "{note}");
    let output = succeeded(search(&dir, slow, &[]));
    assert!(stderr(&output).contains("continues after"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "Tree search complete: 2 expanded, 4 leaves, 0 skipped\n");
    assert_eq!(logged(&dir).len(), 1);
}

#[test]
fn what_cannot_be_used_is_named_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let model = "scripted:fanout=2,depth=1";
    let refused = |args: &[&str], said: &str| {
        let before = files(dir);
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert_eq!(files(dir), before, "{args:?}");
    };
    let in_dir = |path: &str| dir.join(path).to_str().unwrap().to_owned();
    let folder_refused = |path: &str, said: &str| {
        refused(&["search", PROMPT, "--root-dir", &in_dir(path), "--model", model], said);
    };
    put(dir, "theirs/thesis.tex", "years of work");
    folder_refused("theirs", "is not empty and holds no search (\"thesis.tex\")");
    folder_refused("theirs/thesis.tex", "is not a folder");
    folder_refused("theirs/thesis.tex/below", "is not a folder");
    refused(&["search", PROMPT, "--root-dir", "/sys/tree-agent", "--model", model], "make it writable");

    put(dir, "comma/children.json", "[\n  {\"title\": \"A\", \"slug\": \"a\"},\n]");
    folder_refused("comma", "children.json:3:1: trailing comma");
    put(dir, "node/children.json", "[{\"title\": \"A\", \"slug\": \"a\"}]");
    put(dir, "node/a/node.json", "{\"title\": \"A\",\n \"slug\": 7}");
    folder_refused("node", "a/node.json:2:10: invalid type: integer");
    for (name, title, slug, said) in [
        ("dots", "A".to_owned(), "..", "is not a slug"),
        ("slash", "A".to_owned(), "a/b", "is not a slug"),
        ("control", "A\u{7}".to_owned(), "a", "the control character U+0007"),
        ("long", "x".repeat(10_000), "a", "the title is 10000 bytes long"),
        ("twice", "A".to_owned(), "b", "the slug \"b\" is listed twice"),
    ] {
        let list = json!([{"title": "B", "slug": "b"}, {"title": title, "slug": slug}]);
        put(dir, &format!("{name}/children.json"), &list.to_string());
        folder_refused(name, said);
    }
    // The search has no room for so many.
    let many: Vec<Value> =
        (0..1_005).map(|i| json!({"title": format!("T {i}"), "slug": format!("t{i}")})).collect();
    put(dir, "many/children.json", &Value::from(many).to_string());
    folder_refused(
        "many",
        "lists 1005 topics, and a search may have 1000 nodes; allow at least 1006 with --max-nodes",
    );
    put(dir, "circle/children.json", "[{\"title\": \"A\", \"slug\": \"a\"}]");
    std::os::unix::fs::symlink(dir.join("circle"), dir.join("circle/a")).unwrap();
    let circle = search(&dir.join("circle"), model, &[]);
    assert_eq!(code(&circle), 2);
    assert!(stderr(&circle).contains("a: is a symbolic link"), "{}", stderr(&circle));
    std::fs::remove_file(dir.join("circle/a")).unwrap();

    let new = in_dir("new");
    refused(&["search", "--root-dir", &new, "--model", model], "there is no OBJECTIVE");
    refused(&["search", PROMPT, "--model", model], "--root-dir");
    refused(&["search", PROMPT, "--root-dir", &new, "--concurrency", "0"], "--concurrency");
    refused(&["search", PROMPT, "--root-dir", &new, "--dir", &in_dir("nowhere")], "does not exist");
    refused(
        &["search", PROMPT, "--root-dir", &new, "--picker-prompt", &in_dir("nowhere")],
        "--picker-prompt",
    );
    assert!(!dir.join("new").exists());
    refused(&["search", PROMPT, "--root-dir", &new, "--model", "no-such-model"], "no-such-model");
    refused(
        &["search", PROMPT, "--root-dir", &new, "--scripted", "off", "--model", model],
        "TREE_AGENT_SCRIPTED",
    );
}

#[test]
fn a_topic_whose_frontmatter_stays_wrong_is_open_and_is_tried_again_by_the_next_search() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let output = succeeded(search(&dir, "scripted:fanout=2,depth=1,bad_frontmatter=3,fail_titles=s0", &[]));
    assert_eq!(stdout(&output), "Tree search complete: 0 expanded, 1 leaves, 0 skipped\n");
    assert!(stderr(&output).contains("the search is partial"), "{}", stderr(&output));
    let node: Value = serde_json::from_str(&folder::read(&dir, "s0/node.json")).unwrap();
    assert_eq!((&node["status"], node.get("sessionId")), (&"unexpanded".into(), None));
    let output = succeeded(search(&dir, "scripted:fanout=2,depth=1", &[]));
    assert_eq!(stdout(&output), "Tree search complete: 0 expanded, 1 leaves, 1 skipped\n");
    assert!(dir.join("s0/document.md").exists());
}

#[test]
fn a_search_without_a_first_level_fails_and_the_next_one_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tides");
    let output = search(&dir, "scripted:fanout=2,depth=1,fail=rejected,fail_role=research", &[]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("the search did not complete: status failed"), "{}", stderr(&output));
    let slow = "scripted:fanout=2,depth=1,latency_ms=300";
    killed_when(&dir, slow, |event| event["type"] == "tree.node_created");
    let output = succeeded(search(&dir, slow, &[]));
    assert!(stderr(&output).contains("continues after 0 documents"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "Tree search complete: 0 expanded, 2 leaves, 0 skipped\n");
}

#[tokio::test]
async fn documents_are_searched_without_a_language_model_and_the_folder_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path().join("docs");
    put(
        &docs,
        "tides.md",
        "# Tides\n\n## The moon\n\nThe moon pulls the sea.\n\n## The sun\n\nThe sun pulls, too.\n",
    );
    put(
        &docs,
        "winds.md",
        "# Winds\n\n## Storms\n\nA storm raises the tide.\n\n## Calm\n\nCalm lowers nothing.\n",
    );
    // The folder that grows is among the documents, which is no reason to quote it.
    let dir = docs.join("answer");
    let args = ["search", PROMPT, "--root-dir", dir.to_str().unwrap(), "--dir", docs.to_str().unwrap()];
    let model = ["--model", "offline"];
    let output = succeeded(run(&[&args[..], &model].concat()));
    assert!(stderr(&output).contains("imported 2 documents"), "{}", stderr(&output));
    let before = files(&dir);
    let written: Vec<_> = before.iter().filter(|(path, _)| path.ends_with("document.md")).collect();
    assert!(written.iter().any(|(_, text)| text.contains("moon")), "{written:#?}");
    let again = succeeded(run(&[&args[..], &model].concat()));
    assert!(stderr(&again).contains("; 2 unchanged"), "{}", stderr(&again));
    let same = [&args[..5], &["--dir", dir.to_str().unwrap()]].concat();
    assert_eq!(code(&run(&same)), 2);

    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let import =
        ["import", dir.to_str().unwrap(), "--project", "answer", "--server", &dev.server, "-o", "jsonl"];
    let imported = events(&succeeded(run(&import))).remove(0);
    // The overview is a document, too.
    assert_eq!(imported["imported"], written.len() + 1);
    let mut client = DocumentServiceClient::connect(dev.server.clone()).await.unwrap();
    let list = ListDocumentsRequest {
        project_ids: vec![imported["projectId"].as_str().unwrap().to_owned()],
        ..ListDocumentsRequest::default()
    };
    let listed = client.list_documents(list).await.unwrap().into_inner().documents;
    let (overview, listed): (Vec<_>, Vec<_>) = listed.into_iter().partition(|d| d.path == "overview.md");
    assert_eq!((overview.len(), listed.len()), (1, written.len()));
    for document in &listed {
        let node = document.path.replace("document.md", "node.json");
        let node: Value = serde_json::from_str(&folder::read(&dir, &node)).unwrap();
        assert_eq!(document.title, node["title"].as_str().unwrap(), "{}", document.path);
    }
}

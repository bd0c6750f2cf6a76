//! Guided searches as their user meets them, against `dev` and in one process.

use crate::support::dev::{Dev, code, documents, lines, run, stderr, stdout, succeeded};

#[test]
fn a_search_over_documents_is_counted_verified_archived_and_brought_back() {
    let (data, work, archives) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, folder) = (data.path().to_str().unwrap(), archives.path().to_str().unwrap());
    let handbook = work.path().join("handbook");
    documents(&handbook);
    let search = ["run", "--local", "--strategy", "search", "--data-dir", dir, "--dir"];
    let more = [handbook.to_str().unwrap(), "How does the lease work?", "-o", "jsonl"];
    let events = lines(&succeeded(run("", &[&search[..], &more].concat())));
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let root = &events[0]["nodeId"];
    let results = of("tree.node_result");
    let counts =
        &results.iter().find(|event| event["nodeId"] == *root).unwrap()["payload"]["result"]["jsonPayload"];
    let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name}: {counts}")) as usize;
    let researched = count("expanded") + count("leaves");
    assert!(researched >= 2, "{counts}");
    assert_eq!(researched, of("tree.session_forked").len(), "a conversation for each");
    assert_eq!(researched + count("skipped") + 1, of("tree.node_completed").len(), "{counts}");
    let id = events[0]["runId"].as_str().unwrap().to_owned();

    let verified =
        || lines(&succeeded(run("", &["verify", "--all", "--data-dir", dir, "-o", "jsonl"]))).remove(0);
    let sound = verified();
    assert_eq!((&sound["runId"], &sound["sound"]), (&id.as_str().into(), &true.into()));
    let rebuilt = lines(&succeeded(run("", &["rebuild", &id, "--data-dir", dir, "-o", "jsonl"])));
    assert_eq!(rebuilt[0]["differences"], 0);
    succeeded(run("", &["log", "prune", folder, "--older-than", "0s", "--yes", "--data-dir", dir]));
    assert_eq!(verified()["archived"], true);
    succeeded(run("", &["log", "restore", folder, &id, "--data-dir", dir]));
    assert_eq!(verified(), sound, "with its conversations");

    // A server shows the same log, in words, and lists no prompts.
    let dev = Dev::start(data.path());
    assert_eq!(lines(&succeeded(run(&dev.server, &["events", &id, "-o", "jsonl"]))), events);
    let told = stdout(&succeeded(run(&dev.server, &["watch", &id])));
    for words in ["Generating root children...", "Walking root level: ", "Tree search complete: "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let listed = lines(&succeeded(run(&dev.server, &["runs", "--strategy", "search", "-o", "jsonl"])));
    assert_eq!(listed[0]["runId"], id.as_str());
}

#[test]
fn a_search_is_cancelled() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let model = "scripted:fanout=3,depth=3,latency_ms=60000";
    let output = succeeded(run(
        server,
        &["run", "take your time", "--strategy", "search", "--model", model, "--detach"],
    ));
    let id = stdout(&output).trim().to_owned();
    let output = succeeded(run(server, &["cancel", &id, "--reason", "had enough", "-o", "jsonl"]));
    assert_eq!(lines(&output)[0]["status"], "cancelled");
    assert_eq!(dev.terminate(), 0);
    let dir = data.path().to_str().unwrap();
    let verified = lines(&succeeded(run("", &["verify", &id, "--data-dir", dir, "-o", "jsonl"])));
    assert_eq!(verified[0]["sound"], true);
}

#[test]
fn the_prompts_of_a_search_are_in_its_log_and_in_no_list() {
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = work.path().join("prompt.md");
    std::fs::write(&file, "Write about {{title}}, at length.").unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let search =
        ["run", "why?", "--strategy", "search", "--max-depth", "2", "--model", "scripted:fanout=2,depth=2"];
    let prompt = ["--document-prompt", file.to_str().unwrap(), "-o", "jsonl"];
    let events = lines(&succeeded(run(server, &[&search[..], &prompt].concat())));
    assert_eq!(
        events[0]["payload"]["search"]["prompts"]["document"], "Write about {{title}}, at length.",
        "{}",
        events[0]
    );
    let listed = stdout(&succeeded(run(server, &["runs", "-o", "jsonl"])));
    assert!(listed.contains("\"maxDepth\":2") && !listed.contains("at length"), "{listed}");
    let refused = run(server, &["run", "why?", "--strategy", "search", "--frontmatter-schema", "/dev/null"]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("--frontmatter-schema /dev/null: it is empty"), "{}", stderr(&refused));
}

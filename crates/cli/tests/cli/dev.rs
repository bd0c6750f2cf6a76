//! The whole system as its user meets it: `dev` as a process, and every command as a process against it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::dev::{Dev, code, documents, lines, program, run, stderr, stdout, succeeded};
use serde_json::Value;
use tree_agent_proto::v1::ListModelsRequest;
use tree_agent_proto::v1::model_service_client::ModelServiceClient;
use tree_agent_testkit::ports::Port;

#[test]
fn a_newcomers_session() {
    let data = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    documents(folder.path());
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();

    // Import, twice: the second time nothing has changed.
    let folder = folder.path().to_str().unwrap();
    for (sent, unchanged) in [(3, 0), (0, 3)] {
        let output = succeeded(run(server, &["import", folder, "--project", "leases", "-o", "jsonl"]));
        let imported = &lines(&output)[0];
        assert_eq!((&imported["imported"], &imported["skipped"]), (&sent.into(), &2.into()), "{imported}");
        assert_eq!(imported["unchanged"], unchanged);
        for said in ["skipped, not text: binary: guide/blob.md\n", "skipped, no text: image: logo.png\n"] {
            assert!(stderr(&output).contains(said), "{}", stderr(&output));
        }
    }
    let projects = lines(&succeeded(run(server, &["projects", "-o", "jsonl"])));
    assert_eq!(projects.len(), 1);
    assert_eq!((&projects[0]["name"], &projects[0]["documentCount"]), (&"leases".into(), &3.into()));

    // A run, to its end.
    let objective = "How does the lease work?";
    let output = succeeded(run(server, &["run", objective, "--project", "leases", "-o", "jsonl"]));
    let events = lines(&output);
    let seqs: Vec<u64> = events.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["type"], "tree.run_created");
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["payload"]["status"]), (&"tree.run_status".into(), &"completed".into()));
    let id = last["runId"].as_str().unwrap();

    // The same from the log, whole, in part, and live from a seq.
    assert_eq!(lines(&succeeded(run(server, &["events", id, "-o", "jsonl"]))), events);
    let created =
        lines(&succeeded(run(server, &["events", id, "--type", "tree.node_created", "-o", "jsonl"])));
    assert!(!created.is_empty() && created.iter().all(|e| e["type"] == "tree.node_created"));
    assert_eq!(
        lines(&succeeded(run(server, &["watch", id, "--after-seq", "5", "-o", "jsonl"]))),
        events[5..]
    );
    let head = events.len().to_string();
    assert!(lines(&succeeded(run(server, &["watch", id, "--after-seq", &head, "-o", "jsonl"]))).is_empty());
    let beyond = run(server, &["watch", id, "--after-seq", "999999", "-o", "jsonl"]);
    assert_eq!(code(&beyond), 2, "{}", stderr(&beyond));
    assert!(stderr(&beyond).contains("after_seq"), "{}", stderr(&beyond));

    // The graph.
    let output = succeeded(run(server, &["graph", id, "--format", "json"]));
    let graph = &lines(&output)[0];
    assert_eq!((&graph["status"], &graph["seq"]), (&"completed".into(), &events.len().into()));
    let nodes = graph["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), created.len());
    assert!(nodes.iter().all(|n| n["status"] == "completed"), "{graph}");
    let early = lines(&succeeded(run(server, &["graph", id, "--at", "2", "-o", "jsonl"])));
    assert_eq!(early[0]["seq"], 2);
    let text = stdout(&succeeded(run(server, &["graph", id])));
    assert!(text.contains(objective) && text.lines().count() > nodes.len(), "{text}");

    // The synthesis.
    let primary = nodes[0]["result"]["primaryArtifactId"].as_str().unwrap();
    let artifacts = nodes[0]["artifacts"].as_array().unwrap();
    let artifact = artifacts.iter().find(|a| a["artifactId"] == primary).unwrap();
    let document = artifact["documentId"].as_str().unwrap();
    let output = succeeded(run(server, &["doc", document, "-o", "jsonl"]));
    let body = lines(&output)[0]["body"].as_str().unwrap().to_owned();
    assert!(body.contains("lease") && body.contains("overview.md"), "{body}");
    for named in [id, &id[id.len() - 8..], "@latest"] {
        let shown = stdout(&succeeded(run(server, &["result", named])));
        // The counts stand first, and never beside "Not found".
        let (counts, answer) = match shown.strip_prefix('*').and_then(|shown| shown.split_once("*\n\n")) {
            Some((counts, answer)) => (counts, answer),
            None => ("", shown.as_str()),
        };
        assert_eq!(counts.contains("found in"), !body.contains("**Not found"), "{shown}");
        assert_eq!(answer, body, "{named}");
    }
    let labelled = ["run", objective, "--project", "leases", "--label", "team=search", "--name", "Leases"];
    let shown = stdout(&succeeded(run(server, &labelled)));
    assert!(shown.contains(body.trim()), "the same objective gives the same document: {shown}");

    // The list.
    let runs = lines(&succeeded(run(server, &["runs", "--status", "completed", "-o", "jsonl"])));
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().any(|r| r["runId"] == id));
    assert_eq!(lines(&succeeded(run(server, &["runs", "--limit", "1", "-o", "jsonl"]))).len(), 1);
    let found =
        lines(&succeeded(run(server, &["runs", "--label", "team=search", "--since", "1h", "-o", "jsonl"])));
    assert_eq!((found.len(), &found[0]["spec"]["displayName"]), (1, &"Leases".into()));
    let root = nodes[0]["id"].as_str().unwrap();
    let own = lines(&succeeded(run(server, &["events", id, "--node", &root[..8], "-o", "jsonl"])));
    assert!(!own.is_empty() && own.iter().all(|event| event["nodeId"] == root));
    let watched = ["watch", id, "--type", "tree.node_created", "-o", "jsonl"];
    assert_eq!(lines(&succeeded(run(server, &watched))), created);

    // The list, live: first the runs that there are, then the one that is deleted.
    let mut watching =
        program(server).args(["runs", "--watch", "-o", "jsonl"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut changes = BufReader::new(watching.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let first = [changes.next().unwrap(), changes.next().unwrap()];
    assert!(first.iter().all(|change| change["change"] == "added"), "{first:?}");
    succeeded(run(server, &["delete", "@latest", "--yes"]));
    let removed = changes.find(|change| change["change"] == "removed").unwrap();
    assert_eq!(removed["runId"], found[0]["runId"]);
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert_eq!(lines(&succeeded(run(server, &["runs", "-o", "jsonl"]))).len(), 1);

    // As a table, and if nothing matches.
    let watch = |more: &[&str]| {
        let mut program = program(server);
        program.args(["runs", "--watch"]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        program.spawn().unwrap()
    };
    let mut watching = watch(&[]);
    let mut table = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(table.next().unwrap().contains("STATUS") && table.next().unwrap().contains("completed"));
    watching.kill().unwrap();
    watching.wait().unwrap();
    let mut watching = watch(&["--objective", "zorblatt"]);
    let mut said = BufReader::new(watching.stderr.take().unwrap()).lines().map(Result::unwrap);
    let nothing = said.find(|line| line.contains("no run")).unwrap();
    assert!(nothing.contains("no run matches") && nothing.contains("zorblatt"), "{nothing}");
    watching.kill().unwrap();
    watching.wait().unwrap();

    let status = lines(&succeeded(run(server, &["status", "-o", "jsonl"]))).remove(0);
    assert_eq!((&status["strategies"][0], &status["defaultModel"]), (&"tree".into(), &"offline".into()));
    let estimate = lines(&succeeded(run(server, &["run", "--estimate", "-o", "jsonl"]))).remove(0);
    assert_eq!((&estimate["model"], &estimate["tokens"]), (&"offline".into(), &0.into()));
    let models = stdout(&succeeded(run(server, &["run", "--model", "help"])));
    assert!(models.contains("offline (default)") && models.contains("fanout"), "{models}");

    assert_eq!(code(&run(server, &["run", "x", "--project", "nope"])), 2);
    assert_eq!(dev.terminate(), 0);
}

#[test]
fn projects_are_changed_archived_and_deleted() {
    let data = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    documents(folder.path());
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let import = ["import", folder.path().to_str().unwrap(), "--project", "leases"];
    succeeded(run(server, &import));
    let rules = ["--deny-tools", "create_document, files__write", "--read-only", "on", "-o", "jsonl"];
    let changed = lines(&succeeded(run(server, &[&["projects", "update", "leases"][..], &rules].concat())));
    assert_eq!(changed[0]["tools"]["deniedTools"], serde_json::json!(["create_document", "files__write"]));
    assert_eq!((&changed[0]["tools"]["readOnly"], &changed[0]["name"]), (&true.into(), &"leases".into()));
    let shown = stdout(&succeeded(run(server, &["projects"])));
    assert!(shown.contains("not create_document, files__write; read-only"), "{shown}");
    let renamed =
        ["projects", "update", "leases", "--name", "Leases 2", "--deny-tools", "", "--read-only", "off"];
    assert_eq!(stdout(&succeeded(run(server, &renamed))), "project Leases 2 changed; tools: all\n");
    for (args, said) in [
        (vec!["projects", "update", "leases 2"], "nothing to change"),
        (vec!["projects", "update", "leases 2", "--allow-tools", "read"], "project.tools.allowed_tools[0]"),
        (vec!["projects", "update", "leases", "--read-only", "on"], "does not exist"),
    ] {
        let output = run(server, &args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }

    assert_eq!(
        stdout(&succeeded(run(server, &["projects", "archive", "leases 2"]))),
        "project Leases 2 is archived\n"
    );
    let refused = run(server, &["run", "why?", "--project", "leases 2"]);
    assert!(code(&refused) != 0 && stderr(&refused).contains("is archived"), "{}", stderr(&refused));
    let of_status = |status| lines(&succeeded(run(server, &["projects", "--status", status, "-o", "jsonl"])));
    assert_eq!((of_status("archived").len(), of_status("active").len()), (1, 0));
    succeeded(run(server, &["projects", "unarchive", "leases 2"]));

    let slow = ["--model", "scripted:latency_ms=60000", "--detach"];
    let asked = [&["run", "slowly", "--project", "leases 2"][..], &slow].concat();
    let id = stdout(&succeeded(run(server, &asked))).trim().to_owned();
    let refused = run(server, &["projects", "delete", "leases 2"]);
    assert!(code(&refused) != 0 && stderr(&refused).contains(&id), "{}", stderr(&refused));
    let deleted = succeeded(run(server, &["projects", "delete", "leases 2", "--force", "-o", "jsonl"]));
    assert_eq!(lines(&deleted)[0]["deleted"], true);
    assert!(lines(&succeeded(run(server, &["projects", "-o", "jsonl"]))).is_empty());
    assert_eq!(dev.terminate(), 0);
}

#[test]
fn the_banner_names_the_ui_only_if_it_is_built_in() {
    let data = tempfile::tempdir().unwrap();
    let mut dev = program("");
    dev.args(["dev", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(data.path());
    let mut child = dev.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let banner: Vec<String> = lines.take_while(|line| !line.starts_with("Ctrl-C")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let ui = banner.iter().find(|line| line.starts_with("  UI ")).unwrap_or_else(|| panic!("{banner:?}"));
    assert_eq!(ui.contains("http://"), tree_agent_event_gateway::has_ui(), "{ui}");
    assert_eq!(ui.contains("make install"), !tree_agent_event_gateway::has_ui(), "{ui}");
}

#[test]
fn a_cancelled_run_ends_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let model = "scripted:fanout=2,depth=2,latency_ms=60000";
    let output = succeeded(run(server, &["run", "take your time", "--model", model, "--detach"]));
    let id = stdout(&output).trim().to_owned();
    let watcher =
        program(server).args(["watch", &id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = succeeded(run(server, &["cancel", &id, "--reason", "had enough", "-o", "jsonl"]));
    assert_eq!(lines(&output)[0]["status"], "cancelled");
    let watched = watcher.wait_with_output().unwrap();
    assert_eq!(code(&watched), 4, "{}", stderr(&watched));
    assert!(stderr(&watched).contains("had enough"), "{}", stderr(&watched));
    // Again, with the same answer.
    assert_eq!(lines(&succeeded(run(server, &["cancel", &id, "-o", "jsonl"])))[0]["status"], "cancelled");
}

#[test]
fn conflicts_say_what_to_do() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dev = Dev::start(data.path());
    let address = dev.server.trim_start_matches("http://");
    let other_dir = other.path().to_str().unwrap();
    let output = run("", &["dev", "--listen", address, "--data-dir", other_dir]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains(address) && stderr(&output).contains("--listen"), "{}", stderr(&output));

    let data_dir = data.path().to_str().unwrap();
    for args in [
        vec!["dev", "--listen", "127.0.0.1:0", "--data-dir", data_dir],
        vec!["run", "--local", "why?", "--data-dir", data_dir],
        vec!["migrate", "--data-dir", data_dir],
    ] {
        let output = run("", &args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(
            stderr(&output).contains(data_dir) && stderr(&output).contains("in use"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(dev.terminate(), 0);
    succeeded(run("", &["migrate", "--data-dir", data_dir]));
}

#[test]
fn a_watcher_outlives_the_server() {
    let data = tempfile::tempdir().unwrap();
    let port = Port::claim().unwrap();
    let address = port.address().to_string();
    let dev = Dev::start_on(&address, data.path());
    let server = dev.server.clone();
    let model = "scripted:fanout=2,depth=1,latency_ms=1500";
    let output = succeeded(run(&server, &["run", "outlive", "--model", model, "--detach"]));
    let id = stdout(&output).trim().to_owned();
    let mut watcher = program(&server)
        .args(["watch", &id, "-o", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Once it has seen something, the server goes, and comes back on the same port and data.
    let mut seen = BufReader::new(watcher.stdout.take().unwrap()).lines();
    let mut events: Vec<Value> = vec![serde_json::from_str(&seen.next().unwrap().unwrap()).unwrap()];
    assert_eq!(dev.terminate(), 0);
    let dev = Dev::start_on(&address, data.path());
    events.extend(seen.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()));
    let status = watcher.wait().unwrap();
    drop(dev);
    assert_eq!(status.code(), Some(0));
    let seqs: Vec<u64> = events.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>(), "every event, once, in order");
}

#[test]
fn run_local_needs_no_server() {
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = work.path().join("handbook");
    documents(&folder);
    let file = work.path().join("synthesis.md");
    let begun = Instant::now();
    let output = succeeded(run(
        "http://127.0.0.1:1",
        &[
            "run",
            "--local",
            "--data-dir",
            data.path().to_str().unwrap(),
            "--dir",
            folder.to_str().unwrap(),
            "How does the lease work?",
            "--out",
            file.to_str().unwrap(),
        ],
    ));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(stdout(&output), "", "the answer is in the file");
    assert!(stderr(&output).contains(file.to_str().unwrap()), "the path is said: {}", stderr(&output));
    assert!(stderr(&output).contains("into project handbook"), "{}", stderr(&output));
    let synthesis = std::fs::read_to_string(&file).unwrap();
    assert!(synthesis.contains("fencing.md") || synthesis.contains("overview.md"), "{synthesis}");
}

#[test]
fn a_run_is_exported_as_a_folder_that_can_be_imported() {
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = work.path().join("handbook");
    documents(&folder);
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let folder = folder.to_str().unwrap();
    succeeded(run(server, &["import", folder, "--project", "leases"]));
    let objective = "What is a lease? What is fencing?";
    let answer = stdout(&succeeded(run(server, &["run", objective, "--project", "leases", "-q"])));

    let out = work.path().join("new/export");
    let dir = out.to_str().unwrap();
    let exported = &lines(&succeeded(run(server, &["export", "@latest", dir, "-o", "jsonl"])))[0];
    let nodes = exported["nodes"].as_u64().unwrap();
    assert!(nodes >= 2 && exported["documents"] == nodes + 1, "{exported}");
    let (_counts, synthesis) = answer.split_once("\n\n").expect("the counts stand first");
    assert_eq!(std::fs::read_to_string(out.join("overview.md")).unwrap(), synthesis);
    let list = std::fs::read_to_string(out.join("children.json")).unwrap();
    let children: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
    let titles: Vec<&str> = children.iter().map(|c| c["title"].as_str().unwrap()).collect();
    assert!(titles.len() > 1 && titles.contains(&"Fencing"), "a step for each source: {titles:?}");
    let node = std::fs::read_to_string(out.join("fencing/node.json")).unwrap();
    let node: serde_json::Value = serde_json::from_str(&node).unwrap();
    assert_eq!((&node["slug"], &node["status"]), (&"fencing".into(), &"leaf".into()));
    let document = std::fs::read_to_string(out.join("fencing/document.md")).unwrap();
    assert!(document.contains("fenced off by its epoch"), "{document}");

    let again = succeeded(run(server, &["export", "@latest", dir]));
    assert_eq!(stdout(&again), format!("wrote {nodes} nodes with {} documents to {dir}\n", nodes + 1));
    std::fs::write(out.join("fencing/document.md"), "mine").unwrap();
    let refused = run(server, &["export", "@latest", dir]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("fencing/document.md: was edited"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(out.join("fencing/document.md")).unwrap(), "mine");
    let refused = run(server, &["export", "@latest", folder]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("is not empty and holds no search"), "{}", stderr(&refused));

    let imported = succeeded(run(server, &["import", dir, "--project", "again", "-o", "jsonl"]));
    assert_eq!(lines(&imported)[0]["imported"], nodes + 1, "one document for each node and the root");
}

#[test]
fn a_local_run_leaves_unfinished_runs_alone() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().to_str().unwrap();
    let local = ["run", "--local", "--data-dir", dir, "-o", "jsonl"];
    // A run whose process is killed while its first role call is under way.
    let slow = ["--model", "scripted:fanout=2,depth=1,latency_ms=1000", "unfinished"];
    let mut killed =
        program("").args(local).args(slow).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(killed.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    let id = first["runId"].as_str().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let head = || {
        let output = succeeded(run("", &["verify", id, "--data-dir", dir, "-o", "jsonl"]));
        lines(&output)[0]["seq"].as_u64().unwrap()
    };
    let before = head();

    let output =
        succeeded(run("", &[&local[..], &["--model", "scripted:fanout=2,depth=1", "another"]].concat()));
    assert!(lines(&output).iter().all(|event| event["runId"] != id));
    let said = stderr(&output);
    assert!(
        said.contains("1 unfinished run") && said.contains("--resume") && said.contains("tree-agent dev"),
        "{said}"
    );
    assert_eq!(head(), before, "nothing was done for it");

    // What was kept is read without a server, which does nothing for it either.
    let kept =
        |args: &[&str]| stdout(&succeeded(run("http://127.0.0.1:1", &[args, &["--data-dir", dir]].concat())));
    assert!(said.contains("result @latest --data-dir"), "{said}");
    assert!(kept(&["result", "@latest"]).contains("another"));
    assert!(kept(&["runs"]).contains("unfinished") && kept(&["graph", id]).contains("unfinished"));
    assert_eq!(kept(&["cite", "@latest"]), "", "nothing is cited");
    assert!(kept(&["diff", "@1", "@1"]).contains("run"));
    let missing = run("", &["runs", "--data-dir", data.path().join("none").to_str().unwrap()]);
    assert!(code(&missing) == 2 && stderr(&missing).contains("keeps no runs"));
    let meant = run("", &["search", "tides", "--project", "Coast"]);
    assert!(code(&meant) == 2 && stderr(&meant).contains("tree-agent docs search"), "{}", stderr(&meant));
    assert_eq!(head(), before, "nothing was done for it");

    // An estimate opens nothing at all.
    let nowhere = data.path().join("nowhere");
    let estimate = ["run", "--local", "--estimate", "--data-dir", nowhere.to_str().unwrap()];
    assert!(stdout(&succeeded(run("", &estimate))).contains("role calls"));
    assert!(!nowhere.exists());
    // The model is that of the variable, whatever else is configured.
    let configured = |args: &[&str], model: &str| {
        let mut command = program("");
        command.env("TREE_AGENT_MODEL_BASE_URL", "http://127.0.0.1:1").env("TREE_AGENT_MODEL", model);
        lines(&succeeded(command.args(args).output().unwrap())).remove(0)
    };
    let estimate = [&estimate[..], &["-o", "jsonl"]].concat();
    for (variable, model) in [("", "llm"), ("offline", "offline"), ("openai:gpt-4o", "openai:gpt-4o")] {
        assert_eq!(configured(&estimate, variable)["model"], model);
    }
    let offline = configured(&[&local[..], &["Why?"]].concat(), "offline");
    assert_eq!(offline["payload"]["model"], "offline", "{offline}");

    let dev = Dev::start(data.path());
    let watched = lines(&succeeded(run(&dev.server, &["watch", id, "-o", "jsonl"])));
    assert_eq!(watched.last().unwrap()["payload"]["status"], "completed", "a server resumes it");
}

#[test]
fn a_log_is_verified_archived_and_brought_back() {
    let data = tempfile::tempdir().unwrap();
    let archives = tempfile::tempdir().unwrap();
    let (dir, folder) = (data.path().to_str().unwrap(), archives.path().to_str().unwrap());
    let model = "scripted:fanout=2,depth=1";
    let events = run("", &["run", "--local", "--data-dir", dir, "--model", model, "-o", "jsonl", "why?"]);
    let id = lines(&succeeded(events))[0]["runId"].as_str().unwrap().to_owned();
    let verified = || {
        let output = succeeded(run("", &["verify", "--all", "--data-dir", dir, "-o", "jsonl"]));
        lines(&output).remove(0)
    };
    let sound = verified();
    assert_eq!((&sound["runId"], &sound["sound"]), (&id.as_str().into(), &true.into()));
    assert_eq!(
        lines(&succeeded(run("", &["rebuild", &id, "--data-dir", dir, "-o", "jsonl"])))[0]["differences"],
        0
    );
    assert_eq!(code(&run("", &["log", "prune", folder, "--data-dir", dir])), 2, "no run is named");
    let prune = ["log", "prune", folder, "--older-than", "0s", "--data-dir", dir];
    let shown = stdout(&succeeded(run("", &[&prune[..], &["--dry-run"]].concat())));
    assert!(shown.contains(&id) && shown.contains("would be"), "{shown}");
    assert_eq!(verified(), sound);
    let unconfirmed = run("", &prune);
    assert_eq!(code(&unconfirmed), 2, "there is no terminal to ask on");
    assert!(stderr(&unconfirmed).contains("--yes"), "{}", stderr(&unconfirmed));
    assert_eq!(verified(), sound, "nothing was removed");
    succeeded(run("", &[&prune[..], &["--yes"]].concat()));
    assert_eq!(verified()["archived"], true);
    let file = archives.path().join(format!("{id}.jsonl.gz"));
    assert!(file.is_file());
    succeeded(run("", &["log", "restore", folder, &id, "--data-dir", dir]));
    assert_eq!(verified(), sound);
    std::fs::write(&file, "no archive").unwrap();
    let refused = run("", &["log", "restore", folder, &id, "--data-dir", dir]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains(&id), "{}", stderr(&refused));
    assert_eq!(code(&run("", &["verify", "--all", "--data-dir", "/nowhere/at/all"])), 2);
}

/// A step of a plan that is a search: run, shown, exported, verified, rebuilt, archived and brought back.
#[test]
fn a_step_that_is_a_search_is_treated_like_the_rest_of_its_run() {
    let (data, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let model = "scripted:fanout=2,depth=2,artifacts=document,search_steps=1,search_depth=3,search_nodes=9";
    let told =
        succeeded(run(server, &["run", "explore", "--model", model, "--max-depth", "3", "-o", "jsonl"]));
    let events = lines(&told);
    let id = events[0]["runId"].as_str().unwrap().to_owned();
    assert_eq!(events.last().unwrap()["payload"]["status"], "completed");
    assert_ne!(events.last().unwrap()["payload"]["partial"], true);
    let graph = stdout(&succeeded(run(server, &["graph", &id, "--format", "json"])));
    let graph: Value = serde_json::from_str(&graph).unwrap();
    let nodes = graph["nodes"].as_array().unwrap();
    let searches: Vec<&Value> = nodes.iter().filter(|node| node["strategy"] == "search").collect();
    // The other step plans, and one of its steps is a search, too.
    let [search, _] = searches[..] else { panic!("{graph}") };
    assert_eq!((&search["title"], &search["status"]), (&"s0".into(), &"completed".into()));
    let counts = serde_json::json!({"expanded": 2, "leaves": 4, "skipped": 0});
    assert_eq!(search["result"]["jsonPayload"], counts);
    let picks = events.iter().filter(|event| event["type"] == "tree.leaf_picked");
    assert_eq!(picks.filter(|pick| pick["nodeId"] == search["id"]).count(), 4);
    assert!(stdout(&succeeded(run(server, &["graph", &id]))).contains("s0  search · completed"));

    let out = work.path().join("export");
    succeeded(run(server, &["export", &id, out.to_str().unwrap()]));
    for (path, status) in
        [("s0", "expanded"), ("s0/s1", "expanded"), ("s0/s1/s0", "leaf"), ("s1", "expanded")]
    {
        let node = std::fs::read_to_string(out.join(path).join("node.json")).unwrap();
        assert!(node.contains(&format!("\"status\": \"{status}\"")), "{path}: {node}");
        assert!(out.join(path).join("document.md").is_file(), "{path}");
    }
    assert_eq!(dev.terminate(), 0);

    let (dir, archives) = (data.path().to_str().unwrap(), work.path().join("archives"));
    let folder = archives.to_str().unwrap();
    let verified =
        || lines(&succeeded(run("", &["verify", "--all", "--data-dir", dir, "-o", "jsonl"]))).remove(0);
    let sound = verified();
    assert_eq!(sound["sound"], true, "{sound}");
    let rebuilt = lines(&succeeded(run("", &["rebuild", &id, "--data-dir", dir, "-o", "jsonl"]))).remove(0);
    assert_eq!(rebuilt["differences"], 0, "{rebuilt}");
    std::fs::create_dir(&archives).unwrap();
    succeeded(run("", &["log", "prune", folder, "--older-than", "0s", "--data-dir", dir, "--yes"]));
    assert_eq!(verified()["archived"], true);
    succeeded(run("", &["log", "restore", folder, &id, "--data-dir", dir]));
    assert_eq!(verified(), sound);
}

#[test]
fn dev_keeps_runs_within_the_maxima_of_its_operator() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start_with("127.0.0.1:0", data.path(), &["--max-nodes", "9", "--max-tokens", "1000"]);
    // Just begun, `status` may say that no planner holds a lease yet, and exit with 1.
    let limits: Value = serde_json::from_str(&stdout(&run(&dev.server, &["status", "-o", "json"]))).unwrap();
    assert_eq!(
        (&limits["maxBudgets"]["maxNodes"], &limits["maxBudgets"]["maxTokens"]),
        (&9.into(), &1000.into()),
        "{limits}"
    );
    let refused = run(&dev.server, &["run", "why?", "--max-nodes", "10", "--detach"]);
    assert_eq!(code(&refused), 2);
    let said = stderr(&refused);
    assert!(said.contains("max_nodes") && said.contains("TREE_AGENT_MAX_NODES"), "{said}");
    // What is not asked for is filled in by the server, within its maxima.
    let estimate = stdout(&succeeded(run(&dev.server, &["run", "why?", "--estimate", "-o", "json"])));
    let estimate: Value = serde_json::from_str(&estimate).unwrap();
    assert_eq!(estimate["nodes"], 9, "{estimate}");
    let id = stdout(&succeeded(run(&dev.server, &["run", "why?", "--max-depth", "1", "--detach"])));
    let events = lines(&succeeded(run(&dev.server, &["events", id.trim(), "-o", "jsonl"])));
    let budgets = &events[0]["payload"]["budgets"];
    assert_eq!((&budgets["maxNodes"], &budgets["maxDepth"]), (&9.into(), &1.into()), "{}", events[0]);
    assert_eq!(dev.terminate(), 0);
    let wrong =
        program("").env("TREE_AGENT_MAX_DEPTH", "65").args(["dev", "--data-dir"]).arg(data.path()).output();
    let wrong = wrong.expect("the program starts");
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("TREE_AGENT_MAX_DEPTH"), "{}", stderr(&wrong));
}

#[tokio::test]
async fn models_are_listed_and_the_scripted_one_can_be_switched_off() {
    let data = tempfile::tempdir().unwrap();
    let list = async |server: &str| {
        let mut client = ModelServiceClient::connect(server.to_owned()).await.unwrap();
        client.list_models(ListModelsRequest {}).await.unwrap().into_inner()
    };
    let dev = Dev::start(data.path());
    let models = list(&dev.server).await;
    let find = |name: &str| models.models.iter().find(|m| m.name == name).expect(name);
    assert!(find("offline").usable && find("scripted").usable);
    assert!(models.scripted_keys.iter().any(|key| key.key == "fanout"));
    assert_eq!(dev.terminate(), 0);

    let dev = Dev::start_with("127.0.0.1:0", data.path(), &["--scripted", "off"]);
    let models = list(&dev.server).await;
    assert!(models.scripted_keys.is_empty() && models.models.iter().all(|m| m.name != "scripted"));
    let refused = run(&dev.server, &["run", "why?", "--model", "scripted:fanout=2", "--detach"]);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(said.contains("model") && said.contains("TREE_AGENT_SCRIPTED=on"), "{said}");
}

/// An answer of 1 MiB that waits for its reader would take a huge page of 2 MiB, twice what the budget of answers
/// counts.
#[cfg(target_os = "linux")]
#[test]
fn no_memory_is_asked_for_in_huge_pages() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", dev.child.id())).unwrap();
    let flags: Vec<&str> = smaps.lines().filter_map(|line| line.strip_prefix("VmFlags:")).collect();
    assert!(!flags.is_empty(), "the kernel tells no flags");
    assert!(!flags.iter().any(|flags| flags.split_whitespace().any(|flag| flag == "hg")), "{smaps}");
}

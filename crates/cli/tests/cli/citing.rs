//! `cite` and `stale` with a real server.

use crate::support::dev::{Dev, code, lines, run, stderr, stdout, succeeded};

#[test]
fn claims_are_listed_with_their_sources_and_stale_ones_are_found() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("tides.md");
    std::fs::write(&file, "# Tides\n\nSpring tides come twice a month, at new and full moon.\n").unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    let import = ["import", folder.path().to_str().unwrap(), "--project", "tides"];
    succeeded(run(server, &import));
    let model = "scripted:fanout=2,depth=1,artifacts=document,result_bytes=20,cite=4";
    succeeded(run(server, &["run", "cite", "-p", "tides", "--model", model, "-q"]));
    // Two children cite the source, and the root cites the first of them: each time two quotes of four are made up.
    let claims = lines(&succeeded(run(server, &["cite", "@latest", "-o", "jsonl"])));
    let verdicts: Vec<&str> = claims.iter().map(|claim| claim["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["verified", "not_found"].repeat(6));
    assert_eq!(claims[0]["ofRun"], true);
    assert_eq!(claims[4]["sourceTitle"], "Tides");
    let passage = &claims[4]["passage"];
    assert_eq!((passage["offset"].as_u64(), passage["bytes"].as_u64()), (Some(9), Some(54)));
    let shown = stdout(&succeeded(run(server, &["cite", "@latest"])));
    // The claims of the answer, each with its passage; the true ones have the same.
    let passage = "  ✓ “Spring tides come twice a month, at new and full moon.” — tides.md › Tides (via “Result of s0”)";
    assert_eq!(shown.lines().filter(|line| *line == passage).count(), 1, "{shown}");
    assert_eq!(shown.matches("Spring tides").count(), 1, "{shown}");
    assert!(shown.contains(" (see above)\n"), "{shown}");
    let shown = stdout(&succeeded(run(server, &["cite", "@latest", "--unverified"])));
    assert!(
        shown.contains("not found, the document does not contain these words") && !shown.contains('✓'),
        "{shown}"
    );
    assert!(
        stderr(&succeeded(run(server, &["cite", "@latest"])))
            .contains("Statements: 2 with quotes found in their sources, 2 with quotes not found")
    );
    let shown = stdout(&succeeded(run(server, &["result", "@latest"])));
    let counts =
        "*Statements: 2 with quotes found in their sources, 2 with quotes not found*\n\nResult of cite";
    assert!(shown.starts_with(counts), "{shown}");
    let output = succeeded(run(server, &["stale", "@latest"]));
    assert!(stderr(&output).contains("every passage that the run cites is still there"));

    std::fs::write(&file, "# Tides\n\nSpring tides come once a month, whatever the moon does.\n").unwrap();
    succeeded(run(server, &import));
    let output = run(server, &["stale", "@latest"]);
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    assert!(stdout(&output).contains("which has changed there"), "{}", stdout(&output));
    let output = run(server, &["stale", "@latest", "-o", "json"]);
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    // Two of each child, and two of the root that rest on them.
    assert_eq!(found["claims"].as_array().unwrap().len(), 6);
    assert_eq!(found["redoNodeIds"].as_array().unwrap().len(), 3);
    // What is gone has the name that it had.
    std::fs::rename(&file, folder.path().join("other.md")).unwrap();
    succeeded(run(server, &["import", folder.path().to_str().unwrap(), "--project", "tides", "--prune"]));
    let shown = stdout(&run(server, &["stale", "@latest"]));
    assert!(shown.contains(" — tides.md › Tides, which is gone"), "{shown}");
    assert_eq!(dev.terminate(), 0);
}

#[test]
fn a_node_is_named_by_the_id_that_graph_shows() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let server = dev.server.as_str();
    succeeded(run(server, &["run", "count", "--model", "scripted:fanout=4,depth=2", "-q"]));
    let shown = stdout(&succeeded(run(server, &["graph", "@latest"])));
    let id =
        |line: &str| line.split([' ', '─']).find(|word| word.len() >= 4 && is_hex(word)).map(str::to_owned);
    let ids: Vec<String> = shown.lines().skip(1).filter_map(id).collect();
    assert_eq!(ids.len(), 21, "{shown}");
    for id in &ids[..3] {
        let again = succeeded(run(server, &["fork", "@latest", "--retry", id, "--dry-run"]));
        assert!(stdout(&again).starts_with("re-runs "), "{id}: {again:?}");
    }
    // Of 21 ids two begin with the same of 16 digits.
    let digit =
        ids.iter().find(|id| ids.iter().filter(|other| other.starts_with(&id[..1])).count() > 1).unwrap();
    let output = run(server, &["fork", "@latest", "--retry", &digit[..1], "--dry-run"]);
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    let candidates = ids.iter().filter(|id| said.contains(&format!("\n  {id}"))).count();
    assert!(said.contains("give more of the one that you mean") && candidates > 1, "{said}");
    assert_eq!(dev.terminate(), 0);
}

fn is_hex(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_hexdigit())
}

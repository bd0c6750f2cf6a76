//! Recorded logs with the graphs that follow from them. The web UI's projection is tested against the same files, so
//! that both show the same tree.

use std::path::{Path, PathBuf};

use tree_agent_contract::Event;
use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_engine::{Graph, Run};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/fixtures")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn log(path: &Path) -> Vec<Event> {
    read(path).lines().map(|line| serde_json::from_str(line).expect("a recorded event")).collect()
}

/// Every recorded log and the graphs recorded for it: at the head, and at the seq in the name.
fn recorded() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .expect("the fixtures are there")
        .map(|e| e.expect("readable").path())
        .collect();
    names.sort();
    let logs = names.iter().filter(|p| p.extension().is_some_and(|e| e == "jsonl"));
    logs.map(|log| {
        let stem = log.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        let of_log = |p: &&PathBuf| {
            let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.ends_with(".graph.json") && name.split('.').next() == Some(stem.as_str())
        };
        (log.clone(), names.iter().filter(of_log).cloned().collect())
    })
    .collect()
}

#[test]
fn recorded_logs_give_the_recorded_graphs() {
    let recorded = recorded();
    assert!(recorded.len() >= 4, "only {} recorded logs", recorded.len());
    for (path, graphs) in recorded {
        assert!(!graphs.is_empty(), "{}: no graph is recorded", path.display());
        let log = log(&path);
        for expected in graphs {
            let snapshot: GraphSnapshot = serde_json::from_str(&read(&expected)).expect("a recorded graph");
            let mut graph = Graph::new(snapshot.run_id);
            log.iter()
                .take(snapshot.seq as usize)
                .for_each(|e| graph.apply(e).expect("a recorded log applies"));
            assert_eq!(graph.snapshot(), snapshot, "{}", expected.display());
        }
    }
}

#[test]
fn recorded_logs_replay_to_the_same_bytes() {
    for (path, _) in recorded() {
        let log = log(&path);
        let once = Run::replay(log[0].run_id, &log).expect("replays");
        assert!(once.is_final(), "{}", path.display());
        let again = Run::replay(log[0].run_id, &log).expect("replays");
        assert_eq!(once.to_bytes(), again.to_bytes(), "{}", path.display());
    }
}

//! The files of the engine import downwards only, in the order of the picture in docs/engine.md.

use std::path::Path;

/// Every file, the lowest first. Each imports only files above it in this list.
const ORDER: &[&str] = &[
    "amounts",
    "retry",
    "behaviour",
    "bands",
    "call",
    "input",
    "waiting",
    "graph",
    "graph/leases",
    "graph/models",
    "graph/node",
    "diff_text",
    "diff_nodes",
    "diff_pairs",
    "diff",
    "documents",
    "start",
    "steering",
    "answers",
    "state",
    "state/forked",
    "state/leases",
    "state/status",
    "state/steered",
    "state/tools",
    "iterations",
    "topics",
    "topics/steering",
    "outline",
    "ready",
    "in_flight",
    "lease_time",
    "budgets",
    "leases",
    "pacing",
    "calls",
    "briefing",
    "decide",
    "decide/documents",
    "decide/ending",
    "decide/result",
    "decide/listing",
    "strategy/rules",
    "strategy/bands",
    "strategy/verified",
    "strategy/review",
    "strategy/tree",
    "strategy/notes",
    "strategy/homework",
    "strategy/returned",
    "strategy/picks",
    "strategy/search",
    "strategy",
    "steer/nodes",
    "steer/pause",
    "steer/stop",
    "steer/reopen",
    "steer/retry",
    "steer/plan",
    "steer/budget",
    "steer/lease",
    "steer/preview",
    "steer",
    "steer/fork",
    "run",
    "audit/bands",
    "audit/homework",
    "audit/leases",
    "audit/search",
    "audit",
    "lib",
];

/// The files that `text`, which belongs to `file`, names in its paths.
fn imports<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let folder = file.split_once('/').map_or("", |(folder, _)| folder);
    code.flat_map(move |line| {
        let named = |start: &str, within: &str| -> Vec<String> {
            let paths = line.match_indices(start).map(|(at, _)| &line[at + start.len()..]);
            let name =
                paths.map(|p| p.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or(""));
            name.map(|name| match (within, name) {
                ("", name) => name.to_owned(),
                (folder, "") => folder.to_owned(),
                (folder, name) => format!("{folder}/{name}"),
            })
            .collect()
        };
        let mut found = named("crate::", "");
        if !folder.is_empty() {
            found.extend(named("super::", folder));
        }
        found
    })
}

#[test]
fn every_file_imports_only_files_below_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let place = |file: &str| ORDER.iter().position(|f| *f == file);
    let mut checked = 0;
    let folders = ["", "graph", "state", "decide", "strategy", "steer", "topics", "audit"]
        .map(|folder| src.join(folder));
    for path in folders.iter().flat_map(|f| std::fs::read_dir(f).expect("sources")) {
        let path = path.expect("readable").path();
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let name = path.strip_prefix(&src).expect("below src").with_extension("");
        let name = name.to_str().expect("a name").replace('\\', "/");
        let own = place(&name).unwrap_or_else(|| panic!("{name} has no place in the order"));
        let text = std::fs::read_to_string(&path).expect("readable");
        let text = text.split("mod tests {").next().unwrap_or_default();
        for import in imports(&name, text) {
            if let Some(other) = place(&import) {
                assert!(other < own, "{name} imports {import}, which is not below it");
            }
        }
        checked += 1;
    }
    assert_eq!(checked, ORDER.len(), "the order names a file that does not exist");
}

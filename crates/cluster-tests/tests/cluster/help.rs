//! What `--help` of the programs says.

use std::collections::BTreeSet;
use std::process::Command;

use tree_agent_cluster_tests::program;

const PROGRAMS: &[&str] = &[
    "tree-agent",
    "tree-agent-planner",
    "tree-agent-executor",
    "tree-agent-aggregator",
    "tree-agent-event-gateway",
];

/// The heading of what needs none of its own.
const OTHERS: &str = "Options";

/// Headings, and how the options below them begin. A heading of clap's holds for all options that follow it, also in
/// the structs behind it.
const HEADINGS: &[(&str, &[&str])] = &[
    ("Authentication", &["auth-"]),
    ("Budgets", &["budget", "call-timeout", "max-"]),
    (
        "Calls between services",
        &[
            "aggregators",
            "allow-plaintext-token",
            "ca-file",
            "executors",
            "gateway",
            "planners",
            "role-token-file",
        ],
    ),
    (
        "Connections",
        &[
            "allowed-origins",
            "answer-mib",
            "body-",
            "first-request-seconds",
            "hosts",
            "idle-seconds",
            "keepalive-",
            "max-connections",
            "open-requests",
            "proxies",
            "streams-per-connection",
            "unread-answers",
        ],
    ),
    ("Driver", &["commit-lanes", "lease-ms", "max-calls", "max-runs"]),
    ("Files of --dir", &["exclude", "include", "no-ignore"]),
    (
        "Filters",
        &[
            "before",
            "copies-of",
            "forks-of",
            "label",
            "model",
            "objective",
            "project",
            "since",
            "status",
            "strategy",
            "user",
        ],
    ),
    (
        "Global options",
        &["allow-plaintext-token", "ca-file", "color", "log", "output", "quiet", "server", "token-file"],
    ),
    ("Language models", &["anthropic-base-url", "gemini-base-url", "model-", "models"]),
    ("Limits of runs", &["max-"]),
    ("Logs", &["log"]),
    ("Models", &["model", "scripted"]),
    (
        "Search",
        &["concurrency", "frontmatter-schema", "picker", "synthesis", "children-prompt", "document-prompt"],
    ),
    ("Storage", &["database-", "fanout-key-file", "redis-url"]),
    ("Streams", &["stall-seconds", "stream-age-seconds"]),
    ("Tools", &["tools-config"]),
    ("Without a server", &["data-dir", "local", "resume", "scripted", "tools-config"]),
];

/// What `--help` of a program or one of its commands prints.
fn help(words: &[&str]) -> String {
    let output = Command::new(program(words[0])).args(&words[1..]).arg("--help").output().expect("runs");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

/// The headings of a help text, each with the first words of its indented lines.
fn sections(help: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections = Vec::new();
    for line in help.lines() {
        match line.strip_suffix(':') {
            Some(heading) if !line.starts_with(' ') => sections.push((heading, Vec::new())),
            _ => {
                if let (Some((_, lines)), Some(word)) = (sections.last_mut(), named(line)) {
                    lines.push(word);
                }
            }
        }
    }
    sections
}

/// The long option or the command that a line of help begins with. Lines that go on are indented further.
fn named(line: &str) -> Option<&str> {
    let indent = line.len() - line.trim_start().len();
    if !(1..=6).contains(&indent) {
        return None;
    }
    line.split_whitespace().find(|word| word.starts_with("--") || !word.starts_with('-'))
}

/// Checks the program or command that `words` call, and every command below it. `seen` gets the headings.
fn check(words: &[&str], seen: &mut BTreeSet<String>) {
    for (heading, names) in sections(&help(words)) {
        if heading == "Commands" {
            names
                .iter()
                .filter(|name| **name != "help")
                .for_each(|name| check(&[words, &[name]].concat(), seen));
            continue;
        }
        let mut options = names.iter().filter_map(|name| name.strip_prefix("--"));
        let Some((_, fitting)) = HEADINGS.iter().find(|(name, _)| *name == heading) else {
            assert!(heading == OTHERS || options.next().is_none(), "{words:?}: {heading} {names:?}");
            continue;
        };
        for option in options {
            let fits = fitting.iter().any(|start| option.starts_with(start));
            assert!(fits, "{words:?}: {heading}: --{option}");
        }
        seen.insert(heading.to_owned());
    }
}

#[test]
fn options_stand_under_headings_that_fit() {
    let mut seen = BTreeSet::new();
    PROGRAMS.iter().for_each(|program| check(&[program], &mut seen));
    for (heading, _) in HEADINGS {
        assert!(seen.contains(*heading), "{heading} heads nothing");
    }
}

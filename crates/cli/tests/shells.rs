//! Completion in real shells, in a terminal: a key is pressed, and the shell writes the rest of the word.

#[path = "support/fake.rs"]
mod fake;
#[path = "support/terminal.rs"]
mod terminal;

use std::path::Path;

use fake::{Fake, HOSTILE_NAME, log, run_id};
use pty_process::blocking::Command;
use terminal::Terminal;
use tree_agent_contract::{NodeId, RunStatus};

/// What is typed, and what it becomes when Tab is pressed.
fn completions(server: &str) -> Vec<(String, String)> {
    let (run, node) = (run_id().to_string(), NodeId::root(run_id()).to_string());
    let case = |typed: &str, becomes: &str| (typed.to_owned(), becomes.to_owned());
    vec![
        case("tree-agent wat", "tree-agent watch"),
        case("tree-agent graph --form", "tree-agent graph --format"),
        case("tree-agent graph --format merm", "tree-agent graph --format mermaid"),
        case("tree-agent completions power", "tree-agent completions powershell"),
        case("tree-agent log prun", "tree-agent log prune"),
        // A URL is one word, although Bash cuts it at the colons.
        (format!("tree-agent --server {server} canc"), format!("tree-agent --server {server} cancel")),
        // What the server knows.
        case("tree-agent watch 0190", &format!("tree-agent watch {run}")),
        case("tree-agent graph --at 3 0190", &format!("tree-agent graph --at 3 {run}")),
        case(&format!("tree-agent guide {run} {}", &node[..8]), &format!("tree-agent guide {run} {node}")),
        case(
            &format!("tree-agent fork {run} --retry {}", &node[..8]),
            &format!("tree-agent fork {run} --retry {node}"),
        ),
        case(
            &format!("tree-agent fork {run} --guide {}", &node[..8]),
            &format!("tree-agent fork {run} --guide {node}"),
        ),
        case("tree-agent run why --project handb", "tree-agent run why --project handbook-of-leases"),
    ]
}

/// Names that somebody else chose, in each of the quotes of `shell`, and from the middle.
fn quoted(shell: &str) -> Vec<(String, String)> {
    let case = |typed: &str, becomes: &str| (typed.to_owned(), becomes.to_owned());
    assert_eq!(HOSTILE_NAME, "it's $(touch run)");
    let in_single = if shell == "fish" { r"'it\'s $(touch run)'" } else { r"'it'\''s $(touch run)'" };
    let escaped = r"tree-agent run why --project it\'s\ \$\(touch\ run\)";
    vec![
        case("tree-agent run why --project it", escaped),
        case(r"tree-agent run why --project it\'s\ ", escaped),
        case("tree-agent run why --project \"it", r#"tree-agent run why --project "it's \$(touch run)""#),
        case("tree-agent run why --project \"it's ", r#"tree-agent run why --project "it's \$(touch run)""#),
        case("tree-agent run why --project 'it", &format!("tree-agent run why --project {in_single}")),
    ]
}

/// Starts `shell` with completions, and tries them all.
async fn completes(shell: &str, arguments: &[&str], set_up: &str) {
    let (_fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let program = Path::new(env!("CARGO_BIN_EXE_tree-agent"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let home = tempfile::tempdir().unwrap();
    let command = Command::new(shell)
        .args(arguments)
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .env("XDG_DATA_HOME", home.path())
        .env("PATH", path)
        .env("TREE_AGENT_SERVER", "http://127.0.0.1:1")
        .env_remove("TREE_AGENT_LOG");
    let (shell, set_up) = (shell.to_owned(), set_up.to_owned());
    tokio::task::spawn_blocking(move || {
        let terminal = Terminal::start(command, 40, 200);
        // Quoted, so that the echo of the command is no answer to it.
        terminal.press(&format!("{set_up}; export TREE_AGENT_SERVER={server}; echo set'-'up\n"));
        terminal.wait_for_text("set-up");
        for (typed, becomes) in completions(&server).into_iter().chain(quoted(&shell)) {
            terminal.press(&typed);
            terminal.wait_for_text(&typed);
            terminal.press("\t");
            terminal.wait_for(&format!("{shell} to complete {typed:?}"), |screen| {
                screen.contents().contains(&becomes)
            });
            // Clears the line and the screen, so that the next completion is not read from this one.
            terminal.press("\x15");
            terminal.press("clear; echo clea'red'\n");
            terminal.wait_for("a clear screen", |screen| {
                let contents = screen.contents();
                contents.contains("cleared") && !contents.contains(&typed)
            });
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_completes() {
    completes("bash", &["--norc", "--noprofile", "-i"], "source <(tree-agent completions bash)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zsh_completes() {
    let set_up = "autoload -Uz compinit; compinit -u -D; source <(tree-agent completions zsh)";
    completes("zsh", &["-f", "-i"], set_up).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fish_completes() {
    let set_up = "set fish_greeting; set fish_autosuggestion_enabled 0; tree-agent completions fish | source";
    completes("fish", &["--no-config", "-i"], set_up).await;
}

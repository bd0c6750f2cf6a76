//! What is drawn on a real terminal.

use std::sync::mpsc;

use crate::support::fake::{Call, Fake, Then, document_id, log, message, run_id};
use crate::support::terminal::{PATIENCE, Terminal};
use pty_process::blocking::Command;
use tree_agent_contract::RunStatus;
use vt100::Screen;

fn program(server: &str, args: &[&str]) -> Command {
    Command::new(env!("CARGO_BIN_EXE_tree-agent"))
        .args(args)
        .env("TREE_AGENT_SERVER", server)
        .env_remove("TREE_AGENT_LOG")
        .env_remove("NO_COLOR")
}

/// Runs what looks at a terminal, beside the server.
async fn looking<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(look).await.unwrap()
}

/// A run that is under way for ever: its first events, then silence.
fn under_way() -> Call {
    Call { send: log(RunStatus::Completed, false)[..4].iter().map(message).collect(), then: Then::Silence }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_do_not_tear_the_tree() {
    let (_fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let run = run_id().to_string();
    looking(move || {
        // Everything is logged, while the tree is drawn: the lines go above it.
        let command = program(&server, &["run", "why?", "--log", "debug"]);
        let (code, end) = Terminal::start(command, 30, 120).end();
        assert_eq!(code, Some(0), "{}", end.text);
        assert!(end.text.contains("DEBUG"), "there are log lines: {}", end.text);
        let drawn = end.text.matches(&format!("✓ run {run}  completed")).count();
        assert_eq!(drawn, 1, "the tree is there once: {}", end.text);
        let headlines = end.text.lines().filter(|line| line.contains(&format!(" run {run}  "))).count();
        assert_eq!(headlines, 1, "no older state of the tree is left: {}", end.text);
        assert!(!end.cursor_is_hidden);
        let answer = end.text.find("\nBecause").expect("the answer");
        assert!(end.text.find("✓ run").unwrap() < answer, "the answer follows the tree: {}", end.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_restores_the_terminal() {
    let (_fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![under_way()]).await;
    looking(move || {
        let terminal = Terminal::start(program(&server, &["watch", &run_id().to_string()]), 30, 120);
        terminal.wait_for("the tree", |screen| {
            screen.contents().contains("why?  executing") && screen.hide_cursor()
        });
        terminal.press("\x03");
        let (code, end) = terminal.end();
        assert_eq!(code, Some(130), "{}", end.text);
        assert!(!end.cursor_is_hidden, "{}", end.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ctrl_c_ends_a_command_that_is_stuck_and_restores_the_terminal() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    // The command waits for the name of a project, and does not look at the first Ctrl-C meanwhile.
    let (called, stuck) = mpsc::channel();
    fake.0.lock().unwrap().stuck_project = Some(called);
    looking(move || {
        let terminal = Terminal::start(program(&server, &["runs", "--watch", "--log", "info"]), 30, 120);
        terminal.wait_for("the hidden cursor", Screen::hide_cursor);
        stuck.recv_timeout(PATIENCE).expect("the command asks for the project");
        terminal.press("\x03");
        terminal.wait_for("the first Ctrl-C is seen", |screen| {
            screen.contents().contains("draining") && screen.hide_cursor()
        });
        terminal.press("\x03");
        let (code, end) = terminal.end();
        assert_eq!(code, Some(130), "{}", end.text);
        assert!(end.text.contains("ending at once"), "{}", end.text);
        assert!(!end.cursor_is_hidden, "no destructor ran, so the signal's handler must have: {}", end.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_drawn_in_place_as_it_changes() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().others = vec!["who?".into(), "where?".into()];
    looking(move || {
        let terminal = Terminal::start(program(&server, &["runs", "--watch"]), 20, 140);
        let text = terminal.wait_for("the list", |screen| screen.contents().contains("where?"));
        assert!(text.contains("STATUS") && text.contains("handbook-of-leases"), "{text}");
        terminal.press("\x03");
        let (code, end) = terminal.end();
        assert_eq!(code, Some(130));
        assert_eq!(end.text.matches("STATUS").count(), 1, "{}", end.text);
        assert!(!end.cursor_is_hidden);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_says_why_it_is_empty() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().lists_nothing = true;
    looking(move || {
        for (filter, said) in [
            (&["--objective", "zorblatt"][..], "no run matches --objective \"zorblatt\"; Ctrl-C ends"),
            (&[], "there are no runs yet; begin one with `tree-agent run OBJECTIVE`; Ctrl-C ends"),
        ] {
            let args: Vec<&str> = ["runs", "--watch"].into_iter().chain(filter.iter().copied()).collect();
            let terminal = Terminal::start(program(&server, &args), 20, 140);
            terminal.wait_for(said, |screen| screen.contents().contains(said));
            terminal.press("\x03");
            assert_eq!(terminal.end().0, Some(130));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_gets_short_ids_and_colours() {
    let (_fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    looking(move || {
        let (code, end) = Terminal::start(program(&server, &["runs"]), 20, 140).end();
        assert_eq!(code, Some(0));
        assert!(end.text.contains("6c1d2e4b  ✓ completed"), "{}", end.text);
        assert!(!end.text.contains(&run_id().to_string()), "{}", end.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_gets_documents_without_control_characters() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().body = "kept\x1b[2J\x1b]0;title\x07 and \u{202e}shown".into();
    looking(move || {
        for args in [["doc", &document_id().to_string()], ["result", &run_id().to_string()]] {
            let (code, end) = Terminal::start(program(&server, &args), 20, 100).end();
            assert_eq!(code, Some(0));
            assert!(end.text.contains("kept[2J]0;title and shown"), "{}", end.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_gets_the_answer_laid_out_unless_it_is_wanted_raw() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    fake.0.lock().unwrap().body = "# Because\n\n- one **two**\n".into();
    looking(move || {
        let run = run_id().to_string();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("answer.md");
        for (args, shown) in [
            (&["result", &run][..], "• one two"),
            (&["result", &run, "--raw"], "- one **two**"),
            (&["run", "why?", "--out", file.to_str().unwrap()], "• one two"),
        ] {
            let (code, end) = Terminal::start(program(&server, args), 20, 100).end();
            assert_eq!(code, Some(0));
            assert!(end.text.contains(shown), "{args:?}: {}", end.text);
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "# Because\n\n- one **two**\n");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_argument_brings_no_looks_of_its_own() {
    looking(move || {
        let terminal = Terminal::start(program("", &["diff", "A\x1b[7mhidden", "@1"]), 20, 100);
        terminal.wait_for("the argument", |screen| {
            let is_inverse = |at: u16| screen.cell(at / 100, at % 100).is_some_and(|cell| cell.inverse());
            assert!(!(0..2_000).any(is_inverse), "{}", screen.contents());
            screen.contents().contains("Ahidden")
        });
        let (code, end) = terminal.end();
        assert_eq!(code, Some(2), "{}", end.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_removed_after_a_confirmation() {
    let (data, archives) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = data.path().to_str().unwrap().to_owned();
    let folder = archives.path().to_str().unwrap().to_owned();
    looking(move || {
        let run = ["run", "--local", "--data-dir", &dir, "-q", "--model", "offline", "why?"];
        let (code, end) = Terminal::start(program("", &run), 20, 100).end();
        assert_eq!(code, Some(0), "{}", end.text);
        let prune = ["log", "prune", &folder, "--older-than", "0s", "--data-dir", &dir];
        for (answer, expected, said) in
            [("n\n", 2, "nothing was removed"), ("y\n", 0, "archived and removed")]
        {
            let terminal = Terminal::start(program("", &prune), 20, 100);
            terminal.wait_for_text("Archive 1 run and remove it from the store? [y/N]");
            terminal.press(answer);
            let (code, end) = terminal.end();
            assert_eq!(code, Some(expected), "{}", end.text);
            assert!(end.text.contains(said), "{}", end.text);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_shows_its_progress_and_restores_the_terminal() {
    let (fake, server) = Fake::serve(log(RunStatus::Completed, false), vec![]).await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.md"] {
        std::fs::write(folder.path().join(name), "text").unwrap();
    }
    // The import waits for the project.
    let (called, stuck) = mpsc::channel();
    fake.0.lock().unwrap().stuck_project = Some(called);
    looking(move || {
        let dir = folder.path().to_str().unwrap();
        let terminal = Terminal::start(program(&server, &["import", dir, "--project", "docs"]), 30, 120);
        stuck.recv_timeout(PATIENCE).expect("the import asks for the project");
        terminal.wait_for("the progress", |screen| {
            screen.contents().contains("░ · 0 of 2 files") && screen.hide_cursor()
        });
        terminal.press("\x03");
        let (code, end) = terminal.end();
        assert_eq!(code, Some(130), "{}", end.text);
        assert!(end.text.contains("the next import continues"), "{}", end.text);
        assert!(!end.cursor_is_hidden, "{}", end.text);
    })
    .await;
}

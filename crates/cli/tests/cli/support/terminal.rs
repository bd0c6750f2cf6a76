//! A program in a terminal of its own, as its user sees it: keys go in, and the screen is looked at.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use vt100::{Parser, Screen};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Lines that are kept when they have scrolled away.
const SCROLLBACK: usize = 2_000;

/// The terminal, and the program in it.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    output: Arc<(Mutex<Output>, Condvar)>,
    child: Child,
}

struct Output {
    parser: Parser,
    /// The program and everything it started have closed the terminal.
    closed: bool,
}

impl Terminal {
    /// Starts `command` in a terminal with so many rows and columns.
    pub(crate) fn start(command: Command, rows: u16, columns: u16) -> Self {
        let (pty, pts) = open().expect("there are terminals");
        pty.resize(pty_process::Size::new(rows, columns)).unwrap();
        let child = command.env("TERM", "xterm-256color").spawn(pts).expect("the program starts");
        let size = |n| NonZeroU16::new(n).unwrap();
        let parser = Parser::new(size(rows), size(columns), SCROLLBACK);
        let output = Arc::new((Mutex::new(Output { parser, closed: false }), Condvar::new()));
        let pty = Arc::new(pty);
        let (read, shared) = (pty.clone(), output.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            loop {
                // A terminal that nobody has open any more fails to be read.
                let n = (&*read).read(&mut buffer).unwrap_or(0);
                let mut output = shared.0.lock().unwrap();
                output.parser.process(&buffer[..n]);
                output.closed = n == 0;
                shared.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        Self { pty, output, child }
    }

    /// Presses keys.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// Waits until the screen is as it should be, and returns its text.
    pub(crate) fn wait_for(&self, what: &str, is_there: impl Fn(&Screen) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        let mut output = self.output.0.lock().unwrap();
        loop {
            let screen = output.parser.screen();
            if is_there(screen) {
                return screen.contents();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !output.closed,
                "waiting for {what}; the screen is:\n{}",
                screen.contents()
            );
            output = self.output.1.wait_timeout(output, left).unwrap().0;
        }
    }

    /// Waits until the screen shows `text`.
    pub(crate) fn wait_for_text(&self, text: &str) -> String {
        self.wait_for(&format!("{text:?}"), |screen| screen.contents().contains(text))
    }

    /// Waits until the program has ended, and returns its exit code and what was on the screen, with the lines that had
    /// scrolled away.
    pub(crate) fn end(mut self) -> (Option<i32>, End) {
        let until = Instant::now() + PATIENCE;
        let mut output = self.output.0.lock().unwrap();
        while !output.closed {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "does not end; the screen is:\n{}", output.parser.screen().contents());
            output = self.output.1.wait_timeout(output, left).unwrap().0;
        }
        let mut text = String::new();
        let screen = output.parser.screen_mut();
        let cursor_is_hidden = screen.hide_cursor();
        let (rows, columns) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut above = screen.scrollback();
        while above > 0 {
            screen.set_scrollback(above);
            let page = above.min(rows.get().into());
            screen.rows(0, columns.get()).take(page).for_each(|row| text.push_str(&format!("{row}\n")));
            above -= page;
        }
        screen.set_scrollback(0);
        text.push_str(&screen.contents());
        drop(output);
        (self.child.wait().unwrap().code(), End { text, cursor_is_hidden })
    }
}

/// What a program left on its terminal.
pub(crate) struct End {
    /// Every line.
    pub(crate) text: String,
    pub(crate) cursor_is_hidden: bool,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Drawing in place: a block of lines at the bottom of stderr that is drawn over itself without flicker, and is left
//! whole at the end. Whatever else is printed on stderr meanwhile goes above the block ([`print_above`]), so that no
//! warning tears it.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use crossterm::{cursor, queue, terminal};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};

use super::line::Line;
use super::paint::{Palette, width};
use crate::error::CliError;

/// The shortest time between two drawings.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
/// How long restoring the terminal may hold up the end of the process.
const RESTORE: Duration = Duration::from_millis(500);

/// What is drawn on stderr now.
static BLOCK: Mutex<Block> = Mutex::new(Block { widths: Vec::new(), frame: Vec::new() });

/// Whether the cursor was ever hidden.
static HAS_HIDDEN: AtomicBool = AtomicBool::new(false);
/// Whether this program told the terminal to keep its output.
static KEEPS_OUTPUT: AtomicBool = AtomicBool::new(false);

struct Block {
    /// The widths of the lines on the screen: a window made narrower wraps them.
    widths: Vec<usize>,
    /// The lines as they were written.
    frame: Vec<u8>,
}

impl Block {
    fn lock() -> MutexGuard<'static, Self> {
        BLOCK.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the cursor to the beginning of the block.
    fn rewind(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let (columns, rows) = Live::window();
        let above: usize = self.widths.iter().map(|w| w.div_ceil(columns).max(1)).sum();
        // Further up than the window has rows is history that no escape sequence reaches.
        if let Ok(up @ 1..) = u16::try_from(above.min(rows)) {
            queue!(out, cursor::MoveToPreviousLine(up))?;
        }
        Ok(())
    }
}

/// A block of lines at the bottom of the terminal; there is one at a time. The cursor is hidden while it lives, and
/// restored when it is dropped, however that comes about.
pub(crate) struct Live {
    palette: Palette,
}

impl Live {
    /// Hides the cursor.
    pub(crate) fn begin(palette: Palette) -> Result<Self, CliError> {
        HAS_HIDDEN.store(true, Ordering::Relaxed);
        keep_output(true);
        crossterm::execute!(io::stderr(), cursor::Hide)?;
        Ok(Self { palette })
    }

    /// Columns and rows of the window.
    pub(crate) fn window() -> (usize, usize) {
        // Some terminals do not know their size, and say 0.
        let known = terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0);
        let (columns, rows) = known.unwrap_or((80, 24));
        (usize::from(columns).max(2), usize::from(rows).max(4))
    }

    /// Draws the lines, cut to the window, over what was drawn before.
    pub(crate) fn draw(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let columns = Self::window().0.saturating_sub(1);
        let plain = Palette { colour: false };
        let rendered = |line: &Line| (line.render(columns, self.palette), line.render(columns, plain));
        self.draw_text(&lines.iter().map(rendered).collect::<Vec<_>>())
    }

    /// Draws lines, each with its colours and without, over what was drawn before, in one write.
    pub(crate) fn draw_text(&mut self, lines: &[(String, String)]) -> Result<(), CliError> {
        let mut block = Block::lock();
        let mut out = Vec::with_capacity(4096);
        queue!(out, terminal::BeginSynchronizedUpdate)?;
        block.rewind(&mut out)?;
        block.widths.clear();
        block.frame.clear();
        for (coloured, plain) in lines {
            queue!(block.frame, terminal::Clear(terminal::ClearType::CurrentLine))?;
            block.widths.push(width(plain));
            block.frame.extend_from_slice(coloured.as_bytes());
            block.frame.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(&block.frame);
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown), terminal::EndSynchronizedUpdate)?;
        write_stderr(&out)?;
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut block = Block::lock();
        block.widths.clear();
        block.frame.clear();
        show_cursor();
    }
}

/// Prints whole lines on stderr, above the block if one is drawn.
pub(crate) fn print_above(text: &[u8]) -> io::Result<()> {
    let block = Block::lock();
    if block.frame.is_empty() {
        return write_stderr(text);
    }
    let mut out = Vec::with_capacity(text.len() + block.frame.len() + 64);
    queue!(out, terminal::BeginSynchronizedUpdate)?;
    block.rewind(&mut out)?;
    queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
    out.extend_from_slice(text);
    if !text.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.extend_from_slice(&block.frame);
    queue!(out, terminal::EndSynchronizedUpdate)?;
    write_stderr(&out)
}

/// Shows the cursor again before the process ends without running destructors. A terminal that takes no output, such
/// as one that was halted with Ctrl-S, does not hold this up.
pub(crate) fn restore_terminal() {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        show_cursor();
        keep_output(false);
        let _ = done.send(());
    });
    let _ = wait.recv_timeout(RESTORE);
}

/// At a Ctrl-C a terminal drops what it has not shown yet, which may be the sequence that shows the cursor again. With
/// `keep` it does not, until it is told otherwise.
fn keep_output(keep: bool) {
    let terminal = io::stderr();
    // Changing the modes of a terminal from the background would stop the process.
    let is_in_front = tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp());
    if !is_in_front || keep == KEEPS_OUTPUT.load(Ordering::Relaxed) {
        return;
    }
    let Ok(mut modes) = tcgetattr(&terminal) else { return };
    if keep && modes.local_modes.contains(LocalModes::NOFLSH) {
        return;
    }
    modes.local_modes.set(LocalModes::NOFLSH, keep);
    if tcsetattr(&terminal, OptionalActions::Now, &modes).is_ok() {
        KEEPS_OUTPUT.store(keep, Ordering::Relaxed);
    }
}

/// Shows the cursor again if it was ever hidden.
pub(crate) fn restore_if_drawn() {
    if HAS_HIDDEN.load(Ordering::Relaxed) {
        restore_terminal();
    }
}

fn show_cursor() {
    if io::stderr().is_terminal() {
        let _ = crossterm::execute!(io::stderr(), cursor::Show);
    }
}

fn write_stderr(bytes: &[u8]) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(bytes)?;
    stderr.flush()
}

/// Where log lines go: to stderr, above the block. Each event is one write.
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        print_above(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

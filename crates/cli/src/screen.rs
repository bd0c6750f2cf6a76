//! Drawing in place: a block of lines at the bottom of stderr that is drawn over itself without flicker, and is left
//! whole at the end. Whatever else is printed on stderr meanwhile goes above the block ([`print_above`]), so that no
//! warning tears it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstream::adapter::strip_str;
use crossterm::{cursor, queue, terminal};

use crate::view::Line;
use crate::view::paint::{Palette, width};

/// The shortest time between two drawings.
pub(crate) const FRAME: Duration = Duration::from_millis(100);

/// What is drawn on stderr now.
static BLOCK: Mutex<Block> = Mutex::new(Block { widths: Vec::new(), frame: Vec::new() });

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
        let (columns, rows) = window();
        let above: usize = self.widths.iter().map(|w| w.div_ceil(columns).max(1)).sum();
        // Further up than the window has rows is history that no escape sequence reaches.
        if let Ok(up @ 1..) = u16::try_from(above.min(rows)) {
            queue!(out, cursor::MoveToPreviousLine(up))?;
        }
        Ok(())
    }
}

/// Columns and rows of the window.
pub(crate) fn window() -> (usize, usize) {
    // Some terminals do not know their size, and say 0.
    let known = terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0);
    let (columns, rows) = known.unwrap_or((80, 24));
    (usize::from(columns).max(2), usize::from(rows).max(4))
}

/// A block of lines at the bottom of the terminal; there is one at a time. The cursor is hidden while it lives, and
/// restored when it is dropped, however that comes about.
pub(crate) struct Live {
    palette: Palette,
}

impl Live {
    /// Hides the cursor.
    pub(crate) fn begin(palette: Palette) -> io::Result<Self> {
        crossterm::execute!(io::stderr(), cursor::Hide)?;
        Ok(Self { palette })
    }

    /// Draws the lines, cut to the window, over what was drawn before.
    pub(crate) fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let columns = window().0.saturating_sub(1);
        let rendered = |line: &Line| line.render(columns, self.palette);
        self.draw_text(&lines.iter().map(rendered).collect::<Vec<_>>())
    }

    /// Draws lines that fit the window over what was drawn before, in one write.
    pub(crate) fn draw_text(&mut self, lines: &[String]) -> io::Result<()> {
        let mut block = Block::lock();
        let mut out = Vec::with_capacity(4096);
        queue!(out, terminal::BeginSynchronizedUpdate)?;
        block.rewind(&mut out)?;
        block.widths.clear();
        block.frame.clear();
        for line in lines {
            queue!(block.frame, terminal::Clear(terminal::ClearType::CurrentLine))?;
            block.widths.push(width(&strip_str(line).to_string()));
            block.frame.extend_from_slice(line.as_bytes());
            block.frame.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(&block.frame);
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown), terminal::EndSynchronizedUpdate)?;
        write_stderr(&out)
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

/// Shows the cursor, also before the process ends without running destructors.
pub(crate) fn show_cursor() {
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

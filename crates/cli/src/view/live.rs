//! Drawing in place: a block of lines that is drawn over itself, without flicker, and left whole at the end.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::{cursor, queue, terminal};

use super::line::Line;
use super::paint::{Palette, width};
use crate::error::CliError;

/// The shortest time between two drawings.
pub(crate) const FRAME: Duration = Duration::from_millis(100);

/// A block of lines at the bottom of the terminal. The cursor is hidden while it lives, and restored when it is
/// dropped, however that comes about.
pub(crate) struct Live {
    palette: Palette,
    /// The widths of the lines on the screen: a window made narrower wraps them.
    drawn: Vec<usize>,
}

impl Live {
    /// Hides the cursor.
    pub(crate) fn begin(palette: Palette) -> Result<Self, CliError> {
        crossterm::execute!(io::stdout(), cursor::Hide)?;
        Ok(Self { palette, drawn: Vec::new() })
    }

    /// Columns and rows of the window.
    pub(crate) fn window() -> (usize, usize) {
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        (usize::from(columns).max(20), usize::from(rows).max(4))
    }

    /// Draws the lines over what was drawn before, in one write.
    pub(crate) fn draw(&mut self, lines: &[Line]) -> Result<(), CliError> {
        let (columns, rows) = Self::window();
        let mut frame = Vec::with_capacity(4096);
        queue!(frame, terminal::BeginSynchronizedUpdate)?;
        let above: usize = self.drawn.iter().map(|w| w.div_ceil(columns).max(1)).sum();
        // Further up than the window has rows is history that no escape sequence reaches.
        if let Ok(up @ 1..) = u16::try_from(above.min(rows)) {
            queue!(frame, cursor::MoveToPreviousLine(up))?;
        }
        self.drawn.clear();
        for line in lines {
            queue!(frame, terminal::Clear(terminal::ClearType::CurrentLine))?;
            let text = line.render(columns.saturating_sub(1), self.palette);
            self.drawn.push(width(&line.render(columns.saturating_sub(1), Palette { colour: false })));
            frame.extend_from_slice(text.as_bytes());
            frame.extend_from_slice(b"\r\n");
        }
        queue!(frame, terminal::Clear(terminal::ClearType::FromCursorDown), terminal::EndSynchronizedUpdate)?;
        let mut out = io::stdout().lock();
        out.write_all(&frame)?;
        out.flush()?;
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Shows the cursor again. For ways out that run no destructors.
pub(crate) fn restore_terminal() {
    let _ = crossterm::execute!(io::stdout(), cursor::Show);
}

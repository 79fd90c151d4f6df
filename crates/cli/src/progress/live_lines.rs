//! Lines at the bottom of a terminal that are redrawn repeatedly.

use std::io::{self, Write};

/// Lines that are currently drawn.
#[derive(Debug, Default)]
pub(crate) struct LiveLines {
    drawn_lines: usize,
}

impl LiveLines {
    /// Erases the lines, so that permanent output can be written.
    pub(crate) fn erase_lines(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if self.drawn_lines > 0 {
            // Moves up to the first line, then clears to the end of the screen.
            write!(stream, "\u{1b}[{}A\r\u{1b}[J", self.drawn_lines)?;
            self.drawn_lines = 0;
        }
        Ok(())
    }

    /// Replaces the lines. None may be wider than the terminal.
    pub(crate) fn draw_lines(
        &mut self,
        lines: &[String],
        stream: &mut impl Write,
    ) -> io::Result<()> {
        let mut block = Vec::new();
        self.erase_lines(&mut block)?;
        for line in lines {
            writeln!(block, "{line}")?;
        }
        self.drawn_lines = lines.len();
        // Written at once to avoid flicker.
        stream.write_all(&block)?;
        stream.flush()
    }
}

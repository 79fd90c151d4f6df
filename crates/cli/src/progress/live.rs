//! A few lines at the bottom of a terminal that are written again and again.

use std::io::{self, Write};

/// The lines that are on the screen now.
#[derive(Debug, Default)]
pub(crate) struct Live {
    drawn: usize,
}

impl Live {
    /// Takes the lines away, so that something can be written for good.
    pub(crate) fn erase(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if self.drawn > 0 {
            // Up to the first of them, then clear to the end of the screen.
            write!(stream, "\u{1b}[{}A\r\u{1b}[J", self.drawn)?;
            self.drawn = 0;
        }
        Ok(())
    }

    /// Writes lines in place of those before. None may be wider than the terminal.
    pub(crate) fn draw(&mut self, lines: &[String], stream: &mut impl Write) -> io::Result<()> {
        let mut block = Vec::new();
        self.erase(&mut block)?;
        for line in lines {
            writeln!(block, "{line}")?;
        }
        self.drawn = lines.len();
        // In one piece, lest it flickers.
        stream.write_all(&block)?;
        stream.flush()
    }
}

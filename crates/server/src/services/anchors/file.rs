//! The anchor file: one anchor per line, only ever appended to.
//!
//! A line that was written in part, because of a crash, cannot be parsed and is skipped by readers.
//! The anchor follows on the next line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::entry::SealedAnchor;

/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// Returns the last anchor of a file. A file that does not exist has none.
pub(super) fn last_anchor(path: &Path) -> io::Result<Option<SealedAnchor>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    // The last lines are enough, unless all of them are damaged.
    let start = length.saturating_sub(2 * MAX_LINE_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().rev().find_map(SealedAnchor::parse) {
        Some(last) => Ok(Some(last)),
        None if length == 0 => Ok(None),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the file contains no anchors")),
    }
}

/// Appends anchors durably.
pub(super) fn append(path: &Path, anchors: &[SealedAnchor]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().append(true).create(true).read(true).mode(0o600).open(path)?;
    let mut text = String::new();
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    for anchor in anchors {
        text.push_str(&anchor.to_line());
        text.push('\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// Reads the anchors of a file in order.
pub(crate) struct AnchorReader {
    lines: BufReader<File>,
}

impl AnchorReader {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { lines: BufReader::new(File::open(path)?) })
    }

    /// Returns the next anchor.
    pub(crate) fn next_anchor(&mut self) -> io::Result<Option<SealedAnchor>> {
        loop {
            let mut line = Vec::new();
            if (&mut self.lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            let anchor = std::str::from_utf8(&line).ok().and_then(SealedAnchor::parse);
            if anchor.is_some() {
                return Ok(anchor);
            }
        }
    }
}

//! Parser of server-sent events from chunks of a connection.

use crate::error::ApiError;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseFrame {
    /// Id to resume after, if the event has one.
    pub(super) id: Option<String>,
    /// Name of the event; `message` if it has none.
    pub(super) event: String,
    /// Data of the event.
    pub(super) data: String,
}

/// Incremental parser. Incomplete input is buffered up to a limit.
#[derive(Debug)]
pub(super) struct SseParser {
    /// Incomplete line.
    line: Vec<u8>,
    /// Incomplete frame.
    frame: SseFrame,
    has_data: bool,
    /// True if the last line ended with a carriage return, so that a following line feed belongs to
    /// it.
    after_return: bool,
    /// Maximum bytes of a frame.
    max_bytes: usize,
}

impl SseParser {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            frame: SseFrame::default(),
            has_data: false,
            after_return: false,
            max_bytes,
        }
    }

    /// Adds bytes and returns the frames that are now complete.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) -> Result<Vec<SseFrame>, ApiError> {
        let mut complete = Vec::new();
        for byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    complete.extend(self.end_line()?);
                }
                byte => {
                    if self.line.len() + self.frame.data.len() >= self.max_bytes {
                        let text = format!("an event has more than {} bytes", self.max_bytes);
                        return Err(ApiError::Unreadable(text.into()));
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(complete)
    }

    /// Processes a complete line. An empty line ends its frame.
    fn end_line(&mut self) -> Result<Option<SseFrame>, ApiError> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8(line)
            .map_err(|_| ApiError::Unreadable("an event is not in UTF-8".into()))?;
        if line.is_empty() {
            return Ok(self.end_frame());
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            // A comment, a reconnection time, or an unknown field.
            _ => {}
        }
        Ok(None)
    }

    fn end_frame(&mut self) -> Option<SseFrame> {
        let mut frame = std::mem::take(&mut self.frame);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        if frame.event.is_empty() {
            frame.event.push_str("message");
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests;

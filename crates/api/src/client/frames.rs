//! Server-sent events, put together from the pieces that a connection brings.

use crate::error::ApiError;

/// An event as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// Where to resume, if it said so.
    pub(super) id: Option<String>,
    /// Its name; `message` where it has none.
    pub(super) event: String,
    /// What it says.
    pub(super) data: String,
}

/// Reads frames. What is not whole yet is kept, up to a bound.
#[derive(Debug)]
pub(super) struct Frames {
    /// The beginning of a line.
    line: Vec<u8>,
    /// The beginning of a frame.
    frame: Frame,
    has_data: bool,
    /// Whether a line ended with a carriage return, whose line feed may follow.
    after_return: bool,
    /// Bytes that a frame may have.
    most: usize,
}

impl Frames {
    pub(super) fn new(most: usize) -> Self {
        Self {
            line: Vec::new(),
            frame: Frame::default(),
            has_data: false,
            after_return: false,
            most,
        }
    }

    /// Takes bytes, and gives the frames that they make whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, ApiError> {
        let mut whole = Vec::new();
        for byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    whole.extend(self.end_line()?);
                }
                byte => {
                    if self.line.len() + self.frame.data.len() >= self.most {
                        let text = format!("an event has more than {} bytes", self.most);
                        return Err(ApiError::Unreadable(text.into()));
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(whole)
    }

    /// A line is whole; an empty one ends its frame.
    fn end_line(&mut self) -> Result<Option<Frame>, ApiError> {
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
            // A comment, how long to wait, or what nobody knows here.
            _ => {}
        }
        Ok(None)
    }

    fn end_frame(&mut self) -> Option<Frame> {
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
mod tests {
    use super::*;

    const TEXT: &str = "retry: 2000\n\n: still here\n\nid: 1\nevent: a\ndata: {\"x\":1}\n\n\
        id: 2\r\nevent: b\r\ndata: one\r\ndata:two\r\n\r\ndata\n\nevent: none\n\nid: 3\ndata: cut";

    fn expected() -> Vec<Frame> {
        let frame = |id: Option<&str>, event: &str, data: &str| Frame {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        vec![
            frame(Some("1"), "a", "{\"x\":1}"),
            frame(Some("2"), "b", "one\ntwo"),
            frame(None, "message", ""),
        ]
    }

    #[test]
    fn frames_are_the_same_however_they_are_cut() {
        for size in [1, 2, 3, 7, TEXT.len()] {
            let mut frames = Frames::new(100);
            let whole: Vec<Frame> = TEXT
                .as_bytes()
                .chunks(size)
                .flat_map(|piece| frames.take(piece).unwrap())
                .collect();
            assert_eq!(whole, expected(), "{size}");
        }
    }

    #[test]
    fn a_frame_that_never_ends_is_refused() {
        let mut frames = Frames::new(1000);
        let endless = frames.take(&[b'x'; 1001]);
        assert!(matches!(endless, Err(ApiError::Unreadable(_))));
        let mut frames = Frames::new(1000);
        let line = format!("data: {}\n", "x".repeat(100));
        let refused = (0..20).find_map(|_| frames.take(line.as_bytes()).err());
        assert!(matches!(refused, Some(ApiError::Unreadable(_))));
        let mut frames = Frames::new(1000);
        assert!(frames.take(b"data: \xff\n").is_err());
    }
}

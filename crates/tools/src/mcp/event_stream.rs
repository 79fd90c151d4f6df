//! Parser of server-sent events that returns their data in order.

/// Incremental parser of an event stream.
#[derive(Debug, Default)]
pub(super) struct EventStreamParser {
    /// Bytes of an incomplete line.
    line: Vec<u8>,
    /// True if the last line ended with a carriage return, so that a following line feed belongs to
    /// it.
    after_return: bool,
    /// Data of an incomplete event.
    data: Option<String>,
}

impl EventStreamParser {
    /// Parses bytes and returns the data of the events that end in them.
    pub(super) fn parse_chunk(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for byte in bytes {
            let was_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.finish_line(&line));
                }
                byte => self.line.push(*byte),
            }
        }
        events
    }

    fn finish_line(&mut self, line: &[u8]) -> Option<String> {
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => *data += &format!("\n{value}"),
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = ": hello\r\nid: 1\r\ndata: a\r\n\r\nevent: message\ndata:b\ndata: c\n\n\
                          \n\ndata\rdata: \u{fc}\r\rdata: cut";

    #[test]
    fn empty_line_ends_event() {
        assert_eq!(
            EventStreamParser::default().parse_chunk(STREAM.as_bytes()),
            ["a", "b\nc", "\n\u{fc}"]
        );
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(cuts in prop::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut parser = EventStreamParser::default();
            let mut events = Vec::new();
            for pair in cuts.windows(2) {
                events.extend(parser.parse_chunk(&STREAM.as_bytes()[pair[0]..pair[1]]));
            }
            prop_assert_eq!(events, EventStreamParser::default().parse_chunk(STREAM.as_bytes()));
        }
    }
}

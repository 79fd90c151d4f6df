//! Server-sent events, as far as a conversation needs them: their data, in order.

/// Takes in the bytes of a stream and gives the data of its events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The bytes of a line that has not ended.
    line: Vec<u8>,
    /// Whether the last line ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
    /// The data of an event that has not ended.
    data: Option<String>,
}

impl Events {
    /// Takes in bytes; gives the data of the events that end in them.
    pub(super) fn take_in(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for byte in bytes {
            let was_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    ended.extend(self.line_ended(&line));
                }
                byte => self.line.push(*byte),
            }
        }
        ended
    }

    fn line_ended(&mut self, line: &[u8]) -> Option<String> {
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
    fn events_end_with_an_empty_line() {
        assert_eq!(
            Events::default().take_in(STREAM.as_bytes()),
            ["a", "b\nc", "\n\u{fc}"]
        );
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_pieces_end(cuts in prop::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut events = Events::default();
            let mut found = Vec::new();
            for pair in cuts.windows(2) {
                found.extend(events.take_in(&STREAM.as_bytes()[pair[0]..pair[1]]));
            }
            prop_assert_eq!(found, Events::default().take_in(STREAM.as_bytes()));
        }
    }
}

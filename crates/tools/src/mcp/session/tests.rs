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

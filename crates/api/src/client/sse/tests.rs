use super::*;

const STREAM_TEXT: &str = "retry: 2000\n\n: still here\n\nid: 1\nevent: a\ndata: {\"x\":1}\n\n\
        id: 2\r\nevent: b\r\ndata: one\r\ndata:two\r\n\r\ndata\n\nevent: none\n\nid: 3\ndata: cut";

fn expected_frames() -> Vec<SseFrame> {
    let frame = |id: Option<&str>, event: &str, data: &str| SseFrame {
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
fn frames_are_independent_of_chunking() {
    for size in [1, 2, 3, 7, STREAM_TEXT.len()] {
        let mut parser = SseParser::new(100);
        let complete: Vec<SseFrame> = STREAM_TEXT
            .as_bytes()
            .chunks(size)
            .flat_map(|chunk| parser.push_bytes(chunk).unwrap())
            .collect();
        assert_eq!(complete, expected_frames(), "{size}");
    }
}

#[test]
fn rejects_oversized_frame() {
    let mut parser = SseParser::new(1000);
    let result = parser.push_bytes(&[b'x'; 1001]);
    assert!(matches!(result, Err(ApiError::Unreadable(_))));
    let mut parser = SseParser::new(1000);
    let line = format!("data: {}\n", "x".repeat(100));
    let refused = (0..20).find_map(|_| parser.push_bytes(line.as_bytes()).err());
    assert!(matches!(refused, Some(ApiError::Unreadable(_))));
    let mut parser = SseParser::new(1000);
    assert!(parser.push_bytes(b"data: \xff\n").is_err());
}

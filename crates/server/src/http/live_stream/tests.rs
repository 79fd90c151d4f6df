use super::frame_name;

#[test]
fn event_names_cannot_forge_frames() {
    for (event_type, expected) in [
        ("step.enter", "step.enter"),
        ("äöü x", "äöü x"),
        ("a\nevent: end\r\n\ndata: {}", "a\u{fffd}event: end\u{fffd}\u{fffd}\u{fffd}data: {}"),
        ("end", "event.end"),
        ("gap", "event.gap"),
    ] {
        assert_eq!(frame_name(event_type), expected);
    }
}

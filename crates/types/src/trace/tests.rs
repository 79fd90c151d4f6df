use super::*;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn parses_w3c_traceparent() {
    let parent = TraceContext::parse(TRACEPARENT).unwrap();
    assert_eq!(parent.to_string(), TRACEPARENT);
    let future_version = format!("cc{}-what-comes", &TRACEPARENT[2..]);
    assert_eq!(TraceContext::parse(&future_version), Some(parent));
    for wrong in [
        "",
        "00",
        &TRACEPARENT[1..],
        &TRACEPARENT.replace("4bf9", "4BF9"),
        &TRACEPARENT.replace("00-4b", "ff-4b"),
        &format!("{TRACEPARENT}-more"),
        &TRACEPARENT.replace("00f067aa0ba902b7", "0000000000000000"),
        &TRACEPARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
    ] {
        assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn span_ids_are_deterministic_and_distinct() {
    let execution_id = ExecutionId::new(7001).unwrap();
    let parent = TraceContext::parse(TRACEPARENT).unwrap();
    let own = TraceContext::for_execution(execution_id, None);
    assert_eq!(own, TraceContext::for_execution(execution_id, None));
    let inside = TraceContext::for_execution(execution_id, Some(parent));
    assert_eq!(inside.trace_id(), parent.trace_id());
    assert_ne!(inside.span_id(), parent.span_id());
    let command = CommandId::new(7002).unwrap();
    let spans = [
        own.span_id(),
        own.for_step("a", 1).span_id(),
        own.for_step("a", 2).span_id(),
        own.for_attempt(command, 1).span_id(),
        own.for_attempt(command, 2).span_id(),
    ];
    let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
    assert_eq!(distinct.len(), spans.len());
}

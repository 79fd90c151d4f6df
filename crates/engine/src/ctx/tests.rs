use noetl_types::json::parse;

use super::*;

fn parse_map(text: &str) -> JsonMap {
    parse(text.as_bytes()).unwrap().as_map().unwrap().clone()
}

#[test]
fn reported_writes_are_split_by_prefix() {
    let writes = SetWrites::from_report(&parse_map(
        r#"{"ctx.a.b":1,"iter.page":2,"step.x":3,"bare":4,"workload.k":5}"#,
    ));
    assert_eq!(writes.ctx, parse_map(r#"{"a.b":1}"#));
    assert_eq!(writes.iter, parse_map(r#"{"page":2}"#));
    assert_eq!(writes.step, parse_map(r#"{"x":3}"#));
}

use super::*;

#[test]
fn open_execution_lasts_until_now() {
    let at = |secs: i64| Timestamp::from_unix_ms(secs * 1000).unwrap();
    assert_eq!(
        ExecutionDuration::from_start_to_end(at(1), None, at(4)).as_seconds().to_string(),
        "3"
    );
    let ended = ExecutionDuration::from_start_to_end(at(1), Some(at(2)), at(4));
    assert_eq!(ended.to_human_text(), "1.0 s");
}

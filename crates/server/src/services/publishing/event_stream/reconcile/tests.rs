use super::*;

#[test]
fn position_before_excludes_earlier_log_epochs() {
    let at = |tx, position| FeedPosition { tx, position };
    for (position, back, expected) in [
        (at(0, 70), 20, at(0, 50)),
        (at(0, 70), 100, at(0, 0)),
        (at(0, 70), u64::MAX, at(0, 0)),
        (at(70, 5), 20, at(50, 0)),
        (at(70, 5), 70, at(1, 0)),
        (at(70, 5), u64::MAX, at(1, 0)),
    ] {
        assert_eq!(position_before(position, back), expected, "{back} before {position:?}");
    }
}

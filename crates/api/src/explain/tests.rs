use super::*;

#[test]
fn kind_text_matches_wire_name() {
    for kind in [
        WaitConditionKind::Paused,
        WaitConditionKind::Pool,
        WaitConditionKind::Approval,
        WaitConditionKind::Signal,
        WaitConditionKind::Limit,
        WaitConditionKind::Retry,
        WaitConditionKind::Child,
        WaitConditionKind::Timer,
        WaitConditionKind::Lease,
        WaitConditionKind::Command,
        WaitConditionKind::Join,
    ] {
        let text = serde_json::to_string(&kind).unwrap();
        assert_eq!(text, format!("\"{}\"", kind.as_str()));
    }
}

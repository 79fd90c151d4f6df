use super::*;

#[test]
fn continuation_state_round_trips() {
    let minimal = Continuation {
        to: "b".into(),
        attempt: 1,
        delay: Millis::ZERO,
        after: None,
        variables: JsonMap::new(),
        iter: JsonMap::new(),
        task_runs: 2,
    };
    let full = Continuation {
        attempt: 3,
        delay: Millis::from_ms(1500),
        after: Some("a".into()),
        variables: JsonMap::from([("x".into(), Json::from(1))]),
        iter: JsonMap::from([("page".into(), Json::Null)]),
        ..minimal.clone()
    };
    for continuation in [minimal, full] {
        let state = ContinuationState {
            continuation,
            results: JsonMap::from([("a".into(), Json::from("data"))]),
        };
        assert_eq!(ContinuationState::from_json(&state.to_json()), Some(state));
    }
    assert_eq!(ContinuationState::from_json(&JsonMap::new()), None);
}

use super::*;
use crate::digest::sha256;
use crate::id::{EventId, ExecutionId};
use crate::json::{Json, to_canonical};
use crate::replay::{LoopEntry, PayloadRef, ReferenceSummary};

fn test_state() -> ReplayedState {
    let mut state = ReplayedState::new(
        crate::TenantId::default(),
        crate::OrganizationId::default(),
        ExecutionId::new(7).unwrap(),
    );
    state.event_count = 2;
    state.last_event_id = Some(EventId::new(9).unwrap().into());
    state.last_event_type = Some(crate::EventType::StepEnter.into());
    state.execution.payload_refs.push(PayloadRef {
        event_id: "9".into(),
        reference: Json::from_f64(1e300).unwrap(),
        summary: ReferenceSummary { r#ref: Some("x".into()), ..ReferenceSummary::default() },
    });
    for id in ["b", "a\n"] {
        let entry = LoopEntry {
            completed: false,
            done: 1,
            failed: 0,
            last_event_id: EventId::new(9).unwrap().into(),
            loop_id: id.into(),
            step_name: None,
            total: Some(3),
        };
        state.loops.insert(id.into(), entry);
    }
    state
}

/// Incremental hashing equals hashing the complete text.
#[test]
fn checksums_match_canonical_text() {
    let state = test_state();
    let checksums = state.compute_checksums();
    let text = serde_json::to_string(&state).unwrap();
    let wire: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(checksums.whole, sha256(to_canonical(&wire)));
    let part = |name: &str| sha256(to_canonical(wire.get(name).unwrap()));
    assert_eq!(checksums.parts.execution, part("execution"));
    assert_eq!(checksums.parts.looping, part("loops"));
    assert_eq!(checksums.parts.stage, sha256(b"{}"));
    assert_eq!(serde_json::from_str::<ReplayedState>(&text).unwrap(), state);
}

#[test]
fn canonical_text_is_stable() {
    let wire: Json = serde_json::from_str(&serde_json::to_string(&test_state()).unwrap()).unwrap();
    insta::assert_snapshot!(wire.to_string());
}

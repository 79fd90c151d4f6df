use std::sync::Arc;

use noetl_playbook::{CheckOptions, Document, check};
use proptest::prelude::*;

use crate::event::tests::arb_event;
use crate::invariant;
use crate::plan::Plan;
use crate::state::ExecutionState;

fn build_plan() -> Plan {
    let text = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: example }
workflow:
  - { step: a, tool: { kind: noop }, next: [b, c] }
  - { step: b, loop: { in: 2, iterator: x }, tool: { kind: noop }, next: [c, b] }
  - { step: c, tool: { kind: noop } }
  - { step: d, tool: { kind: noop } }
executor: { spec: { final_step: d } }
";
    let Some(Document::Playbook(playbook)) = check(text, &CheckOptions::default()).document else {
        panic!("not a playbook");
    };
    Plan::new(Arc::from(playbook)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Each event is applied or rejected, the state stays consistent, and a rejected event changes
    /// nothing.
    #[test]
    fn any_event_sequence_keeps_state_consistent(events in prop::collection::vec(arb_event(), 0..40)) {
        let plan = build_plan();
        let mut state = ExecutionState::new(&plan);
        for mut event in events {
            event.seq = state.version().next_seq();
            let before = state.clone();
            if state.apply(&plan, &event).is_ok() {
                prop_assert_eq!(invariant::check_consistent(&state, &plan), Ok(()));
            } else {
                prop_assert_eq!(&state, &before);
            }
        }
    }

    /// Any event whose seq is not the next one is rejected.
    #[test]
    fn rejects_seq_gap(event in arb_event()) {
        let plan = build_plan();
        let mut state = ExecutionState::new(&plan);
        let is_next = event.seq == state.version().next_seq();
        prop_assert!(is_next || state.apply(&plan, &event).is_err());
    }
}

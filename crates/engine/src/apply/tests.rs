use std::sync::Arc;

use noetl_playbook::{CheckOptions, Document, check};
use proptest::prelude::*;

use crate::event::tests::event;
use crate::invariant;
use crate::plan::Plan;
use crate::state::State;

fn plan() -> Plan {
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

    /// Events in any order: each is taken or refused, the state stays consistent, and what is
    /// refused changes nothing.
    #[test]
    fn any_sequence_of_events_is_taken_or_refused(events in prop::collection::vec(event(), 0..40)) {
        let plan = plan();
        let mut state = State::new(&plan);
        for mut event in events {
            event.seq = state.version().next_seq();
            let before = state.clone();
            if state.apply(&plan, &event).is_ok() {
                prop_assert_eq!(invariant::consistent(&state, &plan), Ok(()));
            } else {
                prop_assert_eq!(&state, &before);
            }
        }
    }

    /// A place that is not the next one is refused, whatever stands there.
    #[test]
    fn a_gap_is_refused(event in event()) {
        let plan = plan();
        let mut state = State::new(&plan);
        let is_next = event.seq == state.version().next_seq();
        prop_assert!(is_next || state.apply(&plan, &event).is_err());
    }
}

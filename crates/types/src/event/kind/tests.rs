use std::collections::BTreeSet;

use super::*;

/// These names are in every stored log, so a changed snapshot is a change of the log format.
#[test]
fn event_type_table_is_stable() {
    let rows: Vec<String> = EventType::ALL
        .iter()
        .map(|kind| {
            format!(
                "{kind:<40} {:?}, {}",
                kind.event_class(),
                kind.default_status().map_or("as given", EventStatus::as_str)
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn event_types_are_distinct_and_round_trip() {
    let names: BTreeSet<&str> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), EventType::ALL.len());
    for kind in EventType::ALL {
        assert_eq!(EventType::parse(kind.as_str()), Ok(*kind));
    }
    assert_eq!(
        EventType::parse("step.done").unwrap_err().to_string(),
        "`step.done` is not an event type"
    );
}

#[test]
fn terminal_types_have_execution_status() {
    let ends: Vec<_> = EventType::ALL.iter().filter(|kind| kind.is_terminal()).collect();
    assert_eq!(ends.len(), 3);
    for kind in ends {
        let status = kind.terminal_status().unwrap();
        assert!(status.is_terminal());
        assert_eq!(kind.default_status(), Some(status.into()));
        assert!(!kind.is_audit() && !kind.may_be_sent_by_worker());
    }
}

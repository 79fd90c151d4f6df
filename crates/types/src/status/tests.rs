use super::*;

/// The names are stored and sent, so a changed snapshot is a change of the format.
#[test]
fn status_names_are_stable() {
    let events: Vec<&str> = EventStatus::ALL.iter().map(|status| status.as_str()).collect();
    let executions: Vec<&str> = ExecutionStatus::ALL.iter().map(|status| status.as_str()).collect();
    let commands: Vec<&str> = CommandStatus::ALL.iter().map(|status| status.as_str()).collect();
    insta::assert_snapshot!([events, executions, commands].map(|names| names.join(" ")).join("\n"));
}

#[test]
fn statuses_round_trip() {
    for status in EventStatus::ALL {
        assert_eq!(EventStatus::parse(status.as_str()), Ok(*status));
    }
    for status in ExecutionStatus::ALL {
        assert_eq!(ExecutionStatus::parse(status.as_str()), Ok(*status));
        assert_eq!(EventStatus::from(*status).as_str(), status.as_str());
    }
    for status in CommandStatus::ALL {
        assert_eq!(CommandStatus::parse(status.as_str()), Ok(*status));
        assert!(!(status.is_leased() && status.is_terminal()));
    }
    assert_eq!(
        ExecutionStatus::parse("completed").unwrap_err().to_string(),
        "`completed` is not an execution status"
    );
}

#[test]
fn status_name_has_one_form() {
    assert_eq!(StatusName::parse(""), Ok(StatusName::None));
    assert_eq!(StatusName::parse("FAILED"), Ok(StatusName::Known(EventStatus::Failed)));
    let custom = StatusName::parse("almost").unwrap();
    assert_eq!((custom.as_str(), custom.known_status()), ("almost", None));
    assert_eq!(custom.clone().or(EventStatus::Open), custom);
    assert_eq!(StatusName::None.or(EventStatus::Open).as_str(), "OPEN");
    assert_eq!(StatusName::parse("a\0"), Err(ContainsNul));
}

#[test]
fn default_status_by_event_name() {
    for (name, status) in [
        ("call.done", EventStatus::Completed),
        ("step.exit", EventStatus::Completed),
        ("batch.completed", EventStatus::Completed),
        ("call.error", EventStatus::Failed),
        ("frame.failed", EventStatus::Failed),
        ("frame.committed", EventStatus::Running),
        ("loop.shard.done", EventStatus::Completed),
        ("order.created", EventStatus::Running),
        ("", EventStatus::Running),
    ] {
        assert_eq!(infer_event_status(name), status, "{name}");
    }
}

use noetl_types::{EventStatus, ExecutionId, Json, OrganizationId, TenantId};

use super::*;

fn empty_state() -> ReplayState {
    ReplayState::new(TenantId::default(), OrganizationId::default(), ExecutionId::new(9).unwrap())
}

fn replay_log(log: &str) -> ReplayState {
    let mut reader = LogReader::for_execution(ExecutionId::new(9).ok());
    let mut state = OrderedFold::new(empty_state());
    for line in log.lines() {
        if let Some(record) = reader.read(line).unwrap() {
            state.push(record).unwrap();
        }
    }
    state.finish().unwrap()
}

fn to_json(state: &ReplayState) -> Json {
    let text = serde_json::to_string(state.replayed()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn json_at<'j>(mut json: &'j Json, path: &str) -> &'j Json {
    for key in path.split('|') {
        json = json.get(key).unwrap_or(&Json::Null);
    }
    json
}

/// Compares parts of a replayed state: strings as they are, other values as JSON.
fn assert_parts(log: &str, parts: &[(&str, &str)]) {
    let json = to_json(&replay_log(log));
    for (path, expected) in parts {
        let found = json_at(&json, path);
        let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        assert_eq!(found, *expected, "{path} of {json}");
    }
}

#[test]
fn empty_log_folds_to_unknown_status() {
    let state = replay_log("");
    assert_eq!(*state.status(), EventStatus::Unknown.into());
    assert_eq!(
        to_json(&state).to_string(),
        r#"{"business_objects":{},"commands":{},"event_count":0,"execution":{"payload_refs":[],"status":"UNKNOWN"},"execution_id":9,"frames":{},"loops":{},"organization_id":"default","stages":{},"tenant_id":"default"}"#
    );
}

#[test]
fn folds_execution_status() {
    let started = r#"{"event_id":1,"event_type":"playbook_started","node_name":"path"}"#;
    let entered = r#"{"event_id":2,"event_type":"step_enter","node_name":"a"}"#;
    let done = r#"{"event_id":3,"event_type":"command_completed","node_name":"b"}"#;
    let end = r#"{"event_id":4,"event_type":"playbook_completed","node_name":"path"}"#;
    assert_parts(started, &[("execution|status", "UNKNOWN"), ("execution|last_node_name", "null")]);
    assert_parts(
        &[started, entered].join("\n"),
        &[("execution|status", "RUNNING"), ("execution|last_node_name", "a")],
    );
    assert_parts(
        &[started, entered, done, end].join("\n"),
        &[
            ("execution|status", "COMPLETED"),
            ("execution|last_node_name", "b"),
            ("event_count", "4"),
            ("last_event_id", "4"),
            ("last_event_type", "playbook_completed"),
        ],
    );
}

/// After `cancelled`, neither a late `completed` nor a step entry changes the status.
#[test]
fn first_terminal_event_wins() {
    assert_parts(
        r#"{"event_id":1,"event_type":"step.enter"}
        {"event_id":2,"event_type":"execution.cancelled"}
        {"event_id":3,"event_type":"playbook.completed"}
        {"event_id":4,"event_type":"step.enter"}"#,
        &[("execution|status", "CANCELLED"), ("event_count", "4")],
    );
    assert_parts(
        r#"{"event_id":1,"event_type":"command.issued","command_id":1}
        {"event_id":2,"event_type":"command.failed","command_id":1}
        {"event_id":3,"event_type":"command.completed","command_id":1}
        {"event_id":4,"event_type":"command.expired","command_id":1}"#,
        &[
            ("commands|1|status", "FAILED"),
            ("commands|1|terminal_event_id", "2"),
            ("commands|1|last_event_id", "4"),
        ],
    );
}

#[test]
fn workflow_events_do_not_end_execution() {
    assert_parts(
        r#"{"event_id":1,"event_type":"step.enter"}
        {"event_id":2,"event_type":"workflow.completed","status":"COMPLETED"}"#,
        &[("execution|status", "RUNNING")],
    );
}

/// Event ids do not define order: a worker with a slow clock assigns id 5 after id 10.
#[test]
fn order_follows_seq_not_event_id() {
    assert_parts(
        r#"{"seq":2,"event_id":5,"event_type":"command.completed","command_id":10,"status":"COMPLETED"}
        {"seq":1,"event_id":10,"event_type":"command.issued","command_id":10,"status":"PENDING"}"#,
        &[
            ("commands|10|status", "COMPLETED"),
            ("commands|10|last_event_id", "5"),
            ("last_event_id", "5"),
        ],
    );
}

/// Rows without a type or status contribute the fields they have and produce a warning.
#[test]
fn warns_on_rows_without_type_or_status() {
    let log = r#"{"event_id":"1","event_type":null,"status":null,"node_name":"x"}
        {"event_id":2,"meta":{"command_id":"9:load:77:i3"}}
        {"event_id":3,"event_type":"","command_id":77}
        {"event_id":4,"event_type":"command.issued","command_id":77}"#;
    assert_parts(
        log,
        &[
            ("event_count", "4"),
            ("commands|77|status", "PENDING"),
            ("commands|77|issued_event_id", "4"),
        ],
    );
    let warnings = replay_log(log).warnings();
    assert_eq!(warnings.len(), 3);
    assert_eq!(&*warnings[0], "event 1 at seq 1 has no event type");
}

/// Equal values with different byte representations have the same checksum.
#[test]
fn checksum_is_independent_of_json_formatting() {
    let object = |body: &str| {
        format!(
            r#"{{"event_id":1,"event_type":"order.created","meta":{{"business_object":{{"type":"order","id":1,"state":{body}}}}}}}"#
        )
    };
    let one = replay_log(&object(r#"{"bb":1.0,"a":1e2,"n":123456789012345678}"#));
    let other = replay_log(&object(r#"{"n":123456789012345678,"a":100,"bb":1}"#));
    assert_eq!(one.checksums(), other.checksums());
    let text = to_json(&one).to_string();
    assert!(text.contains(r#""attributes":{"a":100,"bb":1,"n":123456789012345678}"#), "{text}");
    // The reader rejects duplicate keys.
    let twice = object(r#"{"a":1,"a":3}"#);
    let error = LogReader::for_execution(ExecutionId::new(9).ok()).read(&twice).unwrap_err();
    assert_eq!(error.line, 1);
}

#[test]
fn folds_stages() {
    let log = r#"{"event_id":1,"event_type":"stage.opened","stage_id":"s1","status":"ANY","node_name":"load","meta":{"kind":"map","parent_stage_id":"s0","loop_event_id":"7"}}
        {"event_id":2,"event_type":"stage.opened","aggregate_type":"stage","aggregate_id":"stage/s2"}
        {"event_id":3,"event_type":"stage.note","status":"BUSY","meta":{"stage_id":"s2"}}
        {"event_id":4,"event_type":"stage.closed","stage_id":"s1","meta":{"frame_count":3,"row_count":"30","events_emitted":9,"failed_count":1}}
        {"event_id":5,"event_type":"stage.note","meta":{"stage_id":"s2"}}"#;
    assert_parts(
        log,
        &[
            ("stages|s1|status", "CLOSED"),
            ("stages|s1|kind", "map"),
            ("stages|s1|step_name", "load"),
            ("stages|s1|parent_stage_id", "s0"),
            ("stages|s1|loop_event_id", "7"),
            ("stages|s1|opened_event_id", "1"),
            ("stages|s1|closed_event_id", "4"),
            ("stages|s1|row_count", "30"),
            ("stages|s1|failed_count", "1"),
            ("stages|s2|status", "BUSY"),
            ("stages|s2|last_event_id", "5"),
            ("loops|7|last_event_id", "1"),
        ],
    );
}

#[test]
fn folds_frames() {
    let log = r#"{"event_id":1,"event_type":"frame.dispatched","frame_id":"f","stage_id":"s","command_id":4,"meta":{"attempt":2}}
        {"event_id":2,"event_type":"frame.dispatched","frame_id":"f"}
        {"event_id":3,"event_type":"frame.started","frame_id":"f","status":"X"}
        {"event_id":4,"event_type":"frame.committed","frame_id":"f","meta":{"row_count":5,"events_emitted":2},"result":{"reference":{"uri":"u","rows_ref":{"meta":{"row_count":5},"ipc":{"digest":"d"}}}}}
        {"event_id":5,"event_type":"frame.failed","frame_id":"g","meta":{"row_count":5,"parent_frame_id":"f"}}
        {"event_id":6,"event_type":"frame.abandoned","frame_id":"h"}
        {"event_id":7,"event_type":"frame.heartbeat","frame_id":"h","status":"ALIVE"}"#;
    assert_parts(
        log,
        &[
            ("frames|f|status", "COMPLETED"),
            ("frames|f|attempts", "2"),
            ("frames|f|claimed_event_id", "2"),
            ("frames|f|terminal_event_id", "4"),
            ("frames|f|stage_id", "s"),
            ("frames|f|command_id", "4"),
            ("frames|f|row_count", "5"),
            ("frames|f|output_ref_summary", r#"{"ref":"u","row_count":5,"sha256":"d"}"#),
            ("frames|g|status", "FAILED"),
            ("frames|g|row_count", "0"),
            ("frames|g|parent_frame_id", "f"),
            ("frames|h|status", "ALIVE"),
            ("frames|h|terminal_event_id", "null"),
        ],
    );
}

#[test]
fn folds_commands() {
    let log = r#"{"event_id":1,"event_type":"command.issued","command_id":1}
        {"event_id":2,"event_type":"command.claimed","command_id":1,"worker_id":"w1","meta":{"worker_locator":"pod/1"}}
        {"event_id":3,"event_type":"command.expired","command_id":1,"status":"EXPIRED"}
        {"event_id":4,"event_type":"command.claimed","command_id":1,"worker_id":"w2","status":"CLAIMED"}
        {"event_id":5,"event_type":"command.started","command_id":1,"stage_id":"s","frame_id":"f","meta":{"parent_command_id":0}}
        {"event_id":6,"event_type":"command.result_ignored","command_id":1,"worker_id":"w1","status":"IGNORED"}
        {"event_id":7,"event_type":"call.done","command_id":1,"status":"COMPLETED"}"#;
    assert_parts(
        log,
        &[
            ("commands|1|status", "RUNNING"),
            ("commands|1|claimed_event_id", "4"),
            ("commands|1|started_event_id", "5"),
            ("commands|1|worker_id", "w2"),
            ("commands|1|worker_locator", "pod/1"),
            ("commands|1|stage_id", "s"),
            ("commands|1|frame_id", "f"),
            ("commands|1|parent_command_id", "0"),
            ("commands|1|terminal_event_id", "null"),
            ("commands|1|last_event_id", "7"),
        ],
    );
    let expired = log.lines().take(3).collect::<Vec<_>>().join("\n");
    assert_parts(&expired, &[("commands|1|status", "PENDING")]);
}

#[test]
fn folds_business_objects() {
    let log = r#"{"event_id":1,"event_type":"order.created","meta":{"business_object":{"object_type":"order","object_id":7,"attributes":{"a":1,"b":2}}}}
        {"event_id":2,"event_type":"order.noted","meta":{"business_object_type":"order","business_object_id":"7"},"result":{"context":{"patch":{"b":3}},"reference":{"ref":"r","sha256":"x","digest":"y","media_type":"m"}}}
        {"event_id":3,"event_type":"order.moved","status":"MOVED","aggregate_type":"business_object","aggregate_id":"business_object/order/7","meta":{"version":12}}
        {"event_id":4,"event_type":"part.upserted","aggregate_type":"business_object","aggregate_id":"business_object/99"}
        {"event_id":5,"event_type":"part.removed","aggregate_type":"business_object","aggregate_id":"business_object/99"}
        {"event_id":6,"event_type":"crate.updated","aggregate_type":"business_object","aggregate_id":"business_object/crate/a/b","context":{"state":{"k":1}}}"#;
    assert_parts(
        log,
        &[
            ("business_objects|order/7|status", "MOVED"),
            ("business_objects|order/7|attributes", r#"{"a":1,"b":3}"#),
            ("business_objects|order/7|version", "12"),
            ("business_objects|order/7|event_count", "3"),
            ("business_objects|order/7|first_event_id", "1"),
            ("business_objects|order/7|last_event_type", "order.moved"),
            (
                "business_objects|order/7|last_payload_ref",
                r#"{"event_id":"2","reference":{"digest":"y","media_type":"m","ref":"r","sha256":"x"},"summary":{"media_type":"m","ref":"r","sha256":"x"}}"#,
            ),
            ("business_objects|business_object/99|status", "DELETED"),
            ("business_objects|business_object/99|deleted_event_id", "5"),
            ("business_objects|business_object/99|version", "2"),
            ("business_objects|crate/a/b|object_id", "a/b"),
            ("business_objects|crate/a/b|status", "ACTIVE"),
            ("business_objects|crate/a/b|attributes", r#"{"k":1}"#),
        ],
    );
    let json = to_json(&replay_log(log));
    assert_eq!(json_at(&json, "execution|payload_refs").as_list().unwrap().len(), 1);
}

#[test]
fn folds_loops() {
    let log = r#"{"event_id":1,"event_type":"step.enter","node_name":"each","meta":{"loop_id":"1","collection_size":3}}
        {"event_id":2,"event_type":"command.completed","command_id":5,"meta":{"loop_id":"1"}}
        {"event_id":3,"event_type":"command_failed","command_id":6,"meta":{"loop_event_id":1}}
        {"event_id":4,"event_type":"loop.shard.done","meta":{"__loop_epoch_id":"e","total":9}}
        {"event_id":5,"event_type":"loop.fanin.completed","meta":{"__loop_epoch_id":"e"}}
        {"event_id":6,"event_type":"loop.done","meta":{"loop_id":"1"}}"#;
    assert_parts(
        log,
        &[
            (
                "loops|1",
                r#"{"completed":true,"done":1,"failed":1,"last_event_id":6,"loop_id":"1","step_name":"each","total":3}"#,
            ),
            (
                "loops|e",
                r#"{"completed":true,"done":1,"failed":0,"last_event_id":5,"loop_id":"e","total":9}"#,
            ),
        ],
    );
}

/// An incomplete log never passes for a complete one.
#[test]
fn rejects_gaps_and_duplicate_seqs() {
    let mut reader = LogReader::default();
    let mut read = |line: &str| reader.read(line).unwrap().unwrap();
    let first = read(r#"{"execution_id":9,"seq":1,"event_id":1,"event_type":"step.enter"}"#);
    let third = read(r#"{"execution_id":"9","seq":3,"event_id":3,"event_type":"step.exit"}"#);
    let other = read(r#"{"execution_id":8,"seq":2,"event_id":2}"#);
    let conflicting = read(r#"{"execution_id":9,"seq":1,"event_id":4}"#);
    let gap = fold_records(empty_state(), vec![third.clone(), first.clone()]).unwrap_err();
    assert_eq!(gap.to_string(), "event 3 has seq 3, but seq 2 is next: the log has a gap");
    let mut state = OrderedFold::new(empty_state());
    state.push(third).unwrap();
    state.push(first.clone()).unwrap();
    state.push(first.clone()).unwrap();
    assert!(matches!(state.push(conflicting.clone()), Err(ReplayError::DuplicateSeq { .. })));
    assert_eq!(state.clone().finish().unwrap_err(), gap);
    assert!(matches!(state.push(other), Err(ReplayError::OtherExecution { .. })));
    let error = fold_records(empty_state(), vec![first.clone(), conflicting]).unwrap_err();
    assert!(matches!(error, ReplayError::DuplicateSeq { .. }));
    assert_eq!(fold_records(empty_state(), vec![first.clone(), first]).unwrap().version().get(), 1);
}

#[test]
fn reports_line_of_invalid_event() {
    for (line, expected) in [
        ("[]", "line 1: an event is an object, not a list"),
        (r#"{"event_type":"x"}"#, "line 1: the event has no event_id"),
        (
            r#"{"event_id":"7","status":5}"#,
            "line 1: event \"7\": field `status`: expected a text, found a number",
        ),
        (
            r#"{"event_id":7,"seq":0}"#,
            "line 1: event 7: 0 is not a seq: the first event of an execution has 1",
        ),
    ] {
        let error = LogReader::for_execution(ExecutionId::new(9).ok()).read(line).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut reader = LogReader::for_execution(ExecutionId::new(9).ok());
    reader.read(r#"{"event_id":1}"#).unwrap();
    assert_eq!(reader.read("  ").unwrap(), None);
    let mixed = reader.read(r#"{"event_id":2,"seq":2}"#).unwrap_err();
    assert_eq!((mixed.line, reader.execution_id().is_some()), (3, true));
}

#[test]
fn rejects_damaged_snapshot() {
    let log = r#"{"event_id":1,"event_type":"step.enter","node_name":"a"}
        {"event_id":2}"#;
    let state = replay_log(log);
    let (bytes, checksum) = state.to_snapshot().unwrap();
    assert_eq!(ReplayState::from_snapshot(&bytes, &checksum).unwrap(), state);
    let mut damaged = bytes.clone();
    damaged[20] ^= 1;
    assert!(matches!(
        ReplayState::from_snapshot(&damaged, &checksum),
        Err(ReplaySnapshotError::Damaged)
    ));
    let old = String::from_utf8(bytes).unwrap();
    let old = old.replace("\"fold_version\":1", "\"fold_version\":0");
    let checksum_of_old = noetl_types::sha256(&old);
    assert!(matches!(
        ReplayState::from_snapshot(old.as_bytes(), &checksum_of_old),
        Err(ReplaySnapshotError::OtherVersion { found: 0 })
    ));
}

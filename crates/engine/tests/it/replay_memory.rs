//! Memory use of a replay depends on the size of the state, not on the length of the log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use noetl_engine::replay::ReplayState;
use noetl_types::record::{EventRecord, NewEvent, Seq};
use noetl_types::{
    CommandId, EventId, EventStatus, EventType, ExecutionId, Json, OrganizationId, TenantId,
    Timestamp,
};

fn test_execution_id() -> ExecutionId {
    ExecutionId::new(9).unwrap()
}

fn new_record(seq: i64, kind: EventType, command: i64) -> EventRecord {
    let now = Timestamp::UNIX_EPOCH;
    let event = NewEvent {
        node_name: Some("work".into()),
        command_id: CommandId::new(command).ok(),
        meta: Some(Json::object([("run", Json::from(1)), ("attempt", Json::from(1))])),
        result: Some(Json::object([(
            "context",
            Json::object([("command_id", Json::from(command.to_string()))]),
        )])),
        ..NewEvent::new(test_execution_id(), EventId::new(seq).unwrap(), kind, now)
    };
    EventRecord { event, seq: Seq::new(seq).unwrap(), ingest_time: now, envelope_checksum: None }
}

/// Folds generated events one at a time and returns the state and the peak memory in bytes.
fn measure_peak_bytes(events: i64, next: impl Fn(i64) -> EventRecord) -> (ReplayState, u64) {
    let mut state = None;
    let info = allocation_counter::measure(|| {
        let mut folded =
            ReplayState::new(TenantId::default(), OrganizationId::default(), test_execution_id());
        for seq in 1..=events {
            folded.apply(&next(seq)).unwrap();
        }
        folded.checksums();
        state = Some(folded);
    });
    (state.unwrap(), info.bytes_max)
}

/// Folds 250,001 events without skipping any: the last one ends the run.
#[test]
fn folds_long_log_to_its_end() {
    const EVENTS: i64 = 250_001;
    let (state, bytes) = measure_peak_bytes(EVENTS, |seq| match seq {
        1 => new_record(seq, EventType::PlaybookStarted, 0),
        EVENTS => new_record(seq, EventType::PlaybookCompleted, 0),
        // Five events of each command.
        _ => {
            let kind = match seq % 5 {
                0 => EventType::CommandIssued,
                1 => EventType::CommandClaimed,
                2 => EventType::CommandStarted,
                3 => EventType::CallDone,
                _ => EventType::CommandCompleted,
            };
            new_record(seq, kind, 1_000_000_000_000 + seq / 5)
        }
    });
    assert_eq!(state.version().get(), EVENTS);
    assert_eq!(*state.status(), EventStatus::Completed.into());
    assert_eq!(state.replayed().commands.len(), 50_001);
    assert!(bytes < 64 << 20, "{bytes} bytes");
}

#[test]
fn memory_stays_constant_while_state_does() {
    let (state, bytes) =
        measure_peak_bytes(100_000, |seq| new_record(seq, EventType::CommandHeartbeat, 7));
    assert_eq!(state.replayed().commands.len(), 1);
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

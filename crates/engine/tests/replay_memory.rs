//! A long log is folded within the memory that its state takes, whatever its length.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use noetl_engine::replay::ReplayState;
use noetl_types::record::{EventRecord, NewEvent, Seq};
use noetl_types::{
    CommandId, EventId, EventStatus, EventType, ExecutionId, Json, OrganizationId, TenantId,
    Timestamp,
};

fn execution() -> ExecutionId {
    ExecutionId::new(9).unwrap()
}

fn record(seq: i64, kind: EventType, command: i64) -> EventRecord {
    let now = Timestamp::UNIX_EPOCH;
    let event = NewEvent {
        node_name: Some("work".into()),
        command_id: CommandId::new(command).ok(),
        meta: Some(Json::object([
            ("run", Json::from(1)),
            ("attempt", Json::from(1)),
        ])),
        result: Some(Json::object([(
            "context",
            Json::object([("command_id", Json::from(command.to_string()))]),
        )])),
        ..NewEvent::new(execution(), EventId::new(seq).unwrap(), kind, now)
    };
    EventRecord {
        event,
        seq: Seq::new(seq).unwrap(),
        ingest_time: now,
        envelope_checksum: None,
    }
}

/// Folds a log that is never in memory as a whole, and says how much memory that took.
fn peak(events: i64, next: impl Fn(i64) -> EventRecord) -> (ReplayState, u64) {
    let mut state = None;
    let info = allocation_counter::measure(|| {
        let mut folded =
            ReplayState::new(TenantId::default(), OrganizationId::default(), execution());
        for seq in 1..=events {
            folded.apply(&next(seq)).unwrap();
        }
        folded.checksums();
        state = Some(folded);
    });
    (state.unwrap(), info.bytes_max)
}

/// 250,001 events, of which none is passed over: the last one ends the run.
#[test]
fn y2_a_long_log_is_folded_to_its_end() {
    const EVENTS: i64 = 250_001;
    let (state, bytes) = peak(EVENTS, |seq| match seq {
        1 => record(seq, EventType::PlaybookStarted, 0),
        EVENTS => record(seq, EventType::PlaybookCompleted, 0),
        // Five events of each command.
        _ => {
            let kind = match seq % 5 {
                0 => EventType::CommandIssued,
                1 => EventType::CommandClaimed,
                2 => EventType::CommandStarted,
                3 => EventType::CallDone,
                _ => EventType::CommandCompleted,
            };
            record(seq, kind, 1_000_000_000_000 + seq / 5)
        }
    });
    assert_eq!(state.version().get(), EVENTS);
    assert_eq!(*state.status(), EventStatus::Completed.into());
    assert_eq!(state.replayed().commands.len(), 50_001);
    assert!(bytes < 64 << 20, "{bytes} bytes");
}

/// Where the state does not grow, neither does the memory.
#[test]
fn the_log_itself_is_not_kept() {
    let (state, bytes) = peak(100_000, |seq| record(seq, EventType::CommandHeartbeat, 7));
    assert_eq!(state.replayed().commands.len(), 1);
    assert!(bytes < 1 << 20, "{bytes} bytes");
}

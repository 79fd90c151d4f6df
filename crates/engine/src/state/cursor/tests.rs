use noetl_types::{ByteSize, TaskErrorKind};

use super::*;

fn test_cursor(chains: u32) -> CursorState {
    CursorState::new(CursorSettings {
        chains,
        max_rows: 100,
        max_time: Millis::from_secs(30),
        max_bytes: ByteSize::from_kib(64),
        lease: Millis::from_secs(120),
        heartbeat: Millis::from_secs(30),
        max_attempts: 3,
    })
}

fn closed_frame(command: i64, rows: u32) -> ClosedFrame {
    ClosedFrame {
        command: CommandId::new(command).unwrap(),
        frame: 0,
        error: None,
        report: Some(FrameReport { rows, done: rows, ..FrameReport::default() }),
        duration: None,
    }
}

#[test]
fn oversized_frame_shrinks_next_request() {
    let mut cursor = test_cursor(1);
    let mut requests = Vec::new();
    for (secs, kib) in [(10, 1), (60, 1), (30, 1), (1, 256), (1, 1), (900_000, 1)] {
        let mut frame = closed_frame(1, cursor.ask);
        frame.duration = Some(Millis::from_secs(secs));
        if let Some(report) = &mut frame.report {
            report.bytes = kib << 10;
        }
        cursor.close(frame);
        requests.push(cursor.ask);
    }
    assert_eq!(requests, [100, 50, 50, 12, 24, 1]);
}

#[test]
fn stored_frames_and_errors_are_limited() {
    let mut cursor = test_cursor(1);
    for command in 1..=3000 {
        let mut frame = closed_frame(command, 1);
        frame.error = Some(TaskError::new(TaskErrorKind::Unknown, "no"));
        cursor.close(frame);
    }
    assert_eq!(cursor.recent.len(), MAX_RECENT_FRAMES);
    assert_eq!(cursor.errors.len(), MAX_STORED_ERRORS);
    assert_eq!(cursor.loop_stats().frames, Some(3000));
    assert!(!cursor.is_complete());
    cursor.close(closed_frame(3001, 0));
    assert!(cursor.is_complete());
}

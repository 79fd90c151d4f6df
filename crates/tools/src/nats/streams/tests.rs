use std::cell::Cell;

use super::*;

/// Acknowledged messages are returned even if a later acknowledgement fails.
#[tokio::test]
async fn failed_acknowledgement_keeps_earlier_ones() {
    let run = async |fails_at: usize| {
        let attempts = Cell::new(0);
        let acknowledge = async |number: usize| {
            attempts.set(attempts.get() + 1);
            if number == fails_at {
                return Err(TaskError::new(TaskErrorKind::Timeout, "no response"));
            }
            Ok(())
        };
        let count = count_acknowledged((0..4).map(acknowledge)).await;
        (count.map_err(|error| error.kind), attempts.get())
    };
    assert_eq!(run(0).await, (Err(TaskErrorKind::Timeout), 1));
    assert_eq!(run(1).await, (Ok(1), 2));
    assert_eq!(run(3).await, (Ok(3), 4));
    assert_eq!(run(4).await, (Ok(4), 4));
}

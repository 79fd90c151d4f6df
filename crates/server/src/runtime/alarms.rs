//! Timers that come due soon, so that they fire on time and not with the next look into the store.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use noetl_types::{ExecutionId, Text, Timestamp};
use tokio::sync::Notify;

/// Timers that were set by this process.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    set: Mutex<BinaryHeap<Reverse<Alarm>>>,
    /// An earlier alarm than all others was set.
    changed: Notify,
}

type Alarm = (Timestamp, ExecutionId, Text);

/// How many are kept in mind; those beyond are found in the store, up to a second late.
const MOST: usize = 100_000;

impl Alarms {
    /// Keeps timers of an execution in mind. One that is not open any more when it rings is refused
    /// by the engine.
    pub(crate) fn set(&self, execution_id: ExecutionId, timers: Vec<(Text, Timestamp)>) {
        if timers.is_empty() {
            return;
        }
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = set.peek().map(|Reverse(alarm)| alarm.0);
        let mut is_earlier = false;
        for (timer, fire_at) in timers {
            if set.len() < MOST {
                is_earlier |= earliest.is_none_or(|earliest| fire_at < earliest);
                set.push(Reverse((fire_at, execution_id, timer)));
            }
        }
        drop(set);
        if is_earlier {
            self.changed.notify_one();
        }
    }

    /// Those that are due.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(ExecutionId, Text)> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while let Some(Reverse(alarm)) = set.peek()
            && alarm.0 <= now
        {
            if let Some(Reverse((_, execution_id, timer))) = set.pop() {
                due.push((execution_id, timer));
            }
        }
        due
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.peek().map(|Reverse(alarm)| alarm.0)
    }

    /// Waits until an earlier one is set.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

//! In-memory queue of timers, so that they fire on time and not with the next sweep of the store.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use noetl_types::{ExecutionId, Text, Timestamp};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    heap: Mutex<BinaryHeap<Reverse<TimerEntry>>>,
    /// Signalled when a timer is added that is due before all others.
    earlier_added: Notify,
}

type TimerEntry = (Timestamp, ExecutionId, Text);

/// Maximum queued timers. The sweep of the store finds the others, up to a second late.
const MAX_QUEUED_TIMERS: usize = 100_000;

impl TimerQueue {
    /// Adds timers of an execution. The engine rejects a timer that is no longer open when it
    /// fires.
    pub(crate) fn add_timers(&self, execution_id: ExecutionId, timers: Vec<(Text, Timestamp)>) {
        if timers.is_empty() {
            return;
        }
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = heap.peek().map(|Reverse(entry)| entry.0);
        let mut is_earlier = false;
        for (timer, fire_at) in timers {
            if heap.len() < MAX_QUEUED_TIMERS {
                is_earlier |= earliest.is_none_or(|earliest| fire_at < earliest);
                heap.push(Reverse((fire_at, execution_id, timer)));
            }
        }
        drop(heap);
        if is_earlier {
            self.earlier_added.notify_one();
        }
    }

    /// Removes and returns the timers that are due.
    pub(crate) fn pop_due(&self, now: Timestamp) -> Vec<(ExecutionId, Text)> {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while let Some(Reverse(entry)) = heap.peek()
            && entry.0 <= now
        {
            if let Some(Reverse((_, execution_id, timer))) = heap.pop() {
                due.push((execution_id, timer));
            }
        }
        due
    }

    /// Due time of the next timer.
    pub(crate) fn next_due_at(&self) -> Option<Timestamp> {
        let heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        heap.peek().map(|Reverse(entry)| entry.0)
    }

    /// Waits until a timer is added that is due before all others.
    pub(crate) async fn wait_for_earlier(&self) {
        self.earlier_added.notified().await;
    }
}

//! Mailboxes of executions, and the cache of executions in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_types::ExecutionId;

use crate::driver::MessageBatch;
use crate::driver::loaded_execution::LoadedExecution;

/// The mailbox of an execution, and the execution itself once it is loaded.
pub(super) struct Mailbox {
    pub(super) execution_id: ExecutionId,
    queue: Mutex<MailboxQueue>,
    /// The execution, once it is loaded.
    pub(super) execution: tokio::sync::Mutex<Option<LoadedExecution>>,
    /// True if the mailbox was used since the last eviction pass.
    recently_used: AtomicBool,
}

#[derive(Default)]
struct MailboxQueue {
    batches: VecDeque<MessageBatch>,
    /// True while a task is draining the queue.
    is_draining: bool,
}

impl Mailbox {
    fn new(execution_id: ExecutionId, execution: Option<LoadedExecution>) -> Arc<Self> {
        Arc::new(Self {
            execution_id,
            queue: Mutex::default(),
            execution: tokio::sync::Mutex::new(execution),
            recently_used: AtomicBool::new(true),
        })
    }

    fn lock_queue(&self) -> MutexGuard<'_, MailboxQueue> {
        // Every method leaves the queue consistent, so a poisoned lock can still be used.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch. Returns true if the caller must spawn a task that drains the mailbox.
    pub(super) fn add_batch(&self, batch: MessageBatch) -> bool {
        self.recently_used.store(true, Ordering::Relaxed);
        let mut queue = self.lock_queue();
        queue.batches.push_back(batch);
        !std::mem::replace(&mut queue.is_draining, true)
    }

    /// Takes up to `max` batches. If there are none, ends the draining under the same lock, so that
    /// the sender of the next message spawns a new task.
    pub(super) fn take_batches(&self, max: usize) -> Option<VecDeque<MessageBatch>> {
        let mut queue = self.lock_queue();
        if queue.batches.is_empty() {
            queue.is_draining = false;
            return None;
        }
        let count = max.min(queue.batches.len());
        let rest = queue.batches.split_off(count);
        Some(std::mem::replace(&mut queue.batches, rest))
    }

    /// Puts batches back at the front of the queue.
    pub(super) fn return_batches(&self, batches: VecDeque<MessageBatch>) {
        let mut queue = self.lock_queue();
        for batch in batches.into_iter().rev() {
            queue.batches.push_front(batch);
        }
    }

    fn is_idle(&self) -> bool {
        let queue = self.lock_queue();
        queue.batches.is_empty() && !queue.is_draining
    }
}

/// Cache of executions, split into independently locked shards.
pub(super) struct ExecutionCache {
    shards: [Mutex<CacheShard>; CACHE_SHARDS],
    /// Capacity of each shard.
    shard_capacity: usize,
}

#[derive(Default)]
struct CacheShard {
    mailboxes: HashMap<ExecutionId, Arc<Mailbox>>,
    /// Ids in the order in which they were added or last spared by an eviction pass.
    eviction_order: VecDeque<ExecutionId>,
}

const CACHE_SHARDS: usize = 16;

impl ExecutionCache {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { shards: Default::default(), shard_capacity: (capacity / CACHE_SHARDS).max(1) }
    }

    fn lock_shard(&self, execution_id: ExecutionId) -> MutexGuard<'_, CacheShard> {
        // Consecutive ids of one millisecond differ in their low bits, and those of different
        // milliseconds in the bits of the time. The shard depends on both.
        let id = execution_id.get().unsigned_abs();
        let mixed = id ^ (id >> 22);
        let index = usize::try_from(mixed % CACHE_SHARDS as u64).unwrap_or_default();
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mailbox of an execution, if it is cached.
    pub(super) fn get(&self, execution_id: ExecutionId) -> Option<Arc<Mailbox>> {
        self.lock_shard(execution_id).mailboxes.get(&execution_id).cloned()
    }

    /// Returns the mailbox of an execution, and creates it if needed.
    pub(super) fn get_or_create(&self, execution_id: ExecutionId) -> Arc<Mailbox> {
        let mut shard = self.lock_shard(execution_id);
        if let Some(mailbox) = shard.mailboxes.get(&execution_id) {
            return Arc::clone(mailbox);
        }
        shard.insert_mailbox(Mailbox::new(execution_id, None), self.shard_capacity)
    }

    /// Creates the mailbox of an execution that is about to begin.
    pub(super) fn insert_new(
        &self,
        execution_id: ExecutionId,
        execution: LoadedExecution,
    ) -> Arc<Mailbox> {
        let mut shard = self.lock_shard(execution_id);
        shard.insert_mailbox(Mailbox::new(execution_id, Some(execution)), self.shard_capacity)
    }

    /// Removes an ended execution, unless a message for it may be about to arrive.
    pub(super) fn remove_ended(&self, mailbox: &Arc<Mailbox>) {
        let mut shard = self.lock_shard(mailbox.execution_id);
        // The map and the draining task hold references. A third holder may be about to add a
        // message.
        if Arc::strong_count(mailbox) <= 2 {
            shard.mailboxes.remove(&mailbox.execution_id);
        }
    }
}

impl CacheShard {
    fn insert_mailbox(&mut self, mailbox: Arc<Mailbox>, capacity: usize) -> Arc<Mailbox> {
        self.evict_idle(capacity);
        self.eviction_order.push_back(mailbox.execution_id);
        self.mailboxes.insert(mailbox.execution_id, Arc::clone(&mailbox));
        mailbox
    }

    /// Evicts idle executions, the least recently used first.
    fn evict_idle(&mut self, capacity: usize) {
        let mut remaining = self.eviction_order.len();
        while self.mailboxes.len() >= capacity && remaining > 0 {
            remaining -= 1;
            let Some(oldest) = self.eviction_order.pop_front() else {
                return;
            };
            let Some(mailbox) = self.mailboxes.get(&oldest) else {
                continue;
            };
            let was_used = mailbox.recently_used.swap(false, Ordering::Relaxed);
            if was_used || !mailbox.is_idle() || Arc::strong_count(mailbox) > 1 {
                self.eviction_order.push_back(oldest);
            } else {
                self.mailboxes.remove(&oldest);
            }
        }
        // `eviction_order` still contains ids of executions that were removed when they ended.
        // Removes these ids once there are many.
        if self.eviction_order.len() > 2 * self.mailboxes.len() + 64 {
            let mailboxes = &self.mailboxes;
            self.eviction_order.retain(|id| mailboxes.contains_key(id));
        }
    }
}

//! Secrets of executions, stored while a process works for them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{SecretLimits, SecretSet, SharedSecretSet};
use crate::{ExecutionId, Json};

/// Maximum executions in the registry. The least recently used entries are evicted first.
const MAX_EXECUTIONS: usize = 4_096;
/// Maximum bytes of all secrets. Above it, the largest entries are evicted first.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Maximum secrets that are redacted in all data of an execution. Further secrets of the execution
/// are redacted only where they are used.
const MAX_SECRETS_PER_EXECUTION: SecretLimits = SecretLimits { texts: 2_000, bytes: 256 << 10 };

/// Secrets to redact in all data of an execution, by execution id.
#[derive(Default)]
pub struct ExecutionSecretRegistry(Mutex<RegistryState>);

#[derive(Default)]
struct RegistryState {
    by_id: HashMap<ExecutionId, RegistryEntry>,
    /// Counter of lookups, for the eviction order.
    use_counter: u64,
    /// Total bytes of all secrets.
    bytes: Arc<AtomicUsize>,
}

struct RegistryEntry {
    secrets: Arc<ExecutionSecretSet>,
    last_used: u64,
}

/// Secrets to redact in all data of one execution.
#[derive(Default)]
pub(super) struct ExecutionSecretSet {
    secrets: Mutex<SecretSet>,
    /// Total bytes of the secrets of all executions.
    total_bytes: Arc<AtomicUsize>,
}

impl ExecutionSecretSet {
    pub(super) fn add(&self, value: &Json) {
        let mut secrets = self.secrets.lock();
        let before = secrets.memory_bytes();
        secrets.add_limited(value, MAX_SECRETS_PER_EXECUTION);
        let more = secrets.memory_bytes() - before;
        self.total_bytes.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn current_secrets(&self) -> SecretSet {
        self.secrets.lock().clone()
    }
}

impl Drop for ExecutionSecretSet {
    fn drop(&mut self) {
        let secrets = self.secrets.get_mut();
        self.total_bytes.fetch_sub(secrets.memory_bytes(), Ordering::Relaxed);
    }
}

impl ExecutionSecretRegistry {
    /// Returns the secrets known for an execution.
    pub fn secrets_for(&self, execution_id: ExecutionId) -> SecretSet {
        let mut state = self.0.lock();
        state.use_counter += 1;
        let use_count = state.use_counter;
        state.by_id.get_mut(&execution_id).map_or_else(SecretSet::default, |entry| {
            entry.last_used = use_count;
            entry.secrets.current_secrets()
        })
    }

    /// Returns the shared set of an execution, for a task that starts to work for it.
    pub fn get_or_create(&self, execution_id: ExecutionId) -> SharedSecretSet {
        let mut state = self.0.lock();
        state.use_counter += 1;
        let use_count = state.use_counter;
        let total_bytes = Arc::clone(&state.bytes);
        let entry = state.by_id.entry(execution_id).or_insert_with(|| RegistryEntry {
            secrets: Arc::new(ExecutionSecretSet { secrets: Mutex::default(), total_bytes }),
            last_used: use_count,
        });
        entry.last_used = use_count;
        let secrets = Arc::clone(&entry.secrets);
        if state.by_id.len() > MAX_EXECUTIONS {
            state.evict_idle();
        }
        if state.bytes.load(Ordering::Relaxed) > MAX_TOTAL_BYTES {
            state.evict_largest();
        }
        SharedSecretSet { own: Arc::default(), execution: secrets }
    }
}

impl RegistryState {
    /// Evicts half of the entries at once, so that eviction is rare.
    fn evict_idle(&mut self) {
        let mut last_uses: Vec<u64> = self.by_id.values().map(|entry| entry.last_used).collect();
        let (_, median, _) = last_uses.select_nth_unstable(self.by_id.len() / 2);
        let median = *median;
        self.by_id.retain(|_, entry| entry.last_used >= median);
    }

    /// Evicts the largest entries until half of the memory is free, the least recently used first
    /// among equal sizes. Entries in use are skipped, because their memory would not be freed.
    fn evict_largest(&mut self) {
        let entries = self.by_id.iter();
        let idle = entries.filter(|(_, entry)| Arc::strong_count(&entry.secrets) == 1);
        let mut largest: Vec<_> = idle
            .map(|(id, entry)| {
                (Reverse(entry.secrets.secrets.lock().memory_bytes()), entry.last_used, *id)
            })
            .collect();
        largest.sort_unstable();
        for (_, _, id) in largest {
            if self.bytes.load(Ordering::Relaxed) <= MAX_TOTAL_BYTES / 2 {
                return;
            }
            self.by_id.remove(&id);
        }
    }
}

/// Secrets are never printed.
impl std::fmt::Debug for ExecutionSecretRegistry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(super::REDACTED)
    }
}

#[cfg(test)]
mod tests;

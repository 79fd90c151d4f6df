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
mod tests {
    use super::super::SECRET_OVERHEAD_BYTES;
    use super::*;

    fn execution_id(number: usize) -> ExecutionId {
        ExecutionId::new(i64::try_from(number).unwrap()).unwrap()
    }

    #[test]
    fn active_execution_outlives_idle_ones() {
        let registry = ExecutionSecretRegistry::default();
        registry.get_or_create(execution_id(1)).add_credential(None, &Json::from("sesame-1"));
        for number in 2..=MAX_EXECUTIONS + 1 {
            registry.get_or_create(execution_id(number));
            assert!(!registry.secrets_for(execution_id(1)).is_empty(), "{number}");
        }
        assert!(registry.0.lock().by_id.len() <= MAX_EXECUTIONS);
    }

    #[test]
    fn single_value_is_limited_per_execution() {
        let registry = ExecutionSecretRegistry::default();
        let many = (0..10_000).map(|number| Json::from(format!("sesame-{number}")));
        registry.get_or_create(execution_id(1)).add_credential(None, &Json::list(many));
        assert_eq!(
            registry.secrets_for(execution_id(1)).texts.len(),
            MAX_SECRETS_PER_EXECUTION.texts
        );
        let large = (0..10).map(|number| Json::from(number.to_string().repeat(60_000)));
        registry.get_or_create(execution_id(2)).add_credential(None, &Json::list(large));
        assert_eq!(registry.secrets_for(execution_id(2)).texts.len(), 4);
    }

    #[test]
    fn total_size_of_secrets_is_limited() {
        let registry = ExecutionSecretRegistry::default();
        let large = Json::from("x".repeat(MAX_SECRETS_PER_EXECUTION.bytes));
        let capacity = MAX_TOTAL_BYTES / MAX_SECRETS_PER_EXECUTION.bytes;
        for number in 1..=capacity * 3 {
            registry.get_or_create(execution_id(number)).add_credential(None, &large);
        }
        let state = registry.0.lock();
        assert!(state.by_id.len() <= capacity + 1, "{}", state.by_id.len());
        let bytes = state.by_id.len() * (MAX_SECRETS_PER_EXECUTION.bytes + SECRET_OVERHEAD_BYTES);
        assert_eq!(state.bytes.load(Ordering::Relaxed), bytes);
    }

    #[test]
    fn largest_executions_are_evicted_first() {
        let registry = ExecutionSecretRegistry::default();
        registry.get_or_create(execution_id(1)).add_credential(None, &Json::from("sesame-1"));
        let large = Json::from("x".repeat(MAX_SECRETS_PER_EXECUTION.bytes));
        let capacity = MAX_TOTAL_BYTES / MAX_SECRETS_PER_EXECUTION.bytes;
        for number in 2..=capacity * 3 {
            registry.get_or_create(execution_id(number)).add_credential(None, &large);
        }
        assert!(!registry.secrets_for(execution_id(1)).is_empty());
        assert!(registry.secrets_for(execution_id(2)).is_empty());
        // The size of the last execution is not yet compared with the others.
        assert!(!registry.secrets_for(execution_id(capacity * 3)).is_empty());
        let state = registry.0.lock();
        assert!(
            state.bytes.load(Ordering::Relaxed)
                <= MAX_TOTAL_BYTES + 2 * MAX_SECRETS_PER_EXECUTION.bytes
        );
    }

    #[test]
    fn execution_in_use_is_not_evicted_for_size() {
        let registry = ExecutionSecretRegistry::default();
        let large = Json::from("x".repeat(MAX_SECRETS_PER_EXECUTION.bytes));
        let in_use = registry.get_or_create(execution_id(1));
        in_use.add_credential(None, &large);
        for number in 2..=MAX_TOTAL_BYTES / MAX_SECRETS_PER_EXECUTION.bytes * 2 {
            registry.get_or_create(execution_id(number)).add_credential(None, &large);
        }
        assert!(!registry.secrets_for(execution_id(1)).is_empty());
    }

    #[test]
    fn size_includes_overhead_per_secret() {
        let registry = ExecutionSecretRegistry::default();
        let many = (1_000..1_100).map(|number| Json::from(format!("sesame-{number}")));
        registry.get_or_create(execution_id(1)).add_credential(None, &Json::list(many));
        let bytes = Arc::clone(&registry.0.lock().bytes);
        let expected = 100 * ("sesame-1000".len() + SECRET_OVERHEAD_BYTES);
        assert_eq!(bytes.load(Ordering::Relaxed), expected);
        drop(registry);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }
}

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
    assert_eq!(registry.secrets_for(execution_id(1)).texts.len(), MAX_SECRETS_PER_EXECUTION.texts);
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

use std::time::Duration;

use noetl_store::StoreSaturated;

use super::*;

#[test]
fn reports_saturated_connection_pool() {
    let waited = StoreSaturated(Duration::from_secs(30));
    let code_of = |error| RuntimeError::Store(error).into_problem().known_code();
    let code = code_of(StoreError::retry(waited));
    assert_eq!(code, Some(ErrorCode::PoolSaturated));
    assert!(code.is_some_and(ErrorCode::has_retry_after));
    let unknown_outcome = code_of(StoreError::retry(waited).with_unknown_outcome());
    assert_eq!(unknown_outcome, Some(ErrorCode::StoreUnavailable));
    let disk_full = code_of(StoreError::disk_full("no space left"));
    assert_eq!(disk_full, Some(ErrorCode::DiskFull));
    let unsure = code_of(StoreError::disk_full("no space left").with_unknown_outcome());
    assert_eq!(unsure, Some(ErrorCode::StoreUnavailable));
    let other = code_of(StoreError::retry("a lock was not acquired"));
    assert_eq!(other, Some(ErrorCode::StoreUnavailable));
}
